"""Points of a plane in cells. Each cell shows the group of most of its points by a character and a color."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.results.figures.palette import OKABE_ITO
from tui.app.charts.chart import Entry, draw_legend, legend_rows
from tui.app.charts.look import BOLD, DEFAULT, REVERSE, Array, Canvas, Look, text_on
from tui.app.charts.plot import Axis, draw_axes, masks, plot_area, reach, spread
from tui.common.cells import cell_count, cut

KEYS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
IN_TURN = 3 * len(OKABE_ITO)
"""Up to this many groups have the colors of series. More have the scale's, in order."""


def key_of(group: int) -> str:
    """The character of a group; * if it has none of its own."""
    return KEYS[group] if group < len(KEYS) else "*"


@dataclass(frozen=True, eq=False)
class ScatterFigure:
    """points [n, 2] of the groups [n], with their names; marks [m, 2], drawn over them, of `mark_groups` [m].

    mark_name: the meaning of a mark. shown: the points [n] to highlight, with dots for the others; None: all.
    marks_coloured: whether marks have their groups' colors.
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
    points = np.concatenate([figure.points, figure.marks])
    low, high = points.min(axis=0), points.max(axis=0)
    share = (points - low) / np.where(high > low, high - low, 1.0)
    columns = (share[:, 0] * (plot.width - 1) + 0.5).astype(int)
    rows = ((1 - share[:, 1]) * (plot.height - 1) + 0.5).astype(int)  # y is upwards
    (rows, mark_rows), (columns, mark_columns) = (
        np.split(each, [len(figure.points)]) for each in (rows, columns)
    )
    behind = rows[~shown], columns[~shown]
    plot.chars[behind], plot.fg[behind] = ord("." if look.ascii else "·"), look.muted
    for row, column, group in most_in_each(rows[shown], columns[shown], figure.groups[shown]):
        plot.put(row, column, key_of(group), colour_of(group, len(figure.names), look))
    marks = zip(mark_rows.tolist(), mark_columns.tolist(), figure.mark_groups.tolist(), strict=True)
    draw_marks(canvas.window(legend, 0, height - legend, width), list(marks), figure, look)
    return canvas


def most_in_each(rows: Array, columns: Array, groups: Array) -> list[tuple[int, int, int]]:
    """(row, column, group) of every cell with points: the group with the most of them, or the first of several."""
    cells, counts = np.unique(np.stack([rows, columns, groups], axis=1), axis=0, return_counts=True)
    # within a cell, the largest, lowest group last
    cells = cells[np.lexsort((-cells[:, 2], counts, cells[:, 1], cells[:, 0]))]
    last = np.ones(len(cells), bool)
    last[:-1] = (np.diff(cells[:, :2], axis=0) != 0).any(axis=1)
    return [(int(row), int(column), int(group)) for row, column, group in cells[last]]


def colour_of(group: int, groups: int, look: Look) -> int:
    if groups <= IN_TURN or not look.coloured:
        return look.series(group)
    return look.clear(int(look.heat[group * (len(look.heat) - 1) // (groups - 1)]))


def draw_marks(
    canvas: Canvas, marks: Sequence[tuple[int, int, int]], figure: ScatterFigure, look: Look
) -> None:
    """Write [k] for each (row, column, group), three cells from its column on, in black or white on its color."""
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


LONGEST = 24  # maximum cells of a name
MARGIN = 0.06  # share of the axis beyond the costs at both ends


@dataclass(frozen=True)
class TradeoffPoint:
    """A setting's cost in the axis's unit and accuracy in per cent. front: not beaten. so_far: not finished."""

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
    """The line through the front, the points, and names where there is room: the chosen one's, then the front's."""
    canvas, points = look.blank(width, height), figure.points
    if width < 4 or height < 2 or not points:
        return canvas
    low, high = spread(min(each.x for each in points), max(each.x for each in points))
    room = (high - low) * MARGIN
    near = 0 <= low <= (high - low) / 2  # then the axis begins at 0
    x = Axis(0.0 if near else low - room, high + room)
    y = reach(np.array([each.y for each in points]), ceiling=100.0)
    area = plot_area(x, y, width, height, 0, 1)
    draw_axes(canvas, area, figure.x_label, look)
    plot = area.window(canvas)
    front = np.array(sorted({(each.x, each.y) for each in points if each.front}))
    if len(front) > 1:
        cells = masks(area.dots(front[:, 0], front[None, :, 1], look.glyphs.dots), look.glyphs.dots)
        there = cells > 0
        plot.chars[there] = look.glyphs.cells[cells[there]] if not look.ascii else ord(".")
        plot.fg[there] = look.muted

    def style(point: TradeoffPoint) -> tuple[int, int]:
        colour = look.text if point.front else look.muted
        return look.highlight if point.name == figure.chosen else colour, BOLD if point.front else 0

    taken = np.zeros((area.height, area.width), bool)
    ordered = sorted(points, key=lambda each: (each.name != figure.chosen, not each.front))
    places = [(area.row(each.y) or 0, area.column(each.x) or 0) for each in ordered]
    signs = ("*", "o") if look.ascii else ("●", "○")
    for each, place in reversed([*zip(ordered, places, strict=True)]):
        taken[place] = True
        plot.put(*place, signs[not each.front], *style(each))
    for each, (row, column) in zip(ordered, places, strict=True):
        name = cut(look.spelled(each.name), min(LONGEST, area.width // 2), look.glyphs.ellipsis)
        name += look.glyphs.ellipsis if each.so_far else ""
        name = f"[{name}]" if each.name == figure.chosen else name
        wide = cell_count(name)
        beside = [(row, column + 2), (row, column - 1 - wide)]
        beside += [(top, column + by) for top in (row - 1, row + 1) for by in (1, -wide, -(wide // 2))]
        for top, left in beside:
            around = slice(max(left - 1, 0), left + wide + 1)
            if 0 <= top < area.height and 0 <= left <= area.width - wide and not taken[top, around].any():
                taken[top, left : left + wide] = True
                plot.put(top, left, name, *style(each))
                break
    return canvas
