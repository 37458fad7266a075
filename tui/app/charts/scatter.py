"""Points of a plane in cells. Each cell shows the group of most of its points by a character and a color."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.results.figures.palette import OKABE_ITO
from tui.app.charts.canvas import BOLD, DEFAULT, REVERSE, Array, Canvas
from tui.app.charts.chart import Entry, draw_legend, legend_rows
from tui.app.charts.look import Look, text_on
from tui.app.charts.plot import Axis, PlotArea, apart, draw_axes, masks, plot_area, reach
from tui.common.cells import cell_count, cut

KEYS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
IN_TURN = 3 * len(OKABE_ITO)
"""Up to this many groups have the colors of series and keys. More have the scale's colors, in order."""


def key_of(group: int) -> str:
    """The character of a group; * if it has none of its own."""
    return KEYS[group] if group < len(KEYS) else "*"


@dataclass(frozen=True, eq=False)
class ScatterFigure:
    """points [n, 2] of the groups [n], with their names; marks [m, 2], drawn over them, of `mark_groups` [m].

    mark_name: the meaning of a mark ("prototype"). shown: the points [n] to highlight, with dots for the others behind
    them; None: all. marks_coloured: whether marks, and not points, have their groups' colors.
    """

    points: Array
    groups: Array
    names: Sequence[str]
    marks: Array
    mark_groups: Array
    mark_name: str = ""
    shown: Array | None = None
    marks_coloured: bool = True


def draw_scatter(figure: ScatterFigure, width: int, height: int, look: Look) -> Canvas:
    """`figure` on [height, width] cells. The axes have no unit. The legend is above."""
    canvas = look.blank(width, height)
    if width < 4 or height < 2 or not len(figure.points):
        return canvas
    shown = np.ones(len(figure.points), bool) if figure.shown is None else figure.shown
    entries = [
        Entry(key_of(group), name, "", colour_of(group, len(figure.names), look))
        for group, name in enumerate(figure.names)
        if (figure.groups[shown] == group).any()
    ]
    if len(figure.marks):
        entries.insert(0, Entry("[k]", f"{figure.mark_name} of class k", "", look.text, pinned=True))
    legend = legend_rows(entries, width, height)
    if legend:
        draw_legend(canvas, entries, legend, 0, look)
    plot = canvas.window(legend, 1, height - legend, width - 2)  # a mark is three cells wide
    rows, columns = places(np.concatenate([figure.points, figure.marks]), plot.width, plot.height)
    own = slice(len(figure.points))
    behind, before = rows[own][~shown], columns[own][~shown]
    plot.chars[behind, before] = ord("." if look.ascii else "·")
    plot.fg[behind, before] = look.muted
    for row, column, group in most_in_each(rows[own][shown], columns[own][shown], figure.groups[shown]):
        plot.put(row, column, key_of(group), colour_of(group, len(figure.names), look))
    marks = slice(len(figure.points), None)
    of_marks = zip(rows[marks].tolist(), columns[marks].tolist(), figure.mark_groups.tolist(), strict=True)
    draw_marks(canvas.window(legend, 0, height - legend, width), list(of_marks), figure, look)
    return canvas


def places(points: Array, width: int, height: int) -> tuple[Array, Array]:
    """The row and the column of each point [n, 2] on a grid that they fill; y upwards."""
    low, high = points.min(axis=0), points.max(axis=0)
    share = (points - low) / np.where(high > low, high - low, 1.0)
    columns = (share[:, 0] * (width - 1) + 0.5).astype(int)
    rows = ((1 - share[:, 1]) * (height - 1) + 0.5).astype(int)
    return rows, columns


def most_in_each(rows: Array, columns: Array, groups: Array) -> list[tuple[int, int, int]]:
    """(row, column, group) of every cell with points: the group with the most of them, or the first of several."""
    cells, counts = np.unique(np.stack([rows, columns, groups], axis=1), axis=0, return_counts=True)
    order = np.lexsort(
        (-cells[:, 2], counts, cells[:, 1], cells[:, 0])
    )  # within a cell, the largest, lowest group last
    cells = cells[order]
    last = np.ones(len(cells), bool)
    last[:-1] = (np.diff(cells[:, :2], axis=0) != 0).any(axis=1)
    return [(int(row), int(column), int(group)) for row, column, group in cells[last]]


