"""What the panels' charts have in common: marks where something changed, percentages, sizes in one unit."""

import numpy as np

from simulator.analysis.curves import Array
from simulator.analysis.milestones import milestones
from simulator.analysis.run import Run
from tui.app.charts.figure import Mark
from tui.common.formatting import size_unit

PERCENT = 100.0
"""What an accuracy is multiplied by to be drawn, with the unit "%"."""


def marks(run: Run) -> list[Mark]:
    """A vertical mark at every milestone of the run."""
    labels = {"switch": "settings", "fork": "fork", "checkpoint": "kept"}
    return [Mark(each.round, each.method or labels[each.kind]) for each in milestones(run)]


def sizes(*bytes: Array) -> tuple[list[Array], str]:
    """Amounts of bytes in the unit of the largest, which is KiB at least; and that unit."""
    unit, one = size_unit(max(_most(*bytes), 1024))
    return [each / one for each in bytes], unit


def from_zero(*values: Array) -> tuple[float, float]:
    """The range of an axis for amounts, which begins at nothing, so that a change looks as large as it is."""
    return 0.0, _most(*values) * 1.05 or 1.0


def _most(*values: Array) -> float:
    return max((float(np.nanmax(one)) for one in values if np.isfinite(one).any()), default=0.0)
