"""A scatter plot in the terminal.

scatter = Scatter()
scatter.show(ScatterFigure(points, groups, names, marks, mark_groups, "prototype"))
"""

from tui.app.charts.canvas import Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.scatter import ScatterFigure, draw_scatter
from tui.app.widgets.canvas_widget import CanvasWidget


class Scatter(CanvasWidget, can_focus=True):
    """Points of a plane, by group."""

    DEFAULT_CSS = "Scatter { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.figure: ScatterFigure | None = None

    def show(self, figure: ScatterFigure) -> None:
        """Replace the contents."""
        self.figure = figure
        self.changed()

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        if self.figure is None:
            return Canvas.blank(width, height, scheme.text, scheme.background)
        return draw_scatter(self.figure, width, height, scheme, glyphs)
