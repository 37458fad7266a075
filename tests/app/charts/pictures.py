"""Drawings as text, for tests that write out what they expect."""

from textwrap import dedent

from tui.app.charts.chart import Figure, draw_chart
from tui.app.charts.heatmap import HeatFigure, draw_heatmap
from tui.app.charts.look import ASCII, Canvas, Look
from tui.app.charts.scatter import ScatterFigure, draw_scatter

LOOK, IN_ASCII, NO_COLOUR = Look(), Look(glyphs=ASCII), Look(coloured=False)
DRAW = {Figure: draw_chart, HeatFigure: draw_heatmap, ScatterFigure: draw_scatter}


def picture(text: str) -> list[str]:
    """The lines of a picture written between | and |, the bars left out."""
    return [line.strip()[1:-1] for line in dedent(text).strip().splitlines()]


def drawn(canvas: Canvas) -> list[str]:
    """The lines of a canvas."""
    return canvas.text().split("\n")


def draw(figure: Figure | HeatFigure | ScatterFigure, width: int, height: int, look: Look = LOOK) -> Canvas:
    """A figure of any kind on a canvas."""
    return DRAW[type(figure)](figure, width, height, look)  # type: ignore[operator]


def rows_of(
    figure: Figure | HeatFigure | ScatterFigure, width: int, height: int, look: Look = LOOK
) -> list[str]:
    """The lines of a figure of any kind, without the spaces at their ends."""
    return [row.rstrip() for row in drawn(draw(figure, width, height, look))]
