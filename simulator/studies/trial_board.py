"""The trials of a tuning study as far as they are: their rungs, their scores on eval, and the best so far.

It needs no torch, so that the app shows them at once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simulator.base.nested import Raw
from simulator.base.sections import TrainingConfig
from simulator.base.space import Space, is_at_boundary, parsed
from simulator.config import limits_of
from simulator.methods.declarations import settings
from simulator.results.analysis.axes import spelled
from simulator.results.analysis.ledger import Totals
from simulator.studies.cells import Placed, PointCell
from simulator.studies.search import Request, Trial
from simulator.studies.trials import has_lost, read_request, score_of

Chosen = Mapping[str, Raw]
"""The values that the study has chosen, by method."""


@dataclass(frozen=True)
class TrialRow:
    """A trial. cells: by tuning seed. rung: the one that it works toward or has reached, from 1; upto: its last round.

    score: its mean eval accuracy there, or as far as it is, 0…1; None before the first. out: others were promoted.
    lost: a client diverged, so that it loses and has no score.
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
        """Its values."""
        return ", ".join(f"{key}={spelled(value)}" for key, value in self.values.items()) or "its own values"


@dataclass(frozen=True)
class TrialBoard:
    """The trials of all methods. seeds: the tuning seeds. budget, scored: what each method may try, and how it is
    scored, as sentences. chosen: the methods whose choice is made.
    """

    seeds: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    rungs: int
    budget: str
    scored: str
    chosen: tuple[str, ...]


class TrialReader:
    """Reads the trials of one study again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._request: Request | None = None
        self._boundaries: dict[str, tuple[Raw, tuple[str, ...]]] = {}

    def read(self, points: Sequence[Placed]) -> TrialBoard:
        """The trials, by the study's points. Raises SessionUnreadable or DiskError."""
        request = self._request = self._request or read_request(self._folder)
        found: dict[str, dict[int, dict[int, tuple[PointCell, Totals | None]]]] = {}
        values: dict[tuple[str, int], Raw] = {}
        chosen: dict[str, Raw] = {}
        for point, cell, seen in points:
            method, rest = str(point.axes["method"]), _values(point.axes)
            if "trial" not in point.axes:
                chosen[method] = rest
                continue
            number = int(point.axes["trial"])
            values[method, number] = rest
            totals = seen.totals if seen is not None and not cell.error else None
            found.setdefault(method, {}).setdefault(number, {})[int(point.axes["seed"])] = cell, totals
        rows: list[TrialRow] = []
        for method in request.methods:
            trials = [
                _Trial(Trial(method, number, values[method, number]), cells, request)
                for number, cells in sorted(found.get(method, {}).items())
            ]
            rows += self._marked(method, _rows(request, trials, chosen.get(method)), chosen.get(method))
        rungs = request.rungs(max((len(each) for each in found.values()), default=None))
        return TrialBoard(
            tuple(f"s{seed}" for seed in request.tuning_seeds),
            tuple(rows),
            len(rungs),
            _budget(request, rungs),
            _scored(request),
            tuple(chosen),
        )

    def _marked(self, method: str, rows: list[TrialRow], chosen: Raw | None) -> list[TrialRow]:
        """The rows with the best one marked: the chosen one, else the best of those that have come furthest."""
        known = [each for each in rows if each.score is not None]
        if chosen is not None:
            best = next((each for each in rows if each.values == chosen), None)
        else:
            best = max(
                known, key=lambda each: (not each.out, each.round >= each.upto, each.score), default=None
            )
        return [
            replace(each, is_best=True, boundary=self._boundary(method, each.values))
            if each is best
            else each
            for each in rows
        ]

    def _boundary(self, method: str, values: Raw) -> tuple[str, ...]:
        """Which values lie at the boundary of their ranges; none of a method of the user's that is not loaded."""
        before = self._boundaries.get(method)
        if before is None or before[0] != values:
            self._boundaries[method] = (
                values,
                boundary(self._request, method, values) if self._request else (),
            )
        return self._boundaries[method][1]


