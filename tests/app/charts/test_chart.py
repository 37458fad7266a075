"""Line charts as characters."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.results.figures.palette import OKABE_ITO, channels, contrast
from tests.app.charts.pictures import IN_ASCII, LOOK, NO_COLOUR, draw, drawn, picture, rows_of
from tui.app.charts.chart import GUTTER, Band, Entry, Figure, Mark, Series, legend_rows, lines_of, place_at
from tui.app.charts.look import BLOCK, BRAILLE, DEFAULT, GLYPHS, Look

rising = Series("up", np.array([0.0, 0.5, 1.0]))


def legend(figure, width=60):
    """The first row of a chart without its outer spaces."""
    return rows_of(figure, width, 10)[0].strip()


def test_a_small_ascii_chart_in_full():
    figure = Figure([rising, Series("flat", np.full(3, 0.5))], x_label="r", y_range=(0, 1))
    # 18 columns for rounds 1…3 and 5 rows for 0…1: the line rises by one row every 17 / 4 columns
    assert drawn(draw(figure, 22, 8, IN_ASCII)) == picture(
        """
        |    1 up 1.000        |
        |1.0+               111|
        |   |           1111   |
        |0.5+222222211112222222|
        |   |   1111           |
        |0.0+111               |
        |   ++--------+--------|
        |    1        2       r|
        """
    )


def test_dots_are_parts_of_a_cell():
    # braille: two columns of cells, one row: dots 0–3 high, four columns; 0, 1, 2, 3 quarters of the way
    figure = Figure([Series("up", np.array([0.0, 1.0]))], y_range=(0, 1))
    assert rows_of(figure, 2, 1) == ["⡠⠊"]
    assert rows_of(figure, 2, 1, Look(glyphs=BLOCK)) == ["▄▀"]


@pytest.mark.parametrize(("look", "minus"), [(LOOK, "−"), (IN_ASCII, "-")])
def test_negative_numbers_on_axes_and_in_the_legend_have_a_minus_sign(look, minus):
    """The line falls from 1 to −1 over rounds −2 to 0, where the cursor is at −1."""
    figure = Figure([Series("a", np.array([1.0, 0.0, -1.0]), x=np.array([-2.0, -1.0, 0.0]))], cursor=0.0)
    legend, *plot, below = rows_of(figure, 60, 12, look)
    assert f"{minus}1.000" in legend
    assert plot[-2].startswith(f"{minus}1")
    assert below.split() == [f"{minus}2", f"{minus}1", "0"]


def test_a_gap_is_empty_columns():
    figure = Figure([Series("a", np.array([0.5, 0.5, np.nan, 0.5, 0.5]))], y_range=(0, 1))
    # 9 cells of two dots for rounds 1–5: round 2 in the fifth dot, round 4 in the fourteenth
    assert [cell == " " for cell in rows_of(figure, 9, 3)[1]] == [False] * 3 + [True] * 3 + [False] * 3


@pytest.mark.parametrize("glyphs", GLYPHS.values(), ids=GLYPHS)
def test_a_chart_has_the_size_asked_for_at_any_size(glyphs):
    mean = Series("mean", np.array([0.1, np.nan, 0.3]), pinned=True)
    figure = Figure([rising, mean], Band("band", np.zeros(3), np.ones(3)), [Mark(2, "fedgh")], cursor=2)
    for size in ((1, 1), (3, 2), (20, 5), (24, 6), (80, 24), (120, 40)):
        canvas = draw(figure, *size, Look(glyphs=glyphs))
        assert (canvas.width, canvas.height) == size


def test_a_chart_without_data_shows_its_axes():
    rows = rows_of(Figure(x_label="round"), 40, 10, IN_ASCII)
    assert rows[0].startswith("1.0+") and rows[-1].endswith("round")


def test_ascii_glyphs_are_all_ascii():
    figure = Figure(
        [Series(str(each), np.random.default_rng(each).random(50), pinned=each < 2) for each in range(20)],
        Band("band", np.zeros(50), np.ones(50)),
        [Mark(10, "switch"), Mark(12, "a label too long for the chart it is in")],
        cursor=30,
    )
    assert draw(figure, 60, 20, replace(IN_ASCII, coloured=False)).text().isascii()


def test_the_y_axis_shows_the_values_at_both_ends_of_the_x_range():
    for values in ([9.0, 1, 1, 2], [2, 1, 1, 9.0]):
        assert Figure([Series("a", np.array(values))]).y_axis().high >= 9


def test_at_the_cursor_lines_bands_and_crowds_say_their_values():
    band = Band("most", np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.75, 0.9]))
    assert legend(Figure([rising], band, cursor=2)) == "▒ most 0.200–0.750  1 up 0.500"
    assert legend(Figure([rising], band)) == "▒ most  1 up 1.000"
    crowd = [Series(str(place), np.array([0.0, place, 50.0])) for place in range(9)]
    assert legend(Figure(crowd, cursor=2, crowd="clients", unit="%")) == "9 clients 0.0–8.0 %"
    assert legend(Figure(crowd, crowd="clients")) == "9 clients"


def test_over_a_cost_the_legend_reads_the_nearest_point_and_over_rounds_the_last():
    points = Series("a", np.array([0.1, 0.2]), np.array([10.0, 20.0]))
    for over, at, text in (
        ("bytes", 16, "1 a 0.200"),
        ("rounds", 16, "at r10  1 a 0.100"),
        ("bytes", 5, "1 a 0.100"),
        ("bytes", 4, "1 a"),  # half a step before it begins, as a fork does
    ):
        assert legend(Figure([points], over=over, cursor=at)) == text


def test_values_side_by_side_are_of_the_last_common_round_or_say_of_which():
    longer, shorter = Series("a", np.array([10.0, 20.0, 30.0, 40.0])), Series("b", np.array([50.0, 60.0]))
    for cursor, text in (
        (None, "at r2  1 a 20.0 %  2 b 60.0 %"),  # not 40 % of round 4 beside 60 % of round 2
        (3, "1 a 30.0 %  2 b 60.0 % (r2)"),
        (2, "1 a 20.0 %  2 b 60.0 %"),
    ):
        assert legend(Figure([longer, shorter], unit="%", over="rounds", cursor=cursor)) == text
    values = np.array([10.0, 20.0])
    odd, even = Series("a", values, np.array([1, 3])), Series("b", values, np.array([2, 4]))
    assert legend(Figure([odd, even], unit="%", over="rounds")) == "1 a 20.0 % (r3)  2 b 20.0 %"
    cheap, costly = Series("a", values, np.array([1.0, 2.0])), Series("b", values, np.array([4.0, 8.0]))
    assert legend(Figure([cheap, costly], unit="%", over="bytes")) == "1 a 20.0 % (to 2)  2 b 20.0 %"


def test_a_column_is_pointed_at_where_the_cursor_would_be_drawn():
    figure = Figure([rising, Series("flat", np.full(3, 0.5))], y_range=(0, 1), named=True)
    for width in (20, 64, 120):
        for x in (1.0, 2.0, 3.0):
            pointed = replace(figure, cursor=x)
            column = rows_of(pointed, width, 12, IN_ASCII)[-2].index("^")
            assert place_at(pointed, column, width, 12, IN_ASCII) == x
    assert place_at(figure, 0, 40, 12, IN_ASCII) is None
    assert place_at(figure, 39, 40, 12, IN_ASCII) is None  # where the keys stand
    assert place_at(Figure(), 20, 40, 12, IN_ASCII) is None


def test_names_at_the_ends_are_cut_in_their_middle_and_left_out_where_it_is_narrow():
    figure = Figure([Series("quickstart-of-a-long-name", np.zeros(3))], y_range=(0, 1), named=True)
    wide, narrow = (rows_of(figure, width, 10) for width in (80, 59))
    assert wide[7].endswith(" 1 quicksta…ng-name")  # a fifth of 80 cells
    assert narrow[7].endswith(" 1")


def test_the_cursor_is_a_line_over_its_round_named_below_the_axis():
    rows = drawn(draw(Figure([rising], cursor=2, y_range=(0, 1)), 34, 10, IN_ASCII))
    column = rows[-2].index("^")
    assert rows[-1][column - 1 : column + 2] == " 2 "
    assert [row[column] for row in rows[1:-2]].count("|") == 6  # of seven rows one holds the line itself


def test_the_cursors_number_takes_no_digit_from_those_beside_it():
    figure = Figure([Series("a", np.arange(24.0))], x_label="round")
    plain = rows_of(figure, 34, 10)[-1].split()
    for cursor in range(1, 25):
        words = rows_of(replace(figure, cursor=cursor), 34, 10)[-1].split()
        assert str(cursor) in words and {*words} <= {*plain, str(cursor)}


def test_the_legend_has_the_rows_that_its_entries_need_but_one_in_six_of_the_charts():
    entries = [Entry(str(place), "ten cells.", "", 0) for place in range(6)]  # two fit into a row of 26
    rows = {height: legend_rows(entries, 26 + GUTTER, height) for height in (6, 7, 11, 12, 17, 18, 60)}
    assert rows == {6: 0, 7: 1, 11: 1, 12: 2, 17: 2, 18: 3, 60: 3}


def test_marks_stand_under_their_labels_which_never_run_into_one_another():
    rows = drawn(draw(Figure([rising], marks=[Mark(2, "fedgh")]), 40, 12))
    column = rows[1].index("▼")
    assert rows[1][column:].startswith("▼fedgh")
    assert [row[column] for row in rows[2:10]].count("┊") == 7  # of eight rows one holds the line itself
    marks = [Mark(place, f"mark{place}") for place in (10, 11, 12, 40, 43, 99)]
    row = rows_of(Figure([Series("a", np.arange(100.0))], marks=marks), 60, 16)[1]
    assert "mark99▼" in row
    assert {word.strip("▼") for word in row.split()} <= {mark.label for mark in marks} | {""}


def test_keys_of_lines_that_end_together_stand_in_rows_of_their_own():
    figure = Figure([Series(name, np.full(5, 0.5)) for name in "abc"], y_range=(0, 1))
    ends = [row[-1] for row in drawn(draw(figure, 40, 12))]
    assert sorted("".join(ends).replace(" ", "")) == ["1", "2", "3"]


def test_up_to_eight_lines_have_keys_and_more_are_a_crowd_under_pinned_ones():
    ones = [Series(str(place), np.ones(3)) for place in range(9)]
    assert sorted(line.key for line in lines_of(Figure(ones[:8]), LOOK)) == list("12345678")
    pinned = Series("mean", np.ones(3), pinned=True, key="m")
    assert [line.key for line in lines_of(Figure([pinned, *ones]), LOOK)] == [""] * 9 + ["m"]
    lines = lines_of(Figure([ones[0], replace(ones[1], key="1")]), LOOK)  # a chosen key is not given again
    assert {line.name: line.key for line in lines} == {"0": "2", "1": "1"}


def test_on_a_terminals_own_background_no_colour_is_made_up_for_it():
    figure = Figure([rising], Band("band", np.zeros(3), np.ones(3)))
    canvas = draw(figure, 40, 12, Look(text=DEFAULT, background=DEFAULT))
    assert (canvas.bg == DEFAULT).all()
    assert "░" in canvas.text()


def test_a_band_is_shaded_between_its_edges():
    figure = Figure([], Band("band", np.full(4, 0.25), np.full(4, 0.75)), y_range=(0, 1))
    # three rows for 0, 0.5 and 1: 0.25 is half-way to the middle one and 0.75 half-way to the top, and both round up
    shown = draw(figure, 20, 5, replace(IN_ASCII, coloured=False))
    assert [row[2:] for row in drawn(shown)[:3]] == ["." * 18, "." * 18, " " * 18]


def test_where_a_band_can_only_be_grey_the_legend_shows_it_grey():
    band = Band("most", np.array([0.2, 0.2]), np.array([0.8, 0.8]), colour=0xE69F00)
    figure = Figure([Series("a", np.array([0.5, 0.5]))], band, y_range=(0, 1))
    for exact, grey in ((True, False), (False, True)):
        canvas = draw(figure, 40, 12, Look(exact=exact))
        red, green, blue = channels(int(canvas.fg[0, drawn(canvas)[0].index("▒")]))
        assert (red == green == blue) is grey


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("dark", [True, False])
def test_every_line_reads_on_a_band_and_a_band_of_characters_on_its_ground(dark, exact):
    surface = Look(*((0xE0E0E0, 0x121212) if dark else (0x202020, 0xE0E0E0)), dark=dark, exact=exact)
    lines = [Series(str(place), np.full(4, place / 10), pinned=True) for place in range(1, 9)]
    for colour in OKABE_ITO:
        figure = Figure(lines, Band("band", np.zeros(4), np.ones(4), colour=colour), y_range=(0, 1))
        canvas = draw(figure, 40, 40, surface)
        there = np.isin(canvas.chars, BRAILLE.cells[1:]) & (canvas.bg != surface.background)
        pairs = {*zip(canvas.fg[there].tolist(), canvas.bg[there].tolist(), strict=True)}
        assert len(pairs) == len(lines) and min(contrast(*pair) for pair in pairs) >= 3
    band = Figure([], Band("band", np.zeros(4), np.ones(4)))
    shaded = draw(band, 40, 12, replace(surface, glyphs=IN_ASCII.glyphs)).window(1, 6, 8, 30)
    assert drawn(shaded) == ["." * 30] * 8
    assert min(contrast(int(fg), surface.background) for fg in np.unique(shaded.fg)) >= 3


def test_what_may_be_shown_in_the_bands_place_has_room_and_is_not_drawn():
    shown, other = Band("a", np.zeros(4), np.ones(4)), Band("b", np.full(4, 5.0), np.full(4, 9.0))
    plain, both = Figure([rising], shown), Figure([rising], shown, bands=[other])
    assert both.y_axis().high >= 9
    plain, both = (rows_of(replace(one, y_range=(0, 9)), 40, 12, NO_COLOUR) for one in (plain, both))
    assert plain == both


def test_lines_of_one_colour_can_be_told_apart_by_their_strokes():
    def dots(stroke):
        line = Series("a", np.full(4, 0.5), pinned=True, colour=OKABE_ITO[0], key="a", stroke=stroke)
        plot = draw(Figure([line], y_range=(0, 1)), 120, 12).window(1, 5, 9, 110)
        return tuple(np.isin(plot.chars, BRAILLE.cells[1:]).any(axis=0).tolist())

    assert all(dots(0)) and len({dots(stroke) for stroke in range(6)}) == 6
    many = lines_of(Figure([Series(str(each), np.ones(3), pinned=True) for each in range(20)]), LOOK)
    assert len({(line.colour, line.stroke) for line in many}) == 20  # beyond the palette's colors, too


@given(at=st.integers(2, 97), stroke=st.integers(0, 5))
def test_a_spike_survives_any_stroke(at, stroke):
    y = np.full(100, 0.1)
    y[at] = 1.0
    line = Series("a", y, pinned=True, stroke=stroke)
    top = draw(Figure([line], y_range=(0, 1)), 60, 12).window(1, 5, 1, 55)
    assert np.isin(top.chars, BRAILLE.cells[1:]).any()


def test_in_ascii_a_line_has_one_mark_in_the_plot_in_the_legend_and_at_its_end():
    keys = ("1:3", "2:3", "12", "4")
    lines = [Series(f"line{key}", np.full(9, at / 4), pinned=True, key=key) for at, key in enumerate(keys)]
    rows = drawn(draw(Figure(lines, y_range=(0, 1), named=True), 90, 16, IN_ASCII))
    for mark, key in zip(("A 1:3", "B 2:3", "C 12", "4"), keys, strict=True):
        assert f"{mark} line{key} " in " ".join(rows[:2])
        (end,) = (row for row in rows[2:] if row.rstrip().endswith(f" {mark} line{key}"))
        assert mark[0] * 40 in end


def test_without_colour_lines_have_their_whole_keys_on_them_however_many_lie_on_one_another():
    keys = [f"{run}:{client}" for run in (1, 2, 3) for client in (3, 7, 12)]
    lines = [Series(key, np.full(9, 0.5), pinned=True, key=key) for key in keys]
    plot = draw(Figure(lines, y_range=(0, 1)), 76, 30, NO_COLOUR).window(5, 4, 23, 67)
    assert {"".join(filter(str.isascii, word)) for word in re.findall(r"[\d:]+", plot.text())} == {*keys}


def test_a_series_has_places_of_its_own_sorted_and_as_many_as_values():
    one = Series("a", np.array([1.0, 2]), np.array([0.0, 10]))
    assert Figure([one, replace(one, x=np.array([5.0, 40]))]).x_extent == (0.0, 40.0)
    x, y = Series("a", np.array([3.0, 1.0, 9.0]), np.array([3.0, 1.0, np.nan])).points
    assert (x.tolist(), y.tolist()) == ([1.0, 3.0], [1.0, 3.0])
    with pytest.raises(ValueError, match="series 'a' has 2 values over 3 places"):
        _ = Series("a", np.ones(2), np.ones(3)).points


@pytest.mark.long
@settings(max_examples=60)
@given(
    y=st.lists(st.floats(width=32), max_size=40),
    x=st.lists(st.floats(width=32), min_size=40, max_size=40),
    size=st.tuples(st.integers(0, 50), st.integers(0, 20)),
    cursor=st.none() | st.floats(width=32),
)
def test_a_diverging_run_is_drawn_like_any_other(y, x, size, cursor):
    own = Series("own", np.array(y), np.array(x[: len(y)]))
    figure = Figure([own, Series("loss", np.array(y))], marks=[Mark(x[0], "m")], cursor=cursor)
    canvas = draw(figure, *size)
    assert (canvas.width, canvas.height) == size
