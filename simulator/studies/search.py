"""What a tuning study asks for, the trials that are proposed for it, and their scores.

Latin hypercubes and random draws are the same points of a unit cube for all methods. Its first axes are the settings
of training, so all methods try the same learning rates, and none is lucky. So do grids. TPE is Optuna's.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

import checkpoints
from checkpoints import TUNING, GroupReader, SessionUnreadable
from simulator import methods
from simulator.base.errors import ConfigError, nearest
from simulator.base.extras import library
from simulator.base.nested import Raw
from simulator.base.sections import Choice, Linear, Log, MethodConfig, Range, TrainingConfig, range_of
from simulator.results.analysis.axes import TRIAL
from simulator.results.analysis.ledger import Divergence, Totals
from simulator.results.analysis.overview import read_overview
from simulator.sessions.history import completed
from simulator.studies.folder import read_points, session_of
from simulator.studies.study import Point

BATCH = 5
"""Trials that TPE proposes at a time: it learns from the batches before."""

SEED = 20
"""Default of the seed of all draws of a search. Tuning and final seeds are those of the sessions."""

Diverged = Literal["loses", "counts"]
Sampler = Literal["latin", "random", "grid", "tpe"]
SAMPLERS: tuple[Sampler, ...] = ("latin", "random", "grid", "tpe")


@dataclass(frozen=True)
class Request:
    """What a tuning study asks for; tuning.json has it.

    base: the study's settings; its section `method` holds values that are fixed for the methods that have such a key.
    budget: trials of each method. budget_flops: in place of `budget`, training FLOPs of the trials of each method.
    keys: the settings or sections to search; none: all that the method and training declare. ranges: by key, in place
    of the declared ones. halving: of each rung the best 1/halving continue; None: all trials run all rounds. last:
    rounds over whose mean a trial is scored. separate: trials and final runs draw their samples from two disjoint parts
    of the data set (`data.pool`). search_seed: of all draws of the search.
    """

    base: Raw
    methods: tuple[str, ...]
    rounds: int
    budget: int = 10
    sampler: Sampler = "latin"
    halving: int | None = None
    keys: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    tuning_seeds: tuple[int, ...] = (1000,)
    seeds: tuple[int, ...] = (0, 1, 2)
    last: int = 1
    separate: bool = False
    budget_flops: float | None = None
    proportional: bool = True
    """Whether rungs are scored over fewer last rounds, in proportion. Studies of before have False."""
    diverged: Diverged = "loses"
    """Whether a trial in which a client diverged loses, or counts by its score. In studies of before, it counts."""
    search_seed: int = SEED

    def checked(self) -> "Request":
        """The request, if it can be carried out. Raises ConfigError."""
        if self.sampler not in SAMPLERS:
            raise ConfigError(
                f"There is no sampler '{self.sampler}'.{nearest(self.sampler, SAMPLERS)} Use {', '.join(SAMPLERS)}."
            )
        if both := sorted({*self.tuning_seeds} & {*self.seeds}):
            raise ConfigError(f"Seed {both[0]} is a tuning seed and a final seed. Tune with other seeds.")
        if not self.tuning_seeds or not self.seeds or not self.methods:
            raise ConfigError("Tuning needs at least one method, one tuning seed, and one final seed.")
        if self.diverged not in (allowed := get_args(Diverged)):
            raise ConfigError(
                f"`diverged={self.diverged}` is not a rule for diverged trials. Use {' or '.join(allowed)}."
            )
        if self.search_seed < 0:
            raise ConfigError(f"`search_seed={self.search_seed}` is no seed. Use 0 or more.")
        if self.budget < 1 or self.last < 1:
            raise ConfigError("The budget and the number of last rounds are at least 1.")
        if self.budget_flops is not None and not 0 < self.budget_flops < math.inf:
            raise ConfigError("The budget of FLOPs is a number above 0.")
        if self.budget_flops is not None and self.sampler in ("tpe", "latin"):
            reason = {
                "tpe": "TPE proposes trials by the scores of earlier ones, so the FLOPs of all are not known before",
                "latin": "a Latin hypercube needs the number of trials before their FLOPs are known",
            }[self.sampler]
            raise ConfigError(f"A budget of FLOPs needs another sampler: {reason}. Use `sampler='random'`.")
        if self.halving is not None and self.halving < 2:
            raise ConfigError("Halving keeps one of 2 trials or more. Use `halving=3`.")
        return self

    def rungs(self, trials: int | None = None) -> list[tuple[int, int]]:
        """9 `trials` by 3 to 30 rounds: (9, 4), (3, 10), (1, 30). By FLOPs or on a grid, they may be fewer."""
        counted = self.budget_flops is not None or self.sampler == "grid"
        budget = trials if counted and trials else self.budget
        if self.halving is None:
            return [(budget, self.rounds)]
        steps = min(
            int(math.log(budget, self.halving) + 1e-9), int(math.log(self.rounds, self.halving) + 1e-9)
        )
        return [
            (math.ceil(budget / self.halving**step), math.ceil(self.rounds / self.halving ** (steps - step)))
            for step in range(steps + 1)
        ]

    def last_at(self, upto: int) -> int:
        """The last rounds over which a trial is scored after a round: at rungs, fewer in proportion, at least one."""
        return max(1, math.ceil(self.last * upto / self.rounds)) if self.proportional else self.last

    def space(self, method: str) -> dict[str, Range]:
        """The ranges of a method by dotted key, its own and training's. Raises ConfigError for an unknown key."""
        own = {f"method.{key}": each for key, each in _config(method).space.items()}
        training = {f"training.{key}": each for key, each in TrainingConfig.space.items()}
        asked, given = self.base.get("training", {}), dict(map(range_of, self.ranges))
        if asked.get("optimizer", "sgd") != "sgd":
            del training["training.momentum"]
        if "training.steps" in given or asked.get("steps") is not None:
            del training["training.epochs"]
        known = {**training, **own}
        every = {f"method.{key}" for name in self.methods for key in _config(name).model_fields}
        for key in self.keys:
            if key not in {*known, *every, *given, "method", "training"}:
                raise ConfigError(
                    f"Nothing is known to search for '{key}'.{nearest(key, known)} Give a range for it."
                )
        has = {f"method.{key}" for key in _config(method).model_fields}
        mine = {key: each for key, each in given.items() if not key.startswith("method.") or key in has}
        fixed = {f"method.{key}" for key in self.base.get("method", {})}
        wanted = self.keys or ("method", "training")
        return {
            key: each
            for key, each in sorted({**known, **mine}.items(), key=lambda each: each[0].startswith("method."))
            if key in mine or (key not in fixed and (key in wanted or key.partition(".")[0] in wanted))
        }

    def fixed(self, method: str) -> Raw:
        fields = _config(method).model_fields
        return {key: each for key, each in self.base.get("method", {}).items() if key in fields}


