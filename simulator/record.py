"""A line of the ledger, as a type.

Whoever writes or reads a record uses this type, and `check_record` holds what was read against it. The text under a
key is its row in docs/ledger.md, and `When` names the setting that the key needs. Objects may have more keys than the
types know: later versions add some.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, NotRequired, TypeVar, cast

from typing_extensions import TypedDict

from checkpoints import shown
from checkpoints.schema import (
    Amount,
    FirstFault,
    Holds,
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
)

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True)
class When:
    """The key is there where this setting asks for it."""

    setting: str


def _is_moment(value: str) -> bool:
    try:
        return bool(datetime.fromisoformat(value))
    except ValueError:
        return False


Moment = Annotated[str, Holds(_is_moment)]
"""A time as records have it: 2026-01-31T12:00:00Z."""
Client = Annotated[str, Spelled(re.compile("0|[1-9][0-9]{0,8}"))]
ByClient = Annotated[
    Annotated[list[V], FirstFault()] | Annotated[dict[Client, V], FirstFault()], ListOrNames()
]
"""A figure of each client in their order, or of those that are named."""

# A record


class Accuracy(TypedDict):
    per_client: ByClient[Share | None]
    """of correct answers on the client's own test part, as last measured; null before that"""
    mean: Share | None
    """mean over the clients measured so far, each counting alike"""
    std: Share | None
    """their standard deviation, of the population (divided by n)"""
    weighted: Share | None
    """mean over clients, weighted by their test samples"""
    min: Share | None
    """the worst client"""
    max: Share | None
    """the best client"""
    best_mean: Share | None
    """the highest `mean` so far"""
    best_weighted: NotRequired[Share | None]
    """the highest `weighted` so far"""


class Measured(TypedDict, Generic[V]):
    """One measure on one part of the split."""

    mean: V | None
    """mean over clients"""
    weighted: V | None
    """weighted by the clients' samples of the part"""
    per_client: ByClient[V | None]
    """of each client"""


class Part(TypedDict):
    """What was measured on one part of the split."""

    accuracy: Measured[Share]
    """share of correct answers; on `test` the same as `accuracy.per_client`"""
    loss: Measured[float]
    """mean cross-entropy; a method that answers by distance has no logits, and its losses compare with no
    other's"""
    f1: Measured[Share]
    """macro-F1: F1 of each class that the client's part has, averaged"""
    metrics: NotRequired[Annotated[Named[Measured[float]], When("evaluation.metrics")]]
    """a figure of your own ([your-own.md](your-own.md))"""


class Loss(TypedDict):
    per_client: ByClient[float | None]
    """mean training loss of the client's first phase; null for who took no part or diverged"""
    mean: float | None
    """mean over those that have one"""


class Traffic(TypedDict):
    up: Natural
    """bytes of the round's payloads from clients to the server"""
    down: Natural
    """and from the server to clients"""
    up_total: Natural
    """bytes since round 1"""
    down_total: Natural
    """bytes since round 1"""
    per_client_up: ByClient[Natural]
    """bytes of each client; 0 for who took no part"""
    per_client_down: ByClient[Natural]
    """bytes of each client"""
    by_tensor: Named[Natural]
    """bytes by direction and part of the payload, as `up/head`"""


class Params(TypedDict):
    up: Natural
    """numbers in those payloads, labels and counts left out"""
    down: Natural
    """likewise"""


class Flops(TypedDict):
    clients: Amount
    """floating-point operations of the clients' training; evaluation is not counted"""
    server: Amount
    """of the server's own training"""
    total: Amount
    """both"""


class Cka(TypedDict):
    order: NotRequired[Many[str]]
    """the layers, shallow to deep"""
    layers: Named[float | None]
    """mean CKA over all pairs of clients that have the layer"""
    matrix: Named[Many[Many[float | None]]]
    """CKA of every pair of clients, in client order; null where one lacks the layer"""
    clients: NotRequired[Annotated[Many[Natural], When("cka.clients")]]
    """in a federation of more clients than are compared: the clients that the rows and columns are of"""


class Taken(TypedDict, total=False):
    """What a round took besides its seconds; earlier versions wrote only some of it."""

    waited: Amount
    """seconds for which the run was paused, in the round or before it"""
    cpu: Amount
    """processor seconds of the process in the round, all its threads"""
    memory: Natural
    """bytes that the process had in memory, the most in the round: of a round in which it had more than ever before, as
    Linux counts; else the most that was seen between two clients"""
    gpu_memory: Annotated[Natural, When("cuda")]
    """bytes of tensors on the GPU, the most there were in the round"""


