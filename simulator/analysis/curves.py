"""A session's rounds as arrays, grown line by line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics import by_client

Array = NDArray[np.float64]
Record = dict[str, Any]
"""A line of the ledger."""

_TIMES = ("train", "server", "evaluate", "checkpoint", "waited", "workers", "cpu", "memory", "gpu_memory")
"""What the ledger's `timing` has besides; earlier versions wrote only some of it."""
_TOTALS = ("mean", "best", "weighted", "up", "down", "up_total", "down_total", "flops", "seconds", *_TIMES)
_SENT = ("client_up", "client_down")
_CLIENTS = ("accuracy", "loss", "client_seconds", *_SENT)
_ALSO = {
    "accuracy": ("std", "min", "max"),
    "bytes": ("by_tensor",),
    "params": ("up", "down"),
    "flops": ("clients", "server"),
}
"""What is read of a record besides what becomes a curve."""


@dataclass(frozen=True, eq=False)
class Curves:
    """n rounds of N clients; NaN where the ledger has null. Row i is round i + 1.

    mean, best, weighted: accuracies, 0…1 [n]: over clients, the highest mean so far, weighted by test samples;
    up, down: bytes of the round [n]; up_total, down_total: bytes since round 1 [n]; flops: operations of the round [n];
    seconds: of the round [n]; accuracy, loss: [n, N]; client_up, client_down: bytes [n, N]; participated: bool [n, N].
    Of a round's time [n]: train, of which server; evaluate; checkpoint; waited, in a pause; cpu, processor seconds.
    client_seconds: of each client's update [n, N]; workers: clients at work at a time [n]; memory, gpu_memory: the most
    bytes [n].
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
    train: Array
    server: Array
    evaluate: Array
    checkpoint: Array
    waited: Array
    workers: Array
    cpu: Array
    memory: Array
    gpu_memory: Array
    accuracy: Array
    loss: Array
    client_up: Array
    client_down: Array
    client_seconds: Array
    participated: NDArray[np.bool_]

    @property
    def rounds(self) -> int:
        return len(self.mean)

    @property
    def clients(self) -> int:
        return int(self.accuracy.shape[1])

    @cached_property
    def evaluated(self) -> NDArray[np.int_]:
        """[k] the rounds, from 1, after which any client was evaluated."""
        return np.flatnonzero(np.isfinite(self.mean)) + 1

    def upto(self, round: int) -> "Curves":
        """The first so many rounds, without a copy."""
        return Curves(**{name: getattr(self, name)[:round] for name in (*_TOTALS, *_CLIENTS, "participated")})


class CurvesBuilder:
    """Appends records to arrays that have room; a `Curves` taken earlier does not change."""

    def __init__(self) -> None:
        self._size = 0
        self._clients = 0
        self._arrays: dict[str, NDArray[Any]] = {}
        self._make_room(0, 0)

    def extend(self, records: Sequence[Record]) -> None:
        """Take in more rounds. Raises KeyError, TypeError or ValueError for records that htfl-sim did not write."""
        if not records:
            return
        clients = _clients(records[0])
        if self._size + len(records) > len(self._arrays["mean"]) or clients != self._clients:
            self._make_room(2 * (self._size + len(records)), clients)
        for record in records:
            _check(record)
            for name, value in _row(record).items():
                self._arrays[name][self._size] = value
            for name, values in _by_client(record).items():
                self._tell(name, values)
            self._arrays["participated"][self._size, record["participants"]] = True
            self._size += 1

    def _tell(self, name: str, values: by_client.Values) -> None:
        """The figures by client of the next round. Of whom it has no news an accuracy stays, and nothing was sent."""
        row = self._arrays[name][self._size]
        if isinstance(values, Mapping):
            if name not in _SENT:  # of those the room is zeros
                stays = name == "accuracy" and self._size > 0
                row[:] = self._arrays[name][self._size - 1] if stays else np.nan
            row[[int(client) for client in values]] = _numbers(list(values.values()))
        else:
            row[:] = _numbers(values)

    def curves(self) -> Curves:
        return Curves(**{name: array[: self._size] for name, array in self._arrays.items()})

    def _make_room(self, rounds: int, clients: int) -> None:
        roomy: dict[str, NDArray[Any]] = {name: np.full(rounds, np.nan) for name in _TOTALS}
        # Of memory that nothing is written to, the system has not to give any: there may be ten thousand clients.
        roomy |= {name: np.empty((rounds, clients)) for name in _CLIENTS}
        roomy |= {name: np.zeros((rounds, clients)) for name in _SENT}
        roomy["participated"] = np.zeros((rounds, clients), bool)
        for name, array in self._arrays.items():
            if clients == self._clients or array.ndim == 1:
                roomy[name][: self._size] = array[: self._size]
        self._arrays, self._clients = roomy, clients


def _check(record: Record) -> None:
    """Raises where a record lacks what is read of it: here, and not in the midst of drawing it."""
    for section, keys in _ALSO.items():
        for key in keys:
            record[section][key]
    clients = _clients(record)
    if not all(0 <= client < clients for client in record["participants"]):
        raise ValueError("a participant is none of the clients")


def _row(record: Record) -> dict[str, Any]:
    accuracy, traffic, timing = record["accuracy"], record["bytes"], record["timing"]
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
        **{name: timing.get(name, np.nan) for name in _TIMES},
    }


def _by_client(record: Record) -> dict[str, by_client.Values]:
    return {
        "accuracy": record["accuracy"]["per_client"],
        "loss": record["loss"]["per_client"],
        "client_up": record["bytes"]["per_client_up"],
        "client_down": record["bytes"]["per_client_down"],
        "client_seconds": record["timing"].get("per_client", {}),  # earlier versions wrote none
    }


def _clients(record: Record) -> int:
    """How many clients there are; a record that names some of them says it."""
    values = record["accuracy"]["per_client"]
    return int(record["clients"]) if isinstance(values, Mapping) else len(values)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _numbers(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], float)
