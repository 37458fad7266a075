"""The points of a study as the cells of a board: the state of each session, and its numbers so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import checkpoints
from simulator.base.nested import Raw
from simulator.results.analysis.axes import seed_words, seeds_of
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.ledger import Divergence, Totals
from simulator.results.analysis.overview import Summary
from simulator.studies.links import session_of
from simulator.studies.status import WAITING
from simulator.studies.study import Point
from simulator.studies.summary import points_of

Seeds = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Seen:
    """A session as last read. totals: None if its ledger has not been read."""

    summary: Summary
    totals: Totals | None = None
    config: Raw = field(default_factory=dict)


@dataclass(frozen=True)
class PointCell:
    """A point: its session's state, its last finished round, and its last mean accuracy, 0…1; None without a score.

    seeds: of data, initial weights, and training.
    linked: the session of an identical run that it uses, if any. error: why its session cannot be read. untrained:
    every client diverged in every round.
    """

    point: str
    folder: Path
    seeds: Seeds
    state: str = WAITING
    round: int = 0
    rounds: int = 0
    accuracy: float | None = None
    best: float | None = None
    linked: str = ""
    error: str = ""
    untrained: bool = False

    @property
    def seed(self) -> str:
        """Its seed in words."""
        return seed_words(*self.seeds)


Placed = tuple[Point, PointCell, Seen | None]
"""A point, its cell, and its session if that has been read."""


class Cells:
    """Reads the points of one study again and again."""

    def __init__(self, study: Path) -> None:
        self._study = study
        self._points: tuple[Point, ...] = ()
        self._blank: list[PointCell] = []
        """The cells before their sessions begin."""

    def read(self, seen: Mapping[Path, Seen]) -> list[Placed]:
        """Each point with its cell, by the sessions as last read. Raises SessionUnreadable, DiskError, or OSError."""
        points = points_of(self._study)
        if points is not self._points:
            self._points = points
            self._blank = [
                PointCell(each.name, self._study / each.name, seeds_of(each.config), rounds=each.rounds)
                for each in points
            ]
        found = []
        for point, blank in zip(points, self._blank, strict=True):
            at = blank.folder if point.link is None else session_of(self._study, point)
            linked = "" if at == blank.folder else checkpoints.name_of(at)
            cell = replace(blank, folder=at, linked=linked) if linked else blank
            found.append((point, _with(cell, seen.get(at)), seen.get(at)))
        return found


def _with(cell: PointCell, seen: Seen | None) -> PointCell:
    """The cell with its session as far as it is."""
    if seen is None:
        return cell
    summary, totals = seen.summary, seen.totals
    cell = replace(cell, state=summary.state, rounds=summary.rounds or cell.rounds)
    if summary.error:
        return replace(cell, error=summary.error)
    if totals is None:
        return replace(cell, round=summary.round or 0, accuracy=summary.accuracy, best=summary.best)
    if Divergence.of(totals).untrained:
        return replace(cell, round=totals.rounds, untrained=True)
    measured = totals["accuracy"][np.isfinite(totals["accuracy"])]
    best = float(measured.max()) if measured.size else None
    return replace(cell, round=totals.rounds, accuracy=last_of(totals["accuracy"]), best=best)


def last_of(values: Array) -> float | None:
    """The last measured value; None without any."""
    known = values[np.isfinite(values)]
    return float(known[-1]) if known.size else None
