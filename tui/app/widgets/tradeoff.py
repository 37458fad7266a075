"""Settings as points of accuracy over a cost, one of which is chosen.

chart = Tradeoff()
chart.show(TradeoffFigure(points, "MiB"))
chart.chosen                # the name of the highlighted point
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.app.charts.canvas import Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.tradeoff import TradeoffFigure, draw_tradeoff
from tui.app.widgets.canvas_widget import CanvasWidget


class Tradeoff(CanvasWidget, can_focus=True):
    """A scatter plot with names. Arrows choose the next point by its cost."""

    DEFAULT_CSS = "Tradeoff { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,down,j", "choose(1)", "next point", show=False),
        Binding("left,h,up,k", "choose(-1)", "point before", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Another point is highlighted."""

        name: str

    def __init__(self) -> None:
        super().__init__()
        self.figure = TradeoffFigure()

    def show(self, figure: TradeoffFigure) -> None:
        """Replace the contents."""
        if figure != self.figure:
            self.figure = figure
            self.changed()

    def action_choose(self, steps: int) -> None:
        names = [each.name for each in sorted(self.figure.points, key=lambda each: (each.x, each.y))]
        if not names:
            return
        at = names.index(self.figure.chosen) + steps if self.figure.chosen in names else 0
        self.show(replace(self.figure, chosen=names[min(max(at, 0), len(names) - 1)]))
        self.post_message(self.Chosen(self.figure.chosen))

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        return draw_tradeoff(self.figure, width, height, scheme, glyphs)
