"""The trials of a tuning study as it lists them: their sessions, their scores, and those that continue."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

import checkpoints
from checkpoints import TUNING, GroupReader, SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw
from simulator.results.analysis.ledger import Divergence, Totals
from simulator.results.analysis.overview import read_overview
from simulator.sessions.history import completed
from simulator.studies.folder import read_points
from simulator.studies.links import session_of
from simulator.studies.search import Request, Trial
from simulator.studies.study import Point

BEFORE = {"proportional": False, "diverged": "counts"}
"""The rules of studies that do not name theirs."""


class Trials:
    """What a study lists now, and what the files of its sessions say."""

    def __init__(self, folder: Path, request: Request) -> None:
        self._folder, self._request = folder, request
        listed = read_points(folder) if checkpoints.is_group(folder) else []
        self.points = {point.name: point for point in listed}

    def as_listed(self, point: Point) -> Point:
        """The point with its settings and its link, if the study lists it."""
        return self.points.get(point.name, point)

    def of(self, method: str) -> list[Trial]:
        """The trials of a method."""
        found: dict[int, Trial] = {}
        for point in self.points.values():
            if point.axes.get("method") == method and "trial" in point.axes:
                number = int(point.axes["trial"])
                values = {
                    key: each for key, each in point.axes.items() if key not in ("method", "trial", "seed")
                }
                found[number] = Trial(method, number, values)
        return [found[number] for number in sorted(found)]

    def chosen(self, method: str) -> Raw | None:
        """The values of a method's final points; None before the study lists them."""
        for point in self.points.values():
            if point.axes.get("method") == method and point.axes.get("stage") == "final":
                return {
                    key: each for key, each in point.axes.items() if key not in ("method", "stage", "seed")
                }
        return None

    @property
    def has_final(self) -> bool:
        """Whether the study lists final points, so that the choices of all methods are made."""
        return any(point.axes.get("stage") == "final" for point in self.points.values())

    def session(self, name: str) -> Path:
        """The folder of a point's session, which may be that of an identical run."""
        return session_of(self._folder, self.points[name]) if name in self.points else self._folder / name

    def sessions(self, trial: Trial) -> list[Path]:
        """The sessions of a trial, one for each tuning seed."""
        return [self.session(trial.name(seed)) for seed in self._request.tuning_seeds]

    def score(self, trial: Trial, upto: int) -> float | None:
        """A trial's score after a round: the mean over the tuning seeds of the mean eval accuracy of the last rounds.

        At a rung, these are fewer in proportion: a trial's first rounds say little about its end. A round without an
        accuracy counts as 0. None if a client diverged, so that the trial loses. Raises ConfigError where nothing was
        measured on eval.
        """
        return score_of(self._request, list(map(_totals, self.sessions(trial))), upto)

    def best(self, trials: Sequence[Trial], upto: int) -> list[Trial]:
        """The trials that have a score, the best first; of equals the earlier."""
        scores = {trial.number: self.score(trial, upto) for trial in trials}
        known = [
            (-score, trial.number, trial) for trial in trials if (score := scores[trial.number]) is not None
        ]
        return [trial for _, _, trial in sorted(known, key=lambda each: each[:2])]

    def choice(self, trials: Sequence[Trial]) -> Trial | None:
        """The best trial of the highest rung with one that has not lost since; None if all have lost."""
        lost = self.lost(trials)
        for _, upto in reversed(self._request.rungs(len(trials))):
            for best in self.best(self.survivors(trials, upto), upto):
                if best not in lost:
                    return best
        return None

    def lost(self, trials: Sequence[Trial]) -> list[Trial]:
        """The trials that a diverged client made lose."""
        reached = self.reached(trials)
        return [
            each
            for each in trials
            if has_lost(self._request, list(map(_totals, self.sessions(each))), reached[each.number])
        ]

    def survivors(self, trials: Sequence[Trial], upto: int) -> list[Trial]:
        """The trials that run to the rung at a round, by number. All trials before it must be at their rungs."""
        alive = list(trials)
        for (_, before), (count, at) in pairwise(self._request.rungs(len(trials))):
            if at <= upto:
                alive = sorted(self.best(alive, before)[:count], key=lambda each: each.number)
        return alive

    def reached(self, trials: Sequence[Trial]) -> dict[int, int]:
        """The round of the highest rung of each trial, by number. All of them are over."""
        found: dict[int, int] = {}
        for _, upto in self._request.rungs(len(trials)):
            found |= dict.fromkeys((each.number for each in self.survivors(trials, upto)), upto)
        return found

    def spent(self, trials: Sequence[Trial]) -> tuple[int, float]:
        """The rounds and FLOPs of a method's trials, all of which are over.

        Of a linked session, only the rounds of the trial's rungs count.
        """
        reached = self.reached(trials)
        flops = [
            read_overview(session).totals["flops"][: reached[trial.number]]
            for trial in trials
            for session in self.sessions(trial)
        ]
        return sum(map(len, flops)), math.fsum(float(np.nansum(each)) for each in flops)


def read_request(folder: Path) -> Request:
    """The request of a tuning study. Raises SessionUnreadable if there is none, and DiskError."""
    try:
        raw = json.loads(GroupReader(folder).document(TUNING))
        raw = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
        if "profile" in raw["base"]:  # a whole configuration: its next points run as those of before
            raw["base"] = completed(raw["base"])
        return Request(**BEFORE | raw)
    except (FileNotFoundError, SessionUnreadable):
        raise SessionUnreadable(f"{folder} is no tuning study: it has no {TUNING}.") from None
    except (ValueError, TypeError, KeyError) as invalid:
        raise checkpoints.Damaged(
            f"{folder / TUNING} is not what htfl-sim wrote: {invalid}. Restore it from a backup."
        ) from invalid


def rounds_of(session: Path) -> int:
    """The finished rounds of a session; 0 if there is none."""
    return read_overview(session).totals.rounds if checkpoints.is_session(session) else 0


def score_of(request: Request, sessions: Sequence[Totals], upto: int) -> float | None:
    """The score of a trial after a round, from its sessions, one for each tuning seed. None if it loses."""
    if has_lost(request, sessions, upto):
        return None
    last = request.last_at(upto)
    return math.fsum(each.score(last, upto) for each in sessions) / len(sessions)


def has_lost(request: Request, sessions: Sequence[Totals], upto: int) -> bool:
    """Whether a client diverged in a trial up to a round, and the study lets such trials lose."""
    return request.diverged == "loses" and any(Divergence.of(each, upto) for each in sessions)


def _totals(session: Path) -> Totals:
    totals = read_overview(session).totals
    if (
        not np.isfinite(totals["eval_accuracy"]).any()
        and totals.rounds
        and not np.isnan(totals["accuracy"]).all()
    ):
        raise ConfigError(
            f"{session.name} has no eval accuracy, and tuning must not look at test data. Begin another study, whose "
            "split has an eval part: `data.split=8:1:1`."
        )
    return totals
