"""Lines as spans of dots."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tui.app.charts.plot import NOWHERE, counts, masks, trace

shares = st.floats(0, 1)


def spans(y, columns, rows, x=None):
    y = np.array([y], float)
    x = np.linspace(0, 1, y.shape[1]) if x is None else np.array(x, float)
    found = trace(x, y, columns, rows)
    return found.low[0].tolist(), found.high[0].tolist()


def test_a_point_per_column_is_a_dot_per_column():
    assert spans([0, 0.5, 1], columns=3, rows=3) == ([0, 1, 2], [0, 1, 2])


def test_between_points_the_line_is_straight():
    assert spans([0, 1], columns=5, rows=5) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_a_jump_is_filled_by_both_columns_half_way():
    # from row 0 to row 9: rows 0–4 belong to the first column, 5–9 to the second
    assert spans([0, 1], columns=2, rows=10) == ([0, 5], [4, 9])
    assert spans([1, 0], columns=2, rows=10) == ([5, 0], [9, 4])


def test_a_column_of_many_points_spans_their_extremes():
    low, high = spans([0.5, 0.5, 0.0, 1.0, 0.5, 0.5], columns=2, rows=11, x=[0, 0.1, 0.2, 0.3, 0.9, 1])
    assert (low[0], high[0]) == (0, 10)


def test_a_gap_leaves_its_columns_empty():
    low, _ = spans([0, np.nan, 1], columns=5, rows=5)
    assert low == [0, NOWHERE, NOWHERE, NOWHERE, 4]


def test_a_gap_is_not_bridged_even_between_neighbouring_columns():
    # columns 0 and 1 hold points 0 and 2; the value between them is missing, so row 0 does not reach up to row 9
    assert spans([0, np.nan, 1], columns=2, rows=10, x=[0, 0.5, 1]) == ([0, 9], [0, 9])


def test_a_single_round_is_one_dot():
    assert spans([0.5], columns=4, rows=5, x=[0.0]) == (
        [2, NOWHERE, NOWHERE, NOWHERE],
        [2, NOWHERE, NOWHERE, NOWHERE],
    )


def test_what_lies_left_of_the_plot_gives_the_line_its_slope():
    assert spans([0, 1], columns=2, rows=11, x=[-1, 1])[1] == [
        7,
        10,
    ]  # half-way up at 0, joined with the top at 1


@given(
    y=st.lists(st.floats(0, 0.1), min_size=50, max_size=400),
    columns=st.integers(2, 60),
    at=st.floats(0, 0.999),
)
def test_a_spike_of_one_round_reaches_the_top_row_however_crowded_the_columns(y, columns, at):
    y[int(at * len(y))] = 1.0
    _, high = spans(y, columns, rows=40)
    assert max(high) == 39


@given(y=st.lists(shares, min_size=1, max_size=100), columns=st.integers(1, 60), rows=st.integers(1, 60))
def test_every_value_within_the_range_maps_into_the_plot(y, columns, rows):
    low, high = spans(y, columns, rows)
    seen = [(a, b) for a, b in zip(low, high, strict=True) if a != NOWHERE]
    assert seen
    assert all(0 <= a <= b < rows for a, b in seen)


@given(y=st.lists(shares, min_size=2, max_size=100), columns=st.integers(2, 60), rows=st.integers(1, 60))
def test_a_line_without_gaps_is_connected(y, columns, rows):
    low, high = (np.array(edge) for edge in spans(y, columns, rows))
    assert (low[1:] <= high[:-1] + 1).all()
    assert (low[:-1] <= high[1:] + 1).all()


@given(ys=st.lists(st.lists(shares, min_size=5, max_size=5), min_size=1, max_size=4), rows=st.integers(1, 12))
def test_lines_drawn_together_count_as_lines_drawn_one_by_one(ys, rows):
    x = np.linspace(0, 1, 5)
    together = counts(trace(x, np.array(ys), 7, rows), rows)
    assert (together == sum(counts(trace(x, np.array([y]), 7, rows), rows) for y in ys)).all()


def test_what_is_beyond_a_fixed_range_is_cut_off_at_its_edge():
    # rows 0 and 15 of a plot of 4: the first column goes up to 7, the second from 8 on is out of sight
    dots = counts(trace(np.array([0.0, 1.0]), np.array([[0.0, 5.0]]), 2, 4), 4)
    assert dots.tolist() == [[1, 0]] * 4


def test_dots_fill_the_bits_of_their_cell_row_by_row():
    dots = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]])
    assert masks(dots, (4, 2)).tolist() == [[1 + 8, 64 + 128]]