def _config(method: str) -> type[MethodConfig]:
    return methods.declared(method).Config


@dataclass(frozen=True)
class Trial:
    """Values that were tried. values: by dotted key; none for the first trial, which has the values without tuning."""

    method: str
    number: int
    values: Mapping[str, Any] = field(hash=False)

    def name(self, seed: int) -> str:
        return f"{self.method}-t{self.number:02d}-s{seed}"


def proposed(request: Request, method: str, scores: Sequence[float], own: Raw | None = None) -> list[Trial]:
    """A method's trials: all, or TPE's so far and a batch, by `scores` and the first's settings. Raises ConfigError."""
    space = request.space(method)
    match request.sampler:
        case _ if not space:
            values = []
        case "grid":
            values = _grid(request, space)
        case "tpe":
            values = _by_tpe(request, space, scores, own or {})
        case _:
            values = [_placed(space, point) for point in _points(request)]
    return [Trial(method, 0, {}), *(Trial(method, number, each) for number, each in enumerate(values, 1))]


def _points(request: Request) -> list[list[float]]:
    """Points of the unit cube for all trials but the first, the same for all methods. [budget − 1, axes]"""
    axes = max(len(request.space(method)) for method in request.methods)
    if request.sampler == "latin":
        from scipy.stats.qmc import LatinHypercube

        cube = LatinHypercube(axes, seed=np.random.default_rng(request.search_seed))
        points: list[list[float]] = cube.random(request.budget - 1).tolist()
        return points
    optuna = _optuna()
    unit = {str(axis): optuna.distributions.FloatDistribution(0, 1) for axis in range(axes)}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=request.search_seed))
    return [list(study.ask(unit).params.values()) for _ in range(request.budget - 1)]


def _placed(space: Mapping[str, Range], point: Sequence[float]) -> Raw:
    return {key: _at(each, place) for (key, each), place in zip(space.items(), point, strict=False)}


def _at(range: Range, place: float) -> Any:
    """The value of a range at a place from 0 to 1, with four digits, as tables print it."""
    match range:
        case Choice(options):
            return options[min(int(place * len(options)), len(options) - 1)]
        case Log(low, high):
            return _rounded(low * (high / low) ** place)
        case Linear(low, high):
            return _rounded(low + (high - low) * place)


