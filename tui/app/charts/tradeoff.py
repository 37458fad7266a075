"""Settings as points of accuracy over a cost. A line joins those that no other setting beats in both.

Points on the line are full, and the others are rings and dim. Every point with room beside it has its name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tui.app.charts.axis import Axis, apart, reach
from tui.app.charts.canvas import BOLD, Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.names import cut
from tui.app.charts.plot_area import PlotArea, draw_axes, fit
from tui.app.charts.trace import counts, masks, trace
from tui.common.cells import cell_count
from tui.common.formatting import spelled

LONGEST = 24
"""Cells of a name at most."""
MARGIN = 0.06
"""Share of the axis beyond the costs at both ends."""


@dataclass(frozen=True)
class TradeoffPoint:
    """A setting: its cost in the axis's unit, and its accuracy in per cent. front: whether no other one beats it.

    so_far: whether some of its sessions still have rounds to go, so that it will move.
    """

    name: str
    x: float
    y: float
    front: bool
    so_far: bool = False


@dataclass(frozen=True)
class TradeoffFigure:
    """points, and the name of the one to highlight. x_label: the cost's unit."""

    points: tuple[TradeoffPoint, ...] = ()
    x_label: str = ""
    chosen: str = ""


def draw_tradeoff(
    figure: TradeoffFigure, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet
) -> Canvas:
    """`figure` on [height, width] cells."""
    canvas = Canvas.blank(width, height, scheme.text, scheme.background)
    if width < 4 or height < 2 or not figure.points:
        return canvas
    y = reach(np.array([each.y for each in figure.points]), ceiling=100.0)
    area = fit(x_axis(figure.points), y, width, height, 0, 1)
    draw_axes(canvas, area, figure.x_label, scheme, glyphs)
    _draw_front(canvas, area, figure.points, scheme, glyphs)
    _draw_points(canvas, area, figure, scheme, glyphs)
    return canvas


def x_axis(points: Sequence[TradeoffPoint]) -> Axis:
    """The costs with a margin, from 0 on if they come near it."""
    low, high = apart(min(each.x for each in points), max(each.x for each in points))
    room = (high - low) * MARGIN
    return Axis(0.0 if 0 <= low <= (high - low) / 2 else low - room, high + room)


def _draw_front(
    canvas: Canvas, area: PlotArea, points: Sequence[TradeoffPoint], scheme: ColourScheme, glyphs: GlyphSet
) -> None:
    """The line through the front, by cost."""
    front = sorted({(each.x, each.y) for each in points if each.front})
    if len(front) < 2:
        return
    x, y = np.array(front).T
    rows, columns = area.height * glyphs.dots[0], area.width * glyphs.dots[1]
    dots = counts(trace(area.x.fractions(x), area.y.fractions(y[None]), columns, rows), rows)
    cells = masks(dots, glyphs.dots)
    plot = canvas.window(area.top, area.left, area.height, area.width)
    there = cells > 0
    plot.chars[there] = glyphs.cells[cells[there]] if glyphs.name != "ascii" else ord(".")
    plot.fg[there] = scheme.muted


def _draw_points(
    canvas: Canvas, area: PlotArea, figure: TradeoffFigure, scheme: ColourScheme, glyphs: GlyphSet
) -> None:
    """The points, then their names: the chosen one's first, then those of the front, where there is room."""
    plot = canvas.window(area.top, area.left, area.height, area.width)
    ordered = sorted(figure.points, key=lambda each: (each.name != figure.chosen, not each.front))
    taken = np.zeros((area.height, area.width), bool)
    places = [(area.row(each.y) or 0, area.column(each.x) or 0) for each in ordered]
    for row, column in places:
        taken[row, column] = True
    signs = ("*", "o") if glyphs.name == "ascii" else ("●", "○")
    for each, (row, column) in reversed([*zip(ordered, places, strict=True)]):
        plot.put(row, column, signs[not each.front], _colour(each, figure, scheme), BOLD if each.front else 0)
    for each, (row, column) in zip(ordered, places, strict=True):
        so_far = glyphs.ellipsis if each.so_far else ""
        text = cut(spelled(each.name, glyphs.name), min(LONGEST, area.width // 2), glyphs.ellipsis) + so_far
        text = f"[{text}]" if each.name == figure.chosen else text
        width = cell_count(text)
        for top, left in _beside(row, column, width):
            cells = slice(max(left - 1, 0), left + width + 1)
            if 0 <= top < area.height and 0 <= left <= area.width - width and not taken[top, cells].any():
                taken[top, left : left + width] = True
                plot.put(top, left, text, _colour(each, figure, scheme), BOLD if each.front else 0)
                break


def _beside(row: int, column: int, length: int) -> Iterator[tuple[int, int]]:
    """Places for a name around a point: right, left, above, and below."""
    yield row, column + 2
    yield row, column - 1 - length
    for top in (row - 1, row + 1):
        yield top, column + 1
        yield top, column - length
        yield top, column - length // 2


def _colour(point: TradeoffPoint, figure: TradeoffFigure, scheme: ColourScheme) -> int:
    if point.name == figure.chosen:
        return scheme.highlight
    return scheme.text if point.front else scheme.muted
