"""What the panels compute from a run's rounds: quantiles over clients, marks, targets, CKA as last measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tui.app.curves import Array, Curves
from tui.app.drawing.figure import Mark
from tui.app.feed import Run

BAND = (0.1, 0.9)
MARKED_CHECKPOINTS = 10  # more are a routine, and would be a hedge in the chart


@lru_cache(maxsize=16)
def evaluated(curves: Curves) -> NDArray[np.int_]:
    """[k] the rounds after which any client was evaluated, from 1."""
    return np.flatnonzero(np.isfinite(curves.mean)) + 1


@lru_cache(maxsize=16)
def band(curves: Curves) -> tuple[Array, Array]:
    """The 10 % and the 90 % quantile over clients, [k] each, at the evaluated rounds."""
    low, high = quantiles(curves.accuracy[evaluated(curves) - 1], BAND)
    return low, high


def quantiles(values: Array, shares: tuple[float, ...]) -> list[Array]:
    """For each share its quantile over the columns of `values` [n, m], NaN left out: [n], NaN where all are.

    Linear between order statistics, as numpy's default.
    """
    if not values.size:
        return [np.full(len(values), np.nan) for _ in shares]
    ordered = np.sort(values, axis=1)  # NaN last
    counts = np.isfinite(ordered).sum(axis=1)
    rows = np.arange(len(values))
    found = []
    for share in shares:
        place = np.maximum(counts - 1, 0) * share
        below = place.astype(int)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        low, high = ordered[rows, below], ordered[rows, above]
        found.append(low + (high - low) * (place - below))
    return found


def change(curves: Curves, round: int) -> Array:
    """[N] each client's accuracy after `round` less the one before it; NaN without either."""
    values = curves.accuracy[:round]
    if len(values) < 2:
        return np.full(curves.clients, np.nan)
    return np.asarray(values[-1] - values[-2])


def marks(run: Run) -> list[Mark]:
    """Vertical marks at method switches, forks, and the checkpoints that outlast the newest ones, if they are few."""
    found = [mark for event in run.events if (mark := _mark(event)) is not None]
    lasting = run.checkpoints[: -int(run.config.get("checkpoint", {}).get("keep_last") or 1)]
    taken = {mark.x for mark in found}
    own = [Mark(round, "kept") for round in lasting if round > 0 and round not in taken]
    return sorted(found + (own if len(own) <= MARKED_CHECKPOINTS else []), key=lambda mark: mark.x)


def _mark(event: Mapping[str, Any]) -> Mark | None:
    match event.get("event"):
        case "switched":
            replaced = event.get("before") != event.get("method")
            return Mark(event["round"] + 0.5, str(event["method"]) if replaced else "settings")
        case "forked" if event.get("round", 0) > 0:
            return Mark(event["round"] + 0.5, "fork")
    return None


def first_at(values: Array, target: float) -> int | None:
    """The first round (from 1) at which `values` [n] reach the target; None if they never do."""
    there = np.flatnonzero(values >= target)
    return int(there[0]) + 1 if there.size else None


@dataclass(frozen=True)
class Reached:
    """What it took to reach a target accuracy: rounds, and bytes, operations, seconds since round 1."""

    round: int
    bytes: float
    flops: float
    seconds: float


def reached(curves: Curves, target: float) -> Reached | None:
    """What the mean accuracy took to first reach `target`; None if it has not."""
    round = first_at(curves.mean, target)
    if round is None:
        return None
    return Reached(round, *(float(costs(curves, unit)[round - 1]) for unit in ("bytes", "FLOPs", "seconds")))


def costs(curves: Curves, unit: str) -> Array:
    """[n] what the run had cost after each round: 'rounds', 'bytes' (up and down), 'FLOPs' or 'seconds'."""
    match unit:
        case "bytes":
            return np.asarray(curves.up_total + curves.down_total)
        case "FLOPs":
            return np.cumsum(curves.flops)
        case "seconds":
            return np.cumsum(curves.seconds)
    return np.arange(1.0, curves.rounds + 1)


def from_zero(*values: Array) -> tuple[float, float]:
    """The range of an axis for amounts, which begins at nothing: a hair's breadth of change is to look like one."""
    most = max((float(np.nanmax(one)) for one in values if np.isfinite(one).any()), default=0.0)
    return 0.0, most * 1.05 or 1.0


@dataclass(frozen=True, eq=False)
class Measured:
    """CKA after one round: the layers from shallow to deep, the mean over pairs and the matrix [N, N] of each."""

    round: int
    layers: tuple[str, ...]
    cka: Mapping[str, Any]

    def mean(self, layer: str) -> float:
        value = self.cka["layers"].get(layer)
        return float("nan") if value is None else float(value)

    def matrix(self, layer: str) -> Array:
        """[N, N], NaN for a pair that has none."""
        return _matrix(self.cka, layer)


def _matrix(cka: Mapping[str, Any], layer: str) -> Array:
    rows: list[list[float | None]] = cka["matrix"].get(layer, [])
    return np.array([[np.nan if value is None else value for value in row] for row in rows], float).reshape(
        len(rows), -1 if rows else 0
    )


def measurements(run: Run) -> tuple[Measured, ...]:
    """Every measurement of a run, in order of round."""
    return _of_ledger(run).measured


def last_measured(run: Run, round: int) -> Measured | None:
    """The last measurement at or before a round."""
    return next((one for one in reversed(measurements(run)) if one.round <= round), None)


def methods(run: Run) -> tuple[tuple[int, str], ...]:
    """The method history: (first round, method)."""
    found = _of_ledger(run).methods
    in_force = run.method
    return found if found and found[-1][1] == in_force else (*found, (run.round + 1, in_force))


@dataclass(frozen=True, eq=False)
class _Ledger:
    """What takes a pass over all records to know."""

    methods: tuple[tuple[int, str], ...]
    measured: tuple[Measured, ...]


_ledgers: WeakKeyDictionary[Curves, _Ledger] = WeakKeyDictionary()
"""By the curves, which are one object for as long as the ledger stays as it is."""


def _of_ledger(run: Run) -> _Ledger:
    if run.curves not in _ledgers:
        methods: list[tuple[int, str]] = []
        measured = []
        for record in run.records:
            if not methods or methods[-1][1] != record["method"]:
                methods.append((record["round"], record["method"]))
            if cka := record.get("cka"):
                layers = cka.get("order") or list(cka["layers"])
                measured.append(Measured(record["round"], tuple(layers), cka))
        _ledgers[run.curves] = _Ledger(tuple(methods), tuple(measured))
    return _ledgers[run.curves]
