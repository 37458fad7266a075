"""The section `federation`: the clients, who takes part in a round, and what changes about them."""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from checkpoints import limits
from simulator.base.data_section import READ_BY, DataConfig, Dividing
from simulator.base.errors import ConfigError
from simulator.base.sections import Section

_ABOUT_DATA = ("partition", "alpha", "classes_per_client", "labels", "domain")


class TimelineEvent(Section):
    """One event. It holds from the beginning of its round on."""

    round: int = Field(ge=1)
    """First round in which the event holds."""
    event: Literal["join", "leave", "data"]
    """What happens: join, leave, or data."""
    clients: (
        tuple[Annotated[int, Field(ge=0)], ...] | Annotated[float, Field(gt=0, le=1)] | Literal["left"] | None
    ) = None
    """Client numbers, a fraction of the clients that may take part, or 'left' for those that have left. Default for
    event 'data': all clients."""
    partition: Dividing | None = None
    """Divide the clients' samples anew, in this way."""
    alpha: float | None = Field(None, gt=0)
    """Divide the clients' samples anew by Dirichlet shares with this α."""
    classes_per_client: int | None = Field(None, ge=1)
    """Divide the clients' samples anew, with this number of classes each."""
    labels: Literal["permuted"] | None = None
    """Permute the labels of all samples of the clients."""
    domain: str | None = None
    """Give the clients samples of this domain."""

    @property
    def divides(self) -> bool:
        """Whether the event divides samples anew."""
        return self.event == "data" and self.labels is None and self.domain is None

    def divided(self, data: DataConfig) -> DataConfig:
        """The settings of the new partition: those of the section `data` with the event's own."""
        partition: str | None = self.partition
        values: dict[str, object] = {}
        for key in ("alpha", "classes_per_client"):
            if (value := getattr(self, key)) is not None:
                values[key] = value
                partition = partition or (data.partition if data.reads(key) else READ_BY[key]["partition"][0])
        values["partition"] = partition
        if partition != "pathological" and data.quantity == "pfllib":
            values["quantity"] = "varied"
        return data.model_copy(update=values)

    @field_validator("clients")
    @classmethod
    def _clients_are_different(cls, clients: object) -> object:
        if isinstance(clients, tuple):
            if not clients:
                raise ValueError("names no client; name some, or give a fraction")
            if len(set(clients)) < len(clients):
                raise ValueError(f"{list(clients)} names a client twice")
        return clients

    @model_validator(mode="after")
    def _says_what_changes(self) -> "TimelineEvent":
        given = [key for key in _ABOUT_DATA if getattr(self, key) is not None]
        if self.event != "data":
            if given:
                raise ValueError(f"{given[0]} belongs to event 'data', and this one is '{self.event}'")
            if self.clients is None:
                raise ValueError(f"event '{self.event}' needs clients: numbers, or a fraction such as 0.2")
            if self.clients == "left" and self.event == "leave":
                raise ValueError("clients 'left' are absent; they can only join")
            return self
        if self.clients == "left":
            raise ValueError("clients 'left' belongs to event 'join'; name clients, or give a fraction")
        rules = [key for key in given if key in ("partition", "alpha", "classes_per_client")]
        changes = [*(["a new partition"] if rules else []), *(key for key in given if key not in rules)]
        if len(changes) != 1:
            raise ValueError(
                f"event 'data' makes one change, and this one has {' and '.join(changes) or 'none'}; set "
                "alpha, partition, classes_per_client, labels, or domain, and use one event for each change"
            )
        for key in ("alpha", "classes_per_client"):
            partitions = READ_BY[key]["partition"]
            if getattr(self, key) is not None and self.partition not in (None, *partitions):
                raise ValueError(
                    f"{key} belongs to partition {' or '.join(map(repr, partitions))}, and this one is "
                    f"'{self.partition}'"
                )
        if self.alpha is not None and self.classes_per_client is not None and self.partition is None:
            raise ValueError(
                "alpha and classes_per_client together belong to partition 'extended_dirichlet'; set it, or remove one "
                "of them"
            )
        return self


class FederationConfig(Section):
    """The clients: how many, how many of them take part in a round, and which models they hold."""

    clients: int = Field(10, ge=1, le=limits.CLIENTS)
    """Number of clients N."""
    participation: float = Field(1.0, gt=0, le=1)
    """Fraction C of the clients sampled each round."""
    group: str | tuple[str, ...] = "htm5"
    """Model group, or a list of X models. Client i gets model i mod X."""
    pretrained: bool | str = False
    """Initial weights: true for the published ones of the hub, or a .safetensors file or folder."""
    unseen: float | None = Field(None, gt=0, lt=1)
    """Fraction of the clients that never train in the federation, to measure new clients. Default: none."""

    timeline: tuple[TimelineEvent, ...] = ()
    """Clients that join, leave, or whose data change, by round (docs/clients.md)."""

    @property
    def unseen_clients(self) -> int:
        """Clients that never train in the federation: a share of N, to the nearest whole number."""
        return math.floor(self.clients * (self.unseen or 0.0) + 0.5)

    @property
    def seen_clients(self) -> int:
        """Clients that may take part in a round."""
        return self.clients - self.unseen_clients

    @property
    def participants(self) -> int:
        """Clients sampled each round: C of the seen clients, to the nearest whole number."""
        return math.floor(self.seen_clients * self.participation + 0.5)

    def participants_of(self, present: int) -> int:
        """Clients sampled in a round with so many present clients: C of them, but at least one."""
        return max(math.floor(present * self.participation + 0.5), 1)

    @model_validator(mode="after")
    def _somebody_participates(self) -> "FederationConfig":
        if self.unseen is not None and not 0 < self.unseen_clients < self.clients:
            left = f"{self.unseen_clients} of {self.clients} clients"
            raise ValueError(f"unseen {self.unseen:g} makes {left} unseen. Leave at least one of each kind")
        if self.participants == 0:
            least = math.ceil(0.5 / self.seen_clients * 10**9) / 10**9
            raise ValueError(
                f"participation {self.participation:g} of {self.seen_clients} clients selects no client. "
                f"Use at least {least:.10g}"
            )
        return self


def refuse_joined(models: Iterable[str]) -> None:
    """Raise ConfigError for a name that is several, joined by commas."""
    for name in models:
        if "," in name:
            listed = ",".join(each.strip() for each in name.strip("[]").split(","))
            raise ConfigError(f"'{name}' is several models. Give a list: `federation.group=[{listed}]`.")
