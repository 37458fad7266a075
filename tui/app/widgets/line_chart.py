"""A line chart in the terminal.

    chart = LineChart(x_label="round", y_range=(0, 100), unit="%", crowd="clients")
    chart.show(
        [Series("mean", mean, pinned=True), Series("client 3", y)],
        band=Band("10–90 %", low, high),
        marks=[Mark(40, "fedgh")],
    )
    chart.cursor = 120                      # a vertical line; the legend then gives the values there; None: none
    chart.y_range = None; chart.x_label = "seconds"                         # None: follow the data
    chart.zoom_in(); chart.zoom_out(); chart.pan(+0.25); chart.reset_view() # the x range shown
    chart.x_range                           # (first, last) x shown

Series, Band and Mark are in tui.app.charts.figure. Up to eight plain series each have a colour and a key (1…9, a…z) at
the line's end and in the legend; more are a crowd in one muted colour. Pinned series are always named and drawn on top.
NaN is a gap. Every column shows the lowest and the highest value of each line there, so spikes survive.
While the view reaches the newest round it follows the run; panned back, it stays where it is.
"""

from collections.abc import Sequence
from dataclasses import replace

from textual.reactive import reactive

from tui.app.charts.canvas import Canvas
from tui.app.charts.chart import draw_chart
from tui.app.charts.colours import ColourScheme
from tui.app.charts.figure import Band, Figure, Mark, Series
from tui.app.charts.glyphs import GlyphSet
from tui.app.widgets.canvas_widget import CanvasWidget

NARROWEST = 4.0  # steps of x that can be zoomed to, so that there is still a line to see


class LineChart(CanvasWidget, can_focus=True):
    """Lines over rounds (or bytes, or seconds) with axes, a legend, a band, marks and a cursor."""

    DEFAULT_CSS = "LineChart { width: 1fr; height: 1fr; }"

    x_label: reactive[str] = reactive("")
    y_range: reactive[tuple[float, float] | None] = reactive(None)
    cursor: reactive[float | None] = reactive(None)

    def __init__(
        self,
        *,
        x_label: str = "round",
        y_range: tuple[float, float] | None = None,
        unit: str = "",
        crowd: str = "others",
    ) -> None:
        super().__init__()
        self._figure = Figure(unit=unit, crowd=crowd)
        self._view: tuple[float, float] | None = None  # None: all there is
        self.set_reactive(LineChart.x_label, x_label)
        self.set_reactive(LineChart.y_range, y_range)

    def show(
        self,
        series: Sequence[Series],
        band: Band | None = None,
        marks: Sequence[Mark] = (),
        unit: str | None = None,
    ) -> None:
        """Show these data in place of what was shown, in the same unit if none is given; zoom, cursor, ranges stay."""
        last = self._figure.x_extent()[1]
        follows = self._view is not None and self._view[1] >= last
        self._figure = replace(
            self._figure,
            series=tuple(series),
            band=band,
            marks=tuple(marks),
            unit=self._figure.unit if unit is None else unit,
        )
        if follows and self._view is not None:
            ahead = self._figure.x_extent()[1] - self._view[1]
            self._view = (self._view[0] + ahead, self._view[1] + ahead)
        self.changed()

    @property
    def x_range(self) -> tuple[float, float]:
        """The first and the last x shown."""
        axis = replace(self._figure, x_range=self._view).x_axis()
        return axis.low, axis.high

    def zoom_in(self) -> None:
        """Show half as much, around the cursor where there is one, else the newest half."""
        low, high = self.x_range
        self._look(low, high, (high - low) / 2)

    def zoom_out(self) -> None:
        """Show twice as much, at most all there is."""
        low, high = self.x_range
        self._look(low, high, (high - low) * 2)

    def pan(self, share: float) -> None:
        """Move the view by `share` of its width: to later x if positive, and never past the data's ends."""
        low, high = self.x_range
        first, last = self._figure.x_extent()
        by = min(max(share * (high - low), first - low), last - high)
        self._set_view((low + by, high + by))

    def reset_view(self) -> None:
        """Show all x again."""
        self._set_view(None)

    def _look(self, low: float, high: float, width: float) -> None:
        """Show `width` of x: around the cursor if it is in sight, else up to the same end as now."""
        first, last = self._figure.x_extent()
        if width >= last - first:
            self._set_view(None)
            return
        width = max(width, min(NARROWEST, last - first))
        in_sight = self.cursor is not None and low <= self.cursor <= high
        start = self.cursor - width / 2 if in_sight and self.cursor is not None else high - width
        start = min(max(start, first), last - width)
        self._set_view((start, start + width))

    def _set_view(self, view: tuple[float, float] | None) -> None:
        if view != self._view:
            self._view = view
            self.changed()

    def watch_x_label(self) -> None:
        self.changed()

    def watch_y_range(self) -> None:
        self.changed()

    def watch_cursor(self) -> None:
        self.changed()

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        figure = replace(
            self._figure,
            x_label=self.x_label,
            x_range=self._view,
            y_range=self.y_range,
            cursor=self.cursor,
        )
        return draw_chart(figure, width, height, scheme, glyphs)
