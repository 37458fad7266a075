"""A matrix on a canvas: its layout in cells, colors or a ramp of characters, labels, a color bar, and a cursor."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tui.app.charts.canvas import BOLD, REVERSE, Array, Canvas, row_text
from tui.app.charts.look import HEAT_LEVELS, Look, text_on
from tui.app.charts.plot import apart, label, with_minus
from tui.common.cells import cell_count, fitting, padded

WIDEST = 6  # maximum ratio of width to height of a matrix's cell


@dataclass(frozen=True, eq=False)
class HeatFigure:
    """A matrix [n, m], NaN = empty, with the names of its rows and columns, in the order shown.

    value_range: the values of the first and last color, or None for the matrix's own extremes. cursor: (row, column).
    marked: the row and the column that the margins mark without a cursor; None: none. axes: the meanings of rows and
    columns. unit: of the values, "%", or "" for none. decimals: of the values. titles: the bottom row's names of rows
    and columns, if they are longer than those at the edges. signed: whether the values are differences, with 0 in the
    middle of `value_range`. They then have a sign, also in the characters without color.
    """

    matrix: Array
    rows: Sequence[str]
    columns: Sequence[str]
    value_range: tuple[float, float] | None = None
    cursor: tuple[int, int] | None = None
    marked: tuple[int | None, int | None] = (None, None)
    axes: tuple[str, str] = ("", "")
    unit: str = ""
    decimals: int = 3
    titles: tuple[Sequence[str], Sequence[str]] | None = None
    signed: bool = False

    def limits(self) -> tuple[float, float]:
        """The values of the first and the last color."""
        if self.value_range is not None:
            return apart(*self.value_range)
        finite = self.matrix[np.isfinite(self.matrix)]
        if not finite.size:
            return 0.0, 1.0
        return apart(float(finite.min()), float(finite.max()))


@dataclass(frozen=True, eq=False)
class Plan:
    """The layout of the matrix: the plot's place in cells, and the values shown, [height × per_cell, …].

    per_cell: values stacked in a cell (2: half blocks). down: rows of cells per value. starts: where each column of
    values begins, in cells, and where the last ends.
    """

    top: int
    left: int
    values: Array
    per_cell: int
    down: int
    starts: Array

    @property
    def height(self) -> int:
        return -(-len(self.values) * self.down // self.per_cell)

    @property
    def width(self) -> int:
        return int(self.starts[-1])

    @property
    def across(self) -> int:
        """The cells of the narrowest column."""
        return int(np.diff(self.starts).min())

    def row(self, row: int, rows: int) -> int:
        """The row of cells, counted from the top of the plot, with row `row` of a matrix of `rows` rows."""
        return _bin_of(row, rows, len(self.values)) * self.down // self.per_cell

    def column(self, column: int, columns: int) -> int:
        """The first column of cells with column `column` of a matrix of `columns` columns."""
        return int(self.starts[_bin_of(column, columns, self.values.shape[1])])

    def across_of(self, column: int, columns: int) -> int:
        """The number of cells of column `column` of a matrix of `columns` columns."""
        place = _bin_of(column, columns, self.values.shape[1])
        return int(self.starts[place + 1] - self.starts[place])


def plan_of(figure: HeatFigure, width: int, height: int, halves: bool) -> Plan:
    """The layout: exact cells if the rows fit, else two rows per cell (`halves`), else means of neighbors with a note.

    The cursor's cell always shows its own value.
    """
    rows, columns = figure.matrix.shape
    left = max(map(cell_count, figure.rows)) + 2 if width >= 24 else 0
    bar = 5 + max(len(text) for text in bar_labels(figure, 4)) if width >= 24 else 0
    left = left if left <= label_room(figure, width - bar) else 0
    below = 2 if height >= 6 else 1 if height > 3 else 0
    room_down, room_across = max(height - below, 1), max(width - left - bar, 1)
    if below and (rows > room_down * (1 + halves) or columns > room_across):
        room_down -= 1
    per_cell = 2 if halves and rows > room_down else 1
    shown = min(rows, room_down * per_cell), min(columns, room_across)
    down = 1 if per_cell == 2 else room_down // shown[0]
    numbers = number_cells(figure) * columns
    if per_cell == 1 and room_across < numbers <= room_across + bar:
        room_across += bar  # numbers say what the color bar would
    across = max(min(room_across // shown[1], WIDEST * down), 1)
    down = min(down, across)
    starts = edges(min(room_across, across * shown[1]), shown[1])
    if across < WIDEST and 4 * int(starts[-1]) < 3 * room_across:  # some columns are a cell wider than others
        starts = edges(min(room_across, WIDEST * down * shown[1]), shown[1])
    plan = Plan(0, left, binned(figure.matrix, *shown), per_cell, down, starts)
    if figure.cursor is not None and shown != (rows, columns):
        at = tuple(_bin_of(*each) for each in zip(figure.cursor, (rows, columns), shown, strict=True))
        plan.values[at] = figure.matrix[figure.cursor]
    return plan


def cell_at(
    figure: HeatFigure, width: int, height: int, halves: bool, x: int, y: int
) -> tuple[int, int] | None:
    """(row, column) of the matrix at cell (x, y) of a grid of this size, in the order shown.

    The first one if several share the cell. None outside of the matrix.
    """
    plan = plan_of(figure, width, height, halves)
    down, across = y - plan.top, x - plan.left
    if not (0 <= down < plan.height and 0 <= across < plan.width):
        return None
    bins = plan.values.shape
    row = down * plan.per_cell // plan.down
    column = int(np.searchsorted(plan.starts, across, side="right")) - 1
    rows, columns = figure.matrix.shape
    return int(edges(rows, bins[0])[row]), int(edges(columns, bins[1])[column])


def number_cells(figure: HeatFigure) -> int:
    """The cells that the number of any value takes, with a space beside it."""
    if figure.decimals:
        return 4
    low, high = figure.limits()
    return max(len(f"{low:.0f}"), len(f"{high:.0f}")) + 1


def label_room(figure: HeatFigure, width: int) -> int:
    """The cells for the names of rows and the spaces beside them: a third of the width, or what the numbers leave."""
    columns: int = figure.matrix.shape[1]
    return max(width // 3, width - number_cells(figure) * columns)


def bar_labels(figure: HeatFigure, parts: int) -> list[str]:
    """The numbers next to the color bar, the highest first: both ends and those that divide the range into `parts`."""
    low, high = figure.limits()
    values = [high + (low - high) * part / parts for part in range(parts + 1)]
    step = max((high - low) / 100, 10.0**-figure.decimals)
    return [
        "+" * (figure.signed and value > 0) + label(value, step, max(abs(low), abs(high))) for value in values
    ]


def _bin_of(place: int, count: int, bins: int) -> int:
    return int(np.searchsorted(edges(count, bins), place, side="right")) - 1


def edges(count: int, bins: int) -> Array:
    """[bins + 1] edges that divide `count` items over `bins` bins with sizes that differ by at most one."""
    return np.arange(bins + 1) * count // bins


def binned(matrix: Array, rows: int, columns: int) -> Array:
    """[rows, columns] means over blocks of `matrix` [n ≥ rows, m ≥ columns], without NaN; NaN if all are."""
    if matrix.shape == (rows, columns):
        return matrix
    there = np.isfinite(matrix)
    totals, counts = _summed(np.where(there, matrix, 0.0), rows, columns), _summed(there * 1.0, rows, columns)
    return np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0)


def _summed(matrix: Array, rows: int, columns: int) -> Array:
    by_row = np.add.reduceat(matrix, edges(matrix.shape[0], rows)[:-1], axis=0)
    return np.asarray(np.add.reduceat(by_row, edges(matrix.shape[1], columns)[:-1], axis=1))


FIGURE_AT_AN_END = re.compile(r"^[-−+]?\.?\d|\d$")


def draw_heatmap(figure: HeatFigure, width: int, height: int, look: Look) -> Canvas:
    """`figure` on [height, width] cells. Parts without room (bar, labels, bottom row) are left out."""
    canvas = look.blank(width, height)
    if not figure.matrix.size or width < 2 or height < 1:
        return canvas
    coloured = look.coloured and not look.ascii
    plan = plan_of(figure, width, height, halves=coloured)
    heat, ramp = (look.signed, look.glyphs.signs) if figure.signed else (look.heat, look.glyphs.ramp)
    levels = levels_of(plan.values, figure.limits(), HEAT_LEVELS if coloured else len(ramp))
    plot = canvas.window(plan.top, plan.left, plan.height, plan.width)
    if coloured:
        paint(plot, plan, levels, heat, look)
    else:
        levels = sign_levels(plan.values, figure) if figure.signed else levels
        shade(plot, plan, levels, ramp)
    if plan.across >= number_cells(figure) and plan.per_cell == 1:
        write_values(plot, plan, levels, coloured, figure, look)
    said = merged(plan, figure, look)
    above = canvas.window(0, 0, height - (height > 3) * (1 + bool(said)), width)
    draw_labels(above, plan, figure, look)
    draw_bar(above, plan, figure, look, heat if coloured else ramp)
    draw_pointer(above, plan, figure, look)
    if height > 3:
        canvas.put(height - 2, 0, said, look.muted)
        canvas.put(
            height - 1,
            0,
            look.spelled(status(figure, width, look)),
            look.text if figure.cursor else look.muted,
        )
    return canvas


def levels_of(values: Array, limits: tuple[float, float], levels: int) -> Array:
    """0…levels − 1 for values between the limits (beyond them, the nearest), −1 for NaN."""
    low, high = limits
    share = (np.clip(np.where(np.isnan(values), low, values), low, high) - low) / (high - low)
    level = np.clip(share * levels, 0, levels - 1).astype(int)
    return np.where(np.isnan(values), -1, level)


def sign_levels(values: Array, figure: HeatFigure) -> Array:
    """0…4 for a loss above half the range, a loss, no difference that is shown, a gain, a large gain; −1 for NaN."""
    seen, large = 0.5 * 10.0**-figure.decimals, figure.limits()[1] / 2
    known = np.where(np.isnan(values), 0.0, values)
    size = (np.abs(known) >= seen).astype(int) + (np.abs(known) >= max(large, seen))
    return np.where(np.isnan(values), -1, 2 + np.sign(known).astype(int) * size)


def paint(plot: Canvas, plan: Plan, levels: Array, heat: Array, look: Look) -> None:
    """Color the plot. An empty value shows the background."""
    colours = np.where(levels >= 0, heat[levels], look.background)
    colours = np.repeat(colours, np.diff(plan.starts), axis=1)
    if plan.per_cell == 1:
        plot.bg[:] = np.repeat(colours, plan.down, axis=0)
        return
    if len(colours) % 2:
        colours = np.vstack([colours, np.full_like(colours[:1], look.background)])
    plot.chars[:] = ord("▀")
    plot.fg[:], plot.bg[:] = colours[0::2], colours[1::2]
    empty = np.repeat(levels < 0, np.diff(plan.starts), axis=1)
    if len(empty) % 2:
        empty = np.vstack([empty, np.ones_like(empty[:1])])
    plot.chars[empty[0::2] & empty[1::2]] = ord(" ")


def shade(plot: Canvas, plan: Plan, levels: Array, ramp: str) -> None:
    """Write the plot in the ramp's characters. An empty value is a space."""
    codes = np.array([ord(character) for character in ramp + " "], np.int32)  # level −1 is the last character
    plot.chars[:] = np.repeat(np.repeat(codes[levels], np.diff(plan.starts), axis=1), plan.down, axis=0)


