"""The contents of a line chart: series, a band, marks, and the ranges of its axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from simulator.results.analysis.costs import Cost, nearest
from tui.app.charts.canvas import Array
from tui.app.charts.plot import Axis, apart, reach

KEYS = "123456789abcdefghijklmnopqrstuvwxyz"
CROWD = 8  # from this many plain series on, they are a crowd: one muted color, counted in the legend and not named


@dataclass(frozen=True, eq=False)
class Series:
    """One line: y [n] over x [n], or over 1…n. NaN is a gap.

    pinned: drawn over all others and always named in the legend (a mean, a pinned client). colour: 0xRRGGBB, or None
    for the palette's next. key: names the line in the plot and the legend; one to three characters, or "" for the next
    of 1…9, a…z. stroke: the number of points between its dashes; 0: no gaps. short: the text at its end, if it is not
    the name.
    """

    name: str
    y: Array
    x: Array | None = None
    pinned: bool = False
    colour: int | None = None
    key: str = ""
    stroke: int = 0
    short: str = ""

    def points(self) -> tuple[Array, Array]:
        """x and y as floats, of one length, x ascending and finite."""
        return self._points

    @cached_property
    def _points(self) -> tuple[Array, Array]:
        y = np.asarray(self.y, float).ravel()
        x = np.arange(1.0, len(y) + 1) if self.x is None else np.asarray(self.x, float).ravel()
        if len(x) != len(y):
            raise ValueError(
                f"series '{self.name}' has {len(y)} values over {len(x)} places; give as many of both"
            )
        if not x.size or (np.isfinite(x[[0, -1]]).all() and np.all(x[1:] >= x[:-1])):  # false for NaN
            return x, y
        kept = np.flatnonzero(np.isfinite(x))
        order = kept[np.argsort(x[kept], kind="stable")]
        return x[order], y[order]

    def known_until(self, x: float) -> Array:
        """The places with a value, up to x."""
        places, values = self.points()
        return places[np.isfinite(values) & (places <= x)]

    def value_at(self, x: float, near: bool = False) -> float:
        """The last value at or before `x`; NaN if there is none.

        near: the nearest value, unless the line begins more than half its first step after `x`.
        """
        places, values = self.points()
        known = np.isfinite(values)
        if not near:
            known &= places <= x
        places, values = places[known], values[known]
        begins = places[0] - (places[1] - places[0]) / 2 if near and places.size > 1 else -np.inf
        if not places.size or x < begins:
            return float("nan")
        return float(values[nearest(places, x) if near else -1])


@dataclass(frozen=True, eq=False)
class Band:
    """The area between low [n] and high [n] over x [n] (or 1…n), under all lines."""

    name: str
    low: Array
    high: Array
    x: Array | None = None
    colour: int | None = None

    def edges(self) -> list[Series]:
        """Its two edges as series, the lower first."""
        return [Series(self.name, edge, self.x) for edge in (self.low, self.high)]


@dataclass(frozen=True)
class Mark:
    """A labeled vertical line at x: a method switch, a fork, a checkpoint."""

    x: float
    label: str


@dataclass(frozen=True, eq=False)
class Figure:
    """All contents of a chart. Ranges of None follow the data.

    unit: of the values ("%", "MiB"), shown after those in the legend. crowd: the noun for lines too many to name.
    bands: possible replacements of the band, for which the axes have room. over: the meaning of x for a run, in
    `x_unit`; None: something else, without a crosshair. named: whether lines also have their names at their ends.
    """

    series: Sequence[Series] = ()
    band: Band | None = None
    marks: Sequence[Mark] = ()
    x_label: str = ""
    unit: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    cursor: float | None = None
    crowd: str = "others"
    bands: Sequence[Band] = ()
    over: Cost | None = None
    x_unit: float = 1.0
    named: bool = False

    def x_extent(self) -> tuple[float, float]:
        """The first and the last x of all data; (0, 1) without any."""
        return self._extent

    @cached_property
    def _extent(self) -> tuple[float, float]:
        curves = [one.points()[0] for one in self.series]
        curves += [edge.points()[0] for band in self.all_bands() for edge in band.edges()]
        ends = [(x[0], x[-1]) for x in curves if x.size]
        if not ends:
            return 0.0, 1.0
        return float(min(low for low, _ in ends)), float(max(high for _, high in ends))

    def places(self) -> Array:
        """Every x of a line, ascending."""
        apart = {
            len(one.y) if one.x is None else id(one.x): one for one in self.series
        }  # 100 clients share one x
        return np.unique(np.concatenate([np.empty(0), *(one.points()[0] for one in apart.values())]))

    def reading(self, one: Series) -> float:
        """The value of a line at the cursor, or its last visible one. Over rounds, that of `common_round`, if any.

        If x is a cost of the run, the value is that of the round nearest to the cursor, because sessions pay by the
        round. Otherwise, it is the last value until then.
        """
        if (common := self.common_round) is not None:
            return one.value_at(common)
        if self.cursor is None:
            return one.value_at(self.x_axis().high)
        return one.value_at(self.cursor, near=self.over not in (None, "rounds"))

    @property
    def common_round(self) -> float | None:
        """The last visible round for which all named lines have a value. Lines that begin later do not count.

        At the cursor, it is the last round until then, if that is the same one for all. None: there is none, or x is
        something else.
        """
        if self.over != "rounds":
            return None
        at = self.x_axis().high if self.cursor is None else self.cursor
        found = [
            x if self.cursor is None else x[-1:] for one in self._named() if (x := one.known_until(at)).size
        ]
        both = reduce(np.intersect1d, found) if found else np.empty(0)
        return float(both[-1]) if both.size else None

    def read_at(self, one: Series) -> float | None:
        """The x of a line's value in the legend, if that is not the x of all; None if it is."""
        if self.over is None or self.common_round is not None:
            return None
        at = self.x_axis().high if self.cursor is None else self.cursor
        if not (ends := one.known_until(at)).size:
            return None
        if self.over == "rounds":
            return float(ends[-1]) if ends[-1] < at else None
        step = ends[-1] - ends[-2] if ends.size > 1 else 0.0
        ended = not (one.points()[0] > at).any() and at - ends[-1] > step / 2
        return float(ends[-1]) if ended else None

    def _named(self) -> list[Series]:
        """The lines with a value in the legend."""
        crowded = self.crowded()
        return [one for one in self.series if one.pinned or not crowded]

    def all_bands(self) -> list[Band]:
        """The band and its possible replacements."""
        return [*self.bands, *([self.band] if self.band else [])]

    def x_axis(self) -> Axis:
        """The x range shown: the requested one, or the data's."""
        low, high = self.x_range or self.x_extent()
        return Axis(*apart(low, high))

    def y_axis(self) -> Axis:
        """The y range shown: the requested one, or one that shows all values within the x range."""
        if self.y_range is not None:
            low, high = self.y_range
            if high > low:
                return Axis(low, high)
        shown = self.x_axis()
        seen = [np.empty(0)]
        for one in [*self.series, *(edge for band in self.all_bands() for edge in band.edges())]:
            x, y = one.points()
            seen.append(y[(x >= shown.low) & (x <= shown.high)])
        return reach(np.concatenate(seen), ceiling=100.0 if self.unit == "%" else 1.0)

    def crowded(self) -> bool:
        """Whether there are too many plain series to tell them apart."""
        return sum(not one.pinned for one in self.series) > CROWD
