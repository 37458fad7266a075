"""A study as a board: a row for each setting, a column for each seed, and in each cell a session as far as it is.

    reader = BoardReader(folder)
    board = reader.read(seen)        # `seen` has the sessions of the folder as last read

The numbers are those of `compare`: the last mean accuracy of each session, its mean over the seeds, and the paired
difference from Standalone. While sessions run, means, differences, and costs are those after the last round that all
sessions have finished that have begun.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from simulator.base.nested import Raw
from simulator.results.analysis.averages import Difference, MeanStd, paired
from simulator.results.analysis.axes import SEEDS, Key, group_label, seeds_of
from simulator.results.analysis.caveats import Printed, dependent, printed, rows_differ
from simulator.results.analysis.costs import Cost, energy_differs, spent_by_cost
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.ledger import Totals
from simulator.results.analysis.overview import Origins
from simulator.results.analysis.run import SessionData
from simulator.studies.cells import Cells, Placed, PointCell, Seeds, Seen, last_of
from simulator.studies.status import FINISHED
from simulator.studies.study import Point
from simulator.studies.trial_board import TrialBoard, TrialReader

FINAL = "final"
"""The value of `stage` of a tuning study's final points."""


@dataclass(frozen=True)
class BoardRow:
    """A setting. cells: by seed, None where the study has no such point; the rest: over its seeds.

    interval: Student's 95 % interval of the mean, None of one seed. difference: from the baseline's row, if any. costs:
    means. Those of an unfinished board are up to its `round`.
    """

    label: str
    method: str
    cells: tuple[PointCell | None, ...]
    accuracy: MeanStd | None
    interval: tuple[float, float] | None
    difference: Difference | None
    paper: tuple[Printed, ...]
    costs: Mapping[Cost, float]

    @property
    def points(self) -> list[PointCell]:
        """Its points."""
        return [cell for cell in self.cells if cell is not None]

    @property
    def finished(self) -> int:
        """The number of its finished points."""
        return sum(cell.state == FINISHED for cell in self.points)


@dataclass(frozen=True)
class Board:
    """The rows of a study in its order. seeds: the columns. baseline: the method of the row to compare with, if any.

    round: the one that the rows are compared at; None: all their sessions have finished, and each has its last round.
    notes: what to know of the comparison, as sentences. trials: those of a tuning study, whose rows are the final
    seeds. error: why the study cannot be read.
    """

    folder: Path
    seeds: tuple[str, ...] = ()
    rows: tuple[BoardRow, ...] = ()
    baseline: str | None = None
    notes: tuple[str, ...] = ()
    trials: TrialBoard | None = None
    error: str = ""
    round: int | None = None


@dataclass(frozen=True, eq=False)
class _Group:
    """The points of a row."""

    label: str
    method: str
    rest: Key
    points: list[Placed]

    def known(self, upto: int | None) -> dict[Seeds, Totals]:
        """By seed, the totals of the sessions that have been read, up to a round."""
        return {
            cell.seeds: seen.totals if upto is None else seen.totals.upto(upto)
            for _, cell, seen in self.points
            if seen is not None and seen.totals is not None and cell.accuracy is not None and not cell.error
        }

    @property
    def unfinished(self) -> list[int]:
        """The last evaluated rounds of its sessions that have begun and have not finished."""
        ends = (
            np.flatnonzero(np.isfinite(seen.totals["accuracy"]))
            for _, cell, seen in self.points
            if seen is not None and seen.totals is not None and cell.state != FINISHED and not cell.error
        )
        return [int(each[-1]) + 1 for each in ends if each.size]

    @property
    def configs(self) -> list[Raw]:
        """The settings of its sessions; before the first begins, those of its points."""
        begun = [seen.config for _, _, seen in self.points if seen is not None and seen.config]
        return begun or [point.config for point, *_ in self.points]


