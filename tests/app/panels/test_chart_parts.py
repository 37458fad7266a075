"""What charts have beside their lines."""

from pathlib import Path

import numpy as np

from simulator.results.analysis.run import SessionData
from tui.app.charts.chart import Mark
from tui.app.panels.base import marks, recent, sizes, traffic


def test_milestones_are_marks_with_a_word_each() -> None:
    events = (
        {"event": "forked", "round": 4, "name": "parent", "method": "fedlora"},
        {"event": "switched", "round": 12, "method": "fedssa", "before": "fedlora"},
        {"event": "switched", "round": 15, "method": "fedssa", "before": "fedssa"},
    )
    run = SessionData(Path("x"), events=events, checkpoints=(10, 16))
    assert marks(run) == [Mark(4.5, "fork"), Mark(10, "kept"), Mark(12.5, "fedssa"), Mark(15.5, "settings")]


def test_an_axis_of_traffic_begins_at_nothing_and_is_in_the_unit_of_its_sizes() -> None:
    figure = traffic(np.array([np.nan, 2.0 * 2**20]), np.array([4.0 * 2**20, 0]))
    assert (figure.unit, figure.y_range) == ("MiB", (0.0, 4.2))
    assert traffic(np.zeros(3), np.zeros(3)).y_range == (0.0, 1.0)


def test_sizes_share_the_unit_of_the_largest() -> None:
    (up, down), unit, bytes = sizes(np.array([512.0, 2**21]), np.array([np.nan, 2**20]))
    assert (unit, bytes) == ("MiB", 2**20)
    np.testing.assert_array_equal(up, [512 / 2**20, 2.0])
    np.testing.assert_array_equal(down, [np.nan, 1.0])
    assert sizes(np.zeros(2))[1] == "KiB"


def test_a_rise_over_some_rounds_is_not_shown_alone_after_a_fall() -> None:
    said = recent(np.array([0.5, 0.6, 0.7, 0.839, 0.763]))
    assert said == (
        "76.3 % (−7.6 pp in a round, +26.3 pp in 4 rounds)",
        "76.3 % (−7.6 pp in a round)",
        "76.3 %",
    )
    said = recent(np.array([0.5, 0.6, 0.7, 0.7, 0.72]))
    assert said[1] == "72.0 % (+22.0 pp in 4 rounds)"
    assert recent(np.array([0.5, 0.6])) == ("60.0 % (+10.0 pp in a round)",) * 2 + ("60.0 %",)
    assert recent(np.array([0.5])) == ("50.0 %",)
