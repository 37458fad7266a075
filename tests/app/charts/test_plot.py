"""Which numbers an axis names, how it writes them, and lines as spans of dots."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.app.charts.plot import (
    NOWHERE,
    Axis,
    PlotArea,
    counts,
    label,
    labels,
    masks,
    nice_ticks,
    reach,
    reading,
    trace,
)

ends = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-6)
shares = st.floats(0, 1)


def test_ticks_are_round_numbers_within_the_range():
    assert nice_ticks(0.13, 0.87, 5) == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert nice_ticks(0, 500, 6) == [0, 100, 200, 300, 400, 500]
    assert nice_ticks(-3, 3, 4) == [-2, 0, 2]


@given(low=ends, width=st.floats(1e-3, 1e9), most=st.integers(1, 20))
def test_ticks_never_exceed_the_number_asked_for_nor_leave_the_range(low, width, most):
    high = low + width
    ticks = nice_ticks(low, high, most)
    assert len(ticks) <= most and len(nice_ticks(low, high, 5)) >= 2
    assert all(low - 1e-6 * (abs(low) + width) <= tick <= high + 1e-6 * (abs(high) + width) for tick in ticks)


def test_labels_have_the_decimals_that_tell_ticks_apart_and_are_short():
    assert labels([0.2, 0.4, 0.6]) == ["0.2", "0.4", "0.6"]
    assert labels([0.25, 0.3, 0.35]) == ["0.25", "0.30", "0.35"]
    assert labels([0.0, 20_000.0, 40_000.0]) == ["0", "20k", "40k"]
    assert labels([9000.0, 9500.0, 10_000.0]) == ["9.0k", "9.5k", "10.0k"]
    assert labels([0.1, 1.0, 10.0]) == ["0.1", "1", "10"]
    assert label(1_500_000, 500_000) == "1.5M" and label(0.00002) == "2e-5"
    assert reading(0.5) == "0.500" and reading(84.74, "%") == "84.7 %"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_an_automatic_range_holds_every_value(values):
    axis = reach(np.array(values))
    shares = axis.fractions(np.array(values))
    assert math.isfinite(axis.low)
    assert ((shares >= 0) & (shares <= 1)).all()


def test_an_automatic_range_leaves_no_room_beyond_what_a_share_can_be():
    assert reach(np.array([0.0, 1.0])) == reach(np.array([np.nan])) == Axis(0.0, 1.0)
    assert reach(np.array([50.0, 100.0]), ceiling=100.0).high == 100.0 < reach(np.array([50.0, 100.0])).high
    for value in (0.0, 0.5, 1.0):  # one that never changes
        axis = reach(np.full(5, value))
        assert 0 <= axis.low <= value <= axis.high <= 1 and axis.high > axis.low


def area(height, low, high):
    return PlotArea(top=0, left=5, height=height, width=60, x=Axis(1, 10), y=Axis(low, high))


def test_ticks_lie_equally_far_apart_where_three_such_do():
    # 10 of 79 is 2.53 of the 20 rows between the ends: such ticks would be 3, 2, 3, 2 … rows apart. 20 is 5.06.
    uneven = area(21, 20, 99)
    assert uneven.y_ticks() == [20, 40, 60, 80]
    assert [uneven.row(tick) for tick in uneven.y_ticks()] == [20, 15, 10, 5]
    # 20 of 90 is 3.33 of 15 rows; the next step, 50, has two ticks.
    assert area(16, 0, 90).y_ticks() == [0, 20, 40, 60, 80]


@given(height=st.integers(5, 60), low=st.floats(0, 1), reach=st.floats(0.01, 100))
def test_every_chart_of_five_rows_has_ticks_and_eleven_at_most(height, low, reach):
    ticks = area(height, low, low + reach).y_ticks()
    assert 1 <= len(ticks) <= 11
    assert all(before < after for before, after in pairwise(ticks))


def spans(y, columns, rows, x=None):
    y = np.array([y], float)
    x = np.linspace(0, 1, y.shape[1]) if x is None else np.array(x, float)
    found = trace(x, y, columns, rows)
    return found.low[0].tolist(), found.high[0].tolist()


NONE = [NOWHERE] * 3


@pytest.mark.parametrize(
    ("y", "x", "columns", "rows", "low", "high"),
    [
        pytest.param([0, 0.5, 1], None, 3, 3, [0, 1, 2], [0, 1, 2], id="a point per column"),
        pytest.param([0, 1], None, 5, 5, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], id="straight between points"),
        # from row 0 to row 9: rows 0–4 belong to the first column, 5–9 to the second
        pytest.param([0, 1], None, 2, 10, [0, 5], [4, 9], id="a jump up, half by each column"),
        pytest.param([1, 0], None, 2, 10, [5, 0], [9, 4], id="a jump down"),
        pytest.param([0, np.nan, 1], None, 5, 5, [0, *NONE, 4], [0, *NONE, 4], id="a gap"),
        # columns 0 and 1 hold points 0 and 2; the value between them is missing, so row 0 does not reach up to row 9
        pytest.param([0, np.nan, 1], [0, 0.5, 1], 2, 10, [0, 9], [0, 9], id="a gap between neighbors"),
        pytest.param([0.5], [0.0], 4, 5, [2, *NONE], [2, *NONE], id="a single round"),
        # half-way up at 0, joined with the top at 1
        pytest.param([0, 1], [-1, 1], 2, 11, [5, 8], [7, 10], id="a point left of the plot"),
    ],
)
def test_a_line_is_a_span_of_dots_in_each_column(y, x, columns, rows, low, high):
    assert spans(y, columns, rows, x) == (low, high)


def test_a_column_of_many_points_spans_their_extremes():
    low, high = spans([0.5, 0.5, 0.0, 1.0, 0.5, 0.5], columns=2, rows=11, x=[0, 0.1, 0.2, 0.3, 0.9, 1])
    assert (low[0], high[0]) == (0, 10)


@given(y=st.lists(shares, min_size=2, max_size=100), columns=st.integers(2, 60), rows=st.integers(1, 60))
def test_a_line_without_gaps_stays_in_the_plot_and_is_connected(y, columns, rows):
    low, high = (np.array(edge) for edge in spans(y, columns, rows))
    assert (low >= 0).all() and (low <= high).all() and (high < rows).all()
    assert (low[1:] <= high[:-1] + 1).all() and (low[:-1] <= high[1:] + 1).all()


@given(ys=st.lists(st.lists(shares, min_size=5, max_size=5), min_size=1, max_size=4), rows=st.integers(1, 12))
def test_lines_drawn_together_count_as_lines_drawn_one_by_one(ys, rows):
    x = np.linspace(0, 1, 5)
    together = counts(trace(x, np.array(ys), 7, rows), rows)
    assert (together == sum(counts(trace(x, np.array([y]), 7, rows), rows) for y in ys)).all()


def test_dots_are_cut_off_at_the_plots_edge_and_fill_the_bits_of_their_cell_row_by_row():
    # rows 0 and 15 of a plot of 4: the first column goes up to 7, the second from 8 on is out of sight
    assert counts(trace(np.array([0.0, 1.0]), np.array([[0.0, 5.0]]), 2, 4), 4).tolist() == [[1, 0]] * 4
    dots = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]])
    assert masks(dots, (4, 2)).tolist() == [[1 + 8, 64 + 128]]
