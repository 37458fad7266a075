"""Tuning: a study that searches each method's hyper-parameters with the same budget, then runs the chosen values.

Trials are scored on the clients' eval parts, never on test data, with seeds of their own. Each method's first trial has
the values that it has without tuning. With halving, all trials run to a first rung, and the best continue from their
checkpoints, so no round is computed twice. A trial is promoted once all trials of its rung are there, so the choice
depends neither on the order in which points finish, nor on a stop in between.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import checkpoints
from checkpoints import TUNING, SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, flattened, merged, with_values
from simulator.base.sections import Choice, Log
from simulator.base.units import amount
from simulator.config import Config
from simulator.results.analysis.axes import TRIAL, MeanStd
from simulator.results.analysis.caveats import listed as named
from simulator.results.analysis.comparison import outcome
from simulator.results.analysis.ledger import NO_SESSION, Divergence
from simulator.results.analysis.overview import read_overview
from simulator.studies import slurm
from simulator.studies.board import at_boundary
from simulator.studies.checking import Builder, check, needed, rate_of
from simulator.studies.executor import Here, Launch
from simulator.studies.folder import (
    FINISHED,
    STUDY,
    read_points,
    read_study,
    refuse_damaged,
    run_key,
    status_of,
    text_of,
)
from simulator.studies.search import (
    BATCH,
    Request,
    Trial,
    Trials,
    proposed,
    read_request,
    rounds_of,
    values_of,
)
from simulator.studies.study import Point, StudySpec
from simulator.studies.sweep import (
    HERE,
    Observer,
    Plan,
    Sweep,
    SweepResult,
    backend,
    check_code,
    load,
)

if TYPE_CHECKING:
    from simulator.results.figures.sensitivity import Tried


_MOST = 8
MOST = 1024
"""Proposed trials of a method, so that a budget is no endless search."""
_WITHOUT_FLOPS = ("training.clip", "training.momentum")
"""Choices that change no counted operation."""


@dataclass(frozen=True)
class Tuned:
    """A method after tuning. score: of the chosen trial, on eval, 0…1. trials, rounds, flops: what its tuning took.

    boundary: chosen values at the boundary of their ranges. final: the final seeds' test accuracies; None before the
    end, and if one has no score. lost: trials in which a client diverged; if these are all, number and score are None.
    """

    method: str
    number: int | None
    trials: int
    rounds: int
    flops: float
    values: Raw
    score: float | None
    boundary: tuple[str, ...]
    final: MeanStd | None
    lost: int = 0
    diverged: Divergence = NO_SESSION


@dataclass(frozen=True)
class Step:
    """Points that run next, and the round up to which they do."""

    points: tuple[Point, ...]
    upto: int
    trials: bool = True


def tune(
    folder: Path,
    request: Request | None,
    launch: Launch,
    jobs: int | None = None,
    observe: Observer = lambda statuses: None,
    stop: Callable[[], str | None] = lambda: None,
    waiting: Callable[[], bool] = lambda: True,
    on: str = HERE,
    say: Callable[[str], None] = lambda warning: None,
    *,
    steal: bool = False,
) -> SweepResult:
    """Run, or continue, a tuning study until all is done or `stop` returns a reason. None: the request that is there.

    `say` receives, once each, notes about settings without effect, and warnings of trials. Raises ConfigError for
    another request, one that cannot be carried out, and trials without an eval accuracy; SessionError if other code
    made the finished trials; SessionUnreadable if there is no such study, or a trial is damaged; Locked, and DiskError.
    """
    request, launch = agreed(folder, request, launch)
    result = SweepResult(())
    once = cache(say)  # each step begins the executor and its trials anew
    for step in steps(folder, request, launch.data_dir):
        planned = plan_of(folder, request, step, launch)
        there = [each for each in step.points if status_of(folder, each).round >= step.upto]
        if len(there) < len(step.points):
            check_code(folder, there, once, "choose another name for the study")
        kind = backend(on) if len(there) < len(step.points) else Here
        last = request.last_at(step.upto) if step.trials else 0
        reuse = launch.reuse if on == HERE else False
        going = replace(launch, upto=step.upto, last=last, reuse=reuse)
        with kind(step.points, going, jobs) as place, planned.open(waiting, steal=steal) as group:
            for warning in place.warnings:
                once(warning)
            group.write({TUNING: text_of(asdict(request))})
            result = Sweep(group, planned, step.points, place, going, observe, once).run(stop)
            failed = [each for each in result.failed if not (step.trials and each.diverged)]
            over = not result.reason and not failed
            group.close("finished" if over else "stopped")
        if not over:
            return result
        # with the links that the sweep wrote
        refuse_damaged(folder, Trials(folder, request).as_listed(step.points))
    return result


def write_slurm(
    folder: Path, request: Request | None, launch: Launch, jobs: int | None, gpus: bool
) -> slurm.Written:
    """Write a tuning study with its first points, and the script of its job. Raises as `tune`, and if Slurm cannot."""
    request, launch = agreed(folder, request, launch)
    first = next(steps(folder, request, launch.data_dir))
    slurm.check(folder, first.points)
    with plan_of(folder, request, first, launch).open() as group:
        group.write({TUNING: text_of(asdict(request))})
        written = slurm.write(group, first.points, launch, jobs, gpus, tunes=True)
        group.close("stopped")
    return written


@dataclass(frozen=True)
class Forecast:
    """Trials with the FLOPs of a round, rungs, FLOPs and seconds that are left; `unknown` trials depend on scores."""

    request: Request
    trials: tuple[tuple[Trial, float], ...]
    rungs: Mapping[str, Sequence[tuple[int, int]]]
    flops: float
    seconds: float
    unknown: int


def forecast(folder: Path, request: Request | None, launch: Launch) -> Forecast:
    """Trials that are not known cost the mean of their method, and so do final runs. Raises as `tune`."""
    request, launch = agreed(folder, request, launch)
    listed, step = Trials(folder, request), next(steps(folder, request, launch.data_dir))
    points = list(listed.points.values()) or list(step.points)
    listed.points = {point.name: point for point in [*step.points, *points]}
    flops_of = counting(request, folder.parent, launch.data_dir)
    trials, rungs, total = list[tuple[Trial, float]](), {}, 0.0
    for method in request.methods:
        own = listed.of(method)
        costs = [flops_of(each) for each in own]
        mean = math.fsum(costs) / len(costs)
        trials += zip(own, costs, strict=True)
        if request.sampler == "tpe":
            costs += [mean] * (request.budget - len(costs))
        rungs[method] = request.rungs(len(costs))
        finals = [rounds_of(listed.session(f"{method}-s{seed}")) for seed in request.seeds]
        if not listed.finals:
            ran = [[rounds_of(session) for session in listed.sessions(each)] for each in own]
            total += left(request, costs, ran)
        if not listed.finals or method in listed.finals:
            total += mean * sum(max(request.rounds - each, 0) for each in finals)
    statuses = [status_of(folder, each) for each in points]
    rate = rate_of(folder, points, statuses, launch.data_dir)
    known = {method: sum(each.method == method for each, _ in trials) for method in request.methods}
    unknown = request.budget - max(known.values()) if request.sampler == "tpe" else 0
    return Forecast(request, tuple(trials), rungs, total, total / rate, unknown)


def agreed(folder: Path, request: Request | None, launch: Launch) -> tuple[Request, Launch]:
    """The request to carry out, and the launch with the study's files, loaded. Raises as `tune`."""
    if not checkpoints.is_group(folder):
        if request is None:
            raise SessionUnreadable(f"There is no tuning study {folder}. Name its methods to begin one.")
        request = request.checked()
        load(folder, launch.files, ())
        check(_checkable(request), folder.parent, launch.data_dir, on_eval=True)
        return request, launch
    before = read_request(folder)
    if request is not None and request.checked() != before:
        mine, theirs = (flattened(asdict(each)) for each in (before, request))
        differs = [
            f"{key.removeprefix('base.')} {mine.get(key)!r} → {theirs.get(key)!r}"
            for key in dict.fromkeys([*mine, *theirs])
            if mine.get(key) != theirs.get(key)
        ]
        differs[_MOST:] = [f"and {len(differs) - _MOST} more"] if len(differs) > _MOST else []
        raise ConfigError(
            f"The tuning study {folder.name} exists with another request ({'; '.join(differs)}). Choose another "
            "name, or name the study alone to continue it."
        )
    launch = replace(launch, files=read_study(folder).files.confirmed(launch.files, folder / STUDY))
    load(folder, launch.files, read_points(folder))
    return before, launch


