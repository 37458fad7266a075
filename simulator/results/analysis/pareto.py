"""Accuracy against its costs: the groups of sessions that no other group beats in both."""

import math
from collections.abc import Mapping

from simulator.results.analysis.costs import Cost, spent
from simulator.results.analysis.totals import Totals


def spent_by_cost(curves: Totals) -> dict[Cost, float]:
    """What all rounds so far took. Simulated seconds and joules are NaN without a clock."""
    took = spent(curves)
    return {
        "bytes": took.bytes,
        "FLOPs": took.flops,
        "seconds": took.seconds,
        "simulated seconds": math.nan if took.simulated is None else took.simulated,
        "joules": math.nan if took.joules is None else took.joules,
    }


def pareto_front(points: Mapping[str, tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (cost, accuracy) that none beats with less cost and more accuracy, by cost."""
    front: list[tuple[float, float]] = []
    for cost, accuracy in sorted(points.values(), key=lambda each: (each[0], -each[1])):
        if not front or accuracy > front[-1][1]:
            front.append((cost, accuracy))
    return front