class Timing(Taken):
    seconds: float
    """seconds the round took, pauses and the checkpoint left out"""
    train: float
    """of these, for clients and server"""
    server: NotRequired[Amount]
    """of `train`, for the server alone"""
    per_client: NotRequired[ByClient[Amount | None]]
    """seconds of each client's update, as many at a time as there are workers; null for who took no part"""
    workers: NotRequired[Natural]
    """how many clients train at a time at most"""
    evaluate: float
    """and for evaluation and CKA"""
    checkpoint: float
    """seconds for writing the states that changed"""
    at: Moment
    """when the round ended"""


class Record(TypedDict):
    """A line of the ledger."""

    round: Positive
    """the round, from 1"""
    method: Text
    """the method it was run with"""
    participants: Many[Natural]
    """the clients that took part, ascending"""
    clients: NotRequired[Annotated[Natural, When("evaluation.figures")]]
    """how many there are, where figures name clients ([below](#very-many-clients))"""
    diverged: NotRequired[Many[Natural]]
    """those of them whose loss or weights were not finite: they stay as they were before the round"""
    dropped: NotRequired[Annotated[Many[Natural], When("wire.drop")]]
    """those whose uplink was lost"""
    accuracy: Accuracy
    evaluation: NotRequired[
        Annotated[dict[Annotated[str, Within(pattern="^(test|eval)$")], Part], When("evaluation.parts")]
    ]
    loss: Loss
    lr: NotRequired[Annotated[float, When("training.schedule")]]
    """the learning rate in force, where it changes from round to round"""
    bytes: Traffic
    params: Params
    flops: Flops
    cka: NotRequired[Annotated[Cka | None, When("cka.every")]]
    """in rounds in which CKA is not measured"""
    method_metrics: Object
    """figures of the method's own, and `PHASE_loss`, the mean loss of each phase after the first"""
    timing: Timing


def check_record(record: Mapping[str, Any], clients: int) -> Record:
    """The same, which is a record of a session of so many clients; raises ValueError, saying what is wrong."""
    found = checked(Record, record)
    accuracy, loss, traffic = found["accuracy"], found["loss"], found["bytes"]
    lists: dict[str, list[Any] | dict[str, Any]] = {
        "accuracy.per_client": accuracy["per_client"],
        "loss.per_client": loss["per_client"],
        "bytes.per_client_up": traffic["per_client_up"],
        "bytes.per_client_down": traffic["per_client_down"],
    }
    if "per_client" in found["timing"]:
        lists["timing.per_client"] = found["timing"]["per_client"]
    for part, measures in found.get("evaluation", {}).items():
        for name, measured in measures_of(measures).items():
            lists[f"evaluation.{part}.{name}.per_client"] = measured["per_client"]
    for where, values in lists.items():
        if isinstance(values, dict):
            if any(int(client) >= clients for client in values):
                raise ValueError(f"{where} names a client that is none of {clients}")
        elif len(values) != clients:
            raise ValueError(f"{where} is of {len(values)} clients, not {clients}")
    cka = found.get("cka")
    if cka and "clients" in cka:
        compared = cka["clients"]
        _check_clients("cka.clients", compared, clients)
        size = len(compared)
        if any(
            len(matrix) != size or any(len(row) != size for row in matrix)
            for matrix in cka["matrix"].values()
        ):
            raise ValueError("cka.matrix is not of cka.clients")
    if found.get("clients", clients) != clients:
        raise ValueError(f"clients is {found['clients']}, not {clients}")
    _check_clients("participants", found["participants"], clients)
    _check_clients("diverged", found.get("diverged", []), clients)
    _check_clients("dropped", found.get("dropped", []), clients)
    return found


def measures_of(part: Part) -> dict[str, Measured[float]]:
    """All that was measured on a part of the split, by name; the user's own as `metrics.NAME`."""
    known = {"accuracy": part["accuracy"], "loss": part["loss"], "f1": part["f1"]}
    return known | {f"metrics.{name}": own for name, own in part.get("metrics", {}).items()}


def _check_clients(where: str, named: list[int], clients: int) -> None:
    if any(client >= clients for client in named):
        raise ValueError(f"{where} names a client that is none of {clients}")


# To be shown

_LEGIBLE = {int, float, type(None), bool}


def legible(value: T) -> T:
    """The same JSON with a mark in place of every control character: whatever shows it, no terminal is steered."""
    return cast(T, _legible(value))


def _legible(value: Any) -> Any:
    match value:
        case str():
            return shown(value)
        case dict():
            return {shown(key): _legible(each) for key, each in value.items()}
        case list() if set(map(type, value)) <= _LEGIBLE:  # one look at each, since there may be thousands
            return value.copy()
        case list() | tuple():
            return type(value)(_legible(each) for each in value)
    return value
