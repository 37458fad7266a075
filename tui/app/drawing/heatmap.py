"""A matrix as cells: colours or a ramp of characters, labels, a colour bar, a cursor."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tui.app.drawing.axis import apart, label
from tui.app.drawing.bins import binned, edges
from tui.app.drawing.cells import BOLD, REVERSE, Array, Cells
from tui.app.drawing.colours import HEAT_LEVELS, VIRIDIS, Theme, text_on
from tui.app.drawing.glyphs import GlyphSet

WIDEST = 4  # a cell of the matrix is at most this many times as wide as it is high


@dataclass(frozen=True, eq=False)
class HeatFigure:
    """A matrix [n, m], NaN = empty, with the names of its rows and columns, in the order shown.

    value_range: the values of the first and last colour, or None for the matrix's own extremes. cursor: (row, column).
    axes: what rows and columns are.
    """

    matrix: Array
    rows: Sequence[str]
    columns: Sequence[str]
    value_range: tuple[float, float] | None = None
    cursor: tuple[int, int] | None = None
    axes: tuple[str, str] = ("", "")

    def limits(self) -> tuple[float, float]:
        """The values of the first and the last colour."""
        if self.value_range is not None:
            return apart(*self.value_range)
        finite = self.matrix[np.isfinite(self.matrix)]
        if not finite.size:
            return 0.0, 1.0
        return apart(float(finite.min()), float(finite.max()))


@dataclass(frozen=True, eq=False)
class Plan:
    """How the matrix is laid out: the plot's place in cells, and the values shown, [height × per_cell, …].

    per_cell: values one above the other in a cell (2: half blocks). down, across: cells a value takes.
    """

    top: int
    left: int
    values: Array
    per_cell: int
    down: int
    across: int

    @property
    def height(self) -> int:
        return -(-len(self.values) * self.down // self.per_cell)

    @property
    def width(self) -> int:
        return int(self.values.shape[1]) * self.across

    def row(self, row: int, rows: int) -> int:
        """The row of cells, counted from the top of the plot, that shows row `row` of a matrix of `rows` rows."""
        return _bin_of(row, rows, len(self.values)) * self.down // self.per_cell

    def column(self, column: int, columns: int) -> int:
        """The first column of cells that shows column `column` of a matrix of `columns` columns."""
        return _bin_of(column, columns, self.values.shape[1]) * self.across


def _bin_of(place: int, count: int, bins: int) -> int:
    return int(np.searchsorted(edges(count, bins), place, side="right")) - 1


def draw_heatmap(figure: HeatFigure, width: int, height: int, theme: Theme, glyphs: GlyphSet) -> Cells:
    """`figure` on [height, width] cells; what there is no room for (bar, labels, bottom row) is left out."""
    cells = Cells.blank(width, height, theme.text, theme.background)
    if not figure.matrix.size or width < 2 or height < 1:
        return cells
    coloured = theme.colour and glyphs.name != "ascii"
    plan = plan_of(figure, width, height, halves=coloured)
    levels = levels_of(plan.values, figure.limits(), HEAT_LEVELS if coloured else len(glyphs.ramp))
    plot = cells.window(plan.top, plan.left, plan.height, plan.width)
    if coloured:
        paint(plot, plan, levels, theme)
    else:
        shade(plot, plan, levels, glyphs)
    if plan.across >= 4 and plan.per_cell == 1:
        write_values(plot, plan, levels, coloured)
    draw_labels(cells, plan, figure, theme)
    draw_bar(cells, plan, figure, theme, glyphs, coloured)
    draw_pointer(cells, plan, figure, theme, glyphs)
    if height > 3:
        cells.put(height - 1, 0, status(figure, glyphs)[:width], theme.text if figure.cursor else theme.muted)
    return cells


def plan_of(figure: HeatFigure, width: int, height: int, halves: bool) -> Plan:
    """The layout: exact cells if the rows fit, else two rows a cell (`halves`), else means of neighbours."""
    rows, columns = figure.matrix.shape
    left = max(len(name) for name in figure.rows) + 2 if width >= 24 else 0
    left = left if left <= width // 3 else 0
    bar = 5 + max(len(text) for text in bar_labels(figure, 4)) if width >= 24 else 0
    below = 2 if height >= 6 else 1 if height > 3 else 0
    room_down, room_across = max(height - below, 1), max(width - left - bar, 1)
    per_cell = 2 if halves and rows > room_down else 1
    shown = min(rows, room_down * per_cell), min(columns, room_across)
    down = 1 if per_cell == 2 else room_down // shown[0]
    across = min(room_across // shown[1], WIDEST * down if per_cell == 1 else 2)
    down = min(down, max(across, 1))
    return Plan(0, left, binned(figure.matrix, *shown), per_cell, down, max(across, 1))


def levels_of(values: Array, limits: tuple[float, float], levels: int) -> Array:
    """0…levels − 1 for values between the limits (beyond them, the nearest), −1 for NaN."""
    low, high = limits
    share = (np.clip(np.where(np.isnan(values), low, values), low, high) - low) / (high - low)
    level = np.clip(share * levels, 0, levels - 1).astype(int)
    return np.where(np.isnan(values), -1, level)


def paint(plot: Cells, plan: Plan, levels: Array, theme: Theme) -> None:
    """Colour the plot; an empty value shows the background."""
    colours = np.where(levels >= 0, VIRIDIS[levels], theme.background)
    colours = np.repeat(colours, plan.across, axis=1)
    if plan.per_cell == 1:
        plot.paper[:] = np.repeat(colours, plan.down, axis=0)
        return
    if len(colours) % 2:
        colours = np.vstack([colours, np.full_like(colours[:1], theme.background)])
    plot.chars[:] = ord("▀")
    plot.ink[:], plot.paper[:] = colours[0::2], colours[1::2]
    empty = np.repeat(levels < 0, plan.across, axis=1)
    if len(empty) % 2:
        empty = np.vstack([empty, np.ones_like(empty[:1])])
    plot.chars[empty[0::2] & empty[1::2]] = ord(" ")


def shade(plot: Cells, plan: Plan, levels: Array, glyphs: GlyphSet) -> None:
    """Write the plot in the ramp's characters; an empty value is a space."""
    codes = np.array([ord(character) for character in glyphs.ramp + " "], np.int32)  # level −1: the last
    plot.chars[:] = np.repeat(np.repeat(codes[levels], plan.across, axis=1), plan.down, axis=0)


