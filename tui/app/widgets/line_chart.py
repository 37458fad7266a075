"""A line chart in the terminal.

Up to eight plain series have a color and a key (1…9, a…z) each, at the line's end and in the legend; more are a crowd
in one muted color. Pinned series are always named and drawn on top. NaN is a gap. Every column shows the lowest and
the highest value of each line there, so spikes survive. While the view reaches the newest round it follows the run;
panned back, it stays where it is. A click, or the mouse drawn over the plot, is `Pointed` with the nearest x of a line.
"""

from dataclasses import dataclass, replace

import numpy as np
from textual import events
from textual.message import Message

from tui.app.charts.chart import Figure, draw_chart, place_at
from tui.app.charts.look import Canvas, Look
from tui.app.widgets.canvas_widget import CanvasWidget
from tui.app.widgets.screen import look_of

NARROWEST = 4.0  # minimum steps of x in a zoom, so that a line is still visible


class LineChart(CanvasWidget, can_focus=True):
    """Lines over rounds (or bytes, or seconds) with axes, a legend, a band, marks, and a cursor."""

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
        """The contents, except the x range and the cursor."""
        self._view: tuple[float, float] | None = None  # None: the whole range
        self._cursor: float | None = None

    def show(self, figure: Figure) -> None:
        """Replace the contents. Zoom and cursor stay."""
        last = self.figure.x_extent[1]
        follows = self._view is not None and self._view[1] >= last
        self.figure = figure
        if follows and self._view is not None:
            ahead = figure.x_extent[1] - self._view[1]
            self._view = (self._view[0] + ahead, self._view[1] + ahead)
        self.changed()

    @property
    def cursor(self) -> float | None:
        return self._cursor

    def put_cursor(self, x: float | None) -> None:
        """Draw the vertical line at `x`, and move a zoomed view so that it is visible; None: no line."""
        if x == self._cursor:
            return
        self._cursor = x
        self.changed()
        low, high = self.x_range
        if x is not None and self._view is not None and not low <= x <= high:
            self.pan((x - (low if x < low else high)) / (high - low))

    def step(self, by: int) -> float | None:
        """The x this many places from the cursor, up to the ends. Without a cursor, the newest visible x."""
        places, at = self.figure.places(), self._cursor
        if not places.size:
            return None
        if at is None:
            at, by = self.x_range[1], 0
        place = np.searchsorted(places, at, "right") - 1 if by >= 0 else np.searchsorted(places, at)
        return float(places[np.clip(place + by, 0, len(places) - 1)])

    @property
    def x_range(self) -> tuple[float, float]:
        axis = replace(self.figure, x_range=self._view).x_axis()
        return axis.low, axis.high

    def zoom_in(self) -> None:
        """Show half the range, around the cursor if there is one, else the newest half."""
        low, high = self.x_range
        self._look(low, high, (high - low) / 2)

    def zoom_out(self) -> None:
        """Show twice the range, at most the whole data."""
        low, high = self.x_range
        self._look(low, high, (high - low) * 2)

    def pan(self, share: float) -> None:
        """Move the view by `share` of its width: to later x if positive, and never beyond the data's ends."""
        low, high = self.x_range
        first, last = self.figure.x_extent
        by = min(max(share * (high - low), first - low), last - high)
        self._set_view((low + by, high + by))

    def reset_view(self) -> None:
        self._set_view(None)

    def _look(self, low: float, high: float, width: float) -> None:
        """Show `width` of x: around the cursor if it is visible, else up to the same end as now."""
        first, last = self.figure.x_extent
        width, cursor = max(width, NARROWEST), self._cursor
        if width >= last - first:
            self._set_view(None)
            return
        start = cursor - width / 2 if cursor is not None and low <= cursor <= high else high - width
        start = min(max(start, first), last - width)
        self._set_view((start, start + width))

    def _set_view(self, view: tuple[float, float] | None) -> None:
        if view != self._view:
            self._view = view
            self.changed()

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
        x = place_at(self._shown(), at.x, *self.content_size, look_of(self))
        if x is not None:
            self.post_message(self.Pointed(self, x))

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        return draw_chart(self._shown(), width, height, look)

    def _shown(self) -> Figure:
        return replace(self.figure, x_range=self._view, cursor=self._cursor)