def _grid(request: Request, space: Mapping[str, Range]) -> list[Raw]:
    """All choices, and three even steps of the other ranges. Each point comes once.

    The values that all methods have come in one order for all of them. Once each has come, they come again in that
    order, with other values of the method's own.
    """
    grid = {
        key: list(each.options) if isinstance(each, Choice) else [_at(each, place) for place in (0, 0.5, 1)]
        for key, each in space.items()
    }
    shared, own = (
        {key: each for key, each in grid.items() if key.startswith("method.") == is_own}
        for is_own in (False, True)
    )
    draws = np.random.default_rng(request.search_seed)
    order = draws.permutation(math.prod(map(len, shared.values())))
    start = int(draws.integers(2**32))
    found, owns = list[Raw](), math.prod(map(len, own.values()))
    for number in range(min(request.budget - 1, len(order) * owns)):
        turn, place = divmod(number, len(order))
        own_order = np.random.default_rng([start, place]).permutation(owns)
        found.append(_of_grid(shared, int(order[place])) | _of_grid(own, int(own_order[turn])))
    return found


def _of_grid(grid: Mapping[str, Sequence[Any]], number: int) -> Raw:
    """The point of a grid with this number: the last key changes first."""
    values: Raw = {}
    for key, options in reversed(list(grid.items())):
        number, place = divmod(number, len(options))
        values[key] = options[place]
    return {key: values[key] for key in grid}


def _by_tpe(request: Request, space: Mapping[str, Range], scores: Sequence[float], own: Raw) -> list[Raw]:
    """TPE's trials: a random batch, the same for all methods, then batches that learn from those before."""
    optuna = _optuna()
    kinds, distributions, known = optuna.distributions, Raw(), Raw()
    for key, each in space.items():
        value = own.get(key)
        if isinstance(each, Choice):
            distributions[key] = kinds.CategoricalDistribution(
                [json.dumps(option) for option in each.options]
            )
            if value in each.options:
                known[key] = json.dumps(each.options[each.options.index(value)])
        else:
            distributions[key] = kinds.FloatDistribution(each.low, each.high, log=isinstance(each, Log))
            if isinstance(value, int | float) and each.low <= value <= each.high:
                known[key] = float(value)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=request.search_seed, n_startup_trials=BATCH),
    )
    if scores:  # it learns from the first trial too, by those of its values that lie within their ranges
        of_known = {key: distributions[key] for key in known}
        study.add_trial(optuna.trial.create_trial(params=known, distributions=of_known, value=scores[0]))
    zeroth = len(study.trials) - 1
    for point in _points(request)[: BATCH - 1]:
        first = _placed(space, point)
        study.enqueue_trial(
            {key: json.dumps(each) if isinstance(space[key], Choice) else each for key, each in first.items()}
        )
    values = []
    for number in range(1, min(request.budget, len(scores) + BATCH)):
        if number % BATCH == 0:
            for before in range(max(1, number - BATCH), number):
                study.tell(zeroth + before, scores[before])
        params = study.ask(distributions).params
        values.append(
            {
                key: json.loads(each) if isinstance(space[key], Choice) else _rounded(each)
                for key, each in params.items()
            }
        )
    return values


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _optuna() -> Any:
    optuna = library("optuna", "tune")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def values_of(point: Point) -> Raw:
    """The searched values of a point: its axes but for those that name it."""
    return {key: each for key, each in point.axes.items() if key not in ("method", "trial", "stage", "seed")}


Score = Callable[[Trial, int], float | None]
"""The score of a trial after a round; None if it loses."""


def _best(trials: Iterable[Trial], score: Score, upto: int) -> list[Trial]:
    known = [(found, each) for each in trials if (found := score(each, upto)) is not None]
    return [each for _, each in sorted(known, key=lambda pair: (-pair[0], pair[1].number))]


def climbed(
    request: Request, trials: Sequence[Trial], score: Score, is_over: Callable[[Sequence[Trial], int], bool]
) -> tuple[dict[int, int], list[Trial]]:
    """Each trial's rung by number, and the trials at the highest. is_over: whether all have reached a rung's round."""
    rungs, alive = request.rungs(len(trials)), list(trials)
    at = dict.fromkeys((each.number for each in alive), 0)
    for place, ((_, upto), (count, _)) in enumerate(pairwise(rungs), 1):
        if not is_over(alive, upto):
            break
        alive = sorted(_best(alive, score, upto)[:count], key=lambda each: each.number)
        at |= dict.fromkeys((each.number for each in alive), place)
    return at, alive


