"""A line chart in the terminal.

    chart = LineChart()
    chart.show(
        Figure(
            [Series("mean", mean, pinned=True), Series("client 3", y)],
            Band("10–90 %", low, high),
            [Mark(40, "fedgh")],
            x_label="round",
            unit="%",
            cursor=120,                     # a vertical line; the legend then gives the values there
        )
    )
    chart.zoom_in(); chart.zoom_out(); chart.pan(+0.25); chart.reset_view()  # the x range shown
    chart.x_range                           # (first, last) x shown

Up to eight plain series have a colour and a key (1…9, a…z) each, at the line's end and in the legend; more are a crowd
in one muted colour. Pinned series are always named and drawn on top. NaN is a gap. Every column shows the lowest and
the highest value of each line there, so spikes survive. While the view reaches the newest round it follows the run;
panned back, it stays where it is.
"""

from dataclasses import replace

from tui.app.charts.canvas import Canvas
from tui.app.charts.chart import draw_chart
from tui.app.charts.colours import ColourScheme
from tui.app.charts.figure import Figure
from tui.app.charts.glyphs import GlyphSet
from tui.app.widgets.canvas_widget import CanvasWidget

NARROWEST = 4.0  # steps of x that can be zoomed to, so that there is still a line to see


class LineChart(CanvasWidget, can_focus=True):
    """Lines over rounds (or bytes, or seconds) with axes, a legend, a band, marks and a cursor."""

    DEFAULT_CSS = "LineChart { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.figure = Figure()
        """What is shown, but for its x range."""
        self._view: tuple[float, float] | None = None  # None: all there is

    def show(self, figure: Figure) -> None:
        """Show this in place of what was shown; the zoom stays."""
        last = self.figure.x_extent()[1]
        follows = self._view is not None and self._view[1] >= last
        self.figure = figure
        if follows and self._view is not None:
            ahead = figure.x_extent()[1] - self._view[1]
            self._view = (self._view[0] + ahead, self._view[1] + ahead)
        self.changed()

    @property
    def x_range(self) -> tuple[float, float]:
        """The first and the last x shown."""
        axis = replace(self.figure, x_range=self._view).x_axis()
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
        first, last = self.figure.x_extent()
        by = min(max(share * (high - low), first - low), last - high)
        self._set_view((low + by, high + by))

    def reset_view(self) -> None:
        """Show all x again."""
        self._set_view(None)

    def _look(self, low: float, high: float, width: float) -> None:
        """Show `width` of x: around the cursor if it is in sight, else up to the same end as now."""
        first, last = self.figure.x_extent()
        if width >= last - first:
            self._set_view(None)
            return
        width, cursor = max(width, min(NARROWEST, last - first)), self.figure.cursor
        start = cursor - width / 2 if cursor is not None and low <= cursor <= high else high - width
        start = min(max(start, first), last - width)
        self._set_view((start, start + width))

    def _set_view(self, view: tuple[float, float] | None) -> None:
        if view != self._view:
            self._view = view
            self.changed()

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        return draw_chart(replace(self.figure, x_range=self._view), width, height, scheme, glyphs)
