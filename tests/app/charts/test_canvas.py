"""The grid of cells and how it becomes strips."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.app.charts.canvas import BOLD, DEFAULT, REVERSE, Canvas, row_text
from tui.app.widgets import canvas_widget
from tui.app.widgets.canvas_widget import strips


@given(st.integers(-3, 5), st.integers(-12, 12), st.text(max_size=15))
def test_text_stays_within_the_grid_at_any_place(row, column, text):
    canvas = Canvas.blank(8, 3)
    canvas.put(row, column, text, 0xFFFFFF)
    assert [cell_len(line) for line in canvas.text().split("\n")] == [8, 8, 8]


def test_text_that_begins_before_the_grid_shows_its_end():
    canvas = Canvas.blank(4, 1)
    canvas.put(0, -2, "abcdef", 0)
    assert canvas.text() == "cdef"


NAMES = st.text(st.one_of(st.characters(), st.sampled_from("日本🙂e\u0301ก็\u200d\ufe0f👍🏽é|")), max_size=20)


@given(NAMES, NAMES, st.integers(-3, 20))
def test_every_row_keeps_its_width_and_no_text_commands_the_terminal(text, other, column):
    canvas = Canvas.blank(20, 1)
    canvas.put(0, 0, text, 0)
    canvas.put(0, column, other, 0)  # also over one half of a wide character
    assert cell_len(canvas.text()) == 20
    assert canvas.text().isprintable()


def test_wide_characters_take_two_cells_and_marks_none():
    canvas = Canvas.blank(9, 1)
    canvas.put(0, 0, "日本🙂e\u0301ก็x", 0)
    assert canvas.text() == "日本🙂éก็x"


def test_half_of_a_wide_character_is_a_space():
    canvas = Canvas.blank(5, 1)
    canvas.put(0, 0, "日本語", 0)  # 6 cells
    assert canvas.text() == "日本 "
    canvas.put(0, -1, "語x", 0)
    assert canvas.text() == " x本 "
    canvas.put(0, 3, "y", 0)
    assert canvas.text() == " x y "


def test_both_cells_of_a_wide_character_have_one_style():
    canvas = Canvas.blank(4, 1, fg=1)
    canvas.put(0, 1, "日", 1)
    canvas.fg[0, 2] = 7
    (strip,) = strips(canvas)
    assert "".join(segment.text for segment in strip) == " 日 "
    assert strip.cell_length == 4


def test_a_strip_has_a_segment_for_each_run_of_one_style():
    canvas = Canvas.blank(6, 1, fg=1, bg=2)
    canvas.put(0, 2, "ab", 3, BOLD)
    (strip,) = strips(canvas)
    assert [segment.text for segment in strip] == ["  ", "ab", "  "]
    assert [bool(segment.style.bold) for segment in strip] == [False, True, False]
    assert strip.cell_length == 6


def test_many_colours_in_a_row_cost_one_text(monkeypatch):
    calls = []
    monkeypatch.setattr(canvas_widget, "row_text", lambda codes: calls.append(1) or row_text(codes))
    canvas = Canvas.blank(100, 1)
    canvas.fg[0] = np.arange(100)
    assert len([*strips(canvas)[0]]) == 100
    assert len(calls) == 1  # a matrix has a hundred segments in each of its rows


def test_a_default_colour_says_nothing_of_colour():
    canvas = Canvas.blank(2, 1)
    canvas.flags[:] = REVERSE
    (segment,) = strips(canvas)[0]
    assert (segment.style.color, segment.style.bgcolor, segment.style.reverse) == (None, None, True)


def test_rows_that_differ_in_any_way_are_changed():
    before, after = Canvas.blank(3, 5), Canvas.blank(3, 5)
    after.put(0, 0, "x", DEFAULT)
    after.fg[2, 1] = 7
    after.flags[4, 2] = BOLD
    assert after.changed_rows(before) == [0, 2, 4]
    assert before.changed_rows(Canvas.blank(3, 5)) == []


def test_a_window_draws_on_the_grid_it_looks_at():
    canvas = Canvas.blank(4, 3)
    canvas.window(1, 1, 2, 3).put(0, 0, "ab", 5)
    assert canvas.text() == "    \n ab \n    "
    assert np.argwhere(canvas.fg == 5).tolist() == [[1, 1], [1, 2]]
