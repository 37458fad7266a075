"""A matrix on a canvas: colors or a ramp of characters, labels, a color bar, and a cursor."""

import math
import re

import numpy as np

from tui.app.charts.axis import label, with_minus
from tui.app.charts.canvas import BOLD, REVERSE, Array, Canvas, row_text
from tui.app.charts.colours import HEAT_LEVELS, ColourScheme, text_on
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.heat_plan import HeatFigure, Plan, bar_labels, number_cells, plan_of
from tui.common.cells import cell_count, padded
from tui.common.formatting import spelled

FIGURE_AT_AN_END = re.compile(r"^[-−+]?\.?\d|\d$")


def draw_heatmap(
    figure: HeatFigure, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet
) -> Canvas:
    """`figure` on [height, width] cells. Parts without room (bar, labels, bottom row) are left out."""
    canvas = Canvas.blank(width, height, scheme.text, scheme.background)
    if not figure.matrix.size or width < 2 or height < 1:
        return canvas
    coloured = scheme.coloured and glyphs.name != "ascii"
    plan = plan_of(figure, width, height, halves=coloured)
    heat, ramp = (scheme.signed, glyphs.signs) if figure.signed else (scheme.heat, glyphs.ramp)
    levels = levels_of(plan.values, figure.limits(), HEAT_LEVELS if coloured else len(ramp))
    plot = canvas.window(plan.top, plan.left, plan.height, plan.width)
    if coloured:
        paint(plot, plan, levels, heat, scheme)
    else:
        levels = sign_levels(plan.values, figure) if figure.signed else levels
        shade(plot, plan, levels, ramp)
    if plan.across >= number_cells(figure) and plan.per_cell == 1:
        write_values(plot, plan, levels, coloured, figure, glyphs)
    said = merged(plan, figure, glyphs)
    above = canvas.window(0, 0, height - (height > 3) * (1 + bool(said)), width)
    draw_labels(above, plan, figure, scheme, glyphs)
    draw_bar(above, plan, figure, scheme, glyphs, heat if coloured else ramp)
    draw_pointer(above, plan, figure, scheme, glyphs)
    if height > 3:
        canvas.put(height - 2, 0, said, scheme.muted)
        canvas.put(
            height - 1,
            0,
            spelled(status(figure, width, glyphs), glyphs.name),
            scheme.text if figure.cursor else scheme.muted,
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


def paint(plot: Canvas, plan: Plan, levels: Array, heat: Array, scheme: ColourScheme) -> None:
    """Color the plot. An empty value shows the background."""
    colours = np.where(levels >= 0, heat[levels], scheme.background)
    colours = np.repeat(colours, np.diff(plan.starts), axis=1)
    if plan.per_cell == 1:
        plot.bg[:] = np.repeat(colours, plan.down, axis=0)
        return
    if len(colours) % 2:
        colours = np.vstack([colours, np.full_like(colours[:1], scheme.background)])
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
    plot: Canvas, plan: Plan, levels: Array, coloured: bool, figure: HeatFigure, glyphs: GlyphSet
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
        plot.put(top, left, spelled(text, glyphs.name), fg)


def cell_text(value: float, room: int, unit: str = "", signed: bool = False) -> str:
    """A value in at most `room` characters: .83 for 0.83, 81.2 or 81 for 81.2 %; "" if none fits."""
    if signed:
        return next((text for each in (1, 0) if len(text := with_sign(value, each)) <= room), "")
    short = with_minus(f"{value:.2f}".replace("0.", ".", 1)) if abs(value) < 0.995 else label(value)
    texts = (with_minus(f"{value:.1f}"), with_minus(f"{value:.0f}")) if unit else (short, label(value))
    return next((text for text in texts if len(text) <= room), "")


def draw_labels(
    canvas: Canvas, plan: Plan, figure: HeatFigure, scheme: ColourScheme, glyphs: GlyphSet
) -> None:
    """Names of rows on the left and of columns below: as many as fit without touching each other or the pointer."""
    rows, columns = figure.matrix.shape
    if plan.left:
        room = plan.height if rows <= plan.height else plan.height // 2
        for row in range(0, rows, _stride(rows, room)):
            name = figure.rows[row]
            at = plan.row(row, rows) + (plan.down - 1) // 2
            canvas.put(plan.top + at, plan.left - 1 - cell_count(name), name, scheme.muted)
    below = plan.top + plan.height
    pointed, text = pointed_column(canvas, plan, figure, glyphs)
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
            canvas.put(below, start, name, scheme.muted)
            free = end + 1


def _stride(count: int, room: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50… that labels at most `room` of `count` items."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if -(-count // (factor * power)) <= max(room, 1):
                return factor * power
        power *= 10


def draw_bar(
    canvas: Canvas, plan: Plan, figure: HeatFigure, scheme: ColourScheme, glyphs: GlyphSet, ramp: Array | str
) -> None:
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
            canvas.put(plan.top + row, left, ramp[place] * 2, scheme.text)
    for part, text in enumerate(texts):
        canvas.put(
            plan.top + round((rows - 1) * part / parts), left + 3, spelled(text, glyphs.name), scheme.muted
        )


def pointed_column(canvas: Canvas, plan: Plan, figure: HeatFigure, glyphs: GlyphSet) -> tuple[int, str]:
    """The position and text of the column's name below the plot, for the cursor or the mark; "" for none."""
    column = (figure.cursor or figure.marked)[1]
    if column is None:
        return 0, ""
    name = figure.columns[column]
    wide, columns = cell_count(name), figure.matrix.shape[1]
    middle = plan.left + plan.column(column, columns) + (plan.across_of(column, columns) - wide) // 2
    return min(max(middle - 1, 0), canvas.width - wide - 1), f"{glyphs.up}{name}"


def draw_pointer(
    canvas: Canvas, plan: Plan, figure: HeatFigure, scheme: ColourScheme, glyphs: GlyphSet
) -> None:
    """Mark the cursor's cell, and its row and column in the margins. Without a cursor, mark the marked ones there."""
    row, column = figure.cursor or figure.marked
    height, width = figure.matrix.shape
    top = plan.top + plan.row(row or 0, height)
    left = plan.left + plan.column(column or 0, width)
    middle = top + (plan.down - 1) // 2
    if plan.left and row is not None:
        name = padded(figure.rows[row], plan.left - 1, right=True)
        canvas.put(middle, 0, name + glyphs.pointer, scheme.highlight, BOLD)
    start, text = pointed_column(canvas, plan, figure, glyphs)
    canvas.put(plan.top + plan.height, start, text, scheme.highlight, BOLD)
    if figure.cursor is None:
        return
    row, column = figure.cursor
    across = plan.across_of(column, width)
    cells = middle, slice(left, left + across)
    if FIGURE_AT_AN_END.search(row_text(canvas.chars[cells])):  # a bracket would take it
        canvas.flags[cells] = BOLD | REVERSE
        if scheme.coloured and glyphs.name != "ascii":
            canvas.fg[cells] = text_on(int(canvas.bg[middle, left]))
    elif across >= 3 and plan.per_cell == 1:
        canvas.put(middle, left, "[", scheme.text, BOLD)
        canvas.put(middle, left + across - 1, "]", scheme.text, BOLD)
        for edge in (left, left + across - 1):
            bg = int(canvas.bg[middle, edge])
            canvas.fg[middle, edge] = text_on(bg) if scheme.coloured and bg >= 0 else scheme.text
    elif glyphs.name == "ascii" or not scheme.coloured:
        canvas.flags[top : top + plan.down, left : left + across] |= REVERSE
    else:  # half blocks: the cell's other value gives way to a cross on this one's color
        level = int(levels_of(figure.matrix[row, column, None], figure.limits(), HEAT_LEVELS)[0])
        heat = scheme.signed if figure.signed else scheme.heat
        bg = int(heat[level]) if level >= 0 else scheme.background
        canvas.put(top, left, "+" * across, text_on(bg) if level >= 0 else scheme.text, BOLD)
        canvas.bg[top, left : left + across] = bg


def merged(plan: Plan, figure: HeatFigure, glyphs: GlyphSet) -> str:
    """The row above the bottom one: how many rows and columns each shown mean covers; "" if all are shown exactly."""
    parts, spans, times = list[str](), dict[str, list[str]](), f" {glyphs.times} "
    sizes = zip(("row", "column"), figure.axes, figure.matrix.shape, plan.values.shape, strict=True)
    for part, axis, count, bins in sizes:
        if bins < count:
            few, many = count // bins, -(-count // bins)
            things = f"{axis or part}{'es' if axis.endswith('s') else 's'}"
            spans.setdefault(things, []).append(f"{few}{glyphs.dash}{many}" if few < many else f"{few}")
            parts.append(part)
    if not parts:
        return ""
    what = "other cells" if figure.cursor else "cells" if len(parts) == 2 else f"{parts[0]}s"
    return f"{what} are means of {times.join(f'{times.join(one)} {name}' for name, one in spans.items())}"


def status(figure: HeatFigure, width: int, glyphs: GlyphSet) -> str:
    """The bottom row: the cell under the cursor and its value, or the range and the mean.

    If rows and columns are the same items, range and mean are those of the pairs. Less is told if `width` is too small.
    """
    if figure.cursor is not None:
        row, column = figure.cursor
        value = float(figure.matrix[row, column])
        rows, columns = figure.titles or (figure.rows, figure.columns)
        names = f"{figure.axes[0]} {rows[row]}", f"{figure.axes[1]} {columns[column]}"
        shown = "empty" if math.isnan(value) else _exactly(value, figure)
        told = f"{names[0].strip()} {glyphs.times} {names[1].strip()}: {shown}"
        brief = f"{figure.rows[row]} {glyphs.times} {figure.columns[column]}: {shown}"
        return told if cell_count(told) <= width else brief
    values = figure.matrix
    if figure.axes[0] and figure.axes[0] == figure.axes[1]:  # each equals itself, which says nothing
        values = np.where(np.eye(*values.shape) > 0, np.nan, values)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "empty"
    size = f"{figure.matrix.shape[0]} {glyphs.times} {figure.matrix.shape[1]}"
    low, mean = (_plain(each, figure) for each in (finite.min(), finite.mean()))
    span = f"{low} to " if figure.signed else f"{low}{glyphs.dash}"
    span += _exactly(finite.max(), figure)
    texts = f"{size}, {span}, mean {mean}", f"{span}, mean {mean}", span
    return next((each for each in texts if cell_count(each) <= width), span)


def _exactly(value: float, figure: HeatFigure) -> str:
    return f"{_plain(value, figure)} {figure.unit}".rstrip()


def _plain(value: float, figure: HeatFigure) -> str:
    return with_sign(value, figure.decimals) if figure.signed else f"{value:.{figure.decimals}f}"


def with_sign(value: float, decimals: int) -> str:
    """A difference with its sign: +3.2, −0.4; 0.0 for exactly none."""
    return f"{value:+.{decimals}f}".replace("-", "−") if value else f"{0:.{decimals}f}"