def write_values(
    plot: Canvas, plan: Plan, levels: Array, coloured: bool, figure: HeatFigure, look: Look
) -> None:
    """Write each value into the middle of its cell, in black or white on a color, or between spaces in a ramp."""
    for row, column in zip(*np.nonzero(levels >= 0), strict=True):
        value = float(plan.values[row, column])
        text = cell_text(value, plan.across - 1, figure.unit, figure.signed)
        text = text or cell_text(value, plan.across, figure.unit, figure.signed)  # touches its neighbor
        if not coloured and text:
            text = text.center(min(len(text) + 2, plan.across))
        top = row * plan.down + (plan.down - 1) // 2
        left = int(plan.starts[column]) + (plan.across - len(text)) // 2
        fg = text_on(int(plot.bg[top, left])) if coloured else int(plot.fg[top, left])
        plot.put(top, left, look.spelled(text), fg)


def cell_text(value: float, room: int, unit: str = "", signed: bool = False) -> str:
    """A value in at most `room` characters: .83 for 0.83, 81.2 or 81 for 81.2 %; "" if none fits."""
    if signed:
        return next((text for each in (1, 0) if len(text := with_sign(value, each)) <= room), "")
    short = with_minus(f"{value:.2f}".replace("0.", ".", 1)) if abs(value) < 0.995 else label(value)
    texts = (with_minus(f"{value:.1f}"), with_minus(f"{value:.0f}")) if unit else (short, label(value))
    return next((text for text in texts if len(text) <= room), "")