def totals_on_eval(session: Path) -> Totals:
    """Of the rounds of a trial's session. Raises ConfigError if it was not evaluated on eval."""
    totals = read_overview(session).totals
    measured = np.isfinite(totals["eval_accuracy"]).any()
    if totals.rounds and not measured and not np.isnan(totals["accuracy"]).all():
        raise ConfigError(
            f"{session.name} has no eval accuracy, and tuning must not look at test data. Begin another study, whose "
            "split has an eval part: `data.split=8:1:1`."
        )
    return totals


class Trials:
    """What a study lists now, and what the ledgers of its sessions say, which `read` reads."""

    def __init__(
        self, folder: Path, request: Request, read: Callable[[Path], Totals] = totals_on_eval
    ) -> None:
        self._folder, self.request, self._read = folder, request, read
        listed = read_points(folder) if checkpoints.is_group(folder) else ()
        self.points = {point.name: point for point in listed}

    def as_listed(self, points: Iterable[Point]) -> tuple[Point, ...]:
        return tuple(self.points.get(point.name, point) for point in points)

    def of(self, method: str) -> list[Trial]:
        found = {
            int(point.axes[TRIAL]): values_of(point)
            for point in self.points.values()
            if point.axes.get("method") == method and TRIAL in point.axes
        }
        return [Trial(method, number, found[number]) for number in sorted(found)]

    @property
    def finals(self) -> dict[str, Point]:
        """A final point of each method that has one. Once the study lists some, the choices of all methods are made."""
        return {point.axes["method"]: point for point in self.points.values() if point.is_final}

    def session(self, name: str) -> Path:
        """Of a point; it may be that of an identical run."""
        return session_of(self._folder, self.points[name]) if name in self.points else self._folder / name

    def sessions(self, trial: Trial) -> list[Path]:
        """One for each tuning seed."""
        return [self.session(trial.name(seed)) for seed in self.request.tuning_seeds]

    def totals(self, trial: Trial) -> list[Totals]:
        """One for each tuning seed. Raises ConfigError without eval."""
        return list(map(self._read, self.sessions(trial)))

    def score(self, trial: Trial, upto: int) -> float | None:
        """Mean eval accuracy of the last rounds, over seeds; None if it loses. Raises ConfigError without eval."""
        return score_of(self.request, self.totals(trial), upto)

    def choice(self, trials: Sequence[Trial]) -> Trial | None:
        """The best trial of the highest rung with one that has not lost since; None if all have lost."""
        lost = self.lost(trials)
        for _, upto in reversed(self.request.rungs(len(trials))):
            for best in _best(self.survivors(trials, upto), self.score, upto):
                if best not in lost:
                    return best
        return None

    def lost(self, trials: Sequence[Trial]) -> list[Trial]:
        reached = self.reached(trials)
        return [each for each in trials if has_lost(self.request, self.totals(each), reached[each.number])]

    def survivors(self, trials: Sequence[Trial], upto: int) -> list[Trial]:
        """The trials that run to the rung at a round, by number. All trials before it must be at their rungs."""
        return climbed(self.request, trials, self.score, lambda _, at: at < upto)[1]

    def reached(self, trials: Sequence[Trial]) -> dict[int, int]:
        """The round of the highest rung of each trial, by number. All of them are over."""
        rungs = self.request.rungs(len(trials))
        places, _ = climbed(self.request, trials, self.score, lambda *_: True)
        return {number: rungs[place][1] for number, place in places.items()}

    def spent(self, trials: Sequence[Trial]) -> tuple[int, float]:
        """The rounds and FLOPs of a method's trials, all of which are over. Of a linked session, those of its rungs."""
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
        before = {"proportional": False, "diverged": "counts"}  # of studies that do not name their rules
        return Request(**before | raw)
    except (FileNotFoundError, SessionUnreadable):
        raise SessionUnreadable(f"{folder} is no tuning study: it has no {TUNING}.") from None
    except (ValueError, TypeError, KeyError) as invalid:
        raise checkpoints.Damaged(
            f"{folder / TUNING} is not what htfl-sim wrote: {invalid}. Restore it from a backup."
        ) from invalid


def rounds_of(session: Path) -> int:
    return read_overview(session).totals.rounds if checkpoints.is_session(session) else 0


def score_of(request: Request, sessions: Sequence[Totals], upto: int) -> float | None:
    """After a round, from a trial's sessions, one for each tuning seed. None if it loses."""
    if has_lost(request, sessions, upto):
        return None
    last = request.last_at(upto)
    return math.fsum(each.score(last, upto) for each in sessions) / len(sessions)


def has_lost(request: Request, sessions: Sequence[Totals], upto: int) -> bool:
    return request.diverged == "loses" and any(Divergence.of(each, upto) for each in sessions)
