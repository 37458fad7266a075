"""Several sessions side by side: how good each became, what a target took it, which settings differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.analysis.costs import Reached, reached
from simulator.analysis.run import Run
from simulator.nested import flattened


@dataclass(frozen=True, eq=False)
class Standing:
    """One of the sessions: its best and its last mean accuracy (None: never evaluated), and what a target took."""

    run: Run
    best: float | None
    last: float | None
    reached: Reached | None


def standing(run: Run, target: float) -> Standing:
    """How a session stands towards a target accuracy (0…1)."""
    measured = run.curves.mean[np.isfinite(run.curves.mean)]
    best, last = (float(measured.max()), float(measured[-1])) if measured.size else (None, None)
    return Standing(run, best, last, reached(run.curves, target))


def common_target(runs: Sequence[Run]) -> float:
    """The highest multiple of 0.05 that every run's best accuracy reaches; 0 where one has none."""
    best = min((standing(run, 0.0).best or 0.0 for run in runs), default=0.0)
    return math.floor(best * 20 + 1e-9) / 20


def differences(runs: Sequence[Run]) -> list[tuple[str, tuple[Any, ...]]]:
    """The settings that not all runs have alike, by dotted name, with each run's value; None where it has none."""
    flat = [flattened(run.config) for run in runs]
    rows = [
        (name, tuple(one.get(name) for one in flat)) for name in dict.fromkeys(n for one in flat for n in one)
    ]
    return [row for row in rows if any(value != row[1][0] for value in row[1])]
