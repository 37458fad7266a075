"""What charts have beside their lines."""

from pathlib import Path

import numpy as np

from simulator.analysis.run import Run
from tui.app.drawing.figure import Mark
from tui.app.panels.chart_parts import from_zero, marks


def test_milestones_are_marks_with_a_word_each() -> None:
    events = (
        {"event": "forked", "round": 4, "name": "parent", "method": "fedlora"},
        {"event": "switched", "round": 12, "method": "fedssa", "before": "fedlora"},
        {"event": "switched", "round": 15, "method": "fedssa", "before": "fedssa"},
    )
    run = Run(Path("x"), events=events, checkpoints=(10, 16))
    assert marks(run) == [Mark(4.5, "fork"), Mark(10, "kept"), Mark(12.5, "fedssa"), Mark(15.5, "settings")]


def test_an_axis_of_amounts_begins_at_nothing() -> None:
    assert from_zero(np.array([np.nan, 2.0]), np.array([4.0])) == (0.0, 4.2)
    assert from_zero(np.zeros(3)) == (0.0, 1.0)
