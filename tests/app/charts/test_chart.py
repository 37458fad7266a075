"""Line charts as characters."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.results.figures.palette import channels
from tests.app.charts.pictures import braille_dots, drawn, picture
from tui.app.charts.canvas import DEFAULT
from tui.app.charts.chart import GUTTER, Entry, draw_chart, legend_rows, lines_of, place_at
from tui.app.charts.figure import Band, Figure, Mark, Series
from tui.app.charts.look import ASCII, BLOCK, BRAILLE, GLYPHS, OKABE_ITO, Look, contrast

NO_COLOUR = Look(coloured=False)
rising = Series("up", np.array([0.0, 0.5, 1.0]))


def test_a_small_ascii_chart_in_full():
    figure = Figure([rising, Series("flat", np.full(3, 0.5))], x_label="r", y_range=(0, 1))
    # 18 columns for rounds 1…3 and 5 rows for 0…1: the line rises by one row every 17 / 4 columns
    assert drawn(draw_chart(figure, 22, 8, Look(glyphs=ASCII))) == picture(
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


@pytest.mark.parametrize(("glyphs", "minus"), [(BRAILLE, "−"), (ASCII, "-")])
def test_negative_numbers_on_axes_and_in_the_legend_have_a_minus_sign(glyphs, minus):
    """The line falls from 1 to −1 over rounds −2 to 0, where the cursor is at −1."""
    figure = Figure([Series("a", np.array([1.0, 0.0, -1.0]), x=np.array([-2.0, -1.0, 0.0]))])
    legend, *plot, below = drawn(draw_chart(replace(figure, cursor=0.0), 60, 12, Look(glyphs=glyphs)))
    assert f"{minus}1.000" in legend
    assert plot[-2].startswith(f"{minus}1")
    assert below.split() == [f"{minus}2", f"{minus}1", "0"]


def test_braille_dots_are_a_quarter_of_a_row_and_half_a_column_apart():
    # two columns of cells, one row: dots 0–3 high, four columns; 0, 1, 2, 3 quarters of the way
    figure = Figure([Series("up", np.array([0.0, 1.0]))], y_range=(0, 1))
    assert drawn(draw_chart(figure, 2, 1, Look())) == ["⡠⠊"]


def test_block_dots_are_half_a_row_and_half_a_column_apart():
    figure = Figure([Series("up", np.array([0.0, 1.0]))], y_range=(0, 1))
    assert drawn(draw_chart(figure, 2, 1, Look(glyphs=BLOCK))) == ["▄▀"]


@settings(max_examples=25)
@given(rounds=st.integers(30, 600), at=st.floats(0, 0.999), glyphs=st.sampled_from(list(GLYPHS)))
def test_a_spike_of_one_round_is_seen_in_the_top_row_of_the_plot(rounds, at, glyphs):
    y = np.full(rounds, 0.1)
    y[int(at * rounds)] = 1.0
    top = drawn(draw_chart(Figure([Series("a", y)], y_range=(0, 1)), 40, 12, Look(glyphs=GLYPHS[glyphs])))[1]
    bare = drawn(
        draw_chart(Figure([Series("a", y * 0 + 0.1)], y_range=(0, 1)), 40, 12, Look(glyphs=GLYPHS[glyphs]))
    )[1]
    assert top != bare


def test_a_gap_is_empty_columns():
    y = np.array([0.5, 0.5, np.nan, 0.5, 0.5])
    dots = braille_dots(draw_chart(Figure([Series("a", y)], y_range=(0, 1)), 9, 3, Look())).any(axis=0)
    # 18 columns for rounds 1–5: round 2 in column 4, round 4 in column 13
    assert dots.tolist() == [True] * 5 + [False] * 8 + [True] * 5


@pytest.mark.parametrize("glyphs", list(GLYPHS))
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (20, 5), (24, 6), (80, 24), (120, 40), (200, 60)])
def test_a_chart_has_the_size_asked_for_at_any_size(glyphs, size):
    figure = Figure(
        [rising, Series("mean", np.array([0.1, np.nan, 0.3]), pinned=True)],
        Band("band", np.zeros(3), np.ones(3)),
        [Mark(2, "fedgh")],
        "round",
        cursor=2,
    )
    canvas = draw_chart(figure, *size, Look(glyphs=GLYPHS[glyphs]))
    assert (canvas.width, canvas.height) == size


def test_a_chart_without_data_shows_its_axes():
    text = draw_chart(Figure(x_label="round"), 40, 10, Look(glyphs=ASCII)).text()
    assert "1.0+" in text
    assert "round" in text


def test_ascii_glyphs_are_all_ascii():
    figure = Figure(
        [
            Series(str(place), np.random.default_rng(place).random(50), pinned=place < 2)
            for place in range(20)
        ],
        Band("band", np.zeros(50), np.ones(50)),
        [Mark(10, "switch"), Mark(12, "a label too long for the chart it is in")],
        cursor=30,
    )
    assert draw_chart(figure, 60, 20, replace(NO_COLOUR, glyphs=ASCII)).text().isascii()


def test_the_legend_gives_the_values_at_the_cursor():
    figure = Figure([rising], cursor=2)
    assert "1 up 0.500" in drawn(draw_chart(figure, 40, 10, Look()))[0]


def test_at_the_cursor_a_band_says_what_it_reaches_from_and_to():
    band = Band("most", np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.75, 0.9]))
    for cursor, text in ((2, "▒ most 0.200–0.750  1 up 0.500"), (None, "▒ most  1 up 1.000")):
        figure = Figure([rising], band, cursor=cursor)
        assert drawn(draw_chart(figure, 60, 10, Look()))[0].strip() == text


def test_at_the_cursor_a_crowd_says_what_it_reaches_from_and_to():
    crowd = [Series(str(place), np.array([0.0, place, 50.0])) for place in range(9)]
    figure = Figure(crowd, cursor=2, crowd="clients", unit="%")
    assert drawn(draw_chart(figure, 40, 10, Look(glyphs=ASCII)))[0].strip() == "9 clients 0.0-8.0 %"


def test_over_a_cost_the_legend_reads_the_nearest_point_and_over_rounds_the_last():
    points = Series("a", np.array([0.1, 0.2]), np.array([10.0, 20.0]))
    for over, at, text in (
        ("bytes", 16, "1 a 0.200"),
        ("rounds", 16, "at r10  1 a 0.100"),
        ("bytes", 5, "1 a 0.100"),
        ("bytes", 4, "1 a"),  # half a step before it begins, as a fork does
    ):
        figure = Figure([points], over=over, cursor=at)
        assert drawn(draw_chart(figure, 40, 10, Look()))[0].strip() == text


@pytest.mark.parametrize(
    ("cursor", "text"),
    [
        (None, "at r2  1 a 20.0 %  2 b 60.0 %"),  # not 40 % of round 4 beside 60 % of round 2
        (3, "1 a 30.0 %  2 b 60.0 % (r2)"),
        (2, "1 a 20.0 %  2 b 60.0 %"),
        (1, "1 a 10.0 %  2 b 50.0 %"),
    ],
)
def test_values_side_by_side_are_of_the_last_common_round_or_say_of_which(cursor, text):
    longer, shorter = Series("a", np.array([10.0, 20.0, 30.0, 40.0])), Series("b", np.array([50.0, 60.0]))
    figure = Figure([longer, shorter], unit="%", over="rounds", cursor=cursor)
    assert drawn(draw_chart(figure, 60, 10, Look()))[0].strip() == text


def test_without_a_common_round_each_value_has_its_own():
    odd, even = (
        Series(name, np.array([10.0, 20.0]), np.array(rounds))
        for name, rounds in (("a", [1, 3]), ("b", [2, 4]))
    )
    figure = Figure([odd, even], unit="%", over="rounds")
    assert drawn(draw_chart(figure, 60, 10, Look()))[0].strip() == "1 a 20.0 % (r3)  2 b 20.0 %"


def test_over_a_cost_a_line_that_ends_earlier_says_where():
    cheap, costly = (
        Series(name, np.array([10.0, 20.0]), np.array(bytes))
        for name, bytes in (("a", [1.0, 2.0]), ("b", [4.0, 8.0]))
    )
    figure = Figure([cheap, costly], unit="%", over="bytes", x_label="MiB")
    assert drawn(draw_chart(figure, 60, 10, Look()))[0].strip() == "1 a 20.0 % (to 2)  2 b 20.0 %"


@pytest.mark.parametrize("width", [20, 40, 64, 120])
def test_a_column_is_pointed_at_where_the_cursor_would_be_drawn(width):
    figure = Figure([rising, Series("flat", np.full(3, 0.5))], y_range=(0, 1), named=True)
    for x in (1.0, 2.0, 3.0):
        pointed = replace(figure, cursor=x)
        column = drawn(draw_chart(pointed, width, 12, Look(glyphs=ASCII)))[-2].index("^")
        assert place_at(pointed, column, width, 12, Look(glyphs=ASCII)) == x


def test_beside_the_plot_and_without_lines_there_is_no_place():
    figure = Figure([rising], y_range=(0, 1))
    assert place_at(figure, 0, 40, 12, Look(glyphs=ASCII)) is None
    assert place_at(figure, 39, 40, 12, Look(glyphs=ASCII)) is None  # where the keys stand
    assert place_at(Figure(), 20, 40, 12, Look(glyphs=ASCII)) is None


def test_names_at_the_ends_are_cut_in_their_middle_and_left_out_where_it_is_narrow():
    figure = Figure([Series("quickstart-of-a-long-name", np.zeros(3))], y_range=(0, 1), named=True)
    wide, narrow = (drawn(draw_chart(figure, width, 10, Look())) for width in (80, 59))
    assert wide[7].endswith(" 1 quicksta…ng-name")  # a fifth of 80 cells
    assert narrow[7].endswith(" 1")


def test_the_cursor_is_a_line_over_its_round_named_below_the_axis():
    rows = drawn(draw_chart(Figure([rising], cursor=2, y_range=(0, 1)), 34, 10, Look(glyphs=ASCII)))
    column = rows[-2].index("^")
    assert rows[-1][column - 1 : column + 2] == " 2 "
    assert [row[column] for row in rows[1:-2]].count("|") == 6  # of seven rows one holds the line itself


@pytest.mark.parametrize("width", [34, 60])
def test_the_cursors_number_takes_no_digit_from_those_beside_it(width):
    figure = Figure([Series("a", np.arange(24.0))], x_label="round")
    plain = drawn(draw_chart(figure, width, 10, Look()))[-1].split()
    for cursor in range(1, 25):
        row = drawn(draw_chart(replace(figure, cursor=cursor), width, 10, Look()))[-1]
        assert str(cursor) in row.split()
        assert {*row.split()} <= {*plain, str(cursor)}


@pytest.mark.parametrize(("height", "rows"), [(6, 0), (7, 1), (11, 1), (12, 2), (17, 2), (18, 3), (60, 3)])
def test_the_legend_has_the_rows_that_its_entries_need_but_one_in_six_of_the_charts(height, rows):
    entries = [Entry(str(place), "ten cells.", "", 0) for place in range(6)]  # two fit into a row of 26
    assert legend_rows(entries, 26 + GUTTER, height) == rows


def test_marks_stand_under_their_labels():
    rows = drawn(draw_chart(Figure([rising], marks=[Mark(2, "fedgh")]), 40, 12, Look()))
    column = rows[1].index("▼")
    assert rows[1][column:].startswith("▼fedgh")
    assert [row[column] for row in rows[2:10]].count("┊") == 7  # of eight rows one holds the line itself


def test_labels_of_marks_never_run_into_one_another():
    marks = [Mark(place, f"mark{place}") for place in (10, 11, 12, 40, 43, 99)]
    figure = Figure([Series("a", np.arange(100.0))], marks=marks)
    row = drawn(draw_chart(figure, 60, 16, Look()))[1]
    assert "mark99▼" in row
    words = [word.strip("▼") for word in row.split()]
    assert all(word in {mark.label for mark in marks} | {""} for word in words)


def test_keys_of_lines_that_end_together_stand_in_rows_of_their_own():
    figure = Figure([Series(name, np.full(5, 0.5)) for name in "abc"], y_range=(0, 1))
    ends = [row[-1] for row in drawn(draw_chart(figure, 40, 12, Look()))]
    assert sorted("".join(ends).strip().replace(" ", "")) == ["1", "2", "3"]


def test_up_to_eight_lines_have_keys_and_more_are_a_crowd():
    def keys(count):
        figure = Figure([Series(str(place), np.ones(3)) for place in range(count)])
        return sorted(line.key for line in lines_of(figure, Look()))

    assert keys(8) == list("12345678")
    assert keys(9) == [""] * 9


def test_a_crowd_is_counted_in_the_legend():
    figure = Figure([Series(str(place), np.ones(3)) for place in range(9)], crowd="clients")
    assert drawn(draw_chart(figure, 40, 10, Look()))[0].strip() == "9 clients"


def test_pinned_lines_are_named_in_a_crowd_and_drawn_last():
    crowd = [Series(str(place), np.ones(3)) for place in range(20)]
    lines = lines_of(Figure([Series("mean", np.ones(3), pinned=True, key="m"), *crowd]), Look())
    assert [line.key for line in lines] == [""] * 20 + ["m"]


def test_a_key_asked_for_is_not_given_to_another_line():
    lines = lines_of(Figure([Series("a", np.ones(2)), Series("b", np.ones(2), key="1")]), Look())
    assert {line.series.name: line.key for line in lines} == {"a": "2", "b": "1"}


def test_without_colour_lines_carry_their_keys_and_no_colour_of_their_own():
    figure = Figure(
        [Series(name, np.full(60, level)) for name, level in (("a", 0.2), ("b", 0.8))], y_range=(0, 1)
    )
    canvas = draw_chart(figure, 80, 12, NO_COLOUR)
    plot = drawn(canvas)[1:10]
    assert sum(row[:-2].count("1") for row in plot) >= 3
    assert sum(row[:-2].count("2") for row in plot) >= 3
    assert all(len({int(x >> 16 & 255), int(x >> 8 & 255), int(x & 255)}) == 1 for x in np.unique(canvas.fg))


def test_on_a_terminals_own_background_no_colour_is_made_up_for_it():
    figure = Figure([rising], Band("band", np.zeros(3), np.ones(3)))
    canvas = draw_chart(figure, 40, 12, Look(text=DEFAULT, background=DEFAULT))
    assert (canvas.bg == DEFAULT).all()
    assert "░" in canvas.text()


def test_a_band_is_shaded_between_its_edges():
    figure = Figure([], Band("band", np.full(4, 0.25), np.full(4, 0.75)), y_range=(0, 1))
    canvas = draw_chart(figure, 20, 5, Look(coloured=False, glyphs=ASCII))
    # a plot of 3 rows: 0 is the lowest, 1 the highest, so that 0.25 and 0.75 both round to the middle
    # three rows for 0, 0.5 and 1: 0.25 is half-way to the middle one and 0.75 half-way to the top, and both round up
    assert [row[2:] for row in drawn(canvas)[:3]] == ["." * 18, "." * 18, " " * 18]


def test_where_a_band_can_only_be_grey_the_legend_shows_it_grey():
    band = Band("most", np.array([0.2, 0.2]), np.array([0.8, 0.8]), colour=0xE69F00)
    figure = Figure([Series("a", np.array([0.5, 0.5]))], band, y_range=(0, 1))
    for exact, grey in ((True, False), (False, True)):
        canvas = draw_chart(figure, 40, 12, Look(exact=exact))
        red, green, blue = channels(int(canvas.fg[0, drawn(canvas)[0].index("▒")]))
        assert (red == green == blue) is grey


SURFACES = [
    pytest.param(Look(0xE0E0E0, 0x121212), id="dark"),
    pytest.param(Look(0xE0E0E0, 0x121212, exact=False), id="dark-256"),
    pytest.param(Look(0x202020, 0xE0E0E0, dark=False), id="light"),
    pytest.param(Look(0x202020, 0xE0E0E0, dark=False, exact=False), id="light-256"),
]


@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCK])
@pytest.mark.parametrize("scheme", SURFACES)
@pytest.mark.parametrize("colour", OKABE_ITO)
def test_every_line_reads_on_a_band(glyphs, scheme, colour):
    lines = [Series(str(place), np.full(4, place / 10), pinned=True) for place in range(1, 9)]
    figure = Figure(lines, Band("band", np.zeros(4), np.ones(4), colour=colour), y_range=(0, 1))
    canvas = draw_chart(figure, 40, 40, replace(scheme, glyphs=glyphs))
    drawn_there = np.isin(canvas.chars, glyphs.cells[1:]) & (canvas.bg != scheme.background)
    pairs = {*zip(canvas.fg[drawn_there].tolist(), canvas.bg[drawn_there].tolist(), strict=True)}
    assert len(pairs) == len(lines)
    assert min(contrast(*pair) for pair in pairs) >= 3


@pytest.mark.parametrize("scheme", SURFACES)
def test_a_band_of_characters_is_no_fainter_than_what_else_must_be_seen(scheme):
    canvas = draw_chart(
        Figure([], Band("band", np.zeros(4), np.ones(4))), 40, 12, replace(scheme, glyphs=ASCII)
    )
    shaded = canvas.window(1, 6, 8, 30)
    assert drawn(shaded) == ["." * 30] * 8
    assert min(contrast(int(fg), scheme.background) for fg in np.unique(shaded.fg)) >= 3


def test_what_may_be_shown_in_the_bands_place_has_room_and_is_not_drawn():
    shown, other = Band("a", np.zeros(4), np.ones(4)), Band("b", np.full(4, 5.0), np.full(4, 9.0))
    plain, both = Figure([rising], shown, y_range=(0, 9)), Figure([rising], shown, bands=[other])
    assert both.y_axis().high >= 9
    canvases = [
        draw_chart(replace(one, y_range=(0, 9)), 40, 12, replace(NO_COLOUR, glyphs=ASCII))
        for one in (plain, both)
    ]
    assert drawn(canvases[0]) == drawn(canvases[1])


@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCK])
def test_lines_of_one_colour_can_be_told_apart_by_their_strokes(glyphs):
    def dots(stroke):
        line = Series("a", np.full(4, 0.5), pinned=True, colour=OKABE_ITO[0], key="a", stroke=stroke)
        plot = draw_chart(Figure([line], y_range=(0, 1)), 120, 12, Look(glyphs=glyphs)).window(1, 5, 9, 110)
        return tuple(np.isin(plot.chars, glyphs.cells[1:]).any(axis=0).tolist())

    assert all(dots(0))
    assert len({dots(stroke) for stroke in range(6)}) == 6


@given(at=st.integers(2, 97), stroke=st.integers(0, 5))
def test_a_spike_survives_any_stroke(at, stroke):
    y = np.full(100, 0.1)
    y[at] = 1.0
    line = Series("a", y, pinned=True, stroke=stroke)
    top = draw_chart(Figure([line], y_range=(0, 1)), 60, 12, Look()).window(1, 5, 1, 55)
    assert np.isin(top.chars, BRAILLE.cells[1:]).any()


def test_lines_beyond_the_palettes_colours_have_other_strokes():
    lines = lines_of(Figure([Series(str(place), np.ones(3), pinned=True) for place in range(20)]), Look())
    assert len({(line.fg, line.stroke) for line in lines}) == 20


def test_in_ascii_a_line_has_one_mark_in_the_plot_in_the_legend_and_at_its_end():
    keys = ("1:3", "2:3", "12", "4")
    lines = [
        Series(f"line{key}", np.full(9, place / 4), pinned=True, key=key) for place, key in enumerate(keys)
    ]
    rows = drawn(draw_chart(Figure(lines, y_range=(0, 1), named=True), 90, 16, Look(glyphs=ASCII)))
    for mark, key in zip(("A 1:3", "B 2:3", "C 12", "4"), keys, strict=True):
        assert f"{mark} line{key} " in " ".join(rows[:2])
        (end,) = (row for row in rows[2:] if row.rstrip().endswith(f" {mark} line{key}"))
        assert mark[0] * 40 in end


def test_without_colour_lines_have_their_whole_keys_on_them_however_many_lie_on_one_another():
    keys = [f"{run}:{client}" for run in (1, 2, 3) for client in (3, 7, 12)]
    lines = [Series(key, np.full(9, 0.5), pinned=True, key=key) for key in keys]
    plot = draw_chart(Figure(lines, y_range=(0, 1)), 76, 30, NO_COLOUR).window(5, 4, 23, 67)
    assert {"".join(filter(str.isascii, word)) for word in re.findall(r"[\d:]+", plot.text())} == {*keys}


def test_series_over_places_of_their_own_share_one_axis():
    figure = Figure(
        [
            Series("a", np.array([1.0, 2]), np.array([0.0, 10])),
            Series("b", np.array([1.0, 2]), np.array([5.0, 40])),
        ]
    )
    assert figure.x_extent() == (0.0, 40.0)


def test_places_out_of_order_or_missing_are_sorted_and_left_out():
    x, y = Series("a", np.array([3.0, 1.0, 9.0]), np.array([3.0, 1.0, np.nan])).points()
    assert (x.tolist(), y.tolist()) == ([1.0, 3.0], [1.0, 3.0])


def test_values_and_places_of_different_numbers_are_refused():
    with pytest.raises(ValueError, match="series 'a' has 2 values over 3 places"):
        Series("a", np.ones(2), np.ones(3)).points()


@pytest.mark.parametrize(
    "scheme",
    [Look(0xE0E0E0, 0x121212), Look(0x222222, 0xFAFAFA), Look(0xEBDBB2, 0x282828)],
)
@pytest.mark.parametrize("place", range(len(OKABE_ITO)))
def test_every_series_colour_reads_on_dark_and_on_light(scheme, place):
    assert contrast(scheme.series(place), scheme.background) >= 3


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
    canvas = draw_chart(figure, *size, Look())
    assert (canvas.width, canvas.height) == size
