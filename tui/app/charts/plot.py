"""From values to cells: axes with their ticks and labels, the plot between them, and lines as dots."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simulator.base.units import SUFFIXES
from tui.app.charts.look import Array, Canvas, Look


@dataclass(frozen=True)
class Axis:
    """The range low…high of an axis, low < high."""

    low: float
    high: float

    def fraction(self, value: float) -> float:
        return float(self.fractions(np.asarray(value, float)))

    def fractions(self, values: Array) -> Array:
        """The positions of values between the ends: 0 at low, 1 at high."""
        return (values - self.low) / (self.high - self.low)


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within low…high, ascending: as many as `most` allows."""
    if most < 1 or not high > low:
        return []
    step = (high - low) / most
    while True:
        power = 10.0 ** math.floor(math.log10(step))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [place * step for place in range(first, last + 1)]
        step *= 1.01


def label(value: float, step: float = 0.0, largest: float = 0.0) -> str:
    """A number in an axis's format, with the decimals that steps of `step` need (0: three significant digits)."""
    if not math.isfinite(value):
        return str(value)
    size = max(abs(value), abs(largest))
    if value == 0 and (step >= 1 or not step):
        return "0"
    if size >= 10_000:
        unit, suffix = next(one for one in SUFFIXES if size >= one[0])
        return _decimals(value / unit, step / unit) + suffix
    if value and max(size, step) < 1e-3:
        return with_minus(f"{value:.0e}".replace("e-0", "e-"))
    return _decimals(value, step)


def labels(ticks: list[float]) -> list[str]:
    if len(ticks) < 2:
        return [label(tick) for tick in ticks]
    evenly = math.isclose(ticks[-1] - ticks[-2], ticks[1] - ticks[0], rel_tol=1e-6)
    step, largest = (ticks[1] - ticks[0], max(map(abs, ticks))) if evenly else (0.0, 0.0)
    return [label(tick, step, largest) for tick in ticks]


def with_minus(text: str) -> str:
    """The text of a number with a minus sign in place of its hyphen."""
    return text.replace("-", "−", 1) if text.startswith("-") else text


def _decimals(value: float, step: float) -> str:
    """`value` with the decimals of `step`. Without a step, three significant digits."""
    if step:
        places = max(0, -math.floor(math.log10(abs(step)) + 1e-9))
        return with_minus(f"{value:.{places}f}") if value else f"{0:.{places}f}"
    places = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    text = with_minus(f"{value:.{places}f}")
    return text.rstrip("0").rstrip(".") if places else text


def spread(low: float, high: float) -> tuple[float, float]:
    """low and high, or values a little below and above them if they are almost equal."""
    size = max(abs(low), abs(high))
    if high - low > size * 1e-9:
        return low, high
    room = max(size * 0.05, 0.05)
    return low - room, high + room


