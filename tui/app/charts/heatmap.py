"""A matrix on a canvas: its layout in cells, colors or a ramp of characters, labels, a color bar, and a cursor."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tui.app.charts.look import BOLD, HEAT_LEVELS, REVERSE, Array, Canvas, Look, codes, row_text, text_on
from tui.app.charts.plot import label, spread, with_minus
from tui.common.cells import cell_count, fitting, padded

WIDEST = 6  # maximum ratio of width to height of a matrix's cell
FIGURE_AT_AN_END = re.compile(r"^[-−+]?\.?\d|\d$")


@dataclass(frozen=True, eq=False)
class HeatFigure:
    """A matrix [n, m], NaN = empty, with the names of its rows and columns, in the order shown.

    value_range: the values of the first and last color; None: the extremes. cursor: (row, column). marked: the row and
    column that the margins mark without one. axes: the meanings of rows and columns. titles: the bottom row's names of
    both, if longer than those at the edges. signed: the values are differences, with 0 in the middle of `value_range`.
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
        if self.value_range is not None:
            return spread(*self.value_range)
        finite = self.matrix[np.isfinite(self.matrix)]
        return spread(float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)

    def text_of(self, value: float) -> str:
        """A value with the figure's decimals, without its unit."""
        return with_sign(value, self.decimals) if self.signed else f"{value:.{self.decimals}f}"


