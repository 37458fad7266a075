"""The type of a ledger record, which is one line of the ledger, and the table of its scalars.

All code that writes or reads records uses this type, and `check_record` checks what was read. The text under a key is
its row in docs/ledger.md, and `When` names the setting that adds the key. Objects may have unknown keys, because later
versions add some.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar, cast

from typing_extensions import TypedDict

from checkpoints import shown
from checkpoints.schema import (
    Also,
    Amount,
    FirstFault,
    Holds,
    InJson,
    ListOrNames,
    Many,
    Named,
    Natural,
    Object,
    Positive,
    Share,
    Spelled,
    Text,
    Within,
    checked,
    keys_of,
)


class Notice(TypedDict):
    """What a watcher noticed after a round."""

    watcher: Text
    """name of the watcher"""
    message: Text
    """what it noticed, in words"""
    clients: Many[Natural]
    """the clients that it noticed, ascending; none for watchers of the mean"""


V = TypeVar("V")


@dataclass(frozen=True)
class When:
    """The setting that adds the key to a record."""

    setting: str


Client = Annotated[str, Spelled(re.compile("0|[1-9][0-9]{0,8}"))]
ByClient = Annotated[
    Annotated[list[V], FirstFault()] | Annotated[dict[Client, V], FirstFault()], ListOrNames()
]
"""A value for each client in their order, or for the named clients."""


def _counts_classes(rows: list[list[int]]) -> bool:
    """Whether classes ascend, and no class has more correct answers than samples or answers."""
    before = -1
    for label, samples, correct, answered in rows:
        if label <= before or correct > samples or correct > answered:
            return False
        before = label
    return True


ClassRow = Annotated[list[Natural], Within(min_length=4, max_length=4)]
"""A class, its samples, those answered correctly, and the samples of any class that were assigned to it."""
ClassRows = Annotated[Many[ClassRow], Holds(_counts_classes, "does not count classes")]


class Measured(TypedDict, Generic[V]):
    """One measure on one part of the split."""

    mean: V | None
    """mean over clients"""
    weighted: V | None
    """weighted by the clients' samples of the part"""
    per_client: ByClient[V | None]
    """value of each client"""


class ByClass(TypedDict):
    per_client: ByClient[ClassRows | None]
    """for each client a list of `[class, samples, correct, answered]`, by class. `answered` counts the samples of
    any class that the model assigned to the class. Classes without samples and answers are left out. Null for a client
    that was never evaluated or is absent"""


class PartMetrics(TypedDict):
    """What was measured on one part of the split."""

    accuracy: Measured[Share]
    """accuracy on a held-out part, `test` or `eval`"""
    loss: Measured[float]
    """mean cross-entropy on the part"""
    f1: Measured[Share]
    """macro-F1 on the part, the mean F1 of its classes"""
    metrics: NotRequired[Annotated[Named[Measured[float]], When("evaluation.metrics")]]
    """a metric that `evaluation.metrics` names ([A metric](your-own.md#a-metric))"""
    classes: NotRequired[Annotated[ByClass, When("evaluation.classes")]]
    """counts by class ([below](#counts-by-class))"""


def measures_of(part: PartMetrics) -> dict[str, Measured[float]]:
    """All that was measured on a part of the split, by name; the user's own as `metrics.NAME`."""
    known = {"accuracy": part["accuracy"], "loss": part["loss"], "f1": part["f1"]}
    return known | {f"metrics.{name}": own for name, own in part.get("metrics", {}).items()}


T = TypeVar("T")


def _is_moment(value: str) -> bool:
    try:
        return bool(datetime.fromisoformat(value))
    except ValueError:
        return False


Moment = Annotated[str, Holds(_is_moment)]
"""A time as records have it: 2026-01-31T12:00:00Z."""

# A record


class Accuracy(TypedDict):
    per_client: ByClient[Share | None]
    """share of correct answers on each client's own test part, as last measured; null before that, and while
    the client is absent"""
    mean: Share | None
    """unweighted mean over the clients measured so far"""
    std: Share | None
    """their population standard deviation (divided by n)"""
    weighted: Share | None
    """mean over clients, weighted by their test samples"""
    min: Share | None
    """lowest accuracy of a client"""
    max: Share | None
    """highest accuracy of a client"""
    best_mean: Share | None
    """the highest `mean` so far"""
    best_weighted: NotRequired[Share | None]
    """the highest `weighted` so far"""