def boundary(request: Request, method: str, values: Raw) -> tuple[str, ...]:
    """The keys of values that lie at the boundary of their ranges. A method of the user's has only given ranges."""
    own = {f"method.{key}": each for key, each in settings(method).space.items()}
    training = {f"training.{key}": each for key, each in TrainingConfig.space.items()}
    space = {**training, **own, **dict(map(parsed, request.ranges))}
    return at_boundary(space, method, values)


def at_boundary(space: Space, method: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of values beyond which the space has nothing, and the setting may have more."""
    return tuple(
        key
        for key, value in values.items()
        if key in space and is_at_boundary(space[key], value, limits_of(key, method))
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    """A trial, and its sessions by tuning seed."""

    trial: Trial
    sessions: Mapping[int, tuple[PointCell, Totals | None]]
    request: Request

    @property
    def rounds(self) -> int:
        """The rounds that all of its sessions have finished."""
        each = [self.sessions.get(seed) for seed in self.request.tuning_seeds]
        return min(one[1].rounds if one is not None and one[1] is not None else 0 for one in each)

    @property
    def is_linked(self) -> bool:
        return any(cell.linked for cell, _ in self.sessions.values())

    def score(self, upto: int) -> float | None:
        """Its score after a round, or as far as it is; None if nothing was measured on eval."""
        known = [totals for _, totals in self.sessions.values() if totals is not None and totals.rounds]
        if not known or not any(np.isfinite(each["eval_accuracy"]).any() for each in known):
            return None
        return score_of(self.request, known, upto)

    def lost(self, upto: int) -> bool:
        """Whether a client diverged up to a round, so that it loses."""
        return has_lost(self.request, [each for _, each in self.sessions.values() if each is not None], upto)


def _rows(request: Request, trials: Sequence[_Trial], chosen: Raw | None) -> list[TrialRow]:
    """Each trial at its rung. A rung is over once all of its trials have reached it, or one has gone on."""
    rungs = request.rungs(len(trials))
    at: dict[int, int] = {}
    alive = list(trials)
    for place, (_, upto) in enumerate(rungs):
        at |= {each.trial.number: place for each in alive}
        over = chosen is not None or all(each.rounds >= upto for each in alive)
        if place + 1 == len(rungs) or not (
            over or any(each.rounds > upto and not each.is_linked for each in alive)
        ):
            break
        sound = [each for each in alive if not each.lost(upto)]
        alive = sorted(sound, key=lambda each: (-(each.score(upto) or 0.0), each.trial.number))[
            : rungs[place + 1][0]
        ]
    return [_row(request, each, at[each.trial.number], rungs, each in alive) for each in trials]


def _row(
    request: Request, each: _Trial, place: int, rungs: Sequence[tuple[int, int]], alive: bool
) -> TrialRow:
    upto = rungs[place][1]
    reached = min(each.rounds, upto)
    cells = tuple(
        None if seed not in each.sessions else each.sessions[seed][0] for seed in request.tuning_seeds
    )
    score = each.score(reached) if reached else None
    return TrialRow(
        each.trial.method,
        each.trial.number,
        dict(each.trial.values),
        cells,
        place + 1,
        upto,
        score,
        out=not alive,
        lost=each.lost(upto),
    )


def _values(axes: Raw) -> Raw:
    return {key: each for key, each in axes.items() if key not in ("method", "trial", "stage", "seed")}


def _budget(request: Request, rungs: Collection[tuple[int, int]]) -> str:
    if request.budget_flops is not None:
        number = f"{request.budget_flops:.2g} training FLOPs of trials"
    else:
        most = "up to " * (request.sampler == "grid")
        number = f"{most}{request.budget} trial{'s' * (request.budget != 1)}"
    steps = ", ".join(f"{count} to round {upto}" for count, upto in rungs)
    halving = (
        f", halving by {request.halving}: {steps}" if request.halving else f" of {request.rounds} rounds"
    )
    return f"Each method has {number}{halving}."


def _scored(request: Request) -> str:
    last = "the last round" if request.last == 1 else f"the last {request.last} rounds"
    return f"Trials are scored on eval, over {last} of seed {', '.join(map(str, request.tuning_seeds))}."
