"""The grid of cells, how it becomes strips, names that are cut, and the colors of a terminal with xterm's 256."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color, ColorSystem

from simulator.results.figures.palette import OKABE_ITO, channels, contrast, luminance
from tui.app.charts.look import (
    BOLD,
    DEFAULT,
    HEAT_LEVELS,
    REVERSE,
    VIRIDIS_256,
    Canvas,
    Look,
    text_on,
)
from tui.app.widgets.canvas_widget import strip
from tui.common.cells import TELLING, apart, cut, fit

NAMES = st.text(st.one_of(st.characters(), st.sampled_from("日本🙂e\u0301ก็\u200d\ufe0f👍🏽é|")), max_size=20)


@given(NAMES, NAMES, st.integers(-3, 5), st.integers(-12, 20))
def test_every_row_keeps_its_width_and_no_text_commands_the_terminal(text, other, row, column):
    canvas = Canvas.blank(20, 3)
    canvas.put(0, 0, text, 0)
    canvas.put(row, column, other, 0)  # also over one half of a wide character, and outside of the grid
    assert [cell_len(line) for line in canvas.text().split("\n")] == [20, 20, 20]
    assert canvas.text().replace("\n", "").isprintable()


def test_wide_characters_take_two_cells_marks_none_and_half_of_one_is_a_space():
    canvas = Canvas.blank(9, 1)
    canvas.put(0, 0, "日本🙂e\u0301ก็x", 0)
    assert canvas.text() == "日本🙂éก็x"
    canvas = Canvas.blank(5, 1)
    canvas.put(0, 0, "日本語", 0)  # 6 cells
    assert canvas.text() == "日本 "
    canvas.put(0, -1, "語x", 0)
    assert canvas.text() == " x本 "
    canvas.put(0, 3, "y", 0)
    assert canvas.text() == " x y "


def test_a_strip_has_a_segment_for_each_run_of_one_style():
    canvas = Canvas.blank(6, 1, fg=1, bg=2)
    canvas.put(0, 2, "ab", 3, BOLD)
    row = strip(canvas, 0)
    assert [segment.text for segment in row] == ["  ", "ab", "  "]
    assert [bool(segment.style.bold) for segment in row] == [False, True, False]
    canvas = Canvas.blank(4, 1, fg=1)
    canvas.put(0, 1, "日", 1)
    canvas.fg[0, 2] = 7  # both cells of a wide character have one style
    row = strip(canvas, 0)
    assert ("".join(segment.text for segment in row), row.cell_length) == (" 日 ", 4)
    canvas = Canvas.blank(2, 1)
    canvas.flags[:] = REVERSE
    (segment,) = strip(canvas, 0)
    assert (segment.style.color, segment.style.bgcolor, segment.style.reverse) == (None, None, True)


def test_rows_that_differ_in_any_way_are_changed():
    before, after = Canvas.blank(3, 5), Canvas.blank(3, 5)
    after.put(0, 0, "x", DEFAULT)
    after.fg[2, 1] = 7
    after.flags[4, 2] = BOLD
    assert after.changed_rows(before) == [0, 2, 4]
    assert before.changed_rows(Canvas.blank(3, 5)) == []


RUNS = ["quickstart-20261122-104512-fedproto-fashion_mnist", "quickstart-20261122-104609-fedgh-fashion_mnist"]


def test_texts_are_cut_at_their_ends_or_in_their_middle_by_their_cells():
    assert [fit("abcdef", 4, "…"), fit("7", 3, "~", right=True)] == ["abc…", "  7"]
    assert [fit("日本語", room, "…") for room in (6, 5, 4)] == ["日本語", "日本…", "日… "]
    assert [cut("fedlora-htm5", room, "…") for room in (12, 9)] == ["fedlora-htm5", "fedl…htm5"]
    assert [cut("abcdef", room, "…") for room in (0, 1, 2, 3)] == ["", "…", "a…", "a…f"]
    assert [cut("実験の結果", room, "…") for room in (9, 7, 5, 3)] == ["実験…結果", "実…果", "実…果", "…"]


def test_names_that_would_look_the_same_show_where_they_differ():
    assert {cut(name, 18, "…") for name in RUNS} == {"quickstar…on_mnist"}
    assert apart(RUNS, 18, "…") == {RUNS[0]: "quic…512-fedproto…", RUNS[1]: "quickst…609-fedgh…"}
    wide = {"実験の結果": "実験…結果", "実験の計画": "実験…計画"}
    assert apart(wide, 9, "…") == wide
    names = ["checkpoint.every", "training.lr"]
    assert apart(names, 10, "…") == {name: cut(name, 10, "…") for name in names}
    assert len({*apart(["checkpoint.keep_every", "checkpoint.every"], 11, "…").values()}) == 2


@given(st.sets(st.text("ab-_1", min_size=1, max_size=20), min_size=1, max_size=6), st.integers(0, 20))
def test_no_name_is_wider_than_its_room_and_no_more_look_the_same_than_by_plain_cutting(names, room):
    shown = apart(names, room, "…")
    assert set(shown) == names and all(len(text) <= room for text in shown.values())
    assert len({*shown.values()}) >= len({cut(name, room, "…") for name in names})
    if room >= TELLING:
        assert all(shown[name] == name for name in names if len(name) <= room)


def as_sent(colour):
    """What becomes of a color on its way to a terminal with xterm's 256."""
    sent = Color.from_rgb(*channels(colour)).downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
    return sent.red, sent.green, sent.blue


def test_the_scale_is_of_the_terminals_own_colours_each_lighter_than_the_one_before():
    colours = list(dict.fromkeys(VIRIDIS_256.tolist()))
    assert len(VIRIDIS_256) == HEAT_LEVELS and len(colours) == 16
    assert all(as_sent(colour) == channels(colour) for colour in colours)
    assert all(luminance(one) < luminance(other) for one, other in pairwise(colours))
    assert all(contrast(text_on(colour), colour) >= 4.5 for colour in colours)


@pytest.mark.parametrize(
    "look", [Look(exact=False), Look(0x202020, 0xE0E0E0, 0xB35C00, dark=False, exact=False)]
)
def test_a_tint_is_neither_olive_nor_red_but_a_grey_that_is_not_the_background(look):
    for colour in (*OKABE_ITO, look.accent):
        for share in (0.18, 0.28):
            red, green, blue = as_sent(look.tint(colour, share))
            assert red == green == blue
            assert (red, green, blue) != as_sent(look.background)
            assert contrast(look.text, look.tint(colour, share)) >= 4.5


def test_a_terminal_of_all_colours_gets_the_tint_itself():
    assert Look(background=0x000000).tint(0xFF8000, 0.5) == 0x804000
    assert Look(background=0x000000, exact=False).tint(0xFF8000, 0.5) == 0x4E4E4E  # 0.083 bright, as it is