def reach(values: Array, ceiling: float = 1.0, margin: float = 0.04) -> Axis:
    """The axis that shows all finite values with a margin at both ends; 0…1 if there are none."""
    values = np.asarray(values, float).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return Axis(0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    at_least_0, under_ceiling = low >= 0, low >= 0 and high <= ceiling
    low, high = spread(low, high)
    room = (high - low) * margin
    low, high = low - room, high + room
    return Axis(max(low, 0.0) if at_least_0 else low, min(high, ceiling) if under_ceiling else high)


def reading(value: float, unit: str = "") -> str:
    """A number in a legend's format: with a unit such as "%" or "MiB", one decimal, as everywhere."""
    if unit:
        return with_minus(f"{value:.1f} {unit}")
    return with_minus(f"{value:.3f}") if 1e-3 <= abs(value) < 10 or value == 0 else label(value)


@dataclass(frozen=True)
class PlotArea:
    """The plot's place in the grid, in cells, and its axes."""

    top: int
    left: int
    height: int
    width: int
    x: Axis
    y: Axis

    @property
    def bottom(self) -> int:
        return self.top + self.height

    def window(self, canvas: Canvas) -> Canvas:
        return canvas.window(self.top, self.left, self.height, self.width)

    def trace(self, x: Array, y: Array, dots: tuple[int, int]) -> "Spans":
        """The spans of lines y [s, n] over x [n] on the plot, with (rows, columns) of dots in a cell."""
        columns, rows = self.width * dots[1], self.height * dots[0]
        return trace(self.x.fractions(x), self.y.fractions(y), columns, rows)

    def dots(self, x: Array, y: Array, per_cell: tuple[int, int]) -> Array:
        """[rows, columns]: the number of these lines with each dot."""
        return counts(self.trace(x, y, per_cell), self.height * per_cell[0])

    def column(self, x: float) -> int | None:
        """The column of cells of `x`, counted from the plot's left; None outside of the range."""
        share = self.x.fraction(x)
        return int(share * (self.width - 1) + 0.5) if 0 <= share <= 1 else None

    def x_at(self, column: int) -> float:
        """The x in the middle of a column of cells, counted from the plot's left."""
        return self.x.low + column / max(self.width - 1, 1) * (self.x.high - self.x.low)

    def row(self, y: float) -> int | None:
        """The row of cells of `y`, counted from the plot's top; None outside of the range."""
        share = self.y.fraction(y)
        return int((1 - share) * (self.height - 1) + 0.5) if 0 <= share <= 1 else None

    def y_ticks(self) -> list[float]:
        """About one tick in five rows: three from five rows on, eleven at most."""
        most = min(max(self.height * 2 // 5, 3 if self.height >= 5 else 2), 11)
        for number in range(most, 2, -1):
            ticks = nice_ticks(self.y.low, self.y.high, number)
            rows = [row for row in map(self.row, ticks) if row is not None]
            if len(ticks) > 2 and len({lower - upper for lower, upper in pairwise(rows)}) == 1:
                return ticks
        return nice_ticks(self.y.low, self.y.high, most)

    def x_ticks(self) -> list[float]:
        """About one tick in eight columns. Whole numbers, for rounds, if the range has any."""
        ticks = nice_ticks(self.x.low, self.x.high, max(self.width // 8, 3))
        return [tick for tick in ticks if abs(tick - round(tick)) < 1e-6] or ticks


def plot_area(x: Axis, y: Axis, width: int, height: int, above: int, right: int) -> PlotArea:
    """The area that leaves `above` rows above the plot, `right` columns next to it, and room for the labels."""
    axis_rows = 2 if height - above >= 4 else 0
    rows = max(height - above - axis_rows, 1)
    draft = PlotArea(above, 0, rows, 1, x, y)
    gutter = max((len(text) for text in labels(draft.y_ticks())), default=0) + 1
    left = gutter if width - gutter - right >= 10 else 0
    return PlotArea(above, left, rows, max(width - left - right, 1), x, y)


def draw_axes(canvas: Canvas, area: PlotArea, x_label: str, look: Look) -> None:
    """Draw grid, axes, ticks, and labels. Draws nothing if there is no room for axes."""
    glyphs, axis, last = look.glyphs, area.left - 1, -1
    if area.left:
        for row in range(area.height):
            canvas.put(area.top + row, axis, glyphs.vertical, look.muted)
        ticks = area.y_ticks()
        for tick, text in sorted(zip(ticks, map(look.spelled, labels(ticks)), strict=True), reverse=True):
            if (at := area.row(tick)) is None or at == last:
                continue
            last = at
            canvas.put(area.top + at, axis - len(text), text, look.muted)
            canvas.put(area.top + at, axis, glyphs.tick_left, look.muted)
            if at < area.height - 1:
                canvas.put(area.top + at, area.left, glyphs.grid * area.width, look.faint)
    if area.bottom + 1 >= canvas.height:
        return
    canvas.put(area.bottom, area.left, glyphs.horizontal * area.width, look.muted)
    if area.left:
        canvas.put(area.bottom, axis, glyphs.corner, look.muted)
    end = room = area.left + area.width
    if x_label and len(x_label) + 12 <= area.width:
        room -= len(x_label) + 1
        canvas.put(area.bottom + 1, room + 1, x_label, look.muted)
    ticks, free = area.x_ticks(), 0
    for tick, text in zip(ticks, map(look.spelled, labels(ticks)), strict=True):
        if (column := area.column(tick)) is None:
            continue
        start = min(max(area.left + column - (len(text) - 1) // 2, 0), end - len(text))
        if free <= start and start + len(text) <= room:
            free = start + len(text) + 1
            canvas.put(area.bottom, area.left + column, glyphs.tick_below, look.muted)
            canvas.put(area.bottom + 1, start, text, look.muted)


NOWHERE = -(2**30)
DASH, POINT, GAP = 9, 2, 3
"""Columns of dots that the parts of a dashed line take."""


@dataclass(frozen=True, eq=False)
class Spans:
    """low, high [s, columns]: the rows of dots, from the bottom, that each line covers; NOWHERE without a value."""

    low: Array
    high: Array

    def clipped(self, rows: int) -> tuple[Array, Array, Array]:
        """low and high within 0…rows − 1, and where anything is left [s, columns]."""
        there = (self.low != NOWHERE) & (self.high >= 0) & (self.low < rows)
        return np.clip(self.low, 0, rows - 1), np.clip(self.high, 0, rows - 1), there


def trace(x: Array, y: Array, columns: int, rows: int) -> Spans:
    """The spans of the lines y [s, n] over x [n] on a plot of columns × rows dots.

    x (ascending) and y are fractions of the axes: 0 is the middle of the first column or lowest row, 1 that of the last
    or highest. Points left or right of the plot only give the line its slope there.
    """
    at, height = x * (columns - 1), y * (rows - 1)
    low = np.full((len(height), columns), np.nan)  # the extremes of the points in each column
    high = low.copy()
    column = np.floor(at + 0.5)
    inside = (column >= 0) & (column < columns)
    column, points = column[inside].astype(int), height[:, inside]
    if column.size:
        starts = np.flatnonzero(np.r_[True, column[1:] != column[:-1]])
        low[:, column[starts]] = np.fmin.reduceat(points, starts, axis=1)
        high[:, column[starts]] = np.fmax.reduceat(points, starts, axis=1)
    centres = _between(at, height, np.arange(columns, dtype=float))
    across = np.isfinite(_between(at, height, np.arange(columns - 1) + 0.5))  # the edge to the next column
    low, high = _whole(np.fmin(low, centres)), _whole(np.fmax(high, centres))
    there = (low != NOWHERE) & (high != NOWHERE)
    joins, found = across & there[:, :-1] & there[:, 1:], Spans(low.copy(), high.copy())
    this, following = np.s_[:, :-1], np.s_[:, 1:]
    for lower, upper in ((this, following), (following, this)):  # where it rises, and where it falls
        # neighboring columns touch: each reaches half-way to the other where the line jumps between them
        jumps, middle = joins & (low[upper] > high[lower] + 1), (high[lower] + low[upper]) // 2
        found.high[lower] = np.where(jumps, np.maximum(found.high[lower], middle), found.high[lower])
        found.low[upper] = np.where(jumps, np.minimum(found.low[upper], middle + 1), found.low[upper])
    return found


def _between(at: Array, height: Array, where: Array) -> Array:
    """The lines' heights at `where` [s, k], straight between neighboring points; NaN beyond the ends and in gaps."""
    if len(at) < 2:
        return np.full((len(height), len(where)), np.nan)
    left = np.clip(np.searchsorted(at, where, side="right") - 1, 0, len(at) - 2)
    step = at[left + 1] - at[left]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(step > 0, (where - at[left]) / step, 0.0)
    share = np.where((where < at[0]) | (where > at[-1]), np.nan, share)
    with np.errstate(invalid="ignore"):  # a loss may be infinite
        return np.asarray(height[:, left] * (1 - share) + height[:, left + 1] * share)


def _whole(heights: Array) -> Array:
    """Rows of dots. Heights far outside of the plot are limited so that they do not overflow."""
    rounded = np.floor(np.clip(np.where(np.isnan(heights), 0, heights), -1e6, 1e6) + 0.5).astype(int)
    return np.where(np.isnan(heights), NOWHERE, rounded)


def counts(spans: Spans, rows: int) -> Array:
    """[rows, columns], the top row first: the number of lines with a dot there."""
    low, high, there = spans.clipped(rows)
    columns = low.shape[1]
    place = np.broadcast_to(np.arange(columns), low.shape)[there]
    size = (rows + 1) * columns
    begins = np.bincount(low[there] * columns + place, minlength=size)
    ends = np.bincount((high[there] + 1) * columns + place, minlength=size)
    return np.cumsum((begins - ends).reshape(rows + 1, columns), axis=0)[:rows][::-1]


def stroked(dots: Array, points: int, steep: int) -> Array:
    """The dots of a line with this many points between its dashes."""
    if not points:
        return dots
    parts = [1] * DASH + [0] * GAP + ([1] * POINT + [0] * GAP) * points
    shown = np.resize(parts, dots.shape[1]) + (dots.sum(axis=0) > steep) > 0
    return np.asarray(dots * shown)


def by_cell(dots: Array, per_cell: tuple[int, int]) -> Array:
    """[height, width, down × across]: the dots of each cell, row by row, from [height × down, width × across]."""
    down, across = per_cell
    height, width = dots.shape[0] // down, dots.shape[1] // across
    return dots.reshape(height, down, width, across).transpose(0, 2, 1, 3).reshape(height, width, -1)


def masks(dots: Array, per_cell: tuple[int, int]) -> Array:
    """[height, width]: for each cell the number whose bit row × across + column is the dot there."""
    down, across = per_cell
    cells = by_cell(dots > 0, per_cell)
    return np.asarray(cells @ (1 << np.arange(down * across)))
