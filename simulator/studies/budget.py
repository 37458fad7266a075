"""How many trials a budget of training FLOPs allows. They are counted before anything runs."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import checkpoints
from simulator.base.errors import ConfigError
from simulator.base.space import Choice
from simulator.base.units import amount
from simulator.studies.cost import RoundCounter
from simulator.studies.search import Request, Trial
from simulator.studies.study import Point

MOST = 1024
"""Proposed trials of a method, so that a budget is no endless search."""
_WITHOUT_FLOPS = ("training.clip", "training.momentum")
"""Choices that change no counted operation."""


def affordable(request: Request, trials: Iterable[Trial], flops: Callable[[Trial], float]) -> list[Trial]:
    """As many of a method's first trials as the budget allows. flops: of a round of a trial.

    With halving, a promoted trial counts as the mean of all. Raises ConfigError if the first trial is too much.
    """
    assert request.budget_flops is not None
    least = request.rungs(MOST)[0][1]
    tried, costs, fitting = list[Trial](), list[float](), 0
    for trial in trials:
        tried.append(trial)
        costs.append(flops(trial) * len(request.tuning_seeds))
        if spent(request, costs) <= request.budget_flops:
            fitting = len(costs)
        if least * sum(costs) > request.budget_flops:
            break
    if not fitting:
        needed = spent(request, costs[:1])
        raise ConfigError(
            f"A trial of {tried[0].method} takes {amount(needed)} training FLOPs, and the budget is "
            f"{amount(request.budget_flops)}. Use `budget_flops={10 * needed:.0e}` for about 10 trials."
        )
    return tried[:fitting]


def spent(request: Request, costs: Sequence[float]) -> float:
    """The FLOPs of all rungs. costs: of a round of each trial."""
    (_, before), *higher = request.rungs(len(costs))
    total, mean = before * sum(costs), sum(costs) / len(costs)
    for count, upto in higher:
        total += count * (upto - before) * mean
        before = upto
    return total


def left(request: Request, costs: Sequence[float], ran: Sequence[Sequence[int]]) -> float:
    """The FLOPs of the rungs that are not done. ran: the rounds of each trial so far, with each tuning seed."""
    (_, before), *higher = request.rungs(len(costs))
    total, mean = 0.0, sum(costs) / len(costs)
    total += sum(
        cost * max(before - done, 0) for cost, seeds in zip(costs, ran, strict=True) for done in seeds
    )
    for count, upto in higher:
        done = sum(min(max(each - before, 0), upto - before) for seeds in ran for each in seeds)
        total += mean * max(count * (upto - before) * len(request.tuning_seeds) - done, 0)
        before = upto
    return total


def counting(
    request: Request, point_of: Callable[[Trial], Point], sessions_dir: Path, data_dir: Path
) -> Callable[[Trial], float]:
    """The FLOPs of a round of a trial. Settings that are searched over real numbers are taken to change none."""
    counter, known = RoundCounter(sessions_dir, data_dir), dict[bytes, float]()

    def flops(trial: Trial) -> float:
        space = request.space(trial.method)
        values = {
            key: each
            for key, each in trial.values.items()
            if isinstance(space[key], Choice) and key not in _WITHOUT_FLOPS
        }
        point = point_of(Trial(trial.method, trial.number, values))
        kind = checkpoints.canonical(point.config)
        if kind not in known:
            known[kind] = counter.flops(point)
        return known[kind]

    return flops