class Loss(TypedDict):
    per_client: ByClient[float | None]
    """mean training loss of each client's first phase; null if it did not take part or diverged"""
    mean: float | None
    """mean over the clients with a loss"""
    cross_entropy: NotRequired[float | None]
    """mean cross-entropy of the clients' own models in training, without what the method adds, in the last phase that
    has it. Null if no client trained, and for a method of your own that does not record it"""


class Traffic(TypedDict):
    up: Natural
    """bytes of the round's payloads from clients to the server"""
    down: Natural
    """bytes from the server to clients"""
    up_total: Natural
    """bytes since round 1"""
    down_total: Natural
    """bytes since round 1"""
    per_client_up: ByClient[Natural]
    """bytes of each client; 0 if it did not take part"""
    per_client_down: ByClient[Natural]
    """bytes of each client"""
    by_tensor: Named[Natural]
    """bytes by direction and part of the payload, such as `up/head`"""


class Params(TypedDict):
    up: Natural
    """numbers in these payloads, without labels and counts"""
    down: Natural
    """the same from the server to clients"""


class Flops(TypedDict):
    clients: Amount
    """floating-point operations of the clients' training, without evaluation"""
    server: Amount
    """operations of the server's own training"""
    total: Amount
    """sum of both"""


class Cka(TypedDict):
    order: NotRequired[Many[str]]
    """the layers, from shallow to deep"""
    layers: Named[float | None]
    """mean CKA over all pairs of clients that have the layer"""
    matrix: Named[Many[Many[float | None]]]
    """CKA of every pair of clients, in client order; null if one of them lacks the layer"""
    clients: NotRequired[Annotated[Many[Natural], When("cka.clients")]]
    """the clients of the rows and columns, if not all clients are compared"""


class Taken(TypedDict, total=False):
    """The resources that a round took besides its seconds. Earlier versions wrote only some of them."""

    waited: Amount
    """seconds of pauses in the round or before it"""
    cpu: Amount
    """processor seconds of all the process's threads in the round"""
    memory: Natural
    """peak memory of the process in the round, in bytes. If the peak is a new maximum, Linux counted it.
    Otherwise it is the largest value seen between two clients"""
    gpu_memory: Annotated[Natural, When("cuda")]
    """peak memory of tensors on the GPU in the round, in bytes"""


class Timing(Taken):
    seconds: float
    """seconds of the round, without pauses and the checkpoint"""
    train: float
    """seconds of training, for clients and server"""
    server: NotRequired[Amount]
    """seconds of the server's part of `train`"""
    per_client: NotRequired[ByClient[Amount | None]]
    """seconds of each client's update, with several workers at the same time; null if it did not take part"""
    workers: NotRequired[Natural]
    """largest number of clients that train at the same time"""
    evaluate: float
    """seconds of evaluation and CKA"""
    checkpoint: float
    """seconds of writing the changed states"""
    at: Moment
    """end of the round"""