class BoardReader:
    """Reads the board of one study again and again. Only rows whose sessions have changed are computed again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rows: dict[Key, tuple[object, BoardRow]] = {}
        self._papers: dict[Key, tuple[object, tuple[Printed, ...]]] = {}
        self._notes: tuple[object, tuple[str, ...]] = (None, ())
        self._cells, self._trials = Cells(folder), TrialReader(folder)

    def read(self, seen: Mapping[Path, Seen]) -> Board:
        """The board, by the sessions as last read, by their folders."""
        try:
            cells = self._cells.read(seen)
            is_tuning = (self.folder / checkpoints.TUNING).exists()
            trials = self._trials.read(cells) if is_tuning else None
        except (SessionUnreadable, DiskError, OSError) as error:
            return Board(self.folder, error=checkpoints.shown(str(error)))
        final = [each for each in cells if each[0].axes.get("stage") == FINAL] if is_tuning else cells
        by = ("method",) if is_tuning else _axes([point for point, *_ in cells])
        groups = _groups(final, by)
        with_joules = not energy_differs({group.label: group.configs for group in groups.values()})
        seeds = sorted({cell.seeds for _, cell, _ in final})
        baselines = {key: _baseline(group, groups.values()) for key, group in groups.items()}
        upto = min((each for group in groups.values() for each in group.unfinished), default=None)
        return Board(
            self.folder,
            tuple(_short(each) for each in seeds),
            tuple(
                self._row(key, group, baselines[key], seeds, with_joules, upto)
                for key, group in groups.items()
            ),
            BASELINE if any(baselines.values()) else None,
            self._noted(groups.values(), by),
            trials,
            round=upto,
        )

    def _row(
        self,
        key: Key,
        group: _Group,
        baseline: _Group | None,
        seeds: Sequence[Seeds],
        with_joules: bool,
        upto: int | None,
    ) -> BoardRow:
        """A row, the same one if nothing in it or in its baseline has changed."""
        read = [[*each.known(None).values()] for each in (group, baseline) if each]
        if upto is not None and all(one.rounds <= upto for each in read for one in each):
            upto = None
        about = (tuple(cell for _, cell, _ in group.points), read, seeds, with_joules, upto)
        configs = group.configs
        paper = self._papers.get(key)
        if paper is None or paper[0] != configs:
            paper = self._papers[key] = (
                configs,
                printed([SessionData(self.folder, config=each) for each in configs]),
            )
            self._rows.pop(key, None)
        if key not in self._rows or self._rows[key][0] != about:
            own, other = group.known(upto), baseline.known(upto) if baseline else {}
            cells = {cell.seeds: cell for _, cell, _ in group.points}
            whole = [cell.accuracy for cell in cells.values()]
            values = whole if upto is None else [last_of(each["accuracy"]) for each in own.values()]
            failed = any(cell.untrained for cell in cells.values())
            accuracy = None if failed else MeanStd.of(values)
            row = BoardRow(
                group.label,
                group.method,
                tuple(cells.get(each) for each in seeds),
                accuracy,
                accuracy.interval if accuracy else None,
                difference_so_far(own, other),
                paper[1],
                _costs(own.values(), with_joules),
            )
            self._rows[key] = about, row
        return self._rows[key][1]

    def _noted(self, groups: Collection[_Group], by: Sequence[str]) -> tuple[str, ...]:
        configs = {group.label: group.configs for group in groups}
        if self._notes[0] != configs:
            members = {group.label: [_member(point) for point, *_ in group.points] for group in groups}
            self._notes = configs, (*rows_differ(configs, by), *dependent(members))
        return self._notes[1]


def _member(point: Point) -> tuple[Seeds, Origins]:
    """The seeds of a point, and the session from which it branches off."""
    from_session = point.branch and {point.branch["parent"]: (point.branch["parent"], point.branch["round"])}
    return seeds_of(point.config), from_session or {}


def difference_so_far(totals: Mapping[Seeds, Totals], baseline: Mapping[Seeds, Totals]) -> Difference | None:
    """The paired difference of the mean accuracies, each after the last round that both sessions have finished."""
    values, against = {}, {}
    for seeds in totals.keys() & baseline.keys():
        round = min(totals[seeds].rounds, baseline[seeds].rounds)
        own, other = (last_of(each["accuracy"][:round]) for each in (totals[seeds], baseline[seeds]))
        if own is not None and other is not None:
            values[seeds], against[seeds] = own, other
    return paired(dict(sorted(values.items())), against)


def _axes(points: Sequence[Point]) -> tuple[str, ...]:
    """The study's axes besides its seeds."""
    return tuple(dict.fromkeys(axis for point in points for axis in point.axes if axis not in SEEDS))


def _groups(points: Sequence[Placed], by: Sequence[str]) -> dict[Key, _Group]:
    """The points that differ only in their seeds, in the study's order."""
    found: dict[Key, _Group] = {}
    for point, cell, seen in points:
        key = tuple(_plain(point.axes.get(axis)) for axis in by)
        if key not in found:
            own = [(axis, value) for axis, value in zip(by, key, strict=True) if value is not None]
            method = str(point.config["method"]["name"])
            label = (
                group_label([axis for axis, _ in own], tuple(value for _, value in own)) if own else method
            )
            rest = tuple((axis, value) for axis, value in own if not axis.startswith(("method", "preset")))
            found[key] = _Group(label, method, rest, [])
        found[key].points.append((point, cell, seen))
    return found


def _baseline(group: _Group, groups: Collection[_Group]) -> _Group | None:
    """The row of the baseline method with the same values on the other axes, if there is exactly one."""
    if group.method == BASELINE:
        return None
    found = [each for each in groups if each.method == BASELINE and each.rest == group.rest]
    return found[0] if len(found) == 1 else None


def _costs(totals: Collection[Totals], with_joules: bool) -> dict[Cost, float]:
    """The mean cost of the sessions that have an accuracy. Without joules where rows count them by different rules."""
    each = [spent_by_cost(one) for one in totals if last_of(one["accuracy"]) is not None]
    shown = [cost for cost in (each[0] if each else ()) if with_joules or cost != "joules"]
    return {cost: float(np.mean([one[cost] for one in each])) for cost in shown}


def _short(seeds: Seeds) -> str:
    """The title of a column: s0, or 0/1/2 where the seeds of data, initial weights, and training differ."""
    return f"s{seeds[0]}" if len(set(seeds)) == 1 else "/".join(map(str, seeds))


def _plain(value: object) -> object:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
