"""A study as a board: a row for each setting, a column for each seed, and in each cell a session as far as it is.

The numbers are those of `compare`. While sessions run, means, differences, and costs are those after the last round
that all sessions have finished that have begun. A tuning study also has its trials: their rungs, scores on eval, and
the best so far. `StudySummary` is a study in one line. Nothing here needs torch, so that the app shows it at once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

import checkpoints
from checkpoints import DiskError, GroupReader, SessionUnreadable
from simulator.base.nested import Raw
from simulator.base.sections import Space, TrainingConfig, is_at_boundary, range_of
from simulator.config import limits_of
from simulator.methods.declarations import settings
from simulator.results.analysis.axes import (
    SEEDS,
    Difference,
    Key,
    MeanStd,
    group_label,
    paired,
    seed_words,
    spelled,
)
from simulator.results.analysis.caveats import Printed, dependent, printed, rows_differ
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.costs import Cost, energy_differs, spent
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.ledger import Divergence, Totals, totals_of
from simulator.results.analysis.overview import Origins, Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.folder import FINISHED, WAITING, read_points, session_of
from simulator.studies.search import (
    Request,
    Trial,
    Trials,
    climbed,
    has_lost,
    read_request,
    score_of,
    values_of,
)
from simulator.studies.study import Point

Seeds = tuple[int, int, int]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Seen:
    """A session as last read. totals: None if its ledger has not been read."""

    summary: Summary
    totals: Totals | None = None
    config: Raw = field(default_factory=dict)


@dataclass(frozen=True)
class PointCell:
    """A point's state, last round, and last mean accuracy, 0…1. linked: the run that it uses. error: why unread."""

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
        return seed_words(*self.seeds)


Placed = tuple[Point, PointCell, Seen | None]


def _placed(study: Path, seen: Mapping[Path, Seen]) -> list[Placed]:
    """Each point with its cell, by the sessions as last read. Raises SessionUnreadable or DiskError."""
    found = []
    for point in read_points(study):
        at = session_of(study, point)
        link = "" if at == study / point.name else checkpoints.name_of(at)
        cell = PointCell(point.name, at, point.seeds, rounds=point.rounds, linked=link)
        found.append((point, _with(cell, seen.get(at)), seen.get(at)))
    return found


def _with(cell: PointCell, seen: Seen | None) -> PointCell:
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
    known = values[np.isfinite(values)]
    return float(known[-1]) if known.size else None


@dataclass(frozen=True)
class TrialRow:
    """A trial. cells: by tuning seed. rung: the one that it works toward or has reached, from 1; upto: its last round.

    score: its mean eval accuracy there, or as far as it is, 0…1; None before the first. out: others were promoted.
    boundary: the keys of the best trial whose values lie at the boundary of their ranges.
    """

    method: str
    number: int
    values: Raw
    cells: tuple[PointCell | None, ...]
    rung: int
    upto: int
    score: float | None
    is_best: bool = False
    out: bool = False
    lost: bool = False
    boundary: tuple[str, ...] = ()

    @property
    def round(self) -> int:
        """The last round that all of its sessions have finished, at most that of its rung."""
        return min(self.upto, min((0 if cell is None else cell.round for cell in self.cells), default=0))

    @property
    def words(self) -> str:
        return ", ".join(f"{key}={spelled(value)}" for key, value in self.values.items()) or "its own values"


@dataclass(frozen=True)
class TrialBoard:
    """budget, scored: what each method may try, and how it is scored, as sentences. chosen: methods with a choice."""

    seeds: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    rungs: int
    budget: str
    scored: str
    chosen: tuple[str, ...]


def _trials(folder: Path, request: Request, points: Sequence[Placed]) -> TrialBoard:
    cells = {point.name: cell for point, cell, _ in points}
    read = {
        cell.folder: seen.totals
        for _, cell, seen in points
        if seen is not None and seen.totals is not None and not cell.error
    }
    unread = totals_of(())
    listed = Trials(folder, request, lambda session: read.get(session, unread))
    rows = [row for method in request.methods for row in _rows(listed, method, cells)]
    rungs = request.rungs(max(Counter(row.method for row in rows).values(), default=None))
    if request.budget_flops is not None:
        number_of = f"{request.budget_flops:.2g} training FLOPs of trials"
    else:
        most = "up to " * (request.sampler == "grid")
        number_of = f"{most}{request.budget} trial{'s' * (request.budget != 1)}"
    steps = ", ".join(f"{count} to round {upto}" for count, upto in rungs)
    halving = (
        f", halving by {request.halving}: {steps}" if request.halving else f" of {request.rounds} rounds"
    )
    last = "the last round" if request.last == 1 else f"the last {request.last} rounds"
    return TrialBoard(
        tuple(f"s{seed}" for seed in request.tuning_seeds),
        tuple(rows),
        len(rungs),
        f"Each method has {number_of}{halving}.",
        f"Trials are scored on eval, over {last} of seed {', '.join(map(str, request.tuning_seeds))}.",
        tuple(listed.finals),
    )