def write_values(plot: Cells, plan: Plan, levels: Array, coloured: bool) -> None:
    """Write each value into the middle of its cell, in black or white on a colour, between spaces in a ramp."""
    for row, column in zip(*np.nonzero(levels >= 0), strict=True):
        text = cell_text(float(plan.values[row, column]), plan.across - 1)
        if not coloured and text:
            text = text.center(min(len(text) + 2, plan.across))
        top = row * plan.down + (plan.down - 1) // 2
        left = column * plan.across + (plan.across - len(text)) // 2
        ink = text_on(int(VIRIDIS[levels[row, column]])) if coloured else int(plot.ink[top, left])
        plot.put(top, left, text, ink)


def cell_text(value: float, room: int) -> str:
    """A value in at most `room` characters: .83 for 0.83, 1 for 1.0; "" where it does not fit."""
    for text in (f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else label(value), label(value)):
        if len(text) <= room:
            return text
    return ""


def draw_labels(cells: Cells, plan: Plan, figure: HeatFigure, theme: Theme) -> None:
    """Names of rows on the left and of columns below, as many as do not run into one another."""
    rows, columns = figure.matrix.shape
    if plan.left:
        room = plan.height if rows <= plan.height else plan.height // 2
        for row in range(0, rows, _stride(rows, room)):
            name = figure.rows[row]
            at = plan.row(row, rows) + (plan.down - 1) // 2
            cells.put(plan.top + at, plan.left - 1 - len(name), name, theme.muted)
    below = plan.top + plan.height
    if below >= cells.height - 1:
        return
    widest = max(len(name) for name in figure.columns) + 1
    free = 0
    for column in range(0, columns, _stride(columns, max(plan.width // widest, 1))):
        name = figure.columns[column]
        start = plan.left + plan.column(column, columns) + max((plan.across - len(name)) // 2, 0)
        if start >= free and start + len(name) <= plan.left + plan.width + 1:
            cells.put(below, start, name, theme.muted)
            free = start + len(name) + 1


def _stride(count: int, room: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50… that names at most `room` of `count` things."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if -(-count // (factor * power)) <= max(room, 1):
                return factor * power
        power *= 10


def draw_bar(
    cells: Cells, plan: Plan, figure: HeatFigure, theme: Theme, glyphs: GlyphSet, coloured: bool
) -> None:
    """The colour bar to the right: high at the top, numbers at both ends and between where there is room."""
    rows, left = plan.height, plan.left + plan.width + 2
    parts = 4 if rows >= 13 else 2 if rows >= 5 else 1
    texts = bar_labels(figure, parts)
    if left + 3 + max(map(len, texts)) > cells.width or rows < 3:
        return
    if coloured:
        colours = VIRIDIS[np.linspace(HEAT_LEVELS - 1, 0, 2 * rows).round().astype(int)]
        for row in range(rows):
            cells.put(plan.top + row, left, "▀▀", int(colours[2 * row]))
            cells.paper[plan.top + row, left : left + 2] = colours[2 * row + 1]
    else:
        places = np.linspace(len(glyphs.ramp) - 1, 0, rows).round().astype(int)
        for row, place in enumerate(places):
            cells.put(plan.top + row, left, glyphs.ramp[place] * 2, theme.text)
    for part, text in enumerate(texts):
        cells.put(plan.top + round((rows - 1) * part / parts), left + 3, text, theme.muted)


def bar_labels(figure: HeatFigure, parts: int) -> list[str]:
    """The numbers beside the colour bar, the highest first: both ends and what divides the range in `parts`."""
    low, high = figure.limits()
    values = [high + (low - high) * part / parts for part in range(parts + 1)]
    return [label(value, (high - low) / 100, max(abs(low), abs(high))) for value in values]


def draw_pointer(cells: Cells, plan: Plan, figure: HeatFigure, theme: Theme, glyphs: GlyphSet) -> None:
    """Mark the cursor's cell, and its row and column in the margins."""
    if figure.cursor is None:
        return
    row, column = figure.cursor
    top = plan.top + plan.row(row, figure.matrix.shape[0])
    left = plan.left + plan.column(column, figure.matrix.shape[1])
    middle = top + (plan.down - 1) // 2
    if plan.left:
        name = figure.rows[row].rjust(plan.left - 1)
        cells.put(middle, 0, name + glyphs.pointer, theme.highlight, BOLD)
    below = plan.top + plan.height
    if below < cells.height - 1:
        name = figure.columns[column]
        cells.put(below, plan.left, " " * plan.width, theme.muted)
        start = min(max(left + (plan.across - len(name)) // 2 - 1, 0), cells.width - len(name) - 1)
        cells.put(below, start, f"{glyphs.up}{name}", theme.highlight, BOLD)
    if plan.across >= 3:
        cells.put(middle, left, "[", theme.text, BOLD)
        cells.put(middle, left + plan.across - 1, "]", theme.text, BOLD)
        for edge in (left, left + plan.across - 1):
            paper = int(cells.paper[middle, edge])
            cells.ink[middle, edge] = text_on(paper) if theme.colour and paper >= 0 else theme.text
    elif glyphs.name == "ascii" or not theme.colour:
        cells.flags[top : top + plan.down, left : left + plan.across] |= REVERSE
    else:  # half blocks: the other value of the cell gives way to a cross on this one's colour
        level = int(levels_of(figure.matrix[row, column, None], figure.limits(), HEAT_LEVELS)[0])
        paper = int(VIRIDIS[level]) if level >= 0 else theme.background
        cells.put(top, left, "+" * plan.across, text_on(paper) if level >= 0 else theme.text, BOLD)
        cells.paper[top, left : left + plan.across] = paper


def status(figure: HeatFigure, glyphs: GlyphSet) -> str:
    """The bottom row: the cell under the cursor and its value, or the range and the mean."""
    if figure.cursor is not None:
        row, column = figure.cursor
        value = float(figure.matrix[row, column])
        names = f"{figure.axes[0]} {figure.rows[row]}", f"{figure.axes[1]} {figure.columns[column]}"
        shown = "empty" if math.isnan(value) else f"{value:.3f}"
        return f"{names[0].strip()} {glyphs.times} {names[1].strip()}: {shown}"
    finite = figure.matrix[np.isfinite(figure.matrix)]
    if not finite.size:
        return "empty"
    size = f"{figure.matrix.shape[0]} {glyphs.times} {figure.matrix.shape[1]}"
    return f"{size}, {finite.min():.3f}{glyphs.dash}{finite.max():.3f}, mean {finite.mean():.3f}"