def draw_labels(canvas: Canvas, plan: Plan, figure: HeatFigure, look: Look) -> None:
    """Names of rows on the left and of columns below: as many as fit without touching each other or the pointer."""
    rows, columns = figure.matrix.shape
    if plan.left:
        room = plan.height if rows <= plan.height else plan.height // 2
        for row in range(0, rows, _stride(rows, room)):
            name = figure.rows[row]
            at = plan.row(row, rows) + (plan.down - 1) // 2
            canvas.put(plan.top + at, plan.left - 1 - cell_count(name), name, look.muted)
    below = plan.top + plan.height
    pointed, text = pointed_column(canvas, plan, figure, look)
    widest = max(map(cell_count, figure.columns)) + 1
    free = 0
    for column in range(0, columns, _stride(columns, max(plan.width // widest, 1))):
        name = figure.columns[column]
        wide = cell_count(name)
        middle = max((plan.across_of(column, columns) - wide) // 2, 0)
        start = plan.left + plan.column(column, columns) + middle
        end = start + wide
        beside = not text or end < pointed or start > pointed + cell_count(text)
        if start >= free and beside and end <= plan.left + plan.width + 1:
            canvas.put(below, start, name, look.muted)
            free = end + 1


def _stride(count: int, room: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50… that labels at most `room` of `count` items."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if -(-count // (factor * power)) <= max(room, 1):
                return factor * power
        power *= 10


def draw_bar(canvas: Canvas, plan: Plan, figure: HeatFigure, look: Look, ramp: Array | str) -> None:
    """The color bar to the right: high at the top, with numbers at both ends and between if there is room."""
    rows, left = plan.height, plan.left + plan.width + 2
    parts = 4 if rows >= 13 else 2 if rows >= 5 else 1
    texts = bar_labels(figure, parts)
    if left + 3 + max(map(len, texts)) > canvas.width or rows < 3:
        return
    if not isinstance(ramp, str):
        colours = ramp[np.linspace(HEAT_LEVELS - 1, 0, 2 * rows).round().astype(int)]
        for row in range(rows):
            canvas.put(plan.top + row, left, "▀▀", int(colours[2 * row]))
            canvas.bg[plan.top + row, left : left + 2] = colours[2 * row + 1]
    else:
        places = np.linspace(len(ramp) - 1, 0, rows).round().astype(int)
        for row, place in enumerate(places):
            canvas.put(plan.top + row, left, ramp[place] * 2, look.text)
    for part, text in enumerate(texts):
        canvas.put(plan.top + round((rows - 1) * part / parts), left + 3, look.spelled(text), look.muted)


def pointed_column(canvas: Canvas, plan: Plan, figure: HeatFigure, look: Look) -> tuple[int, str]:
    """The position and text of the column's name below the plot, for the cursor or the mark; "" for none."""
    column = (figure.cursor or figure.marked)[1]
    if column is None:
        return 0, ""
    name = figure.columns[column]
    wide, columns = cell_count(name), figure.matrix.shape[1]
    middle = plan.left + plan.column(column, columns) + (plan.across_of(column, columns) - wide) // 2
    return min(max(middle - 1, 0), canvas.width - wide - 1), f"{look.glyphs.up}{name}"


def draw_pointer(canvas: Canvas, plan: Plan, figure: HeatFigure, look: Look) -> None:
    """Mark the cursor's cell, and its row and column in the margins. Without a cursor, mark the marked ones there."""
    row, column = figure.cursor or figure.marked
    height, width = figure.matrix.shape
    top = plan.top + plan.row(row or 0, height)
    left = plan.left + plan.column(column or 0, width)
    middle = top + (plan.down - 1) // 2
    if plan.left and row is not None:
        name = padded(figure.rows[row], plan.left - 1, right=True)
        canvas.put(middle, 0, name + look.glyphs.pointer, look.highlight, BOLD)
    start, text = pointed_column(canvas, plan, figure, look)
    canvas.put(plan.top + plan.height, start, text, look.highlight, BOLD)
    if figure.cursor is None:
        return
    row, column = figure.cursor
    across = plan.across_of(column, width)
    cells = middle, slice(left, left + across)
    if FIGURE_AT_AN_END.search(row_text(canvas.chars[cells])):  # a bracket would take it
        canvas.flags[cells] = BOLD | REVERSE
        if look.coloured and not look.ascii:
            canvas.fg[cells] = text_on(int(canvas.bg[middle, left]))
    elif across >= 3 and plan.per_cell == 1:
        canvas.put(middle, left, "[", look.text, BOLD)
        canvas.put(middle, left + across - 1, "]", look.text, BOLD)
        for edge in (left, left + across - 1):
            bg = int(canvas.bg[middle, edge])
            canvas.fg[middle, edge] = text_on(bg) if look.coloured and bg >= 0 else look.text
    elif look.ascii or not look.coloured:
        canvas.flags[top : top + plan.down, left : left + across] |= REVERSE
    else:  # half blocks: the cell's other value gives way to a cross on this one's color
        level = int(levels_of(figure.matrix[row, column, None], figure.limits(), HEAT_LEVELS)[0])
        heat = look.signed if figure.signed else look.heat
        bg = int(heat[level]) if level >= 0 else look.background
        canvas.put(top, left, "+" * across, text_on(bg) if level >= 0 else look.text, BOLD)
        canvas.bg[top, left : left + across] = bg


def merged(plan: Plan, figure: HeatFigure, look: Look) -> str:
    """The row above the bottom one: how many rows and columns each shown mean covers; "" if all are shown exactly."""
    parts, spans, times = list[str](), dict[str, list[str]](), f" {look.glyphs.times} "
    sizes = zip(("row", "column"), figure.axes, figure.matrix.shape, plan.values.shape, strict=True)
    for part, axis, count, bins in sizes:
        if bins < count:
            few, many = count // bins, -(-count // bins)
            things = f"{axis or part}{'es' if axis.endswith('s') else 's'}"
            spans.setdefault(things, []).append(f"{few}{look.glyphs.dash}{many}" if few < many else f"{few}")
            parts.append(part)
    if not parts:
        return ""
    what = "other cells" if figure.cursor else "cells" if len(parts) == 2 else f"{parts[0]}s"
    return f"{what} are means of {times.join(f'{times.join(one)} {name}' for name, one in spans.items())}"


def status(figure: HeatFigure, width: int, look: Look) -> str:
    """The bottom row: the cell under the cursor and its value, or the range and the mean.

    If rows and columns are the same items, range and mean are those of the pairs. Less is told if `width` is too small.
    """
    if figure.cursor is not None:
        row, column = figure.cursor
        value = float(figure.matrix[row, column])
        rows, columns = figure.titles or (figure.rows, figure.columns)
        names = f"{figure.axes[0]} {rows[row]}", f"{figure.axes[1]} {columns[column]}"
        shown = "empty" if math.isnan(value) else _exactly(value, figure)
        told = f"{names[0].strip()} {look.glyphs.times} {names[1].strip()}: {shown}"
        brief = f"{figure.rows[row]} {look.glyphs.times} {figure.columns[column]}: {shown}"
        return fitting((told, brief), width)
    values = figure.matrix
    if figure.axes[0] and figure.axes[0] == figure.axes[1]:  # each equals itself, which says nothing
        values = np.where(np.eye(*values.shape) > 0, np.nan, values)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "empty"
    size = f"{figure.matrix.shape[0]} {look.glyphs.times} {figure.matrix.shape[1]}"
    low, mean = (_plain(each, figure) for each in (finite.min(), finite.mean()))
    span = f"{low} to " if figure.signed else f"{low}{look.glyphs.dash}"
    span += _exactly(finite.max(), figure)
    texts = f"{size}, {span}, mean {mean}", f"{span}, mean {mean}", span
    return fitting(texts, width)


def _exactly(value: float, figure: HeatFigure) -> str:
    return f"{_plain(value, figure)} {figure.unit}".rstrip()


def _plain(value: float, figure: HeatFigure) -> str:
    return with_sign(value, figure.decimals) if figure.signed else f"{value:.{figure.decimals}f}"


def with_sign(value: float, decimals: int) -> str:
    """A difference with its sign: +3.2, −0.4; 0.0 for exactly none."""
    return f"{value:+.{decimals}f}".replace("-", "−") if value else f"{0:.{decimals}f}"
