"""Lines as dots: for every column of dots, the lowest and the highest row of a line.

A column with many points keeps their extremes, so a spike of one round is always visible. Between points that are
columns apart, the line is straight.
"""

from dataclasses import dataclass

import numpy as np

from tui.app.charts.canvas import Array

NOWHERE = -(2**30)
DASH, POINT, GAP = 9, 2, 3
"""Columns of dots that the parts of a dashed line take."""


@dataclass(frozen=True, eq=False)
class Spans:
    """low, high [s, columns]: the rows of dots, counted from the bottom, that each line covers in each column.

    Rows may be outside of the plot. Both are NOWHERE where a line has no value.
    """

    low: Array
    high: Array

    def clipped(self, rows: int) -> tuple[Array, Array, Array]:
        """low and high within 0…rows − 1, and where anything is left [s, columns]."""
        there = (self.low != NOWHERE) & (self.high >= 0) & (self.low < rows)
        return np.clip(self.low, 0, rows - 1), np.clip(self.high, 0, rows - 1), there


def trace(x: Array, y: Array, columns: int, rows: int) -> Spans:
    """The spans of the lines y [s, n] over x [n] on a plot of columns × rows dots.

    x (ascending) and y are fractions of the axes: 0 is the middle of the first column or lowest row, 1 the middle of
    the last column or highest row. Points left or right of the plot only give the line its slope there.
    """
    at = x * (columns - 1)
    height = y * (rows - 1)
    low, high = _extremes(at, height, columns)
    centres = _between(at, height, np.arange(columns, dtype=float))
    low, high = np.fmin(low, centres), np.fmax(high, centres)
    return _joined(_whole(low), _whole(high), _unbroken(at, height, columns))


def _extremes(at: Array, height: Array, columns: int) -> tuple[Array, Array]:
    """The lowest and highest point in each column [s, columns]; NaN if there is none."""
    nearest = np.floor(at + 0.5)
    inside = (nearest >= 0) & (nearest < columns)
    nearest, points = nearest[inside].astype(int), height[:, inside]
    low = np.full((len(height), columns), np.nan)
    high = low.copy()
    if nearest.size:
        starts = np.flatnonzero(np.r_[True, nearest[1:] != nearest[:-1]])
        low[:, nearest[starts]] = np.fmin.reduceat(points, starts, axis=1)
        high[:, nearest[starts]] = np.fmax.reduceat(points, starts, axis=1)
    return low, high


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


def _unbroken(at: Array, height: Array, columns: int) -> Array:
    """Whether each line crosses the edge between one column and the next [s, columns − 1]."""
    return np.isfinite(_between(at, height, np.arange(columns - 1) + 0.5))


def _whole(heights: Array) -> Array:
    """Rows of dots. Heights far outside of the plot are limited so that they do not overflow."""
    rounded = np.floor(np.clip(np.where(np.isnan(heights), 0, heights), -1e6, 1e6) + 0.5).astype(int)
    return np.where(np.isnan(heights), NOWHERE, rounded)


def _joined(low: Array, high: Array, unbroken: Array) -> Spans:
    """Make neighboring columns touch: each reaches half-way to the other where the line jumps between them."""
    there = (low != NOWHERE) & (high != NOWHERE)
    joins = unbroken & there[:, :-1] & there[:, 1:]
    reach_low, reach_high = low.copy(), high.copy()
    rises = joins & (low[:, 1:] > high[:, :-1] + 1)
    middle = (high[:, :-1] + low[:, 1:]) // 2
    reach_high[:, :-1] = np.where(rises, np.maximum(reach_high[:, :-1], middle), reach_high[:, :-1])
    reach_low[:, 1:] = np.where(rises, np.minimum(reach_low[:, 1:], middle + 1), reach_low[:, 1:])
    falls = joins & (low[:, :-1] > high[:, 1:] + 1)
    middle = (low[:, :-1] + high[:, 1:]) // 2
    reach_low[:, :-1] = np.where(falls, np.minimum(reach_low[:, :-1], middle + 1), reach_low[:, :-1])
    reach_high[:, 1:] = np.where(falls, np.maximum(reach_high[:, 1:], middle), reach_high[:, 1:])
    return Spans(reach_low, reach_high)


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
    """The dots of a line with this many points between its dashes.

    Columns with more than `steep` dots stay whole, so that spikes stay visible.
    """
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
