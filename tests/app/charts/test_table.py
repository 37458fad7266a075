"""Tables as characters: which columns, how wide, in what order."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.app.charts.pictures import drawn, picture
from tui.app.charts.look import ASCII, BRAILLE, Look
from tui.app.panels.clients import COLUMNS
from tui.app.widgets.table import Column, Row, Table, Trend, layout, left_out, sorted_rows

NAMES = [column.name or column.title for column in COLUMNS]
NONE = Trend((), width=0)
CELLS = {
    0: ("●", "0", "cnn1", "81.2 %", "+1.2", "", "", NONE, "1.2 MiB", "300.0 KiB", Trend((0.1, 0.5, 0.8))),
    11: ("", "11", "resnet18-narrow-long", "–", "–", "", "", NONE, "–", "0 B", Trend((np.nan,) * 3)),
}
ROWS = tuple(Row(client, cells, values=(None, client)) for client, cells in CELLS.items())


def widths(columns, rows):
    return Table(columns).measured(tuple(rows), columns, Look())


def places(rows, width, columns=COLUMNS):
    return layout(columns, widths(columns, rows), width, 1)


def shown(rows, width, glyphs=BRAILLE, cursor=None):
    table = Table(COLUMNS, cursor=True, sort="id")
    table.show(rows)
    table.selected = cursor
    return drawn(table.draw(width, len(rows) + 1, Look(glyphs=glyphs)))


def test_a_table_in_full():
    assert shown(ROWS, 70, cursor=0) == picture(
        """
        |   ▲id model             acc   +/-      up      down trend            |
        |▶●   0 cnn1           81.2 %  +1.2 1.2 MiB 300.0 KiB   ▁▄▆            |
        |    11 resnet1…w-long      –     –       –       0 B                  |
        """
    )
    assert "\n".join(shown(ROWS, 80, ASCII, cursor=0)).isascii()


@given(st.integers(1, 200))
def test_columns_stay_apart_and_within_the_table_at_any_width(width):
    found = places(ROWS, width)
    assert all(one.left + one.width < other.left for one, other in pairwise(found))
    assert all(one.left + one.width <= width for one in found)


def test_names_keep_their_least_room_before_columns_of_less_worth():
    columns = [Column("name", stretch=True, worth=2, least=16), Column("data", worth=1)]
    assert [place.width for place in layout(columns, [16, 6], 18, 0)] == [15]  # and +1
    assert [place.width for place in layout(columns, [8, 6], 18, 0)] == [8, 6]  # no wider than the names


def test_the_columns_of_the_least_worth_go_first():
    columns = [Column("name", worth=3), Column("about", worth=1), Column("size", numeric=True, worth=2)]
    rows = [Row(1, ("abcdef", "something", "123"))]
    assert [each.column for each in places(rows, 40, columns)] == [0, 1, 2]
    assert [each.column for each in places(rows, 16, columns)] == [0, 2]
    assert [each.column for each in places(rows, 6, columns)] == [0]


def test_a_column_in_which_no_row_says_anything_has_no_place():
    columns = [Column("", least=1), Column("a"), Column("b", least=5), Column("c")]
    rows = (Row(1, ("", "x", "", "y")),)
    assert [each.column for each in places(rows, 40, columns)] == [0, 1, 3]
    assert left_out(widths(columns, rows), places(rows, 40, columns)) == 0


def test_a_column_that_stretches_gives_way_and_takes_what_is_left():
    columns = [Column("a", stretch=True), Column("b")]
    rows = [Row(1, ("x" * 30, "12345"))]
    # The cursor's cell, the column, a space, five cells: 10 are the least for the first, 30 all it wants.
    assert [(each.left, each.width) for each in places(rows, 17, columns)] == [(1, 10), (12, 5)]
    assert [(each.left, each.width) for each in places(rows, 27, columns)] == [(1, 20), (22, 5)]
    assert [(each.left, each.width) for each in places(rows, 99, columns)] == [(1, 30), (32, 5)]


def test_rows_without_a_value_come_last_and_equal_ones_stay_in_their_order():
    def order(values, descending):
        rows = tuple(Row(key, ("",), values=(value,)) for key, value in enumerate(values))
        return [row.key for row in sorted_rows(rows, 0, descending)]

    values = [None, 0.2, float("nan"), 0.9]
    assert (order(values, False), order(values, True)) == ([1, 3, 0, 2], [3, 1, 0, 2])
    assert order(["same"] * 3, False) == order(["same"] * 3, True) == [0, 1, 2]


def test_a_column_of_trends_is_as_wide_as_the_longest_so_that_its_title_stands_over_it():
    (trend,) = (column for column in COLUMNS if column.title == "trend")
    rows = tuple(Row(place, (Trend((0.5,) * rounds),)) for place, rounds in enumerate((7, 3)))
    assert widths([trend], rows) == [7]
    assert widths([Column("a")], [Row(0, ("日本🙂",))]) == [6]
    assert widths([trend], [Row(0, (Trend((0.5,) * 99),))]) == [40]


def test_the_header_says_how_many_columns_have_no_room():
    assert shown(ROWS, 44)[0].endswith(" +2")  # up and down
    assert "+" not in shown(ROWS, 90)[0].replace("+/-", "")
