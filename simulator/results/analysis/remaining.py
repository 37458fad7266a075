"""What is still to be computed, and how long that takes by the rounds there are."""

import math

import numpy as np

from simulator.results.analysis.run import SessionData
from simulator.results.analysis.totals import Totals

RECENT = 10
"""Rounds whose mean time an estimate is made from."""


def rounds_left(rounds: int, round: int, until_time: float, simulated: float | None) -> int:
    """The rounds that a run of so many has left after `round`.

    A run that ends at a simulated time, `until_time`, needs as many as follow from the mean simulated time of its
    rounds. `simulated` is the time after `round`. until_time 0: it ends with its last round.
    """
    left = max(rounds - round, 0)
    if not (until_time and round and simulated) or math.isnan(simulated):
        return left
    return min(left, math.ceil(max(until_time - simulated, 0.0) * round / simulated))


def seconds_left(curves: Totals, rounds: int) -> float | None:
    """For so many rounds more, by the mean of the latest; None before the first, and for no rounds."""
    recent = curves["seconds"][-RECENT:]
    return float(np.mean(recent)) * rounds if len(recent) and rounds > 0 else None


def rounds_again(run: SessionData, round: int) -> tuple[int, float]:
    """The rounds that are computed again for the state after `round`, since the checkpoint before; and the seconds they
    took the first time."""
    kept = max((each for each in run.checkpoints if each <= round), default=0)
    return round - kept, float(run.curves["seconds"][kept:round].sum())
