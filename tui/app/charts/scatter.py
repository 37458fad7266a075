"""Points of a plane in cells. Each cell shows the group of most of its points by a character and a color."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.results.figures.palette import OKABE_ITO
from tui.app.charts.canvas import BOLD, DEFAULT, REVERSE, Array, Canvas
from tui.app.charts.colours import ColourScheme, text_on
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.legend import Entry, draw_legend, legend_rows

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


def draw_scatter(
    figure: ScatterFigure, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet
) -> Canvas:
    """`figure` on [height, width] cells. The axes have no unit. The legend is above."""
    canvas = Canvas.blank(width, height, scheme.text, scheme.background)
    if width < 4 or height < 2 or not len(figure.points):
        return canvas
    shown = np.ones(len(figure.points), bool) if figure.shown is None else figure.shown
    entries = [
        Entry(key_of(group), name, "", colour_of(group, len(figure.names), scheme))
        for group, name in enumerate(figure.names)
        if (figure.groups[shown] == group).any()
    ]
    if len(figure.marks):
        entries.insert(0, Entry("[k]", f"{figure.mark_name} of class k", "", scheme.text, pinned=True))
    legend = legend_rows(entries, width, height)
    if legend:
        draw_legend(canvas, entries, legend, 0, scheme)
    plot = canvas.window(legend, 1, height - legend, width - 2)  # a mark is three cells wide
    rows, columns = places(np.concatenate([figure.points, figure.marks]), plot.width, plot.height)
    own = slice(len(figure.points))
    behind, before = rows[own][~shown], columns[own][~shown]
    plot.chars[behind, before] = ord("." if glyphs.name == "ascii" else "·")
    plot.fg[behind, before] = scheme.muted
    for row, column, group in most_in_each(rows[own][shown], columns[own][shown], figure.groups[shown]):
        plot.put(row, column, key_of(group), colour_of(group, len(figure.names), scheme))
    marks = slice(len(figure.points), None)
    of_marks = zip(rows[marks].tolist(), columns[marks].tolist(), figure.mark_groups.tolist(), strict=True)
    draw_marks(canvas.window(legend, 0, height - legend, width), list(of_marks), figure, scheme)
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


def colour_of(group: int, groups: int, scheme: ColourScheme) -> int:
    """The color of one of `count` groups."""
    if groups <= IN_TURN or not scheme.coloured:
        return scheme.series(group)
    return scheme.clear(int(scheme.heat[group * (len(scheme.heat) - 1) // (groups - 1)]))


def draw_marks(
    canvas: Canvas, marks: Sequence[tuple[int, int, int]], figure: ScatterFigure, scheme: ColourScheme
) -> None:
    """Write [k] for each (row, column, group), three cells from its column on, in black or white on its color.

    Where several meet, all keys come before any bracket.
    """
    for cells in (slice(0, 3), slice(1, 2)):
        for row, column, group in marks:
            text, first = f"[{key_of(group)}]", column + cells.start
            canvas.put(row, first, text[cells], scheme.text, BOLD)
            place = (row, slice(first, column + cells.stop))
            if scheme.coloured and scheme.text != DEFAULT:
                colour = colour_of(group, len(figure.names), scheme) if figure.marks_coloured else scheme.text
                canvas.bg[place], canvas.fg[place] = colour, text_on(colour)
            else:
                canvas.flags[place] = BOLD | REVERSE