def colour_of(group: int, groups: int, look: Look) -> int:
    """The color of one of `count` groups."""
    if groups <= IN_TURN or not look.coloured:
        return look.series(group)
    return look.clear(int(look.heat[group * (len(look.heat) - 1) // (groups - 1)]))


def draw_marks(
    canvas: Canvas, marks: Sequence[tuple[int, int, int]], figure: ScatterFigure, look: Look
) -> None:
    """Write [k] for each (row, column, group), three cells from its column on, in black or white on its color.

    Where several meet, all keys come before any bracket.
    """
    for cells in (slice(0, 3), slice(1, 2)):
        for row, column, group in marks:
            text, first = f"[{key_of(group)}]", column + cells.start
            canvas.put(row, first, text[cells], look.text, BOLD)
            place = (row, slice(first, column + cells.stop))
            if look.coloured and look.text != DEFAULT:
                colour = colour_of(group, len(figure.names), look) if figure.marks_coloured else look.text
                canvas.bg[place], canvas.fg[place] = colour, text_on(colour)
            else:
                canvas.flags[place] = BOLD | REVERSE


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


def draw_tradeoff(figure: TradeoffFigure, width: int, height: int, look: Look) -> Canvas:
    """`figure` on [height, width] cells."""
    canvas = look.blank(width, height)
    if width < 4 or height < 2 or not figure.points:
        return canvas
    y = reach(np.array([each.y for each in figure.points]), ceiling=100.0)
    area = plot_area(x_axis(figure.points), y, width, height, 0, 1)
    draw_axes(canvas, area, figure.x_label, look)
    _draw_front(canvas, area, figure.points, look)
    _draw_points(canvas, area, figure, look)
    return canvas


def x_axis(points: Sequence[TradeoffPoint]) -> Axis:
    """The costs with a margin, from 0 on if they come near it."""
    low, high = apart(min(each.x for each in points), max(each.x for each in points))
    room = (high - low) * MARGIN
    return Axis(0.0 if 0 <= low <= (high - low) / 2 else low - room, high + room)


def _draw_front(canvas: Canvas, area: PlotArea, points: Sequence[TradeoffPoint], look: Look) -> None:
    """The line through the front, by cost."""
    front = sorted({(each.x, each.y) for each in points if each.front})
    if len(front) < 2:
        return
    x, y = np.array(front).T
    cells = masks(area.dots(x, y[None], look.glyphs.dots), look.glyphs.dots)
    plot = area.window(canvas)
    there = cells > 0
    plot.chars[there] = look.glyphs.cells[cells[there]] if not look.ascii else ord(".")
    plot.fg[there] = look.muted


def _draw_points(canvas: Canvas, area: PlotArea, figure: TradeoffFigure, look: Look) -> None:
    """The points, then their names: the chosen one's first, then those of the front, where there is room."""
    plot = area.window(canvas)
    ordered = sorted(figure.points, key=lambda each: (each.name != figure.chosen, not each.front))
    taken = np.zeros((area.height, area.width), bool)
    places = [(area.row(each.y) or 0, area.column(each.x) or 0) for each in ordered]
    for row, column in places:
        taken[row, column] = True
    signs = ("*", "o") if look.ascii else ("●", "○")
    for each, (row, column) in reversed([*zip(ordered, places, strict=True)]):
        plot.put(row, column, signs[not each.front], _colour(each, figure, look), BOLD if each.front else 0)
    for each, (row, column) in zip(ordered, places, strict=True):
        so_far = look.glyphs.ellipsis if each.so_far else ""
        text = cut(look.spelled(each.name), min(LONGEST, area.width // 2), look.glyphs.ellipsis) + so_far
        text = f"[{text}]" if each.name == figure.chosen else text
        width = cell_count(text)
        for top, left in _beside(row, column, width):
            cells = slice(max(left - 1, 0), left + width + 1)
            if 0 <= top < area.height and 0 <= left <= area.width - width and not taken[top, cells].any():
                taken[top, left : left + width] = True
                plot.put(top, left, text, _colour(each, figure, look), BOLD if each.front else 0)
                break


def _beside(row: int, column: int, length: int) -> Iterator[tuple[int, int]]:
    """Places for a name around a point: right, left, above, and below."""
    yield row, column + 2
    yield row, column - 1 - length
    for top in (row - 1, row + 1):
        yield top, column + 1
        yield top, column - length
        yield top, column - length // 2


def _colour(point: TradeoffPoint, figure: TradeoffFigure, look: Look) -> int:
    if point.name == figure.chosen:
        return look.highlight
    return look.text if point.front else look.muted