def _checkable(request: Request) -> Iterator[Point]:
    """Points that fail if a later one must. Raises ConfigError if a range has a value that is not possible."""
    seed = request.tuning_seeds[0]
    for method in request.methods:
        yield _point(request, Trial(method, 0, {}), seed)
        if request.separate:
            yield _point(request, Trial(method, 0, {}), request.seeds[0], final=True)
        for key, each in request.space(method).items():
            ends = each.options if isinstance(each, Choice) else (each.low, each.high)
            points = [_point(request, Trial(method, 0, {key: value}), seed) for value in ends]
            if isinstance(each, Choice) and not key.startswith("training."):
                yield from points


def plan_of(folder: Path, request: Request, step: Step, launch: Launch) -> Plan:
    listed = Trials(folder, request).points
    points = {**listed, **{point.name: point for point in step.points}}
    spec = StudySpec(
        config=request.base, over={"method": request.methods, "seed": request.seeds}, files=launch.files
    )
    return Plan(folder, spec, tuple(points.values()), listed=points == listed)


def steps(folder: Path, request: Request, data_dir: Path) -> Iterator[Step]:
    """In order, each for all methods; ask for the next once those before are done. Counts a budget of FLOPs first."""
    listed = Trials(folder, request)

    def step(trials: Mapping[str, Sequence[Trial]], upto: int) -> Step:
        every = (trial for each in trials.values() for trial in each)
        points = (_point(request, trial, seed) for trial in every for seed in request.tuning_seeds)
        return Step(listed.as_listed(points), upto)

    alive: dict[str, list[Trial]] = {method: [] for method in request.methods}
    first = request.rungs()[0][1]
    if request.sampler == "tpe":
        before: dict[str, list[Trial]] = dict(alive)
        for _ in range(0, request.budget, BATCH):
            for method in alive:
                scores = [listed.score(each, first) or 0.0 for each in firsts(request, before[method])]
                own = flattened(_point(request, Trial(method, 0, {}), request.tuning_seeds[0]).config)
                # the values that the study lists: another version of Optuna may propose others
                known = {each.number: each for each in listed.of(method)}
                trials = proposed(request, method, scores, own)
                before[method] = [known.get(trial.number, trial) for trial in trials]
                alive[method] = list(dict.fromkeys(firsts(request, before[method])))
            yield step(alive, first)
            listed = Trials(folder, request)
    else:
        for method in alive:
            alive[method] = listed.of(method) or _begun(folder, request, method, data_dir)
    rungs = {method: [upto for _, upto in request.rungs(len(trials))] for method, trials in alive.items()}
    for upto in sorted({each for uptos in rungs.values() for each in uptos}):
        if request.sampler == "tpe" and upto == first:
            continue  # its batches have run
        at_work = {method: trials for method, trials in alive.items() if upto in rungs[method]}
        yield step({method: listed.survivors(trials, upto) for method, trials in at_work.items()}, upto)
        listed = Trials(folder, request)
    choices = {method: listed.choice(trials) for method, trials in alive.items()}
    chosen = [trial for trial in choices.values() if trial is not None]
    if not chosen:
        raise ConfigError(
            f"A client diverged in every trial of {named([*choices])}, so {folder.name} chooses nothing. Begin "
            "a study of another name with lower learning rates, as `ranges='training.lr=log:0.0001:0.01'`."
        )
    final = (_point(request, trial, seed, final=True) for trial in chosen for seed in request.seeds)
    yield Step(listed.as_listed(final), request.rounds, trials=False)


