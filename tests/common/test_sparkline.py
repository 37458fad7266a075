"""A series as one row of text."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tui.common.formatting import BARS, sparkline


def test_one_value_is_one_character_from_the_lowest_to_the_highest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == BARS
    assert sparkline([0, 1, 2], 3, "abc") == "abc"


def test_the_newest_value_stands_last_and_what_is_missing_is_a_space() -> None:
    assert sparkline([0, math.nan, None, 6], 6) == "  ▁  █"


def test_more_values_than_characters_are_averaged_without_those_that_are_missing() -> None:
    assert sparkline([0, 0, 3, 3, 6, 6], 3, "abc") == "abc"
    assert sparkline([0, None, None, None, 6, 6], 3, "abc") == "a c"


def test_a_series_that_never_changes_is_half_way_up() -> None:
    assert sparkline([0.3, 0.3], 2) == "▅▅"


def test_limits_put_series_on_one_scale() -> None:
    assert sparkline([0.0, 0.5, 1.0, 1.5], 4, "abc", (0.0, 1.0)) == "abcc"
    assert sparkline([0.5, 0.5], 2, "abc", (0.0, 1.0)) == "bb"


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=80), st.integers(0, 30))
def test_a_sparkline_has_the_width_asked_for_and_the_characters_given(
    values: list[float], width: int
) -> None:
    text = sparkline(values, width, "_-=")
    assert len(text) == width
    assert set(text) <= set("_-= ")
