"""A chart of the clients' work over simulated time."""

from tui.app.charts.canvas import Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.timeline import Make, draw_timeline
from tui.app.widgets.canvas_widget import CanvasWidget


class TimelineChart(CanvasWidget):
    """Who receives, trains, sends, and waits in some rounds."""

    DEFAULT_CSS = "TimelineChart { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._make: Make | None = None

    def show(self, make: Make | None) -> None:
        """Show what `make` returns for as many clients as there is room for; None: nothing."""
        self._make = make
        self.changed()

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        if self._make is None:
            return Canvas.blank(width, height, scheme.text, scheme.background)
        return draw_timeline(self._make, width, height, scheme, glyphs)
