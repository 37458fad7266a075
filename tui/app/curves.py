"""A session's rounds as arrays, grown line by line: what charts, tables and time travel are drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Record = dict[str, Any]

_TOTALS = ("mean", "best", "weighted", "up", "down", "up_total", "down_total", "flops", "seconds")
_CLIENTS = ("accuracy", "loss", "client_up", "client_down")
_ALSO = {
    "accuracy": ("std", "min", "max"),
    "bytes": ("by_tensor",),
    "params": ("up", "down"),
    "flops": ("clients", "server"),
}
"""What the panels read of a record besides what becomes a curve."""


@dataclass(frozen=True, eq=False)
class Curves:
    """n rounds of N clients; NaN where the ledger has null. Row i is round i + 1.

    mean, best, weighted: accuracies [n]; up, down: bytes of the round [n]; up_total, down_total: since round 1 [n];
    flops: operations of the round [n]; seconds: of the round [n]; accuracy, loss: [n, N]; client_up, client_down:
    bytes [n, N].
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
    accuracy: Array
    loss: Array
    client_up: Array
    client_down: Array

    @property
    def rounds(self) -> int:
        return len(self.mean)

    @property
    def clients(self) -> int:
        return int(self.accuracy.shape[1])

    def upto(self, round: int) -> "Curves":
        """The first so many rounds, without a copy."""
        return Curves(**{name: getattr(self, name)[:round] for name in (*_TOTALS, *_CLIENTS)})


class Grower:
    """Appends records to arrays that have room; a `Curves` taken earlier does not change."""

    def __init__(self) -> None:
        self._size = 0
        self._clients = 0
        self._arrays: dict[str, Array] = {}
        self._make_room(0, 0)

    def extend(self, records: Sequence[Record]) -> None:
        """Take in more rounds. Raises KeyError, TypeError or ValueError for records that htfl-sim did not write."""
        if not records:
            return
        clients = len(records[0]["accuracy"]["per_client"])
        if self._size + len(records) > len(self._arrays["mean"]) or clients != self._clients:
            self._make_room(2 * (self._size + len(records)), clients)
        for record in records:
            _check(record)
            for name, value in _row(record).items():
                self._arrays[name][self._size] = value
            self._size += 1

    def curves(self) -> Curves:
        return Curves(**{name: array[: self._size] for name, array in self._arrays.items()})

    def _make_room(self, rounds: int, clients: int) -> None:
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_TOTALS, (rounds,))
        shapes |= dict.fromkeys(_CLIENTS, (rounds, clients))
        roomy = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        for name, array in self._arrays.items():
            if clients == self._clients or array.ndim == 1:
                roomy[name][: self._size] = array[: self._size]
        self._arrays, self._clients = roomy, clients


def _check(record: Record) -> None:
    """Raises KeyError or TypeError where a record lacks what the panels read: here, and not in the midst of drawing."""
    for section, keys in _ALSO.items():
        for key in keys:
            record[section][key]
    clients = len(record["accuracy"]["per_client"])
    if not all(0 <= client < clients for client in record["participants"]):
        raise ValueError("a participant is none of the clients")
    if record.get("cka"):
        for part in ("layers", "matrix"):
            record["cka"][part].items()


def _row(record: Record) -> dict[str, Any]:
    accuracy, traffic = record["accuracy"], record["bytes"]
    return {
        "mean": _number(accuracy["mean"]),
        "best": _number(accuracy["best_mean"]),
        "weighted": _number(accuracy["weighted"]),
        "up": traffic["up"],
        "down": traffic["down"],
        "up_total": traffic["up_total"],
        "down_total": traffic["down_total"],
        "flops": record["flops"]["total"],
        "seconds": record["timing"]["seconds"],
        "accuracy": _numbers(accuracy["per_client"]),
        "loss": _numbers(record["loss"]["per_client"]),
        "client_up": traffic["per_client_up"],
        "client_down": traffic["per_client_down"],
    }


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _numbers(values: list[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], float)
