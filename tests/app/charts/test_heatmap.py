"""Heatmaps as cells."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulator.results.figures.palette import contrast, luminance
from tests.app.charts.pictures import IN_ASCII, LOOK, NO_COLOUR, draw, drawn, picture, rows_of
from tui.app.charts.heatmap import (
    HeatFigure,
    binned,
    cell_at,
    cell_text,
    edges,
    levels_of,
    number_cells,
    plan_of,
)
from tui.app.charts.look import GLYPHS, HEAT_LEVELS, REVERSE, VIRIDIS, Look, text_on
from tui.app.widgets.canvas_widget import cluster_order

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
    assert drawn(draw(figure([[1, 0.5], [0, np.nan]]), 12, 5, IN_ASCII)) == picture(
        """
        |@ 1 @@ .50 +|
        |@@@@@@++++++|
        | .00 .      |
        |......      |
        |0.000-1.000 |
        """
    )


def test_rows_that_do_not_fit_share_a_cell_and_more_are_averaged():
    canvas = draw(figure([[0], [1], [1], [0]]), 2, 2)
    assert drawn(canvas) == ["▀▀", "▀▀"]
    assert (canvas.fg[:, 0].tolist(), canvas.bg[:, 0].tolist()) == ([LOW, HIGH], [HIGH, LOW])
    odd = draw(figure([[0], [1], [1]]), 2, 2)
    assert (int(odd.fg[1, 0]), int(odd.bg[1, 0])) == (HIGH, LOOK.background)
    # eight rows on two cells: four halves of two rows each, with means 0, 1, 0.5, 0.5
    canvas = draw(figure([[0], [0], [1], [1], [0], [1], [1], [0]]), 2, 2)
    middle = int(VIRIDIS[HEAT_LEVELS // 2])
    assert (canvas.fg[:, 0].tolist(), canvas.bg[:, 0].tolist()) == ([LOW, middle], [HIGH, middle])


@given(matrices, st.data())
def test_binning_preserves_the_mean(matrix, data):
    rows, columns = (data.draw(st.integers(1, size)) for size in matrix.shape)
    down, across = edges(matrix.shape[0], rows), edges(matrix.shape[1], columns)
    assert max(np.ptp(np.diff(each)) for each in (down, across)) <= 1  # shared out evenly
    known = np.isfinite(matrix)
    counts = np.array([[known[a:b, c:d].sum() for c, d in pairwise(across)] for a, b in pairwise(down)])
    means = binned(matrix, rows, columns)
    assert means.shape == (rows, columns)
    assert (np.isnan(means) == (counts == 0)).all()
    assert np.nansum(means * counts) == pytest.approx(np.nansum(matrix))


@given(st.floats(-1, 2))
def test_every_value_has_a_level_and_those_outside_the_range_the_nearest(value):
    assert int(levels_of(np.array([value]), (0, 1), 10)[0]) == min(max(int(value * 10), 0), 9)


def test_values_are_written_where_they_fit_and_read_on_their_colours():
    canvas = draw(figure([[0.83, 0.1], [0.5, 1]]), 40, 12)
    assert all(text in canvas.text() for text in (".83", ".10", ".50", " 1 "))
    row, column = np.argwhere(canvas.chars == ord("8"))[0]
    assert contrast(int(canvas.fg[row, column]), int(canvas.bg[row, column])) >= 4.5
    assert int(draw(figure([[np.nan]]), 4, 1).bg[0, 0]) == LOOK.background


def across(rows, columns, width, height=24):
    """The cells of each column."""
    return np.diff(plan_of(figure(np.zeros((rows, columns))), width, height, True).starts).tolist()


def test_cells_grow_to_the_room_that_there_is():
    # 40 cells, of which 3 are for the names of rows and 9 for the color bar
    assert across(9, 14, 40) == [2] * 14  # 28 of 28
    assert across(9, 20, 40) == ([1, 1, 2, 1, 2] * 4)  # 28 cells for 20 columns: eight of them have two
    assert across(9, 26, 40) == [1] * 26  # nearly all of the room
    assert across(9, 2, 40, height=12) == [6, 6]  # a row of a cell is at most six cells wide
    rounds = figure(np.tile(np.arange(24.0), (100, 1)), cursor=(1, 3))
    plot = draw(rounds, 132, 54).chars[0, 4:100]  # four cells for each of the 24, after the labels
    assert "".join(map(chr, plot)) == "▀" * 12 + "++++" + "▀" * 80


def test_numbers_in_the_cells_take_the_place_of_the_color_bar():
    assert across(9, 9, 40) == [4] * 9  # 36 of 37, which leaves no room for the bar
    wide = draw(figure(np.full((9, 9), 0.5)), 40, 12)
    assert drawn(wide)[0] == " 0 .50 .50 .50 .50 .50 .50 .50 .50 .50  "
    assert "1.00" in rows_of(figure(np.full((9, 10), 0.5)), 40, 12)[0]  # 10 × 4 cells do not fit either way
    counts = figure(np.full((2, 9), 44), value_range=(0, 44), decimals=0)
    assert number_cells(counts) == 3
    assert rows_of(counts, 38, 6)[0].startswith(" 0 44 44 44")

    # names of rows have the room that the cells do not need
    names = ["a name of thirty cells, or more"]
    assert plan_of(HeatFigure(np.zeros((1, 1)), names, ["0"]), 60, 8, True).left == 33
    assert plan_of(HeatFigure(np.zeros((1, 9)), names, ["0"] * 9), 60, 8, True).left == 0


@given(
    st.integers(1, 60), st.integers(1, 60), st.integers(24, 90), st.integers(6, 40), st.booleans(), st.data()
)
def test_the_place_of_a_cell_leads_back_to_it_or_to_one_that_it_shares_it_with(
    rows, columns, width, height, halves, data
):
    shown = figure(np.zeros((rows, columns)))
    plan = plan_of(shown, width, height, halves)
    row, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    y, x = plan.row(row), plan.column(column)[0]
    found = cell_at(shown, width, height, halves, plan.left + x, y)
    assert found is not None
    assert (plan.row(found[0]), plan.column(found[1])[0]) == (y, x)
    assert cell_at(shown, width, height, halves, plan.left - 1, 0) is None


def test_a_cells_number_is_as_short_as_it_can_be():
    shares = {0.834: ".83", 1.0: "1", 0.0: ".00", -0.5: "−.50", 12345.0: ""}
    assert {value: cell_text(value, 4) for value in shares} == shares
    percents = {(66.67, 4): "66.7", (66.67, 3): "67", (0.0, 3): "0.0", (0.4, 4): "0.4", (100.0, 2): ""}
    assert {each: cell_text(*each, "%") for each in percents} == percents
    gains = {3.21: "+3.2", -0.4: "−0.4", 0.0: "0.0", 12.34: "+12"}
    assert {value: cell_text(value, 4, "pp", signed=True) for value in gains} == gains


def test_without_colour_the_same_matrix_is_told_by_characters_alone():
    canvas = draw(figure(np.linspace(0, 1, 30).reshape(1, 30).repeat(30, axis=0)), 50, 20, NO_COLOUR)
    assert {*"·░▒▓█"} <= {*drawn(canvas)[0]}
    assert len(np.unique(canvas.bg)) == 1
    shown = figure(np.random.default_rng(0).random((40, 40)), cursor=(3, 4), axes=("client", "client"))
    assert draw(shown, 80, 24, IN_ASCII).text().isascii()


def test_the_bar_names_both_ends_of_the_range():
    for look, minus in ((LOOK, "−"), (IN_ASCII, "-")):
        rows = rows_of(figure(np.eye(10), value_range=(-1, 3)), 60, 20, look)
        assert rows[0].endswith("3.00") and any(row.endswith(f"{minus}1.00") for row in rows)
    assert figure([[2, np.nan], [7, 3]], value_range=None).limits() == (2, 7)


@pytest.mark.parametrize("column", [0, 17, 39])
def test_the_other_columns_keep_their_names_beside_the_cursors(column):
    def names(cursor):
        rows = rows_of(figure(np.zeros((4, 40)), cursor=cursor), 100, 16)
        return next(row.split() for row in reversed(rows[:-1]) if row)

    pointed = names((2, column))
    assert f"▲{column}" in pointed
    others = {int(name) for name in names(None)} - {column}
    kept = {int(name) for name in pointed if name.isdigit()}
    assert kept <= others
    assert all(abs(name - column) <= 2 for name in others - kept)  # the one beside it, whose room it takes


def test_every_column_second_fifth_or_tenth_is_named():
    steps = set()
    for width in range(40, 200, 5):
        rows = [row.split() for row in rows_of(figure(np.zeros((4, 60))), width, 16)]
        steps |= {int(row[1]) for row in rows if row[:1] == ["0"] and all(map(str.isdigit, row))}
    assert {5, 10} <= steps <= {1, 2, 5, 10, 20}


def test_where_cells_are_means_it_is_said_of_how_many_and_the_cell_under_the_cursor_is_its_own():
    for shape, axes, said in (
        ((100, 3), ("client", "round"), "rows are means of 4-5 clients"),
        ((42, 3), ("client", "round"), "rows are means of 2 clients"),
        ((3, 60), ("client", "round"), "columns are means of 1-2 rounds"),
        ((100, 100), ("class", "client"), "cells are means of 4-5 classes x 2-3 clients"),
    ):
        assert rows_of(figure(np.zeros(shape), axes=axes), 60, 24, IN_ASCII)[-2] == said
    assert "means" not in draw(figure(np.zeros((21, 3))), 60, 24, IN_ASCII).text()
    shared = figure(np.zeros((40, 3)), axes=("client", "round"))  # two rows in a cell are no mean
    assert "means" not in draw(shared, 60, 24).text()
    assert "means of 1–2 clients" in draw(shared, 60, 24, NO_COLOUR).text()
    shares = np.zeros((40, 2))
    shares[7] = 80

    def number(cursor):
        shown = figure(shares, value_range=(0, 100), cursor=cursor, axes=("client", "round"), unit="%")
        rows = rows_of(shown, 60, 23, IN_ASCII)
        return rows[3][4:10].strip(" []"), rows[-2]

    assert number(None) == ("40.0", "rows are means of 2 clients")
    assert number((7, 0)) == ("80.0", "other cells are means of 2 clients")


def test_the_cursor_names_its_cell_and_its_value_and_without_one_a_row_or_a_column_can_be_marked():
    rows = rows_of(figure(np.eye(4), cursor=(2, 1), axes=("client", "round")), 60, 16)
    assert rows[-1] == "client 2 × round 1: 0.000"
    assert sum(row.startswith(" 2▶") for row in rows) == sum("▲1" in row for row in rows) == 1

    def margins(**marks):
        text = draw(figure(np.eye(4), **marks), 60, 16).text()
        return "2▶" in text, "▲1" in text

    assert margins(marked=(2, None)) == (True, False)
    assert margins(marked=(None, 1)) == (False, True)
    assert margins() == (False, False)
    assert margins(marked=(3, 3), cursor=(2, 1)) == (True, True)


def test_the_cursor_on_a_small_cell_shows_the_color_of_its_own_value_or_is_reversed():
    canvas = draw(figure([[0], [1], [1], [0]], cursor=(1, 0)), 2, 2)
    assert drawn(canvas)[0] == "++"
    assert int(canvas.bg[0, 0]) == HIGH
    canvas = draw(figure(np.zeros((4, 40)), cursor=(1, 5)), 60, 6, NO_COLOUR)
    assert np.argwhere(canvas.flags & REVERSE).tolist() == [[1, 8]]  # five columns after the labels' three


@pytest.mark.parametrize("glyphs", GLYPHS.values(), ids=GLYPHS)
def test_the_cursor_takes_no_figure_of_a_value(glyphs):
    look = Look(glyphs=glyphs)
    shares = figure(np.full((2, 8), 63.6), value_range=(0, 100), cursor=(0, 3), unit="%")
    texts = ["".join(rows_of(shares, width, 8, look)[:-1]) for width in range(40, 90)]
    seen = {(text.count("63.6"), text.count("64")) for text in texts}
    assert {(0, 16), (16, 0)} <= seen <= {(0, 0), (0, 16), (16, 0)}
    none = figure(np.zeros((4, 2)), value_range=(0, 100), cursor=(1, 1), unit="%")
    assert "".join(rows_of(none, 60, 6, look)[:4]).count("0.0") == 8


@pytest.mark.parametrize("glyphs", GLYPHS.values(), ids=GLYPHS)
def test_a_heatmap_has_the_size_asked_for_whatever_the_matrix(glyphs):
    for shape in ((0, 0), (1, 1), (3, 40), (100, 100), (7, 1)):
        for size in ((1, 1), (2, 1), (10, 3), (24, 6), (80, 24), (120, 40)):
            shown = figure(np.zeros(shape), cursor=(shape[0] - 1, shape[1] - 1) if shape[0] else None)
            canvas = draw(shown, *size, Look(glyphs=glyphs))
            assert (canvas.width, canvas.height) == size


def test_clustering_puts_groups_together_and_takes_missing_pairs_for_unlike():
    group = np.array([0, 1, 0, 1, 2, 0, 2, 1])
    order = cluster_order(np.where(group[:, None] == group, 0.9, 0.1))
    assert sorted(order.tolist()) == list(range(8))
    assert (np.diff(group[order]) != 0).sum() == 2
    similarity = np.array([[1, np.nan, 0.9], [np.nan, 1, np.nan], [0.9, np.nan, 1]])
    assert cluster_order(similarity).tolist().index(1) != 1  # 0 and 2 stay side by side


def signed(values, **options):
    return figure(
        values, **{"value_range": (-10, 10), "unit": "pp", "decimals": 1, "signed": True, **options}
    )


def test_differences_have_their_signs():
    # Half of the range is 5: beyond it, a loss or a gain is large. 0.04 is shown as 0.0.
    shown = signed([[-7, -3, 0.04, 3, 7, np.nan]])
    for look, signs in ((NO_COLOUR, "▼−·+▲"), (replace(IN_ASCII, coloured=False), "v-.+^")):
        assert rows_of(shown, 12, 1, look) == ["".join(2 * sign for sign in signs)]
    for look, told in (
        (LOOK, "1 × 2, −7.0 to +3.0 pp, mean −2.0"),
        (IN_ASCII, "1 x 2, -7.0 to +3.0 pp, mean -2.0"),
    ):
        assert rows_of(signed([[-7.0, 3.0]]), 60, 5, look)[-1] == told
    # Six cells: -17.6 takes the first five, so brackets would take its sign.
    assert "−17.6" in rows_of(signed([[-17.6, 3.0]], cursor=(0, 0)), 12, 1)[0]
    # The largest one is written although it fills its cell.
    assert "+100" in rows_of(signed([[-3, 100]], value_range=(-12, 12), decimals=0), 10, 1)[0]


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_the_scale_rises_in_lightness_and_the_colours_of_differences_part_from_a_quiet_middle(dark, exact):
    scale = VIRIDIS.tolist()
    assert [*map(luminance, scale)] == sorted(map(luminance, scale))
    assert min(contrast(text_on(colour), colour) for colour in scale) >= 4.5
    ramp = [int(colour) for colour in Look(dark=dark, exact=exact).signed]
    assert len(ramp) == HEAT_LEVELS
    middle = HEAT_LEVELS // 2
    # from the middle on, colors leave the background's lightness
    steps = np.diff([luminance(colour) for colour in ramp]) * (1 if dark else -1)
    assert (steps[: middle - 1] <= 1e-9).all() and (steps[middle:] >= -1e-9).all()
    red, blue = ([colour >> shift & 255 for colour in ramp] for shift in (16, 0))
    assert red[0] > blue[0] and red[-1] < blue[-1]
    assert abs(red[middle] - blue[middle]) <= 8  # gray