def _begun(folder: Path, request: Request, method: str, data_dir: Path) -> list[Trial]:
    """The trials of a method that all begin at once: each setting once, within the budget."""
    if request.budget_flops is None:
        return list(dict.fromkeys(firsts(request, proposed(request, method, []))))

    def every() -> Iterator[Trial]:
        many, known = 32, set[Trial]()
        while many <= MOST:
            trials = firsts(request, proposed(replace(request, budget=many), method, []))
            yield from (each for each in dict.fromkeys(trials) if each not in known)
            known |= {*trials}
            many = 2 * many if request.space(method) else MOST + 1

    return affordable(request, every(), counting(request, folder.parent, data_dir))


def firsts(request: Request, trials: Sequence[Trial]) -> list[Trial]:
    """For each trial the first one with the same settings, whose score it has too. Only first ones are computed."""
    found: dict[bytes | None, Trial] = {}
    return [
        found.setdefault(run_key(_point(request, each, request.tuning_seeds[0])), each) for each in trials
    ]


def tuned(folder: Path) -> list[Tuned]:
    """Each method's result, in order; none until its choice is made. Raises SessionUnreadable, and DiskError."""
    request = read_request(folder)
    listed = Trials(folder, request)
    chosen, found = listed.finals, list[Tuned]()
    for method in request.methods if chosen else ():
        trials = listed.of(method)
        spent = listed.spent(trials)
        if method not in chosen:  # all of its trials have lost
            found.append(Tuned(method, None, len(trials), *spent, {}, None, (), None, len(trials)))
            continue
        best = next(trial for trial in trials if trial.values == values_of(chosen[method]))
        finals = [listed.session(f"{method}-s{seed}") for seed in request.seeds]
        done = [read_overview(each) for each in finals if checkpoints.is_session(each)]
        results = [outcome(each, None, None, request.last) for each in done if each.state == FINISHED]
        diverged = Divergence.over(each.diverged for each in results)
        is_known = len(results) == len(finals) and not diverged.untrained
        found.append(
            Tuned(
                method,
                best.number,
                len(trials),
                *spent,
                dict(best.values),
                listed.score(best, listed.reached(trials)[best.number]),
                at_boundary(request.space(method), method, best.values),
                MeanStd.of([each.last for each in results]) if is_known else None,
                len(listed.lost(trials)),
                diverged,
            )
        )
    return found