class Flight(NamedTuple):
    """A client's work in one dispatch, in simulated seconds. Schedules without training make millions, so a tuple."""

    arrives: Amount
    """when its uplink reached the server, or when the client left"""
    client: Natural
    """the client"""
    dispatch: Positive
    """the round in which the server sent it off"""
    begins: Amount
    """when it was sent off"""
    latency: Amount
    """seconds of latency"""
    down: Amount
    """seconds of the downlink"""
    compute: Amount
    """seconds of training"""
    up: Amount
    """seconds of the uplink"""
    lost: bool
    """whether the client leaves before it has sent. A record says it by `fate`"""
    steps: Annotated[int | None, InJson(Positive), When("system.partial")] = None
    """training steps of a client that left, and sent partial work before"""
    steps_due: Annotated[int | None, InJson(Positive), When("system.partial")] = None
    """training steps that this client would have taken"""

    def facts(self) -> dict[str, Any]:
        """Its values by name, without those that it lacks."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class Landing(TypedDict):
    """What became of a dispatch that ended in the round."""

    fate: Annotated[str, Within(pattern="^(used|late|stale|lost|dropped)$")]
    """`used`; `late`: after the end of its round; `stale`: too old; `lost`: the client left before it had sent;
    `dropped`: the wire lost the uplink"""
    flops: Amount
    """operations of its training; if it is `lost`, those until its client left ([Time](time.md#in-the-ledger))"""
    bytes: Natural
    """bytes of its downlink and uplink; if it is `lost`, those of a downlink that was complete"""
    wait: NotRequired[Amount]
    """seconds from its arrival to the aggregation; 0 if it is `lost`"""


FlightRecord = Annotated[Object, Also(keys_of(Flight, "lost"), Landing)]
"""A flight that landed: its facts without `lost`, and what became of it."""


class Wasted(TypedDict):
    """What the dispatches that ended in the round took, if their uplinks are not used."""

    seconds: Amount
    """seconds of latency, downlink, training, and uplink of the round's dispatches that are not `used`"""
    flops: Amount
    """their operations"""
    bytes: Natural
    """bytes of their downlinks and uplinks"""
    joules: Amount
    """their joules"""


class Thirds(TypedDict):
    """Accuracy of clients by the speed of their devices."""

    slow: Share | None
    """mean of `accuracy.per_client`, as last measured, over the third of the clients with the slowest devices
    ([Time](time.md#in-the-ledger)); null if none of them was evaluated"""
    fast: Share | None
    """the same over the third with the fastest devices"""


class Joules(TypedDict):
    compute: Amount
    """joules of training, over the flights that ended in the round, and of evaluation if it counts"""
    radio: Amount
    """joules of their transfers"""
    idle: Amount
    """joules of waiting: latency, and the time from an uplink's arrival to the aggregation"""


class EvaluationWork(TypedDict):
    """The clients' evaluation on the computed clock."""

    seconds: Amount
    """seconds from the server's new state to the end of the round, in which the slowest client evaluates"""
    flops: Amount
    """operations of the evaluation of all clients"""


class Time(TypedDict):
    """The round on the computed clock, in simulated seconds since the start of the run."""

    begins: Amount
    """when the round began"""
    aggregates: Amount
    """when the server had the uplinks that it aggregates"""
    ends: Amount
    """when the round ended, after the server's own training, and after evaluation if it counts"""
    sent: Many[Natural]
    """the clients that were sent off in the round, in the order of time"""
    flights: Many[FlightRecord]
    """each dispatch that ended in the round"""
    in_flight: Natural
    """number of clients at work when the round ended"""
    staleness: Named[Natural]
    """number of aggregated uplinks by their age in rounds"""
    joules: Joules
    participation: NotRequired[Share]
    """share of the clients that can take part in the round that were sent off in the round"""
    used: NotRequired[Share | None]
    """share of the dispatches that ended in the round whose uplinks are aggregated; null if none ended"""
    wasted: NotRequired[Wasted]
    accuracy: NotRequired[Thirds]
    evaluation: NotRequired[Annotated[EvaluationWork, When("system.count_evaluation")]]


class UnseenAccuracy(TypedDict):
    mean: Share | None
    """mean over the unseen clients"""
    per_client: Annotated[dict[Client, Share | None], FirstFault()]
    """by client; null if it diverged"""


class Unseen(TypedDict):
    """Clients that never train in the federation, each on its own test part."""

    clients: Many[Natural]
    """the clients that never train in the federation, ascending"""
    before: UnseenAccuracy
    """accuracy of unseen clients with what a new client receives"""
    after: UnseenAccuracy
    """accuracy of unseen clients after they adapted"""
    alone: UnseenAccuracy
    """accuracy of unseen clients trained alone from scratch, for as many steps"""
    participating: Share | None
    """`accuracy.mean` of the round, which is over the other clients"""


class TimelineRecord(TypedDict):
    """What changed about the clients at the beginning of the round."""

    joined: Many[Natural]
    """the clients that joined, ascending"""
    left: Many[Natural]
    """the clients that left, ascending"""
    data: Many[Natural]
    """the clients whose data changed, ascending"""
    present: Natural
    """number of clients that may take part from this round on"""


class Record(TypedDict):
    """A line of the ledger."""

    round: Positive
    """the round, from 1"""
    method: Text
    """the method of the round"""
    participants: Many[Natural]
    """the clients that took part, ascending"""
    clients: NotRequired[Annotated[Natural, When("evaluation.metrics_for")]]
    """number of all clients, if metrics name clients ([below](#very-many-clients))"""
    diverged: NotRequired[Many[Natural]]
    """participants whose loss or weights were not finite. They keep their state from before the round"""
    dropped: NotRequired[Annotated[Many[Natural], When("wire.drop")]]
    """participants whose uplink was lost"""
    accuracy: Accuracy
    evaluation: NotRequired[
        Annotated[
            dict[Annotated[str, Within(pattern="^(test|eval)$")], PartMetrics], When("evaluation.parts")
        ]
    ]
    loss: Loss
    lr: NotRequired[Annotated[float, When("training.schedule")]]
    """the round's learning rate, if it changes from round to round"""
    bytes: Traffic
    params: Params
    flops: Flops
    cka: NotRequired[Annotated[Cka | None, When("cka.every")]]
    """null in rounds without CKA"""
    method_metrics: Object
    """the method's own metrics, and `PHASE_loss`, the mean loss of each phase after the first"""
    timing: Timing
    time: NotRequired[Annotated[Time, When("system.devices")]]
    unseen: NotRequired[Annotated[Unseen, When("federation.unseen")]]
    timeline: NotRequired[Annotated[TimelineRecord, When("federation.timeline")]]
    watch: NotRequired[Annotated[Many[Notice], When("watch.watchers")]]
    """in rounds in which a [watcher](steering.md#watchers) noticed something"""


def check_record(record: Mapping[str, Any], clients: int) -> Record:
    """The same mapping, checked as a record of a session with this many clients. Raises ValueError."""
    found = checked(Record, record)
    by_client: dict[str, Any] = {
        "accuracy.per_client": found["accuracy"]["per_client"],
        "loss.per_client": found["loss"]["per_client"],
        "bytes.per_client_up": found["bytes"]["per_client_up"],
        "bytes.per_client_down": found["bytes"]["per_client_down"],
    }
    named: dict[str, list[int]] = {
        each: record.get(each, []) for each in ("participants", "diverged", "dropped")
    }
    if "per_client" in found["timing"]:
        by_client["timing.per_client"] = found["timing"]["per_client"]
    for part, measures in found.get("evaluation", {}).items():
        for name, measured in measures_of(measures).items():
            by_client[f"evaluation.{part}.{name}.per_client"] = measured["per_client"]
        if "classes" in measures:
            by_client[f"evaluation.{part}.classes.per_client"] = measures["classes"]["per_client"]
    if "unseen" in found:
        named["unseen.clients"] = found["unseen"]["clients"]
        for moment in ("before", "after", "alone"):
            by_client[f"unseen.{moment}.per_client"] = found["unseen"][moment]["per_client"]
    if "timeline" in found:
        named |= {f"timeline.{what}": found["timeline"][what] for what in ("joined", "left", "data")}
    named["watch.clients"] = [client for notice in found.get("watch", ()) for client in notice["clients"]]
    cka = found.get("cka")
    if cka and "clients" in cka:
        named["cka.clients"], size = cka["clients"], len(cka["clients"])
        if any(len(rows) != size or any(len(row) != size for row in rows) for rows in cka["matrix"].values()):
            raise ValueError("cka.matrix is not of cka.clients")
    for where, values in by_client.items():
        if isinstance(values, dict):
            named[where] = list(map(int, values))
        elif len(values) != clients:
            raise ValueError(f"{where} is of {len(values)} clients, not {clients}")
    for where, each in named.items():
        if any(client >= clients for client in each):
            raise ValueError(f"{where} names a client that is none of {clients}")
    if found.get("clients", clients) != clients:
        raise ValueError(f"clients is {found['clients']}, not {clients}")
    return found


# Its scalars

Unit = Literal["share", "bytes", "FLOPs", "seconds", "simulated seconds", "joules", "count", "number", "text"]


class Scalar(NamedTuple):
    """A single value of a record. All code that shows, compares, draws, or exports rounds uses these rows."""

    column: str
    """Its name in CSV files, data frames, trackers, and arrays of rounds."""
    path: str
    """Its keys in a record. Values of several paths are added up."""
    unit: Unit
    title: str = ""
    """Its name in `show`, in `compare`, on axes, and in the app. A scalar without one is only in tables."""
    compared: Literal["", "last", "per round", "of all rounds"] = ""
    """How `compare` folds the rounds if its column is named. Empty: `compare` has no such column."""
    optional: bool = False
    """Whether records may lack it. Tables have its column only if a round has it."""
    listed: bool = False
    """Whether it is the length of a list, 0 without the list."""
    since_start: bool = False
    """Whether it counts from the beginning of the run, and not of its round."""

    @property
    def paths(self) -> list[str]:
        return self.path.split(" + ")

    def of(self, record: Record) -> Any:
        """Its value in a record; None if it has none."""
        found = []
        for path in self.paths:
            value: Any = record
            for key in path.split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            found.append(value)
        if self.listed:
            return len(found[0] or ())
        return None if None in found else found[0] if len(found) == 1 else sum(found)


_ENERGY = ("compute", "radio", "idle")
SCALARS = (
    Scalar("round", "round", "count"),
    Scalar("method", "method", "text"),
    Scalar("participants", "participants", "count", "participants", listed=True),
    Scalar("diverged", "diverged", "count", listed=True),
    Scalar("dropped", "dropped", "count", listed=True),
    Scalar("accuracy", "accuracy.mean", "share", "mean accuracy"),
    Scalar("accuracy_std", "accuracy.std", "share", "std over clients"),
    Scalar("accuracy_weighted", "accuracy.weighted", "share"),
    Scalar("accuracy_min", "accuracy.min", "share", "worst client"),
    Scalar("accuracy_max", "accuracy.max", "share"),
    Scalar("accuracy_best", "accuracy.best_mean", "share"),
    Scalar("loss", "loss.mean", "number", "training loss", "last"),
    Scalar("bytes_up", "bytes.up", "bytes"),
    Scalar("bytes_down", "bytes.down", "bytes"),
    Scalar("bytes_up_total", "bytes.up_total", "bytes", since_start=True),
    Scalar("bytes_down_total", "bytes.down_total", "bytes", since_start=True),
    Scalar("bytes", "bytes.up + bytes.down", "bytes", "traffic", "per round"),
    Scalar("params_up", "params.up", "count"),
    Scalar("params_down", "params.down", "count"),
    Scalar("flops_clients", "flops.clients", "FLOPs"),
    Scalar("flops_server", "flops.server", "FLOPs"),
    Scalar("flops", "flops.total", "FLOPs", "FLOPs", "per round"),
    Scalar("seconds", "timing.seconds", "seconds", "time", "per round"),
    Scalar("seconds_train", "timing.train", "seconds"),
    Scalar("seconds_evaluate", "timing.evaluate", "seconds"),
    Scalar("seconds_checkpoint", "timing.checkpoint", "seconds"),
    Scalar("at", "timing.at", "text"),
    Scalar("eval_accuracy", "evaluation.eval.accuracy.mean", "share", optional=True),
    Scalar("seconds_server", "timing.server", "seconds", optional=True),
    Scalar("seconds_waited", "timing.waited", "seconds", optional=True),
    Scalar("seconds_cpu", "timing.cpu", "seconds", optional=True),
    Scalar("workers", "timing.workers", "count", optional=True),
    Scalar("memory", "timing.memory", "bytes", "memory", optional=True),
    Scalar("gpu_memory", "timing.gpu_memory", "bytes", "GPU memory", optional=True),
    Scalar(
        "simulated_seconds", "time.ends", "simulated seconds", "simulated time", "of all rounds", True, since_start=True
    ),
    Scalar("joules", " + ".join(f"time.joules.{each}" for each in _ENERGY), "joules", "joules", "of all rounds", True),
)  # fmt: skip
"""In the order of the columns of a table of rounds."""


# For terminals

_LEGIBLE = {int, float, type(None), bool}


def legible(value: T) -> T:
    """The same JSON with a mark in place of every control character, so that it cannot steer a terminal."""

    def walk(value: Any) -> Any:
        match value:
            case str():
                return shown(value)
            case dict():
                return {shown(key): walk(each) for key, each in value.items()}
            case list() if (
                set(map(type, value)) <= _LEGIBLE
            ):  # one look at each, since there may be thousands
                return value.copy()
            case list() | tuple():
                return type(value)(walk(each) for each in value)
        return value

    return cast(T, walk(value))
