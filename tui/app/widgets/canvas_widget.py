"""Widgets that show a canvas: line charts, heatmaps, and pictures. They refresh only the lines that differ."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from textwrap import wrap
from typing import Any, ClassVar

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from simulator.results.figures.palette import channels
from tui.app.charts.chart import Figure, draw_chart, place_at
from tui.app.charts.heatmap import HeatFigure, cell_at, draw_heatmap
from tui.app.charts.look import BOLD, DEFAULT, REVERSE, SECOND, Array, Canvas, Look, row_text
from tui.app.widgets.screen import look_of

NARROWEST = 4.0  # minimum steps of x in a zoom, so that a line is still visible
CLUSTERING = "scipy.cluster.hierarchy"
"""The module for `cluster_order`. It is imported in the background by then, or else takes half a second."""


class CanvasWidget(Widget):
    """Base class of the widgets that draw all their content at once."""

    def __init__(self) -> None:
        super().__init__()
        self._canvas: Canvas | None = None
        """What the strips show."""
        self._strips: list[Strip] = []
        self._drawn_on: tuple[Look, Size, Offset] | None = None
        self._waiting = False

    @abstractmethod
    def draw(self, width: int, height: int, look: Look) -> Canvas:
        """The content as [height, width] cells."""

    def changed(self) -> None:
        """Draw again soon. Many calls in a row are drawn once."""
        if self._waiting or not self.is_running:
            return
        self._waiting = True
        self.call_next(self._renew)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._bring_up_to_date()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        blank = Strip.blank(self.content_size.width, self.rich_style)
        return self._strips[y] if y < len(self._strips) else blank

    def _renew(self) -> None:
        """Draw now if it is visible, and refresh the differences; otherwise when it is shown next."""
        self._waiting = False
        drawn_on, self._drawn_on = self._drawn_on, None
        rows = self._bring_up_to_date() if drawn_on is not None and self.is_on_screen else None
        if rows is None:
            self.refresh()
        elif rows:
            left, top = self.content_region.x - self.region.x, self.content_region.y - self.region.y
            self.refresh(*(Region(left, top + row, self._strips[row].cell_length, 1) for row in rows))

    def _bring_up_to_date(self) -> Sequence[int] | None:
        """Draw, unless the last drawing had the same data, size, theme, and scrolling.

        Returns the rows that differ from it; None if the size does.
        """
        look, size, _ = surface = (look_of(self), self.scrollable_content_region.size, self.scroll_offset)
        if surface == self._drawn_on:
            return ()
        before = self._canvas
        try:
            canvas = self.draw(size.width, size.height, look)
        except Exception as fault:  # an error in drawing must not end the app
            canvas = look.blank(size.width, size.height)
            said = f"Drawing failed. This is a bug in htfl-sim: {type(fault).__name__}: {fault}"
            for row, line in enumerate(wrap(said, max(size.width, 1))):
                canvas.put(row, 0, line, look.text)
        self._canvas, self._drawn_on = canvas, surface
        if before is None or before.chars.shape != canvas.chars.shape:
            self._strips = [strip(canvas, row) for row in range(canvas.height)]
            return None
        rows = canvas.changed_rows(before)
        for row in rows:
            self._strips[row] = strip(canvas, row)
        return rows


def strip(canvas: Canvas, row: int) -> Strip:
    """A row of cells, with one segment for each run of cells of one style."""
    chars, fg, bg, flags = (every[row] for every in canvas.arrays())
    changes = (np.diff(fg) != 0) | (np.diff(bg) != 0) | (np.diff(flags) != 0)
    changes &= chars[1:] != SECOND  # both cells of a wide character have its style
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()] if len(chars) else []
    ends = [*starts[1:], len(chars)]
    keys = zip(fg[starts].tolist(), bg[starts].tolist(), flags[starts].tolist(), strict=True)
    text = row_text(chars)
    cells = text if len(text) == len(chars) and chars.min(initial=1) != SECOND else None  # one character each
    segments = [
        Segment(cells[start:end] if cells is not None else row_text(chars[start:end]), _style(*key))
        for start, end, key in zip(starts, ends, keys, strict=True)
    ]
    return Strip(segments, len(chars))


@lru_cache(maxsize=8192)
def _style(fg: int, bg: int, flags: int) -> Style:
    """A rich style. DEFAULT sets no color: Textual's filter for NO_COLOR takes the terminal's `default` for black, on
    both sides, and would write black on black.
    """
    return Style(
        color=None if fg == DEFAULT else Color.from_rgb(*channels(fg)),
        bgcolor=None if bg == DEFAULT else Color.from_rgb(*channels(bg)),
        bold=True if flags & BOLD else None,
        reverse=True if flags & REVERSE else None,
    )


class Picture(CanvasWidget):
    """Draws its content by a function of the content, the size, and the look. Without content, it is empty."""

    DEFAULT_CSS = "Picture { width: 1fr; height: 1fr; }"

    def __init__(self, drawn: Callable[..., Canvas], *, can_focus: bool = True) -> None:
        super().__init__()
        self._drawn, self.can_focus = drawn, can_focus
        self._content: Any = None

    def show(self, content: Any) -> None:
        self._content = content
        self.changed()

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        if self._content is None:
            return look.blank(width, height)
        return self._drawn(self._content, width, height, look)


class LineChart(CanvasWidget, can_focus=True):
    """A Figure. A click, or the mouse drawn over the plot, is `Pointed` with the nearest x of a line."""

    DEFAULT_CSS = "LineChart { width: 1fr; height: 1fr; }"

    @dataclass
    class Pointed(Message):
        """The mouse points at this x of a line."""

        chart: "LineChart"
        x: float

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LineChart.Pointed) and message.chart is self.chart

    def __init__(self) -> None:
        super().__init__()
        self.figure = Figure()
        """The contents, with the part of x that is shown (None: the whole range) and the cursor."""

    def show(self, figure: Figure) -> None:
        """Replace the contents. Zoom and cursor stay, and a view of the newest x follows it."""
        view = self.figure.x_range
        if view is not None and view[1] >= self.figure.x_extent[1]:
            ahead = figure.x_extent[1] - view[1]
            view = view[0] + ahead, view[1] + ahead
        self._put(figure, x_range=view, cursor=self.figure.cursor)

    def _put(self, figure: Figure, **fields: Any) -> None:
        self.figure = replace(figure, **fields)
        self.changed()

    def put_cursor(self, x: float | None) -> None:
        """Draw the vertical line at `x`, and move a zoomed view so that it is visible; None: no line."""
        if x == self.figure.cursor:
            return
        self._put(self.figure, cursor=x)
        low, high = self.x_range
        if x is not None and self.figure.x_range is not None and not low <= x <= high:
            self.pan((x - (low if x < low else high)) / (high - low))

    def step(self, by: int) -> float | None:
        """The x this many places from the cursor, up to the ends. Without a cursor, the newest visible x."""
        places, at = self.figure.places(), self.figure.cursor
        if not places.size:
            return None
        if at is None:
            at, by = self.x_range[1], 0
        place = np.searchsorted(places, at, "right") - 1 if by >= 0 else np.searchsorted(places, at)
        return float(places[np.clip(place + by, 0, len(places) - 1)])

    @property
    def x_range(self) -> tuple[float, float]:
        axis = self.figure.x_axis()
        return axis.low, axis.high

    def zoom(self, way: int) -> None:
        """Show half the range (1; around a visible cursor, else the newest half), twice the range (-1), or all (0)."""
        (low, high), (first, last), cursor = self.x_range, self.figure.x_extent, self.figure.cursor
        width = max((high - low) / 2**way, NARROWEST)
        if not way or width >= last - first:
            self._set_view(None)
            return
        start = cursor - width / 2 if cursor is not None and low <= cursor <= high else high - width
        start = min(max(start, first), last - width)
        self._set_view((start, start + width))

    def pan(self, share: float) -> None:
        """Move the view by `share` of its width: to later x if positive, and never beyond the data's ends."""
        low, high = self.x_range
        first, last = self.figure.x_extent
        by = min(max(share * (high - low), first - low), last - high)
        self._set_view((low + by, high + by))

    def _set_view(self, view: tuple[float, float] | None) -> None:
        if view != self.figure.x_range:
            self._put(self.figure, x_range=view)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self.figure.over is not None:
            self.capture_mouse()
            self._point(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._point(event)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _point(self, event: events.MouseEvent) -> None:
        at = event.get_content_offset_capture(self)
        x = place_at(self.figure, at.x, *self.content_size, look_of(self))
        if x is not None:
            self.post_message(self.Pointed(self, x))

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        return draw_chart(self.figure, width, height, look)


class Heatmap(CanvasWidget, can_focus=True):
    """A matrix in colors, with a color bar, labels, and a cursor, which a click or the keys move and Escape hides."""

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

    def __init__(self, *, axes: tuple[str, str] = ("", ""), **about: Any) -> None:
        """axes: the meanings of rows and columns, ("client", "round"). about: other fields of a HeatFigure."""
        super().__init__()
        self._given = HeatFigure(np.empty((0, 0)), (), (), axes=axes, **about)
        """The figure in the given order, without a cursor."""
        self._order: Array | None = None
        """The order in which rows and columns are shown; None: as given."""
        self.cursor: tuple[int, int] | None = None
        """(row, column) of the matrix as given, or None without a cursor."""
        self.home = (0, 0)
        """The position of a new cursor, as (row, column) of the matrix as given."""
        self.clustered = False

    def show(
        self,
        matrix: Array,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        titles: tuple[Sequence[str], Sequence[str]] | None = None,
    ) -> None:
        matrix = np.atleast_2d(np.array(matrix, float))
        height, width = matrix.shape
        rows = [*map(str, range(height))] if rows is None else rows
        columns = [*map(str, range(width))] if columns is None else columns
        if (len(rows), len(columns)) != (height, width):
            labels = f"{len(rows)} row and {len(columns)} column labels"
            raise ValueError(f"a {height} × {width} heatmap has {labels}")
        self._given = replace(self._given, matrix=matrix, rows=rows, columns=columns, titles=titles)
        if self.cursor is not None and (self.cursor[0] >= height or self.cursor[1] >= width):
            self.cursor = None
        self._arrange()

    def put_cursor(self, row: int, column: int) -> None:
        """Put the cursor on (row, column) of the matrix as given, or on the nearest cell."""
        if self._given.matrix.size:
            rows, columns = self._given.matrix.shape
            self._set_cursor((min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)))

    def change(self, **fields: Any) -> None:
        """Show the matrix with these fields of a HeatFigure: value_range, marked, unit, decimals, signed."""
        if any(getattr(self._given, name) != value for name, value in fields.items()):
            self._given = replace(self._given, **fields)
            self.changed()

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor down and right in the order shown, up to the edges. The first move only shows it."""
        if self.cursor is None:
            self.put_cursor(*self.home)
            return
        moved = []
        for order, place, by in zip(self._orders, self.cursor, (rows, columns), strict=True):
            shown = int(np.flatnonzero(order == place)[0]) + by
            moved.append(int(order[min(max(shown, 0), len(order) - 1)]))
        self._set_cursor((moved[0], moved[1]))

    def action_hide_cursor(self) -> None:
        """Hide the cursor. Without a cursor, Escape is for other parts."""
        if self.cursor is None:
            raise SkipAction
        self._set_cursor(None)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self._given.matrix.size:
            halves = look_of(self).painted
            cell = cell_at(self._figure(), *self.content_size, halves, offset.x, offset.y)
            if cell is not None:
                rows, columns = self._orders
                self._set_cursor((int(rows[cell[0]]), int(columns[cell[1]])))

    def cluster(self, clustered: bool) -> None:
        """Show similar rows and columns of a square matrix next to each other, or in their own order again."""
        if clustered != self.clustered:
            self.clustered = clustered
            self._arrange()

    @property
    def _orders(self) -> list[Array]:
        """The rows and the columns as given, in the order shown."""
        return [np.arange(size) if self._order is None else self._order for size in self._given.matrix.shape]

    def _set_cursor(self, cell: tuple[int, int] | None) -> None:
        if cell != self.cursor:
            self.cursor = cell
            self.changed()
            self.post_message(self.CursorMoved(self, cell))

    def _arrange(self) -> None:
        """Apply the chosen order."""
        height, width = self._given.matrix.shape
        ordered = self.clustered and height == width and height > 2
        self._order = cluster_order(self._given.matrix) if ordered else None
        self.changed()

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        return draw_heatmap(self._figure(), width, height, look)

    def _figure(self) -> HeatFigure:
        given, order = self._given, self._order
        places = [np.argsort(each) for each in self._orders]
        row, column = (
            None if at is None or at >= len(each) else int(each[at])
            for each, at in zip(places, given.marked, strict=True)
        )
        at = self.cursor and (int(places[0][self.cursor[0]]), int(places[1][self.cursor[1]]))
        given = replace(given, marked=(row, column), cursor=at)
        if order is None:
            return given
        names = (given.rows, given.columns, *(given.titles or ()))
        rows, columns, *titles = ([each[place] for place in order] for each in names)
        both, matrix = (titles[0], titles[1]) if titles else None, given.matrix[np.ix_(order, order)]
        return replace(given, matrix=matrix, rows=rows, columns=columns, titles=both)


def cluster_order(similarity: Array) -> Array:
    """The leaves, left to right, of the average-linkage tree on 1 − similarity [n, n]."""
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
