"""The plot of a line chart: which ticks its axes have."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tui.app.charts.plot import Axis, PlotArea


def area(height: int, low: float, high: float) -> PlotArea:
    return PlotArea(top=0, left=5, height=height, width=60, x=Axis(1, 10), y=Axis(low, high))


def test_ticks_lie_equally_far_apart_where_three_such_do() -> None:
    # 10 of 79 is 2.53 of the 20 rows between the ends: such ticks would be 3, 2, 3, 2 … rows apart. 20 is 5.06.
    uneven = area(21, 20, 99)
    assert uneven.y_ticks() == [20, 40, 60, 80]
    assert [uneven.row(tick) for tick in uneven.y_ticks()] == [20, 15, 10, 5]


def test_ticks_are_as_many_as_the_rows_allow_where_no_three_lie_evenly() -> None:
    # 20 of 90 is 3.33 of 15 rows; the next step, 50, has two ticks.
    assert area(16, 0, 90).y_ticks() == [0, 20, 40, 60, 80]


@given(height=st.integers(5, 60), low=st.floats(0, 1), reach=st.floats(0.01, 100))
def test_every_chart_of_five_rows_has_ticks_and_eleven_at_most(height: int, low: float, reach: float) -> None:
    shown = area(height, low, low + reach)
    ticks = shown.y_ticks()
    assert 1 <= len(ticks) <= 11
    assert all(before < after for before, after in pairwise(ticks))
