"""A session's rounds as arrays, grown line by line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.base.record import Record
from simulator.metrics import by_client
from simulator.results.analysis.client_values import ClientValues, ClientValuesBuilder, Growing

Array = NDArray[np.float64]

_TIMES = ("train", "server", "evaluate", "checkpoint", "waited", "workers", "cpu", "memory", "gpu_memory")
"""What the ledger's `timing` has besides; earlier versions wrote only some of it."""
_TOTALS = (
    "mean",
    "best",
    "weighted",
    "up",
    "down",
    "up_total",
    "down_total",
    "flops",
    "seconds",
    "clock",
    "joules",
    *_TIMES,
)
_CLIENTS = ("accuracy", "loss", "client_up", "client_down", "client_seconds", "participated")


@dataclass(frozen=True, eq=False)
class Curves:
    """n rounds of N clients; NaN where the ledger has null. Row i is round i + 1.

    mean, best, weighted: accuracies, 0…1 [n]: over clients, the highest mean so far, weighted by test samples;
    up, down: bytes of the round [n]; up_total, down_total: bytes since round 1 [n]; flops: operations of the round [n];
    seconds: of the round [n]; clock: simulated seconds since the start [n]; joules: of the round [n]. Of a round's time
    [n]: train, of which server; evaluate; checkpoint; waited, in a pause; cpu, processor seconds. workers: clients at
    work at a time [n]; memory, gpu_memory: the most bytes [n].
    By round and client: accuracy, which a client keeps until it is evaluated again; loss; client_up, client_down,
    bytes; client_seconds, of the client's update; participated, 1 or 0.
    """

    mean: Array
    best: Array
    weighted: Array
    up: Array
    down: Array
    up_total: Array
    down_total: Array
    flops: Array
    seconds: Array
    clock: Array
    joules: Array
    train: Array
    server: Array
    evaluate: Array
    checkpoint: Array
    waited: Array
    workers: Array
    cpu: Array
    memory: Array
    gpu_memory: Array
    accuracy: ClientValues
    loss: ClientValues
    client_up: ClientValues
    client_down: ClientValues
    client_seconds: ClientValues
    participated: ClientValues

    @property
    def rounds(self) -> int:
        return len(self.mean)

    @property
    def clients(self) -> int:
        return self.accuracy.clients

    @cached_property
    def evaluated(self) -> NDArray[np.int_]:
        """[k] the rounds, from 1, after which any client was evaluated."""
        return np.flatnonzero(np.isfinite(self.mean)) + 1

    def upto(self, round: int) -> "Curves":
        """The first so many rounds, without a copy."""
        totals = {name: getattr(self, name)[:round] for name in _TOTALS}
        return Curves(**totals | {name: getattr(self, name).upto(round) for name in _CLIENTS})


class CurvesBuilder:
    """Appends records; a `Curves` taken earlier does not change."""

    def __init__(self) -> None:
        self._totals = {name: Growing(np.float64) for name in _TOTALS}
        self._by_client = {
            "accuracy": ClientValuesBuilder(carried=True),
            "loss": ClientValuesBuilder(),
            "client_up": ClientValuesBuilder(absent=0.0),
            "client_down": ClientValuesBuilder(absent=0.0),
            "client_seconds": ClientValuesBuilder(),
            "participated": ClientValuesBuilder(absent=0.0),
        }

    def extend(self, records: Sequence[Record]) -> None:
        """Take in more rounds. Raises KeyError, TypeError or ValueError for records that htfl-sim did not write."""
        if not records:
            return
        for record in records:
            _check(record)
        rows, clients = [_row(record) for record in records], _clients(records[0])
        for name, total in self._totals.items():
            total.extend([row[name] for row in rows])
        for name, values in self._by_client.items():
            values.extend([_of_clients(record, name) for record in records], clients)

    def curves(self) -> Curves:
        found: dict[str, Any] = {name: total.taken() for name, total in self._totals.items()}
        found |= {name: values.taken() for name, values in self._by_client.items()}
        return Curves(**found)


def _check(record: Record) -> None:
    """Raise ValueError where a record names clients that the session lacks."""
    clients = _clients(record)
    if not all(0 <= client < clients for client in record["participants"]):
        raise ValueError("a participant is none of the clients")


def _row(record: Record) -> dict[str, Any]:
    accuracy, traffic, timing = record["accuracy"], record["bytes"], record["timing"]
    clock, joules = on_the_clock(record)
    return {
        "mean": _number(accuracy["mean"]),
        "best": _number(accuracy["best_mean"]),
        "weighted": _number(accuracy["weighted"]),
        "up": traffic["up"],
        "down": traffic["down"],
        "up_total": traffic["up_total"],
        "down_total": traffic["down_total"],
        "flops": record["flops"]["total"],
        "seconds": timing["seconds"],
        "clock": clock,
        "joules": joules,
        **{name: timing.get(name, np.nan) for name in _TIMES},
    }


def on_the_clock(record: Record) -> tuple[float, float]:
    """Simulated seconds since the start, and joules of the round; NaN without a clock."""
    if (time := record.get("time")) is None:
        return np.nan, np.nan
    joules = time["joules"]
    return time["ends"], joules["compute"] + joules["radio"] + joules["idle"]


def _of_clients(record: Record, name: str) -> by_client.Values:
    """What a record reports by client; `name` is that of the field of `Curves`."""
    match name:
        case "accuracy":
            values: by_client.Values = record["accuracy"]["per_client"]
        case "loss":
            values = record["loss"]["per_client"]
        case "client_up":
            values = record["bytes"]["per_client_up"]
        case "client_down":
            values = record["bytes"]["per_client_down"]
        case "client_seconds":
            values = record["timing"].get("per_client", {})  # earlier versions wrote none
        case _:
            values = dict.fromkeys(record["participants"], 1.0)
    return values


def _clients(record: Record) -> int:
    """How many clients there are; a record that names some of them says it."""
    values = record["accuracy"]["per_client"]
    return int(record["clients"]) if isinstance(values, Mapping) else len(values)


def _number(value: float | None) -> float:
    return np.nan if value is None else value
