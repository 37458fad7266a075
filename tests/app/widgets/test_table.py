"""The client table as characters."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.widgets.pictures import drawn, picture
from tui.app.drawing.colours import Theme
from tui.app.drawing.glyphs import ASCII, BRAILLE
from tui.app.drawing.table import SORTABLE, ClientRow, column_at, draw_table, layout, matches, sorted_rows

ROWS = [
    ClientRow(0, "cnn1", 0.812, 0.012, 1_200_000, 300_000, [0.1, 0.5, 0.8], pinned=True, key="2"),
    ClientRow(11, "resnet18-narrow-long", None, None, 0, 0, [], marked=True),
]


def shown(rows, width, glyphs=BRAILLE, cursor=None, order=("id", False)):
    return drawn(draw_table(rows, layout(rows, width), len(rows) + 1, order, cursor, Theme(), glyphs))


def test_a_table_in_full():
    assert shown(ROWS, 62, cursor=0) == picture(
        """
        |    ▲id model             acc    +/-     up   down trend      |
        |▶2    0 cnn1            81.2%   +1.2   1.2M   300k        ▁▅▇ |
        |  ✓  11 resnet18-narr…      -      -      0      0            |
        """
    )


def test_ascii_rows_are_all_ascii():
    assert "\n".join(shown(ROWS, 70, ASCII, cursor=0)).isascii()


def test_no_minus_stands_before_a_zero():
    assert "-0.0" not in shown([ClientRow(0, "a", 0.5, -0.0001)], 60)[1]


@given(st.integers(1, 200))
def test_columns_stay_apart_and_within_the_table_at_any_width(width):
    places = sorted(layout(ROWS, width).places.values())
    assert all(left + size < following for (left, size), (following, _) in pairwise(places))
    assert all(left + size <= width for left, size in places)


def test_a_narrow_table_keeps_what_tells_most():
    assert set(layout(ROWS, 16).places) == {"flags", "id", "accuracy"}


def test_the_header_is_found_by_the_cell_clicked():
    columns = layout(ROWS, 100)
    left, _ = columns.places["accuracy"]
    assert column_at(columns, left) == "accuracy"
    assert column_at(columns, columns.places["trend"][0] + 3) is None


@pytest.mark.parametrize("descending", [False, True])
def test_clients_without_a_value_come_last_either_way(descending):
    rows = [
        ClientRow(0, "a", None),
        ClientRow(1, "a", 0.2),
        ClientRow(2, "a", float("nan")),
        ClientRow(3, "a", 0.9),
    ]
    order = [row.id for row in sorted_rows(rows, "accuracy", descending)]
    assert order == ([3, 1, 0, 2] if descending else [1, 3, 0, 2])


@pytest.mark.parametrize("column", SORTABLE)
@pytest.mark.parametrize("descending", [False, True])
def test_equal_clients_are_in_the_order_of_their_ids(column, descending):
    rows = [ClientRow(place, "a", 0.5, 0.1, 1, 1) for place in (2, 0, 1)]
    expected = [2, 1, 0] if column == "id" and descending else [0, 1, 2]
    assert [row.id for row in sorted_rows(rows, column, descending)] == expected


@pytest.mark.parametrize(
    ("query", "found"),
    [("", True), ("CNN", True), ("cnn1 pinned", True), ("cnn1 marked", False), ("7", False)],
)
def test_a_filter_wants_every_word(query, found):
    assert matches(ROWS[0], query) is found
