"""What is still to be computed, and how long that takes by the rounds there are."""

import numpy as np

from simulator.results.analysis.costs import Spent
from simulator.results.analysis.run import SessionData

RECENT = 10
"""Rounds whose mean time an estimate is made from."""


def seconds_left(curves: Spent, rounds: int) -> float | None:
    """For so many rounds more, by the mean of the latest; None before the first, and for no rounds."""
    recent = curves.seconds[-RECENT:]
    return float(np.mean(recent)) * rounds if len(recent) and rounds > 0 else None


def rounds_again(run: SessionData, round: int) -> tuple[int, float]:
    """The rounds that are computed again for the state after `round`, since the checkpoint before; and the seconds they
    took the first time."""
    kept = max((each for each in run.checkpoints if each <= round), default=0)
    return round - kept, float(run.curves.seconds[kept:round].sum())