def tried(folder: Path) -> "tuple[dict[str, list[Tried]], list[str]]":
    """By method, trials that have finished a round, with their scores; and the keys with logarithmic ranges."""
    from simulator.results.figures.sensitivity import Tried  # needs matplotlib

    request = read_request(folder)
    listed = Trials(folder, request)
    best = {each.method: each.number for each in tuned(folder)}
    found, logarithmic = dict[str, list[Tried]](), set[str]()
    for method in request.methods:
        space = request.space(method)
        logarithmic |= {key for key, each in space.items() if isinstance(each, Log)}
        first = next((each for each in listed.points.values() if each.axes.get("method") == method), None)
        flat = {} if first is None else flattened(first.config)
        own = {key: flat[key] for key in space if key in flat}  # the first trial has the method's own values
        for trial in listed.of(method):
            rounds = min(map(rounds_of, listed.sessions(trial)))
            if rounds and (value := listed.score(trial, rounds)) is not None:
                is_best = best.get(method) == trial.number
                found.setdefault(method, []).append(Tried({**own, **trial.values}, value, rounds, is_best))
    return found, sorted(logarithmic)


def with_choices(folder: Path) -> StudySpec:
    """The tuned methods with their values and final seeds. Raises SessionUnreadable, ConfigError before all choices."""
    request = read_request(folder)
    chosen = Trials(folder, request).finals
    missing = [method for method in request.methods if method not in chosen]
    if missing and chosen:
        raise ConfigError(
            f"{folder.name} has no values for {named(missing)}: a client diverged in every trial. Tune the other "
            f"methods in another study: `over={ {'method': [*chosen]} }`."
        )
    if missing:
        raise ConfigError(
            f"{folder.name} has chosen no values for {named(missing)} yet. Continue it: "
            f"`htfl-sim tune {folder.name}`."
        )
    configs = {
        method: {
            key: each
            for key, each in flattened(chosen[method].config).items()
            if each is not None and key not in ("seed", "method.name")
        }
        for method in request.methods
    }
    first, *others = configs.values()
    shared = {
        key: value
        for key, value in first.items()
        if not key.startswith("method.") and all(each.get(key) == value for each in others)
    }
    return StudySpec(
        config=with_values({}, shared.items()),
        methods={
            method: with_values({}, [(key, each) for key, each in flat.items() if key not in shared])
            for method, flat in configs.items()
        },
        over={"method": request.methods, "seed": request.seeds},
        files=read_study(folder).files,
    )


