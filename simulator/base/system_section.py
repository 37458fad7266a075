"""The section `system`: the clients' devices, their availability, and rounds on the computed clock."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from simulator.base.sections import Section, changed, refuse_others

Positive = Annotated[float, Field(gt=0)]
Assign = Literal["table", "random", "by_model", "by_memory"]
Schedule = Literal["synchronous", "deadline", "over_selection", "buffered", "asynchronous"]

_STALENESS = ("staleness", "staleness_exponent", "staleness_slope", "staleness_threshold", "max_staleness")
_OF_SCHEDULES: dict[str, tuple[Schedule, ...]] = {
    "deadline": ("deadline",),
    "deadline_quantile": ("deadline",),
    "late": ("deadline",),
    "select": ("over_selection",),
    "buffer": ("buffered",),
    "in_flight": ("buffered", "asynchronous"),
    "mixing": ("buffered", "asynchronous"),
    "stale_as": ("deadline", "buffered"),
    **dict.fromkeys(_STALENESS, ("deadline", "buffered", "asynchronous")),
}
"""The schedules that read each option."""
_OF_AVAILABILITY: dict[str, tuple[str, ...]] = {
    "availability_on": ("markov",),
    "availability_off": ("markov",),
    "availability_hours": ("diurnal",),
    "availability_file": ("intervals",),
    "availability_spread": ("markov", "diurnal"),
    "partial": ("markov", "diurnal", "intervals"),
}
"""The kinds of availability that read each option."""
_OF_STALENESS = {
    "staleness_exponent": ("polynomial",),
    "staleness_slope": ("hinge",),
    "staleness_threshold": ("hinge",),
}
"""The weights of stale uplinks that read each option."""
_CORRELATIONS = ("correlation", "correlation_data", "correlation_availability")


class SystemConfig(Section):
    """Devices of the clients and rounds on a computed clock. Without this section, a run has no clock."""

    devices: dict[str, Positive] | tuple[str, ...] | None = None
    """Devices of the clients: one name, a table of names with their relative shares, or a list with one name per
    client."""
    device_file: str | None = None
    """TOML file with your own devices."""
    trace: str | None = None
    """CSV file with the device of each client, in place of system.devices."""
    assign: Assign | None = None
    """How clients get devices: in the order of a list (table), at random, by model size, or at random among the
    devices whose memory suffices (by_memory). Default: table for a list, random for shares."""
    correlation: float | None = Field(None, ge=-1, le=1)
    """Rank correlation between speed of the device and size of the model, for assign 'by_model'. 1 gives the
    largest models to the fastest devices. Default: 1."""
    correlation_data: float | None = Field(None, ge=-1, le=1)
    """Rank correlation between speed of the device and number of training samples. Default: any."""
    correlation_availability: float | None = Field(None, ge=-1, le=1)
    """Rank correlation between speed of the device and share of time in which the client is available. Default:
    any."""
    utilization: dict[str, Positive] = Field({})
    """Factor per architecture on the FLOP/s of every device."""
    default_utilization: float | None = Field(None, gt=0)
    """Factor for architectures that system.utilization lacks. Default: 1 if that table is empty, otherwise an
    error."""
    jitter: float = Field(0.0, ge=0)
    """Spread σ of the random factor on the seconds of each dispatch: lognormal, with median 1."""
    latency: float | None = Field(None, ge=0)
    """Latency of every device in seconds. Default: the device's own."""
    down: float | None = Field(None, gt=0)
    """Downlink of every device in Mbit/s. Default: the device's own."""
    up: float | None = Field(None, gt=0)
    """Uplink of every device in Mbit/s. Default: the device's own."""
    server_bandwidth: float | None = Field(None, gt=0)
    """Bandwidth of the server in Mbit/s in each direction. Simultaneous transfers share it fairly. Default: no
    limit."""
    server_device: str = "server_gpu"
    """Device that computes the server's training."""
    count_evaluation: bool = False
    """Whether the evaluation of clients takes time and energy on their devices, after the server's training."""
    availability: Literal["always", "markov", "diurnal", "intervals"] = "always"
    """When clients are available: always, on and off in turn for random times (markov), some hours of each day
    (diurnal), or as a file says (intervals)."""
    availability_on: float | None = Field(None, gt=0)
    """Mean number of seconds that a client stays available, for 'markov'."""
    availability_off: float | None = Field(None, gt=0)
    """Mean number of seconds that a client stays away, for 'markov'."""
    availability_hours: float | None = Field(None, gt=0, le=24)
    """Mean number of hours per day in which a client is available, for 'diurnal'."""
    availability_spread: float = Field(0.0, ge=0)
    """Spread of the clients' shares of available time, for 'markov' and 'diurnal': standard deviation of their
    log-odds. 0: all clients have the same share."""
    availability_file: str | None = None
    """CSV file with the times in which clients are available, for 'intervals'."""
    partial: Literal["lose", "send"] = "lose"
    """Work of a client that leaves before it has sent: lost (lose), or sent in time after fewer training steps
    (send)."""
    schedule: Schedule = "synchronous"
    """End of a round: the slowest participant (synchronous), a deadline, the first N of M clients (over_selection),
    K uplinks (buffered), or each uplink (asynchronous)."""
    deadline: float | None = Field(None, gt=0)
    """Seconds from the start of a round to its end, for schedule 'deadline'."""
    deadline_quantile: float | None = Field(None, gt=0, le=1)
    """Deadline as a quantile of the participants' expected seconds, for schedule 'deadline'."""
    late: Literal["drop", "next"] = "drop"
    """What happens to uplinks after the deadline: they are dropped, or arrive in the next round."""
    select: int | None = Field(None, ge=1)
    """Number M of clients that start a round, for schedule 'over_selection'. The round ends with the first N, the
    usual number of participants."""
    buffer: int | None = Field(None, ge=1)
    """Number K of uplinks that end a round, for schedule 'buffered'."""
    in_flight: int | None = Field(None, ge=1)
    """Largest number L of clients at work, for schedules 'buffered' and 'asynchronous'. Default: the usual number
    of participants."""
    mixing: float | None = Field(None, gt=0, le=1)
    """Weight α of the aggregated uplinks against the server's state, for schedules 'buffered' and 'asynchronous'.
    FedBuff's server learning rate. Default: 1, or 0.6 where a single uplink ends a round."""
    stale_as: Literal["difference", "model"] = "difference"
    """Stale uplinks of weights, for schedules 'deadline' and 'buffered'. The server adds their difference from what
    the client received (difference), or averages them as they are (model)."""
    staleness: Literal["constant", "polynomial", "hinge"] = "constant"
    """Weight of an uplink that is τ rounds old: 1 (constant), (1 + τ)^−a (polynomial), or 1 up to τ = b and 1 / (1
    + a (τ − b)) after it (hinge)."""
    staleness_exponent: float | None = Field(None, gt=0)
    """Exponent a, for staleness 'polynomial'. Default: 0.5."""
    staleness_slope: float | None = Field(None, gt=0)
    """Slope a, for staleness 'hinge'. Default: 10."""
    staleness_threshold: float | None = Field(None, ge=0)
    """Threshold b in rounds, for staleness 'hinge'. Default: 4."""
    max_staleness: int | None = Field(None, ge=0)
    """Discard uplinks that are older than this number of rounds. Default: keep all."""
    costs: Literal["actual", "planned"] = "actual"
    """What counts of a dispatch: what happened until its client left (actual), or what was planned (planned).
    'planned' leaves out waiting in schedules 'buffered' and 'asynchronous'. It is the rule of sessions that lack
    this key."""

    @property
    def assignment(self) -> Assign:
        """How clients get devices, with the default filled in."""
        return self.assign or ("random" if isinstance(self.devices, Mapping) else "table")

    def staleness_weight(self, rounds: int) -> float:
        """The weight of an uplink that is this many rounds old."""
        match self.staleness:
            case "constant":
                return 1.0
            case "polynomial":
                return float((1 + rounds) ** -(self.staleness_exponent or 0.5))
        threshold = 4.0 if self.staleness_threshold is None else self.staleness_threshold
        return 1.0 / (1.0 + (self.staleness_slope or 10.0) * max(rounds - threshold, 0.0))

    def utilization_of(self, architecture: str) -> float | None:
        """The factor on FLOP/s for an architecture. None if nothing says it."""
        default = self.default_utilization if self.utilization or self.default_utilization else 1.0
        return self.utilization.get(architecture, default)

    @field_validator("devices", mode="before")
    @classmethod
    def _one_device_has_all_clients(cls, devices: Any) -> Any:
        if isinstance(devices, str):
            return {devices: 1.0}
        if isinstance(devices, Mapping) or devices is None:
            return devices
        if isinstance(devices, list | tuple) and all(isinstance(each, str) for each in devices):
            return tuple(devices)
        raise ValueError(
            "devices are a name, a table of shares, as { phone = 0.5, laptop = 0.5 }, or a list of names"
        )

    @model_validator(mode="after")
    def _settings_fit_together(self) -> "SystemConfig":
        if self.trace is not None:
            for key in ("devices", "assign", *_CORRELATIONS):
                if getattr(self, key) is not None:
                    raise ValueError(
                        f"{key} has no effect with trace, which names each client's device; remove one of them"
                    )
        elif not self.devices:
            raise ValueError(
                "it has no devices. Set system.devices, as in `system.devices=phone`, or system.trace"
            )
        elif isinstance(self.devices, Mapping) == (self.assignment == "table"):
            needs = (
                "a list of devices" if self.assignment == "table" else "shares of devices, as { phone = 0.5 }"
            )
            raise ValueError(f"assign '{self.assignment}' needs {needs}")
        if self.correlation is not None and self.assignment != "by_model":
            raise ValueError("correlation belongs to assign 'by_model'; set that, or remove it")
        if self.assignment not in ("random", "by_model"):
            for key in _CORRELATIONS:
                if getattr(self, key) is not None:
                    raise ValueError(f"{key} belongs to assign 'random' and 'by_model'; remove it")
        refuse_others(self, "availability", _OF_AVAILABILITY)
        for key in ("availability_on", "availability_off", "availability_hours", "availability_file"):
            if self.availability in _OF_AVAILABILITY[key] and getattr(self, key) is None:
                raise ValueError(f"availability '{self.availability}' needs {key}")
        if self.correlation_availability is not None and not (
            self.availability_spread or self.availability == "intervals"
        ):
            raise ValueError(
                "correlation_availability needs clients that differ: set availability_spread, or use "
                "availability 'intervals'"
            )
        if self.partial == "send" and self.server_bandwidth is not None:
            raise ValueError(
                "partial 'send' needs clients whose seconds do not depend on others; remove server_bandwidth"
            )
        refuse_others(self, "schedule", _OF_SCHEDULES)
        if self.schedule == "deadline" and (self.deadline is None) == (self.deadline_quantile is None):
            raise ValueError("schedule 'deadline' needs either deadline or deadline_quantile")
        for schedule, key in (("over_selection", "select"), ("buffered", "buffer")):
            if self.schedule == schedule and getattr(self, key) is None:
                raise ValueError(f"schedule '{schedule}' needs {key}")
        if self.schedule == "deadline" and self.late == "drop":
            for key in changed(self, (*_STALENESS, "stale_as")):
                raise ValueError(f"{key} has no effect with late 'drop'; use late 'next', or remove it")
        refuse_others(self, "staleness", _OF_STALENESS)
        return self
