"""The layout of a matrix in cells: how wide its columns are, which rows share a cell, and what is left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tui.app.charts.axis import apart, label
from tui.app.charts.canvas import Array
from tui.common.cells import cell_count

WIDEST = 6  # maximum ratio of width to height of a matrix's cell


@dataclass(frozen=True, eq=False)
class HeatFigure:
    """A matrix [n, m], NaN = empty, with the names of its rows and columns, in the order shown.

    value_range: the values of the first and last color, or None for the matrix's own extremes. cursor: (row, column).
    marked: the row and the column that the margins mark without a cursor; None: none. axes: the meanings of rows and
    columns. unit: of the values, "%", or "" for none. decimals: of the values. titles: the bottom row's names of rows
    and columns, if they are longer than those at the edges. signed: whether the values are differences, with 0 in the
    middle of `value_range`. They then have a sign, also in the characters without color.
    """

    matrix: Array
    rows: Sequence[str]
    columns: Sequence[str]
    value_range: tuple[float, float] | None = None
    cursor: tuple[int, int] | None = None
    marked: tuple[int | None, int | None] = (None, None)
    axes: tuple[str, str] = ("", "")
    unit: str = ""
    decimals: int = 3
    titles: tuple[Sequence[str], Sequence[str]] | None = None
    signed: bool = False

    def limits(self) -> tuple[float, float]:
        """The values of the first and the last color."""
        if self.value_range is not None:
            return apart(*self.value_range)
        finite = self.matrix[np.isfinite(self.matrix)]
        if not finite.size:
            return 0.0, 1.0
        return apart(float(finite.min()), float(finite.max()))


@dataclass(frozen=True, eq=False)
class Plan:
    """The layout of the matrix: the plot's place in cells, and the values shown, [height × per_cell, …].

    per_cell: values stacked in a cell (2: half blocks). down: rows of cells per value. starts: where each column of
    values begins, in cells, and where the last ends.
    """

    top: int
    left: int
    values: Array
    per_cell: int
    down: int
    starts: Array

    @property
    def height(self) -> int:
        return -(-len(self.values) * self.down // self.per_cell)

    @property
    def width(self) -> int:
        return int(self.starts[-1])

    @property
    def across(self) -> int:
        """The cells of the narrowest column."""
        return int(np.diff(self.starts).min())

    def row(self, row: int, rows: int) -> int:
        """The row of cells, counted from the top of the plot, with row `row` of a matrix of `rows` rows."""
        return _bin_of(row, rows, len(self.values)) * self.down // self.per_cell

    def column(self, column: int, columns: int) -> int:
        """The first column of cells with column `column` of a matrix of `columns` columns."""
        return int(self.starts[_bin_of(column, columns, self.values.shape[1])])

    def across_of(self, column: int, columns: int) -> int:
        """The number of cells of column `column` of a matrix of `columns` columns."""
        place = _bin_of(column, columns, self.values.shape[1])
        return int(self.starts[place + 1] - self.starts[place])


def plan_of(figure: HeatFigure, width: int, height: int, halves: bool) -> Plan:
    """The layout: exact cells if the rows fit, else two rows per cell (`halves`), else means of neighbors with a note.

    The cursor's cell always shows its own value.
    """
    rows, columns = figure.matrix.shape
    left = max(map(cell_count, figure.rows)) + 2 if width >= 24 else 0
    bar = 5 + max(len(text) for text in bar_labels(figure, 4)) if width >= 24 else 0
    left = left if left <= label_room(figure, width - bar) else 0
    below = 2 if height >= 6 else 1 if height > 3 else 0
    room_down, room_across = max(height - below, 1), max(width - left - bar, 1)
    if below and (rows > room_down * (1 + halves) or columns > room_across):
        room_down -= 1
    per_cell = 2 if halves and rows > room_down else 1
    shown = min(rows, room_down * per_cell), min(columns, room_across)
    down = 1 if per_cell == 2 else room_down // shown[0]
    numbers = number_cells(figure) * columns
    if per_cell == 1 and room_across < numbers <= room_across + bar:
        room_across += bar  # numbers say what the color bar would
    across = max(min(room_across // shown[1], WIDEST * down), 1)
    down = min(down, across)
    starts = edges(min(room_across, across * shown[1]), shown[1])
    if across < WIDEST and 4 * int(starts[-1]) < 3 * room_across:  # some columns are a cell wider than others
        starts = edges(min(room_across, WIDEST * down * shown[1]), shown[1])
    plan = Plan(0, left, binned(figure.matrix, *shown), per_cell, down, starts)
    if figure.cursor is not None and shown != (rows, columns):
        at = tuple(_bin_of(*each) for each in zip(figure.cursor, (rows, columns), shown, strict=True))
        plan.values[at] = figure.matrix[figure.cursor]
    return plan


def cell_at(
    figure: HeatFigure, width: int, height: int, halves: bool, x: int, y: int
) -> tuple[int, int] | None:
    """(row, column) of the matrix at cell (x, y) of a grid of this size, in the order shown.

    The first one if several share the cell. None outside of the matrix.
    """
    plan = plan_of(figure, width, height, halves)
    down, across = y - plan.top, x - plan.left
    if not (0 <= down < plan.height and 0 <= across < plan.width):
        return None
    bins = plan.values.shape
    row = down * plan.per_cell // plan.down
    column = int(np.searchsorted(plan.starts, across, side="right")) - 1
    rows, columns = figure.matrix.shape
    return int(edges(rows, bins[0])[row]), int(edges(columns, bins[1])[column])


def number_cells(figure: HeatFigure) -> int:
    """The cells that the number of any value takes, with a space beside it."""
    if figure.decimals:
        return 4
    low, high = figure.limits()
    return max(len(f"{low:.0f}"), len(f"{high:.0f}")) + 1


def label_room(figure: HeatFigure, width: int) -> int:
    """The cells for the names of rows and the spaces beside them: a third of the width, or what the numbers leave."""
    columns: int = figure.matrix.shape[1]
    return max(width // 3, width - number_cells(figure) * columns)


def bar_labels(figure: HeatFigure, parts: int) -> list[str]:
    """The numbers next to the color bar, the highest first: both ends and those that divide the range into `parts`."""
    low, high = figure.limits()
    values = [high + (low - high) * part / parts for part in range(parts + 1)]
    step = max((high - low) / 100, 10.0**-figure.decimals)
    return [
        "+" * (figure.signed and value > 0) + label(value, step, max(abs(low), abs(high))) for value in values
    ]


def _bin_of(place: int, count: int, bins: int) -> int:
    return int(np.searchsorted(edges(count, bins), place, side="right")) - 1


def edges(count: int, bins: int) -> Array:
    """[bins + 1] edges that divide `count` items over `bins` bins with sizes that differ by at most one."""
    return np.arange(bins + 1) * count // bins


def binned(matrix: Array, rows: int, columns: int) -> Array:
    """[rows, columns] means over blocks of `matrix` [n ≥ rows, m ≥ columns], without NaN; NaN if all are."""
    if matrix.shape == (rows, columns):
        return matrix
    there = np.isfinite(matrix)
    totals, counts = _summed(np.where(there, matrix, 0.0), rows, columns), _summed(there * 1.0, rows, columns)
    return np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0)


def _summed(matrix: Array, rows: int, columns: int) -> Array:
    by_row = np.add.reduceat(matrix, edges(matrix.shape[0], rows)[:-1], axis=0)
    return np.asarray(np.add.reduceat(by_row, edges(matrix.shape[1], columns)[:-1], axis=1))