def _point(request: Request, trial: Trial, seed: int, final: bool = False) -> Point:
    """The point of a trial, or of its values with a final seed. Raises ConfigError with the point's name."""
    name = f"{trial.method}-s{seed}" if final else trial.name(seed)
    base = merged(request.base, {"rounds": request.rounds}) | {"method": request.fixed(trial.method)}
    if request.separate:
        base = merged(base, {"data": {"pool": "final" if final else "tuning"}})
    if not final:  # only the last one is needed to continue, and studies have many trials
        base = merged(base, {"checkpoint": {"keep_last": 1, "keep_every": None, "keep_best": False}})
    raw = StudySpec(config=base).settings_of({"method": trial.method, "seed": seed})
    raw = with_values(raw, trial.values.items())
    try:
        config = Config.read(raw).to_json()
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    stage: Raw = {"stage": "final"} if final else {TRIAL: trial.number}
    axes = {"method": trial.method, **stage, "seed": seed, **trial.values}
    return Point(name, axes, config, files=needed(config))


def affordable(request: Request, trials: Iterable[Trial], flops: Callable[[Trial], float]) -> list[Trial]:
    """A method's first trials within the budget, where promoted ones cost the mean. Raises ConfigError if none is."""
    assert request.budget_flops is not None
    least, seeds = request.rungs(MOST)[0][1], len(request.tuning_seeds)
    tried, costs, fitting = list[Trial](), list[float](), 0
    for trial in trials:
        tried.append(trial)
        costs.append(flops(trial))
        if left(request, costs) <= request.budget_flops:
            fitting = len(costs)
        if least * seeds * sum(costs) > request.budget_flops:
            break
    if not fitting:
        needed = left(request, costs[:1])
        raise ConfigError(
            f"A trial of {tried[0].method} takes {amount(needed)} training FLOPs, and the budget is "
            f"{amount(request.budget_flops)}. Use `budget_flops={10 * needed:.0e}` for about 10 trials."
        )
    return tried[:fitting]


def left(request: Request, costs: Sequence[float], ran: Sequence[Sequence[int]] = ()) -> float:
    """The FLOPs of rungs that are not done. costs: of a round of each trial. ran: rounds so far, by trial and seed."""
    seeds, mean, total, before = len(request.tuning_seeds), sum(costs) / len(costs), 0.0, 0
    for count, upto in request.rungs(len(costs)):
        rounds = upto - before
        done = [sum(min(max(each - before, 0), rounds) for each in trial) for trial in ran]
        if before:
            total += mean * max(count * rounds * seeds - sum(done), 0)
        else:  # the trials that are known
            done += [0] * (len(costs) - len(done))
            total += sum(cost * (rounds * seeds - each) for cost, each in zip(costs, done, strict=True))
        before = upto
    return total


def counting(request: Request, sessions_dir: Path, data_dir: Path) -> Callable[[Trial], float]:
    """The FLOPs of a round of a trial. Settings that are searched over real numbers are taken to change none."""
    builder, known = Builder(sessions_dir, data_dir), dict[bytes, float]()

    def flops(trial: Trial) -> float:
        space = request.space(trial.method)
        values = {
            key: each
            for key, each in trial.values.items()
            if isinstance(space[key], Choice) and key not in _WITHOUT_FLOPS
        }
        point = _point(request, Trial(trial.method, trial.number, values), request.tuning_seeds[0])
        kind = checkpoints.canonical(point.config)
        if kind not in known:
            known[kind] = builder.flops(point)
        return known[kind]

    return flops