def boundary(request: Request, method: str, values: Raw) -> tuple[str, ...]:
    """The keys of values that lie at the boundary of their ranges. A method of the user's has only given ranges."""
    own = {f"method.{key}": each for key, each in settings(method).space.items()}
    training = {f"training.{key}": each for key, each in TrainingConfig.space.items()}
    space = {**training, **own, **dict(map(range_of, request.ranges))}
    return at_boundary(space, method, values)


def at_boundary(space: Space, method: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of values beyond which the space has nothing, and the setting may have more."""
    return tuple(
        key
        for key, value in values.items()
        if key in space and is_at_boundary(space[key], value, limits_of(key, method))
    )


def _rows(listed: Trials, method: str, points: Mapping[str, PointCell]) -> list[TrialRow]:
    """Each trial of a method at its rung, which is over once all are there, or one has gone on. The best is marked."""
    request, trials, final = listed.request, listed.of(method), listed.finals.get(method)
    chosen = None if final is None else values_of(final)
    read = {each: listed.totals(each) for each in trials}
    cells = {each: [points.get(each.name(seed)) for seed in request.tuning_seeds] for each in trials}
    rounds = {each: min(session.rounds for session in read[each]) for each in trials}

    def score(trial: Trial, upto: int) -> float | None:
        """After a round, or as far as the trial is; None if nothing was measured on eval, or if it loses."""
        known = [each for each in read[trial] if each.rounds]
        if not any(np.isfinite(each["eval_accuracy"]).any() for each in known):
            return None
        return score_of(request, known, upto)

    def lost(trial: Trial, upto: int) -> bool:
        return has_lost(request, read[trial], upto)

    def is_over(alive: Sequence[Trial], upto: int) -> bool:
        if chosen is not None or all(rounds[each] >= upto for each in alive):
            return True
        linked = {each for each in alive if any(cell and cell.linked for cell in cells[each])}
        return any(rounds[each] > upto for each in alive if each not in linked)

    at, alive = climbed(
        request, trials, lambda each, upto: None if lost(each, upto) else score(each, upto) or 0.0, is_over
    )
    rungs, rows = request.rungs(len(trials)), []
    for each in trials:
        rung, upto = at[each.number] + 1, rungs[at[each.number]][1]
        reached = min(rounds[each], upto)
        row = TrialRow(method, each.number, dict(each.values), tuple(cells[each]), rung, upto, None)
        found = score(each, reached) if reached else None
        rows.append(replace(row, score=found, out=each not in alive, lost=lost(each, upto)))
    if chosen is not None:
        best = next((each for each in rows if each.values == chosen), None)
    else:
        known = [each for each in rows if each.score is not None]
        best = max(known, key=lambda each: (not each.out, each.round >= each.upto, each.score), default=None)
    if best is not None:
        edges = boundary(request, best.method, best.values)
        rows[rows.index(best)] = replace(best, is_best=True, boundary=edges)
    return rows


@dataclass(frozen=True)
class BoardRow:
    """A setting. cells: by seed; the rest: over seeds. interval: Student's 95 %.

    costs: means, to the board's round, of those that are known.
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
        return [cell for cell in self.cells if cell is not None]

    @property
    def finished(self) -> int:
        return sum(cell.state == FINISHED for cell in self.points)


@dataclass(frozen=True)
class Board:
    """The rows of a study. round: that of the comparison; None: the last of each. trials: then rows are final seeds."""

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
    key: Key
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
    """Reads the board of one study again and again. What settings alone decide is found once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[object, tuple[object, Any]] = {}
        self._request: Request | None = None

    def _unless_known(self, name: object, about: object, made: Callable[[], T]) -> T:
        """What was made before of the same facts, or what is made of them now."""
        if name not in self._known or self._known[name][0] != about:
            self._known[name] = about, made()
        found: T = self._known[name][1]
        return found

    def read(self, seen: Mapping[Path, Seen]) -> Board:
        try:
            cells = _placed(self.folder, seen)
            if is_tuning := (self.folder / checkpoints.TUNING).exists():
                self._request = self._request or read_request(self.folder)
            trials = _trials(self.folder, self._request, cells) if self._request else None
        except (SessionUnreadable, DiskError, OSError) as error:
            return Board(self.folder, error=checkpoints.shown(str(error)))
        final = [each for each in cells if each[0].is_final] if is_tuning else cells
        axes = dict.fromkeys(axis for point, *_ in cells for axis in point.axes if axis not in SEEDS)
        by = ("method",) if is_tuning else tuple(axes)
        groups = _groups(final, by)
        configs = {group.label: group.configs for group in groups}
        with_joules = not energy_differs(configs)
        seeds = sorted({cell.seeds for _, cell, _ in final})
        upto = min((each for group in groups for each in group.unfinished), default=None)
        rows, baselines = [], []
        for group in groups:
            # the row of the baseline with the same values on the other axes, if there is exactly one
            alike = [each for each in groups if each.method == BASELINE and each.rest == group.rest]
            baseline = alike[0] if len(alike) == 1 and group.method != BASELINE else None
            baselines += [baseline] if baseline else []
            rows.append(self._row(group, baseline, seeds, with_joules, upto))
        members: dict[str, list[tuple[Seeds, Origins]]] = {group.label: [] for group in groups}
        for group in groups:
            for point, *_ in group.points:
                start = point.branch and (point.branch["parent"], point.branch["round"])
                members[group.label].append((point.seeds, {start[0]: start} if start else {}))
        return Board(
            self.folder,
            # s0, or 0/1/2 where the seeds of data, initial weights, and training differ
            tuple(f"s{each[0]}" if len(set(each)) == 1 else "/".join(map(str, each)) for each in seeds),
            tuple(rows),
            BASELINE if baselines else None,
            self._unless_known("notes", configs, lambda: (*rows_differ(configs, by), *dependent(members))),
            trials,
            round=upto,
        )

    def _row(
        self,
        group: _Group,
        baseline: _Group | None,
        seeds: Sequence[Seeds],
        with_joules: bool,
        upto: int | None,
    ) -> BoardRow:
        read = [one for each in (group, baseline) if each for one in each.known(None).values()]
        if upto is not None and all(one.rounds <= upto for one in read):
            upto = None
        own, other = group.known(upto), baseline.known(upto) if baseline else {}
        cells = {cell.seeds: cell for _, cell, _ in group.points}
        whole = [cell.accuracy for cell in cells.values()]
        values = whole if upto is None else [last_of(each["accuracy"]) for each in own.values()]
        failed = any(cell.untrained for cell in cells.values())
        accuracy = None if failed else MeanStd.of(values)
        took = [spent(one) for one in own.values() if last_of(one["accuracy"]) is not None]
        # no joules where rows count them by different rules
        shown = [cost for cost in (took[0] if took else ()) if with_joules or cost != "joules"]
        costs = {cost: float(np.mean([one[cost] for one in took])) for cost in shown if cost != "rounds"}
        configs = group.configs
        return BoardRow(
            group.label,
            group.method,
            tuple(cells.get(each) for each in seeds),
            accuracy,
            accuracy.interval if accuracy else None,
            difference_so_far(own, other),
            self._unless_known(
                group.key,
                configs,
                lambda: printed([SessionData(self.folder, config=each) for each in configs]),
            ),
            {cost: each for cost, each in costs.items() if np.isfinite(each)},
        )


def difference_so_far(totals: Mapping[Seeds, Totals], baseline: Mapping[Seeds, Totals]) -> Difference | None:
    """The paired difference of the mean accuracies, each after the last round that both sessions have finished."""
    values, against = {}, {}
    for seeds in totals.keys() & baseline.keys():
        round = min(totals[seeds].rounds, baseline[seeds].rounds)
        own, other = (last_of(each["accuracy"][:round]) for each in (totals[seeds], baseline[seeds]))
        if own is not None and other is not None:
            values[seeds], against[seeds] = own, other
    return paired(dict(sorted(values.items())), against)


def _groups(points: Sequence[Placed], by: Sequence[str]) -> list[_Group]:
    """The points that differ only in their seeds, in the study's order."""
    found: dict[Key, _Group] = {}
    for each in points:
        point = each[0]
        key = tuple(_plain(point.axes.get(axis)) for axis in by)
        if key not in found:
            own = {axis: value for axis, value in zip(by, key, strict=True) if value is not None}
            method = str(point.config["method"]["name"])
            label = group_label([*own], tuple(own.values())) if own else method
            rest = tuple(pair for pair in own.items() if not pair[0].startswith(("method", "preset")))
            found[key] = _Group(key, label, method, rest, [])
        found[key].points.append(each)
    return list(found.values())


def _plain(value: object) -> object:
    return tuple(map(_plain, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Setting:
    """The sessions of a study that differ only in their seeds. points: the number of its points, begun or not."""

    name: str
    sessions: tuple[Summary, ...]
    points: int = 0

    @property
    def level(self) -> list[Summary]:
        """The sessions with the most rounds: a mean over different rounds would be that of none."""
        most = max((each.round or 0 for each in self.sessions), default=0)
        return [each for each in self.sessions if (each.round or 0) == most]

    @property
    def is_untrained(self) -> bool:
        """Whether every client of a session diverged in every round, so that a mean would hide the failure."""
        return any(each.untrained for each in self.sessions)

    @property
    def is_finished(self) -> bool:
        return 0 < self.points == sum(each.state == "finished" for each in self.sessions)

    @property
    def accuracy(self) -> float | None:
        """The mean over the sessions with the most rounds; None if one of the sessions has no score."""
        return None if self.is_untrained else _mean(each.accuracy for each in self.level)

    @property
    def best(self) -> float | None:
        return None if self.is_untrained else _mean(each.best for each in self.level)


@dataclass(frozen=True)
class StudySummary:
    """The progress of a study. sessions, settings: in the order of its points."""

    name: str
    path: str
    state: str
    points: int
    sessions: tuple[Summary, ...]
    linked: int = 0
    """Points that use the session of an identical run."""
    settings: tuple[Setting, ...] = ()
    is_tuning: bool = False

    @classmethod
    def of(cls, folder: Path, sessions: Sequence[Summary]) -> "StudySummary":
        """The study in a folder that has these sessions. The state of an unreadable one is 'damaged'."""
        try:
            placed = _placed(folder, {Path(each.path): Seen(each) for each in sessions})
            reader = GroupReader(folder)
            note = reader.owner() or {} if reader.alive() else {}
        except (SessionUnreadable, DiskError, OSError):
            return cls(folder.name, str(folder), "damaged", len(sessions), tuple(sessions))
        place = {point.name: number for number, (point, *_) in enumerate(placed)}
        ordered = sorted(sessions, key=lambda each: place.get(Path(each.path).name, len(place)))
        is_tuning = (folder / checkpoints.TUNING).exists()
        # most trials end before their last round
        shown = [each for each in placed if not is_tuning or each[0].is_final]
        ended = bool(shown) and all(cell.linked or cell.state == FINISHED for _, cell, _ in shown)
        settings: dict[str, list[Summary | None]] = {}
        for point, cell, seen in shown:
            name = ", ".join(
                str(value) if axis == "method" else f"{axis}={value}"
                for axis, value in point.axes.items()
                if axis not in (*SEEDS, "stage")
            )
            own = seen.summary if seen else None
            session = Summary.read(cell.folder) if cell.linked else own
            settings.setdefault(name, []).append(session)
        return cls(
            folder.name,
            str(folder),
            str(note.get("state", "finished" if ended else "stopped")),
            len(placed),
            tuple(ordered),
            sum(bool(cell.linked) for _, cell, _ in placed),
            tuple(
                Setting(name, tuple(one for one in each if one is not None), len(each))
                for name, each in settings.items()
            ),
            is_tuning,
        )

    @property
    def finished(self) -> int:
        return sum(each.state == "finished" for each in self.sessions) + self.linked

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.method for each in self.sessions if each.method))

    @property
    def dataset(self) -> str | None:
        """None if its sessions have several."""
        found = {each.dataset for each in self.sessions}
        return found.pop() if len(found) == 1 else None

    @property
    def ranked(self) -> list[Setting]:
        """The settings that can be compared: the finished ones, or the only one."""
        known = [each for each in self.settings if each.accuracy is not None]
        return [each for each in known if each.is_finished or len(self.settings) == 1]

    @property
    def best_setting(self) -> Setting | None:
        """The ranked setting with the highest accuracy, the first of equals."""
        return max(self.ranked, key=lambda each: each.accuracy or 0.0, default=None)

    @property
    def accuracy(self) -> float | None:
        """That of its best setting: a mean over several settings would be that of none."""
        return None if self.best_setting is None else self.best_setting.accuracy

    @property
    def best(self) -> float | None:
        return None if self.best_setting is None else self.best_setting.best

    @property
    def created(self) -> str | None:
        return min((each.created for each in self.sessions if each.created), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return fmean(known) if known else None
