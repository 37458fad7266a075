"""Which numbers an axis names, and how it writes them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.app.charts.plot import Axis, label, labels, nice_ticks, reach, reading

ends = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-6)


def test_ticks_are_round_numbers_within_the_range():
    assert nice_ticks(0.13, 0.87, 5) == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert nice_ticks(0, 500, 6) == [0, 100, 200, 300, 400, 500]
    assert nice_ticks(-3, 3, 4) == [-2, 0, 2]


@given(low=ends, width=st.floats(1e-3, 1e9), most=st.integers(1, 20))
def test_ticks_never_exceed_the_number_asked_for_nor_leave_the_range(low, width, most):
    high = low + width
    ticks = nice_ticks(low, high, most)
    assert len(ticks) <= most
    assert all(low - 1e-6 * (abs(low) + width) <= tick <= high + 1e-6 * (abs(high) + width) for tick in ticks)


@given(low=ends, width=st.floats(1e-3, 1e9))
def test_a_range_has_at_least_two_ticks_when_it_may_have_five(low, width):
    assert len(nice_ticks(low, low + width, 5)) >= 2


def test_labels_have_the_decimals_that_tell_ticks_apart():
    assert labels([0.2, 0.4, 0.6]) == ["0.2", "0.4", "0.6"]
    assert labels([0.25, 0.3, 0.35]) == ["0.25", "0.30", "0.35"]
    assert labels([0.0, 20_000.0, 40_000.0]) == ["0", "20k", "40k"]
    assert labels([9000.0, 9500.0, 10_000.0]) == ["9.0k", "9.5k", "10.0k"]
    assert labels([0.1, 1.0, 10.0]) == ["0.1", "1", "10"]


def test_large_and_small_numbers_are_written_short():
    assert label(1_500_000, 500_000) == "1.5M"
    assert label(0.00002) == "2e-5"
    assert reading(0.5) == "0.500"
    assert reading(84.74, "%") == "84.7 %"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_an_automatic_range_holds_every_value(values):
    axis = reach(np.array(values))
    shares = axis.fractions(np.array(values))
    assert math.isfinite(axis.low)
    assert ((shares >= 0) & (shares <= 1)).all()


def test_accuracies_have_no_room_above_one():
    axis = reach(np.array([0.0, 1.0]))
    assert (axis.low, axis.high) == (0.0, 1.0)


def test_percentages_have_no_room_above_a_hundred():
    assert reach(np.array([50.0, 100.0]), ceiling=100.0).high == 100.0
    assert reach(np.array([50.0, 100.0])).high > 100.0


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_an_accuracy_that_never_changes_has_room_within_nought_and_one(value):
    axis = reach(np.full(5, value))
    assert 0 <= axis.low <= value <= axis.high <= 1
    assert axis.high > axis.low


def test_a_range_without_values_is_nought_to_one():
    assert reach(np.array([np.nan])) == Axis(0.0, 1.0)
