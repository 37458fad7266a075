"""A heatmap in the terminal.

Viridis, with a color bar. If a matrix has more rows than the space, two share a cell (half blocks). If it has still
more rows or columns, neighbors are averaged, which the row above the bottom one says; the cursor's cell still shows its
own value. If there is room, cells contain their numbers. With ASCII glyphs or under NO_COLOR, a ramp of characters
replaces the colors. The bottom row names the cell under the cursor and its value; without a cursor, the range and the
mean. In a focused heatmap, the arrow keys and h j k l move the cursor, and Escape hides it. A click puts it on a cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.app.charts.heatmap import HeatFigure, cell_at, draw_heatmap
from tui.app.charts.look import Array, Canvas, Look
from tui.app.widgets.canvas_widget import CanvasWidget
from tui.app.widgets.screen import look_of


class Heatmap(CanvasWidget, can_focus=True):
    """A matrix in colors, with a color bar, labels, and a cursor."""

    DEFAULT_CSS = "Heatmap { width: 1fr; height: 1fr; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "up", show=False),
        Binding("down,j", "move(1, 0)", "down", show=False),
        Binding("left,h", "move(0, -1)", "left", show=False),
        Binding("right,l", "move(0, 1)", "right", show=False),
        Binding("escape", "hide_cursor", "no cursor", show=False),
    ]

    @dataclass
    class CursorMoved(Message):
        """The cell under the cursor, of the matrix as given; None: there is none."""

        heatmap: "Heatmap"
        cell: tuple[int, int] | None

    def __init__(
        self,
        *,
        value_range: tuple[float, float] | None = None,
        axes: tuple[str, str] = ("", ""),
        unit: str = "",
        decimals: int | None = None,
        signed: bool = False,
    ) -> None:
        """value_range: of the first and the last color; None: the data's.

        axes: the meanings of rows and columns, ("client", "round"), before their names in the bottom row. unit: of the
        values, such as "%". decimals: of the values; None: one with a unit, three without.
        signed: whether they are differences, which diverge from 0.
        """
        super().__init__()
        self._matrix: Array = np.empty((0, 0))
        self._rows: tuple[str, ...] = ()
        self._columns: tuple[str, ...] = ()
        self._orders: tuple[Array, Array] = (np.arange(0), np.arange(0))
        self._range, self._axes, self._unit = value_range, axes, unit
        self._signed = signed
        self._decimals = decimals if decimals is not None else 1 if unit else 3
        self._titles: tuple[Sequence[str], Sequence[str]] | None = None
        self._at: tuple[int, int] | None = None  # in the order shown
        self.home = (0, 0)
        """The position of a new cursor, as (row, column) of the matrix as given."""
        self._marked: tuple[int | None, int | None] = (None, None)
        self.clustered = False

    def show(
        self,
        matrix: Array,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        titles: tuple[Sequence[str], Sequence[str]] | None = None,
    ) -> None:
        """Show `matrix` [n, m]. The cursor stays on its cell if that still exists.

        titles: the bottom row's names of rows and columns, if they are longer than those at the edges.
        """
        kept = self.cursor
        self._matrix, self._titles = np.atleast_2d(np.array(matrix, float)), titles
        height, width = self._matrix.shape
        self._rows = tuple(rows) if rows is not None else tuple(str(row) for row in range(height))
        self._columns = tuple(columns) if columns is not None else tuple(str(one) for one in range(width))
        if (len(self._rows), len(self._columns)) != (height, width):
            raise ValueError(
                f"a {height} × {width} heatmap has {len(self._rows)} row and {len(self._columns)} column labels"
            )
        self._arrange(kept)

    @property
    def cursor(self) -> tuple[int, int] | None:
        """(row, column) of the matrix as given, or None without a cursor."""
        if self._at is None:
            return None
        by_row, by_column = self._orders
        return int(by_row[self._at[0]]), int(by_column[self._at[1]])

    def put_cursor(self, row: int, column: int) -> None:
        """Put the cursor on (row, column) of the matrix as given, or on the nearest cell."""
        if self._matrix.size:
            by_row, by_column = self._orders
            last_row, last_column = len(by_row) - 1, len(by_column) - 1
            found = [
                int(np.flatnonzero(order == min(max(place, 0), last))[0])
                for order, place, last in ((by_row, row, last_row), (by_column, column, last_column))
            ]
            self._set_cursor((found[0], found[1]))

    def mark(self, row: int | None = None, column: int | None = None) -> None:
        """Mark this row and this column of the matrix as given in the margins, while there is no cursor."""
        if (row, column) != self._marked:
            self._marked = row, column
            self.changed()

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor down and right in the order shown, up to the edges. The first move only shows it."""
        if not self._matrix.size:
            return
        last_row, last_column = self._matrix.shape[0] - 1, self._matrix.shape[1] - 1
        if self._at is None:
            self.put_cursor(*self.home)
            return
        row, column = self._at
        self._set_cursor((min(max(row + rows, 0), last_row), min(max(column + columns, 0), last_column)))

    def action_hide_cursor(self) -> None:
        """Hide the cursor. Without a cursor, Escape is for other parts."""
        if self._at is None:
            raise SkipAction
        self._set_cursor(None)

    def scale(self, value_range: tuple[float, float] | None) -> None:
        """Use these values for the first and the last color; None: the data's."""
        if value_range != self._range:
            self._range = value_range
            self.changed()

    def measure(self, unit: str = "", decimals: int = 3, *, signed: bool = False) -> None:
        """Show values of this unit with so many decimals. signed: they are differences, which diverge from 0."""
        if (unit, decimals, signed) != (self._unit, self._decimals, self._signed):
            self._unit, self._decimals, self._signed = unit, decimals, signed
            self.changed()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self._matrix.size:
            halves = look_of(self).painted
            cell = cell_at(self._figure(), *self.content_size, halves, offset.x, offset.y)
            if cell is not None:
                self._set_cursor(cell)

    def cluster(self, clustered: bool) -> None:
        """Show similar rows and columns of a square matrix next to each other, or in their own order again."""
        if clustered != self.clustered:
            self.clustered = clustered
            self._arrange(self.cursor)

    def _set_cursor(self, at: tuple[int, int] | None) -> None:
        if at != self._at:
            self._at = at
            self.changed()
            self.post_message(self.CursorMoved(self, self.cursor))

    def _arrange(self, kept: tuple[int, int] | None) -> None:
        """Apply the chosen order, with the cursor still on the cell `kept` of the matrix."""
        height, width = self._matrix.shape
        square = height == width and height > 2
        if self.clustered and square:
            order = cluster_order(self._matrix)
            self._orders = (order, order)
        else:
            self._orders = (np.arange(height), np.arange(width))
        self._at = None
        if kept is not None and kept[0] < height and kept[1] < width:
            by_row, by_column = self._orders
            self._at = int(np.flatnonzero(by_row == kept[0])[0]), int(np.flatnonzero(by_column == kept[1])[0])
        self.changed()

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        return draw_heatmap(self._figure(), width, height, look)

    def _figure(self) -> HeatFigure:
        by_row, by_column = self._orders
        rows, columns = self._titles or (self._rows, self._columns)
        return HeatFigure(
            matrix=self._matrix[np.ix_(by_row, by_column)],
            rows=tuple(self._rows[row] for row in by_row),
            columns=tuple(self._columns[column] for column in by_column),
            value_range=self._range,
            cursor=self._at,
            marked=(_shown(by_row, self._marked[0]), _shown(by_column, self._marked[1])),
            axes=self._axes,
            unit=self._unit,
            decimals=self._decimals,
            signed=self._signed,
            titles=([rows[row] for row in by_row], [columns[column] for column in by_column]),
        )


CLUSTERING = "scipy.cluster.hierarchy"
"""The module for `cluster_order`. It is imported in the background by then, or else takes half a second."""


def _shown(order: Array, place: int | None) -> int | None:
    """The position in the order shown of a row or column of the matrix as given; None if there is none."""
    return int(np.flatnonzero(order == place)[0]) if place is not None and place < len(order) else None


def cluster_order(similarity: Array) -> Array:
    """The leaves, left to right, of the average-linkage tree on 1 − similarity [n, n].

    Its branches are turned so that neighbors are most similar (Bar-Joseph et al. 2001). An asymmetric matrix is
    replaced by its mean with its transpose. Pairs without a value count as least similar.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage  # half a second: see CLUSTERING
    from scipy.spatial.distance import squareform

    size = len(similarity)
    if size < 3:
        return np.arange(size)
    distance = 1 - (similarity + similarity.T) / 2
    finite = distance[np.isfinite(distance)]
    distance = np.where(np.isfinite(distance), distance, max(1.0, finite.max(initial=0.0)))
    np.fill_diagonal(distance, 0.0)
    pairs = squareform(np.maximum(distance, 0.0), checks=False)
    return np.asarray(leaves_list(linkage(pairs, "average", optimal_ordering=True)), int)
