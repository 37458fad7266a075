"""Heatmaps as cells."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulator.results.figures.palette import contrast, luminance
from tests.app.charts.pictures import drawn, picture
from tui.app.charts.canvas import REVERSE
from tui.app.charts.heatmap import (
    HeatFigure,
    binned,
    cell_at,
    cell_text,
    draw_heatmap,
    edges,
    levels_of,
    number_cells,
    plan_of,
)
from tui.app.charts.look import ASCII, BRAILLE, GLYPHS, HEAT_LEVELS, VIRIDIS, Look, text_on
from tui.app.widgets.heatmap import cluster_order

NO_COLOUR = Look(coloured=False)
LOW, HIGH = int(VIRIDIS[0]), int(VIRIDIS[-1])
matrices = st.tuples(st.integers(1, 30), st.integers(1, 30)).flatmap(
    lambda shape: arrays(float, shape, elements=st.floats(0, 1) | st.just(np.nan))
)


def figure(matrix, **options):
    matrix = np.array(matrix, float)
    names = [[str(place) for place in range(size)] for size in matrix.shape]
    return HeatFigure(matrix, *names, **{"value_range": (0, 1), **options})


def test_a_small_ascii_heatmap_in_full():
    # nine characters for 0…1: 0 is the first, 0.5 the fifth, 1 the ninth; an empty cell is empty
    shown = draw_heatmap(figure([[1, 0.5], [0, np.nan]]), 12, 5, Look(glyphs=ASCII))
    assert drawn(shown) == picture(
        """
        |@ 1 @@ .50 +|
        |@@@@@@++++++|
        | .00 .      |
        |......      |
        |0.000-1.000 |
        """
    )


def test_rows_that_do_not_fit_share_a_cell():
    canvas = draw_heatmap(figure([[0], [1], [1], [0]]), 2, 2, Look())
    assert drawn(canvas) == ["▀▀", "▀▀"]
    assert canvas.fg[:, 0].tolist() == [LOW, HIGH]
    assert canvas.bg[:, 0].tolist() == [HIGH, LOW]


def test_an_odd_last_row_leaves_the_lower_half_of_its_cell_empty():
    scheme = Look()
    canvas = draw_heatmap(figure([[0], [1], [1]]), 2, 2, scheme)
    assert (int(canvas.fg[1, 0]), int(canvas.bg[1, 0])) == (HIGH, scheme.background)


def test_more_rows_than_half_cells_are_averaged():
    # eight rows on two cells: four halves of two rows each, with means 0, 1, 0.5, 0.5
    canvas = draw_heatmap(figure([[0], [0], [1], [1], [0], [1], [1], [0]]), 2, 2, Look())
    middle = int(VIRIDIS[HEAT_LEVELS // 2])
    assert [int(canvas.fg[0, 0]), int(canvas.bg[0, 0])] == [LOW, HIGH]
    assert [int(canvas.fg[1, 0]), int(canvas.bg[1, 0])] == [middle, middle]


@given(matrices, st.data())
def test_binning_preserves_the_mean(matrix, data):
    rows, columns = data.draw(st.integers(1, matrix.shape[0])), data.draw(st.integers(1, matrix.shape[1]))
    means = binned(matrix, rows, columns)
    counts = np.array(
        [
            [np.isfinite(matrix[a:b, c:d]).sum() for c, d in pairwise(across)]
            for down, across in [(edges(matrix.shape[0], rows), edges(matrix.shape[1], columns))]
            for a, b in pairwise(down)
        ]
    )
    assert means.shape == (rows, columns)
    assert (np.isnan(means) == (counts == 0)).all()
    assert np.nansum(means * counts) == pytest.approx(np.nansum(matrix))


@given(st.integers(1, 500), st.data())
def test_bins_share_all_rows_out_evenly(count, data):
    sizes = np.diff(edges(count, data.draw(st.integers(1, count))))
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 1


@given(st.floats(-1, 2))
def test_every_value_has_a_level_and_those_outside_the_range_the_nearest(value):
    level = int(levels_of(np.array([value]), (0, 1), 10)[0])
    assert level == min(max(int(value * 10), 0), 9)


def test_an_empty_value_is_the_background():
    scheme = Look()
    canvas = draw_heatmap(figure([[np.nan]]), 4, 1, scheme)
    assert int(canvas.bg[0, 0]) == scheme.background


def test_values_are_written_where_they_fit_and_read_on_their_colours():
    canvas = draw_heatmap(figure([[0.83, 0.1], [0.5, 1]]), 40, 12, Look())
    assert all(text in canvas.text() for text in (".83", ".10", ".50", " 1 "))
    row, column = np.argwhere(canvas.chars == ord("8"))[0]
    assert contrast(int(canvas.fg[row, column]), int(canvas.bg[row, column])) >= 4.5


def across(rows, columns, width, height=24, **options):
    """The cells of each column."""
    return np.diff(plan_of(figure(np.zeros((rows, columns)), **options), width, height, True).starts).tolist()


def test_cells_grow_to_the_room_that_there_is():
    # 40 cells, of which 3 are for the names of rows and 9 for the color bar
    assert across(9, 14, 40) == [2] * 14  # 28 of 28
    assert across(9, 20, 40) == ([1, 1, 2, 1, 2] * 4)  # 28 cells for 20 columns: eight of them have two
    assert across(9, 26, 40) == [1] * 26  # nearly all of the room
    assert across(9, 2, 40, height=12) == [6, 6]  # a row of a cell is at most six cells wide


def test_numbers_in_the_cells_take_the_place_of_the_color_bar():
    wide = draw_heatmap(figure(np.full((9, 9), 0.5)), 40, 12, Look())
    assert across(9, 9, 40) == [4] * 9  # 36 of 37, which leaves no room for the bar
    assert drawn(wide)[0] == " 0 .50 .50 .50 .50 .50 .50 .50 .50 .50  "
    narrow = draw_heatmap(figure(np.full((9, 10), 0.5)), 40, 12, Look())
    assert "1.00" in drawn(narrow)[0]  # 10 × 4 cells would not fit either way


def test_counts_are_written_into_cells_of_three():
    held = figure([[7, 44], [8, 9]], value_range=(0, 44), decimals=0)
    assert number_cells(held) == 3
    shown = draw_heatmap(figure(np.full((2, 9), 44), value_range=(0, 44), decimals=0), 38, 6, Look())
    assert drawn(shown)[0].startswith(" 0 44 44 44")


def test_names_of_rows_have_the_room_that_the_cells_do_not_need():
    names = ["a name of thirty cells, or more"], ["0"]
    assert plan_of(HeatFigure(np.zeros((1, 1)), *names), 60, 8, True).left == 33
    assert plan_of(HeatFigure(np.zeros((1, 9)), names[0], ["0"] * 9), 60, 8, True).left == 0


@given(
    st.integers(1, 60), st.integers(1, 60), st.integers(24, 90), st.integers(6, 40), st.booleans(), st.data()
)
def test_the_place_of_a_cell_leads_back_to_it_or_to_one_that_it_shares_it_with(
    rows, columns, width, height, halves, data
):
    shown = figure(np.zeros((rows, columns)))
    plan = plan_of(shown, width, height, halves)
    row, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    y, x = plan.row(row, rows), plan.column(column, columns)
    found = cell_at(shown, width, height, halves, plan.left + x, plan.top + y)
    assert found is not None
    assert (plan.row(found[0], rows), plan.column(found[1], columns)) == (y, x)
    assert cell_at(shown, width, height, halves, plan.left - 1, plan.top) is None


@pytest.mark.parametrize("colour", VIRIDIS.tolist())
def test_text_reads_on_every_colour_of_the_scale(colour):
    assert contrast(text_on(colour), colour) >= 4.5


def test_the_scale_rises_in_lightness_so_that_greys_keep_its_order():
    lightness = [luminance(int(colour)) for colour in VIRIDIS]
    assert lightness == sorted(lightness)


@pytest.mark.parametrize(
    ("value", "text"), [(0.834, ".83"), (1.0, "1"), (0.0, ".00"), (-0.5, "−.50"), (12345.0, "")]
)
def test_a_cells_number_is_as_short_as_it_can_be(value, text):
    assert cell_text(value, 4) == text


@pytest.mark.parametrize(
    ("value", "room", "text"),
    [
        (66.67, 4, "66.7"),
        (66.67, 3, "67"),
        (0.0, 3, "0.0"),
        (0.4, 4, "0.4"),
        (100.0, 4, "100"),
        (100.0, 2, ""),
    ],
)
def test_a_percentage_in_a_cell_has_a_decimal_where_there_is_room(value, room, text):
    assert cell_text(value, room, "%") == text


def test_without_colour_the_same_matrix_is_told_by_characters_alone():
    canvas = draw_heatmap(figure(np.linspace(0, 1, 30).reshape(1, 30).repeat(30, axis=0)), 50, 20, NO_COLOUR)
    row = drawn(canvas)[0]
    assert [character for character in "·░▒▓█" if character not in row] == []
    assert len(np.unique(canvas.bg)) == 1


def test_ascii_glyphs_are_all_ascii():
    shown = figure(np.random.default_rng(0).random((40, 40)), cursor=(3, 4), axes=("client", "client"))
    assert draw_heatmap(shown, 80, 24, Look(glyphs=ASCII)).text().isascii()


def test_the_bar_names_both_ends_of_the_range():
    rows = drawn(draw_heatmap(figure(np.eye(10), value_range=(-1, 3)), 60, 20, Look()))
    assert rows[0].rstrip().endswith("3.00")
    assert any(row.rstrip().endswith("−1.00") for row in rows)
    rows = drawn(draw_heatmap(figure(np.eye(10), value_range=(-1, 3)), 60, 20, Look(glyphs=ASCII)))
    assert any(row.rstrip().endswith("-1.00") for row in rows)


def test_an_automatic_range_is_that_of_the_values():
    assert figure([[2, np.nan], [7, 3]], value_range=None).limits() == (2, 7)


def test_the_cursor_names_its_cell_and_its_value():
    rows = drawn(draw_heatmap(figure(np.eye(4), cursor=(2, 1), axes=("client", "round")), 60, 16, Look()))
    assert rows[-1].rstrip() == "client 2 × round 1: 0.000"
    assert sum(row.startswith(" 2▶") for row in rows) == 1
    assert sum("▲1" in row for row in rows) == 1


@pytest.mark.parametrize("column", [0, 17, 39])
def test_the_other_columns_keep_their_names_beside_the_cursors(column):
    def names(cursor):
        canvas = draw_heatmap(figure(np.zeros((4, 40)), cursor=cursor), 100, 16, Look())
        return next(row.split() for row in reversed(drawn(canvas)[:-1]) if row.strip())

    pointed = names((2, column))
    assert f"▲{column}" in pointed
    others = {int(name) for name in names(None)} - {column}
    kept = {int(name) for name in pointed if name.isdigit()}
    assert kept <= others
    assert all(abs(name - column) <= 2 for name in others - kept)  # the one beside it, whose room it takes


@pytest.mark.parametrize(
    ("shape", "axes", "said"),
    [
        ((100, 3), ("client", "round"), "rows are means of 4-5 clients"),
        ((42, 3), ("client", "round"), "rows are means of 2 clients"),
        ((3, 60), ("client", "round"), "columns are means of 1-2 rounds"),
        ((100, 100), ("client", "client"), "cells are means of 4-5 x 2-3 clients"),
        ((100, 100), ("class", "client"), "cells are means of 4-5 classes x 2-3 clients"),
        ((21, 3), ("client", "round"), ""),
    ],
)
def test_where_cells_are_means_it_is_said_of_how_many(shape, axes, said):
    rows = drawn(draw_heatmap(figure(np.zeros(shape), axes=axes), 60, 24, Look(glyphs=ASCII)))
    assert ("means" in "".join(rows)) == bool(said)
    if said:
        assert rows[-2].rstrip() == said


def test_two_rows_that_share_a_cell_are_no_mean():
    shown = figure(np.zeros((40, 3)), axes=("client", "round"))
    assert "means" not in draw_heatmap(shown, 60, 24, Look()).text()
    assert "means of 1–2 clients" in draw_heatmap(shown, 60, 24, NO_COLOUR).text()


def test_among_means_the_cell_under_the_cursor_is_its_own():
    shares = np.zeros((40, 2))
    shares[7] = 80

    def number(cursor):
        shown = figure(shares, value_range=(0, 100), cursor=cursor, axes=("client", "round"), unit="%")
        rows = drawn(draw_heatmap(shown, 60, 23, Look(glyphs=ASCII)))
        return rows[3][4:10].strip(" []"), rows[-2].rstrip()

    assert number(None) == ("40.0", "rows are means of 2 clients")
    assert number((7, 0)) == ("80.0", "other cells are means of 2 clients")


def test_a_row_or_a_column_can_be_marked_where_there_is_no_cursor():
    def margins(**marks):
        rows = drawn(draw_heatmap(figure(np.eye(4), **marks), 60, 16, Look()))
        return any("2▶" in row for row in rows), any("▲1" in row for row in rows)

    assert margins(marked=(2, None)) == (True, False)
    assert margins(marked=(None, 1)) == (False, True)
    assert margins() == (False, False)
    assert margins(marked=(3, 3), cursor=(2, 1)) == (True, True)


def test_the_cursor_on_a_shared_cell_shows_the_colour_of_its_own_value():
    canvas = draw_heatmap(figure([[0], [1], [1], [0]], cursor=(1, 0)), 2, 2, Look())
    assert drawn(canvas)[0] == "++"
    assert int(canvas.bg[0, 0]) == HIGH


def test_without_colour_the_cursor_on_a_small_cell_is_reversed():
    canvas = draw_heatmap(figure(np.zeros((4, 40)), cursor=(1, 5)), 60, 6, NO_COLOUR)
    assert np.argwhere(canvas.flags & REVERSE).tolist() == [[1, 8]]  # five columns after the labels' three


def test_few_columns_of_many_rows_are_as_wide_as_there_is_room():
    rounds = figure(np.tile(np.arange(24.0), (100, 1)), cursor=(1, 3))
    canvas = draw_heatmap(rounds, 132, 54, Look())
    plot = canvas.chars[0, 4:100]  # four cells for each of the 24, after the labels
    assert "".join(map(chr, plot)) == "▀" * 12 + "++++" + "▀" * 80


@pytest.mark.parametrize("glyphs", list(GLYPHS))
def test_the_cursor_takes_no_figure_of_a_value(glyphs):
    shares = figure(np.full((2, 8), 63.6), value_range=(0, 100), cursor=(0, 3), unit="%")
    seen = set()
    for width in range(40, 90):
        text = "".join(drawn(draw_heatmap(shares, width, 8, Look(glyphs=GLYPHS[glyphs])))[:-1])
        seen.add((text.count("63.6"), text.count("64")))
    assert {(0, 16), (16, 0)} <= seen <= {(0, 0), (0, 16), (16, 0)}
    none = figure(np.zeros((4, 2)), value_range=(0, 100), cursor=(1, 1), unit="%")
    rows = drawn(draw_heatmap(none, 60, 6, Look(glyphs=GLYPHS[glyphs])))
    assert "".join(rows[:4]).count("0.0") == 8


@pytest.mark.parametrize("glyphs", list(GLYPHS))
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (10, 3), (24, 6), (80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 40), (100, 100), (7, 1)])
def test_a_heatmap_has_the_size_asked_for_whatever_the_matrix(glyphs, size, shape):
    cursor = (shape[0] - 1, shape[1] - 1) if shape[0] else None
    canvas = draw_heatmap(figure(np.zeros(shape), cursor=cursor), *size, Look(glyphs=GLYPHS[glyphs]))
    assert (canvas.width, canvas.height) == size


def test_clustering_puts_groups_together():
    group = np.array([0, 1, 0, 1, 2, 0, 2, 1])
    order = cluster_order(np.where(group[:, None] == group, 0.9, 0.1))
    assert sorted(order.tolist()) == list(range(8))
    assert (np.diff(group[order]) != 0).sum() == 2


def test_clustering_takes_missing_pairs_for_unlike():
    similarity = np.array([[1, np.nan, 0.9], [np.nan, 1, np.nan], [0.9, np.nan, 1]])
    assert cluster_order(similarity).tolist().index(1) != 1  # 0 and 2 stay side by side


@given(arrays(float, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.floats(width=32)))
def test_any_values_can_be_drawn(matrix):
    canvas = draw_heatmap(figure(matrix, value_range=None), 50, 10, Look())
    assert (canvas.width, canvas.height) == (50, 10)


def signed(values, **options):
    return figure(values, value_range=(-10, 10), unit="pp", decimals=1, signed=True, **options)


def test_differences_have_their_signs_without_colour():
    # Half of the range is 5: beyond it, a loss or a gain is large. 0.04 is shown as 0.0.
    shown = signed([[-7, -3, 0.04, 3, 7, np.nan]])
    for glyphs, signs in ((BRAILLE, "▼−·+▲"), (ASCII, "v-.+^")):
        assert drawn(draw_heatmap(shown, 12, 1, replace(NO_COLOUR, glyphs=glyphs))) == [
            "".join(2 * sign for sign in signs + " ")
        ]


def test_differences_are_written_with_their_signs():
    assert [cell_text(value, 4, "pp", signed=True) for value in (3.21, -0.4, 0.0, 12.34)] == [
        "+3.2",
        "−0.4",
        "0.0",
        "+12",
    ]
    told = drawn(draw_heatmap(signed([[-7.0, 3.0]]), 60, 5, Look()))[-1]
    assert told.rstrip() == "1 × 2, −7.0 to +3.0 pp, mean −2.0"
    told = drawn(draw_heatmap(signed([[-7.0, 3.0]]), 60, 5, Look(glyphs=ASCII)))[-1]
    assert told.rstrip() == "1 x 2, -7.0 to +3.0 pp, mean -2.0"


def test_the_cursor_leaves_a_difference_its_sign():
    # Six cells: -17.6 takes the first five, so brackets would take its sign.
    shown = draw_heatmap(signed([[-17.6, 3.0]], cursor=(0, 0)), 12, 1, Look())
    assert "−17.6" in drawn(shown)[0]


def test_the_largest_difference_is_written_although_it_fills_its_cell():
    whole = figure([[-3, 100]], value_range=(-12, 12), unit="pp", decimals=0, signed=True)
    assert "+100" in drawn(draw_heatmap(whole, 10, 1, Look()))[0]


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_the_colours_of_differences_part_from_a_quiet_middle(dark, exact):
    scheme = Look(dark=dark, exact=exact)
    ramp = [int(colour) for colour in scheme.signed]
    assert len(ramp) == HEAT_LEVELS
    middle = HEAT_LEVELS // 2
    light = [luminance(colour) for colour in ramp]
    steps = np.diff(light) * (
        1 if dark else -1
    )  # from the middle on, colors leave the background's lightness
    assert (steps[: middle - 1] <= 1e-9).all() and (steps[middle:] >= -1e-9).all()
    red, blue = ([colour >> shift & 255 for colour in ramp] for shift in (16, 0))
    assert red[0] > blue[0] and red[-1] < blue[-1]
    assert abs(red[middle] - blue[middle]) <= 8  # gray
