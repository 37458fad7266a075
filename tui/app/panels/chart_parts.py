"""What the panels' charts have beside their lines: marks where something changed, and the range of amounts."""

import numpy as np

from simulator.analysis.curves import Array
from simulator.analysis.milestones import milestones
from simulator.analysis.run import Run
from tui.app.drawing.figure import Mark


def marks(run: Run) -> list[Mark]:
    """A vertical mark at every milestone of the run."""
    labels = {"switch": "settings", "fork": "fork", "checkpoint": "kept"}
    return [Mark(each.round, each.method or labels[each.kind]) for each in milestones(run)]


def from_zero(*values: Array) -> tuple[float, float]:
    """The range of an axis for amounts, which begins at nothing, so that a change looks as large as it is."""
    most = max((float(np.nanmax(one)) for one in values if np.isfinite(one).any()), default=0.0)
    return 0.0, most * 1.05 or 1.0
