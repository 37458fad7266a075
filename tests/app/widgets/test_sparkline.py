"""A series as one row of text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tui.app.drawing.glyphs import ASCII, BRAILLE
from tui.app.drawing.sparkline import sparkline


def test_one_value_is_one_character_from_the_lowest_to_the_highest():
    assert sparkline([0, 1, 2, 3, 4, 5, 6], 7, BRAILLE) == "▁▂▃▄▅▆▇"


def test_the_newest_value_stands_last_and_what_is_missing_is_space():
    assert sparkline([0, np.nan, 6], 5, BRAILLE) == "  ▁ ▇"


def test_a_fixed_range_shows_values_by_its_own_measure():
    assert sparkline([0.5, 0.5], 2, BRAILLE, low=0, high=1) == "▄▄"


def test_more_values_than_characters_are_averaged():
    assert sparkline([0, 0, 3, 3, 6, 6], 3, BRAILLE) == "▁▄▇"
    assert sparkline([0, 6, 6, 0], 2, BRAILLE, low=0, high=6) == "▄▄"


def test_a_series_that_never_changes_is_half_way_up():
    assert sparkline([0.3, 0.3], 2, BRAILLE) == "▄▄"


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=80), st.integers(0, 30))
def test_a_sparkline_has_the_width_asked_for_and_can_be_ascii(values, width):
    text = sparkline(values, width, ASCII)
    assert len(text) == width
    assert text.isascii()