@dataclass(frozen=True, eq=False)
class Plan:
    """The plot's first column, and the values shown, [height × per_cell, …].

    per_cell: values stacked in a cell (2: half blocks). down: rows of cells per value. starts: where each column of
    values begins, in cells, and where the last ends. shape: of the matrix.
    """

    left: int
    values: Array
    per_cell: int
    down: int
    starts: Array
    shape: tuple[int, int]

    @property
    def height(self) -> int:
        return -(-len(self.values) * self.down // self.per_cell)

    @property
    def width(self) -> int:
        return int(self.starts[-1])

    @property
    def across(self) -> int:
        return int(np.diff(self.starts).min())

    def row(self, row: int) -> int:
        """The row of cells, counted from the top of the plot, with a row of the matrix."""
        return _bin_of(row, self.shape[0], len(self.values)) * self.down // self.per_cell

    def column(self, column: int) -> tuple[int, int]:
        """The first column of cells with a column of the matrix, and its number of cells."""
        place = _bin_of(column, self.shape[1], self.values.shape[1])
        return int(self.starts[place]), int(self.starts[place + 1] - self.starts[place])


def plan_of(figure: HeatFigure, width: int, height: int, halves: bool) -> Plan:
    """Exact cells if the rows fit, else two rows per cell (`halves`), else means of neighbors with a note."""
    rows, columns = figure.matrix.shape
    numbers = number_cells(figure) * columns
    left = bar = 0
    if width >= 24:
        bar = 5 + max(len(text) for text in bar_labels(figure, 4))
        left = max(map(cell_count, figure.rows)) + 2
        # names of rows get a third of the width, or what the numbers leave
        left = left if left <= max((width - bar) // 3, width - bar - numbers) else 0
    below = 2 if height >= 6 else 1 if height > 3 else 0
    room_down, room_across = max(height - below, 1), max(width - left - bar, 1)
    if below and (rows > room_down * (1 + halves) or columns > room_across):
        room_down -= 1
    per_cell = 2 if halves and rows > room_down else 1
    shown = min(rows, room_down * per_cell), min(columns, room_across)
    down = 1 if per_cell == 2 else room_down // shown[0]
    if per_cell == 1 and room_across < numbers <= room_across + bar:
        room_across += bar  # numbers say what the color bar would
    across = max(min(room_across // shown[1], WIDEST * down), 1)
    down = min(down, across)
    starts = edges(min(room_across, across * shown[1]), shown[1])
    if across < WIDEST and 4 * int(starts[-1]) < 3 * room_across:  # some columns are a cell wider than others
        starts = edges(min(room_across, WIDEST * down * shown[1]), shown[1])
    values = binned(figure.matrix, *shown)
    if figure.cursor is not None and shown != (rows, columns):  # its cell always shows its own value
        at = tuple(_bin_of(*each) for each in zip(figure.cursor, (rows, columns), shown, strict=True))
        values[at] = figure.matrix[figure.cursor]
    return Plan(left, values, per_cell, down, starts, (rows, columns))


def cell_at(
    figure: HeatFigure, width: int, height: int, halves: bool, x: int, y: int
) -> tuple[int, int] | None:
    """(row, column) of the first value at cell (x, y) of a grid of this size. None outside of the matrix."""
    plan = plan_of(figure, width, height, halves)
    x -= plan.left
    if not (0 <= y < plan.height and 0 <= x < plan.width):
        return None
    row, column = y * plan.per_cell // plan.down, int(np.searchsorted(plan.starts, x, side="right")) - 1
    (rows, columns), bins = plan.shape, plan.values.shape
    return int(edges(rows, bins[0])[row]), int(edges(columns, bins[1])[column])


def number_cells(figure: HeatFigure) -> int:
    """The cells that the number of any value takes, with a space beside it."""
    return 4 if figure.decimals else 1 + max(len(f"{limit:.0f}") for limit in figure.limits())


def bar_labels(figure: HeatFigure, parts: int) -> list[str]:
    """The numbers next to the color bar, the highest first: both ends and those that divide the range into `parts`."""
    low, high = figure.limits()
    step, largest = max((high - low) / 100, 10.0**-figure.decimals), max(abs(low), abs(high))
    values = [high + (low - high) * part / parts for part in range(parts + 1)]
    return ["+" * (figure.signed and value > 0) + label(value, step, largest) for value in values]


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
    down, across = edges(matrix.shape[0], rows)[:-1], edges(matrix.shape[1], columns)[:-1]
    both = np.stack([np.where(there, matrix, 0.0), there])
    totals, counts = np.add.reduceat(np.add.reduceat(both, down, axis=1), across, axis=2)
    return np.asarray(np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0))


def draw_heatmap(figure: HeatFigure, width: int, height: int, look: Look) -> Canvas:
    """`figure` on [height, width] cells. Bar, labels, and bottom row are left out without room."""
    canvas = look.blank(width, height)
    if not figure.matrix.size or width < 2 or height < 1:
        return canvas
    plan = plan_of(figure, width, height, halves=look.painted)
    heat, ramp = (look.signed, look.glyphs.signs) if figure.signed else (look.heat, look.glyphs.ramp)
    levels = levels_of(plan.values, figure.limits(), HEAT_LEVELS if look.painted else len(ramp))
    plot = canvas.window(0, plan.left, plan.height, plan.width)
    if look.painted:
        levels = np.repeat(levels, np.diff(plan.starts), axis=1)
        if plan.per_cell == 2 and len(levels) % 2:
            levels = np.vstack([levels, np.full_like(levels[:1], -1)])
        colours = np.where(levels >= 0, heat[levels], look.background)  # an empty value shows the background
        if plan.per_cell == 1:
            plot.bg[:] = np.repeat(colours, plan.down, axis=0)
        else:
            plot.fg[:], plot.bg[:] = colours[0::2], colours[1::2]
            plot.chars[:] = np.where((levels[0::2] < 0) & (levels[1::2] < 0), ord(" "), ord("▀"))
    else:
        levels = sign_levels(plan.values, figure) if figure.signed else levels
        shown = codes(ramp + " ")[levels]  # an empty value, of level −1, is the last character
        plot.chars[:] = np.repeat(np.repeat(shown, np.diff(plan.starts), axis=1), plan.down, axis=0)
    if plan.across >= number_cells(figure) and plan.per_cell == 1:
        write_values(plot, plan, figure, look)
    said = merged(plan, figure, look)
    above = canvas.window(0, 0, height - (height > 3) * (1 + bool(said)), width)
    draw_labels(above, plan, figure, look)
    draw_bar(above, plan, figure, look, heat if look.painted else ramp)
    draw_pointer(above, plan, figure, look)
    if height > 3:
        canvas.put(height - 2, 0, said, look.muted)
        fg = look.text if figure.cursor else look.muted
        canvas.put(height - 1, 0, look.spelled(status(figure, width, look)), fg)
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


def write_values(plot: Canvas, plan: Plan, figure: HeatFigure, look: Look) -> None:
    """Write each value into the middle of its cell, in black or white on a color, or between spaces in a ramp."""
    for row, column in zip(*np.nonzero(~np.isnan(plan.values)), strict=True):
        value = float(plan.values[row, column])
        text = cell_text(value, plan.across - 1, figure.unit, figure.signed)
        text = text or cell_text(value, plan.across, figure.unit, figure.signed)  # touches its neighbor
        if not look.painted and text:
            text = text.center(min(len(text) + 2, plan.across))
        top = row * plan.down + (plan.down - 1) // 2
        left = int(plan.starts[column]) + (plan.across - len(text)) // 2
        fg = text_on(int(plot.bg[top, left])) if look.painted else int(plot.fg[top, left])
        plot.put(top, left, look.spelled(text), fg)


def cell_text(value: float, room: int, unit: str = "", signed: bool = False) -> str:
    """A value in at most `room` characters: .83 for 0.83, 81.2 or 81 for 81.2 %; "" if none fits."""
    if signed:
        texts = with_sign(value, 1), with_sign(value, 0)
    elif unit:
        texts = with_minus(f"{value:.1f}"), with_minus(f"{value:.0f}")
    else:
        short = with_minus(f"{value:.2f}".replace("0.", ".", 1)) if abs(value) < 0.995 else label(value)
        texts = short, label(value)
    return next((text for text in texts if len(text) <= room), "")


def draw_labels(canvas: Canvas, plan: Plan, figure: HeatFigure, look: Look) -> None:
    """Names of rows on the left and of columns below: as many as fit without touching each other or the pointer."""
    rows, columns = plan.shape
    if plan.left:
        room = plan.height if rows <= plan.height else plan.height // 2
        for row in range(0, rows, _stride(rows, room)):
            name = figure.rows[row]
            at = plan.row(row) + (plan.down - 1) // 2
            canvas.put(at, plan.left - 1 - cell_count(name), name, look.muted)
    pointed, text = pointed_column(canvas, plan, figure, look)
    widest, free = max(map(cell_count, figure.columns)) + 1, 0
    for column in range(0, columns, _stride(columns, max(plan.width // widest, 1))):
        name, (first, across) = figure.columns[column], plan.column(column)
        wide = cell_count(name)
        start = plan.left + first + max((across - wide) // 2, 0)
        end = start + wide
        beside = not text or end < pointed or start > pointed + cell_count(text)
        if start >= free and beside and end <= plan.left + plan.width + 1:
            canvas.put(plan.height, start, name, look.muted)
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
    rows, left = plan.height, plan.left + plan.width + 2
    parts = 4 if rows >= 13 else 2 if rows >= 5 else 1
    texts = bar_labels(figure, parts)
    if left + 3 + max(map(len, texts)) > canvas.width or rows < 3:
        return
    if isinstance(ramp, str):
        for row, place in enumerate(np.linspace(len(ramp) - 1, 0, rows).round().astype(int)):
            canvas.put(row, left, ramp[place] * 2, look.text)
    else:
        colours = ramp[np.linspace(HEAT_LEVELS - 1, 0, 2 * rows).round().astype(int)]
        for row in range(rows):
            canvas.put(row, left, "▀▀", int(colours[2 * row]))
            canvas.bg[row, left : left + 2] = colours[2 * row + 1]
    for part, text in enumerate(texts):
        canvas.put(round((rows - 1) * part / parts), left + 3, look.spelled(text), look.muted)


def pointed_column(canvas: Canvas, plan: Plan, figure: HeatFigure, look: Look) -> tuple[int, str]:
    """The position and text of the column's name below the plot, for the cursor or the mark; "" for none."""
    column = (figure.cursor or figure.marked)[1]
    if column is None:
        return 0, ""
    name, (first, across) = figure.columns[column], plan.column(column)
    wide = cell_count(name)
    middle = plan.left + first + (across - wide) // 2
    return min(max(middle - 1, 0), canvas.width - wide - 1), f"{look.glyphs.up}{name}"


def draw_pointer(canvas: Canvas, plan: Plan, figure: HeatFigure, look: Look) -> None:
    """Mark the cursor's cell, and its row and column in the margins. Without a cursor, mark the marked ones there."""
    row = (figure.cursor or figure.marked)[0]
    top = plan.row(row or 0)
    middle = top + (plan.down - 1) // 2
    if plan.left and row is not None:
        name = padded(figure.rows[row], plan.left - 1, right=True)
        canvas.put(middle, 0, name + look.glyphs.pointer, look.highlight, BOLD)
    canvas.put(plan.height, *pointed_column(canvas, plan, figure, look), look.highlight, BOLD)
    if figure.cursor is None:
        return
    first, across = plan.column(figure.cursor[1])
    left = plan.left + first
    cells = middle, slice(left, left + across)
    if FIGURE_AT_AN_END.search(row_text(canvas.chars[cells])):  # a bracket would take it
        canvas.flags[cells] = BOLD | REVERSE
        if look.painted:
            canvas.fg[cells] = text_on(int(canvas.bg[middle, left]))
    elif across >= 3 and plan.per_cell == 1:
        for edge, bracket in ((left, "["), (left + across - 1, "]")):
            bg = int(canvas.bg[middle, edge])
            canvas.put(middle, edge, bracket, text_on(bg) if look.coloured and bg >= 0 else look.text, BOLD)
    elif not look.painted:
        canvas.flags[top : top + plan.down, left : left + across] |= REVERSE
    else:  # half blocks: the cell's other value gives way to a cross on this one's color
        level = int(levels_of(figure.matrix[figure.cursor][None], figure.limits(), HEAT_LEVELS)[0])
        heat = look.signed if figure.signed else look.heat
        bg = int(heat[level]) if level >= 0 else look.background
        canvas.put(top, left, "+" * across, text_on(bg) if level >= 0 else look.text, BOLD)
        canvas.bg[top, left : left + across] = bg


def merged(plan: Plan, figure: HeatFigure, look: Look) -> str:
    """The row above the bottom one: how many rows and columns each shown mean covers; "" if all are shown exactly."""
    parts, spans, times = list[str](), dict[str, list[str]](), f" {look.glyphs.times} "
    sizes = zip(("row", "column"), figure.axes, plan.shape, plan.values.shape, strict=True)
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
    """The bottom row: the cell under the cursor and its value, or the range and the mean of all."""
    times, values = f" {look.glyphs.times} ", figure.matrix
    if figure.cursor is not None:
        row, column = figure.cursor
        value = float(values[figure.cursor])
        rows, columns = figure.titles or (figure.rows, figure.columns)
        names = f"{figure.axes[0]} {rows[row]}".strip(), f"{figure.axes[1]} {columns[column]}".strip()
        shown = "empty" if math.isnan(value) else f"{figure.text_of(value)} {figure.unit}".rstrip()
        brief = figure.rows[row], figure.columns[column]
        return fitting([f"{times.join(each)}: {shown}" for each in (names, brief)], width)
    if figure.axes[0] and figure.axes[0] == figure.axes[1]:  # each equals itself, which says nothing
        values = np.where(np.eye(*values.shape) > 0, np.nan, values)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "empty"
    low, high, mean = (figure.text_of(each) for each in (finite.min(), finite.max(), finite.mean()))
    span = f"{low}{' to ' if figure.signed else look.glyphs.dash}{high} {figure.unit}".rstrip()
    size = times.join(map(str, values.shape))
    return fitting((f"{size}, {span}, mean {mean}", f"{span}, mean {mean}", span), width)


def with_sign(value: float, decimals: int) -> str:
    """A difference with its sign: +3.2, −0.4; 0.0 for exactly none."""
    return f"{value:+.{decimals}f}".replace("-", "−") if value else f"{0:.{decimals}f}"
