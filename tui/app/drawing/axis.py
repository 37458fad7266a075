"""Axes: which numbers to name, how to write them, and where a value lies between the ends."""

import math
from dataclasses import dataclass

import numpy as np

from tui.app.drawing.cells import Array
from tui.common.formatting import SUFFIXES


@dataclass(frozen=True)
class Axis:
    """The range low…high of an axis, low < high; `log` wants low > 0."""

    low: float
    high: float
    log: bool = False

    def fraction(self, value: float) -> float:
        """Where one value lies between the ends."""
        return float(self.fractions(np.asarray(value, float)))

    def fractions(self, values: Array) -> Array:
        """Where values lie between the ends: 0 at low, 1 at high. On a log axis, NaN for what has no logarithm."""
        if not self.log:
            return (values - self.low) / (self.high - self.low)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log10(np.where(values > 0, values, np.nan))
        return (logs - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))

    def ticks(self, most: int) -> list[float]:
        """At most `most` round numbers within the range, ascending; fewer where the range is short."""
        return log_ticks(self.low, self.high, most) if self.log else nice_ticks(self.low, self.high, most)


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within low…high: as many as `most` allows."""
    if most < 1 or not high > low:
        return []
    step = nice_step((high - low) / most)
    while True:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [place * step for place in range(first, last + 1)]
        step = nice_step(step * 1.01)


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten within low…high, thinned to at most `most`; round numbers where there are under two."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first + 1 < 2:
        return nice_ticks(low, high, most)
    stride = max(math.ceil((last - first + 1) / max(most, 1)), 1)
    return [10.0**power for power in range(first, last + 1, stride)]


def whole_ticks(low: float, high: float, most: int) -> list[float]:
    """`nice_ticks` at whole numbers only, for rounds."""
    return [tick for tick in nice_ticks(low, high, most) if abs(tick - round(tick)) < 1e-6]


def label(value: float, step: float = 0.0, largest: float = 0.0) -> str:
    """A number as an axis shows it: with the decimals that steps of `step` need (0: three significant digits).

    From 10,000 on it is written in k, M, G or T, and so are the smaller numbers of an axis that goes as far as that
    (`largest`).
    """
    if not math.isfinite(value):
        return str(value)
    size = max(abs(value), abs(largest))
    if value == 0 and (step >= 1 or not step):
        return "0"
    if size >= 10_000:
        unit, suffix = next(one for one in SUFFIXES if size >= one[0])
        return _decimals(value / unit, step / unit) + suffix
    if value and max(size, step) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return _decimals(value, step)


def labels(ticks: list[float]) -> list[str]:
    """Labels for ticks, with as many decimals as tell them apart."""
    if len(ticks) < 2:
        return [label(tick) for tick in ticks]
    evenly = math.isclose(ticks[-1] - ticks[-2], ticks[1] - ticks[0], rel_tol=1e-6)
    step, largest = (ticks[1] - ticks[0], max(map(abs, ticks))) if evenly else (0.0, 0.0)
    return [label(tick, step, largest) for tick in ticks]


def _decimals(value: float, step: float) -> str:
    """`value` with the decimals of `step`; without a step, three significant digits."""
    if step:
        places = max(0, -math.floor(math.log10(abs(step)) + 1e-9))
        return f"{value:.{places}f}" if value else f"{0:.{places}f}"
    places = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def apart(low: float, high: float) -> tuple[float, float]:
    """low and high, or a little below and above them where there is next to nothing between."""
    size = max(abs(low), abs(high))
    if high - low > size * 1e-9:
        return low, high
    room = max(size * 0.05, 0.05)
    return low - room, high + room


def reach(values: Array, log: bool = False, margin: float = 0.04) -> Axis:
    """The axis that shows all finite values with a little room at both ends; 0…1 where there are none.

    Values from 0 on get no room below 0, and values within 0…1 none above 1 either: there are no such accuracies.
    """
    values = np.asarray(values, float).ravel()
    values = values[np.isfinite(values) & ((values > 0) if log else True)]
    if not values.size:
        return Axis(0.1, 1.0, True) if log else Axis(0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if log:
        room = max((high / low) ** margin, 1.05)
        return Axis(low / room, high * room, True)
    at_least_0, at_most_1 = low >= 0, low >= 0 and high <= 1
    low, high = apart(low, high)
    room = (high - low) * margin
    return Axis(
        max(low - room, 0.0) if at_least_0 else low - room,
        min(high + room, 1.0) if at_most_1 else high + room,
    )


def reading(value: float) -> str:
    """A number as a legend gives it: three decimals below ten, as columns of figures have them; else as on an axis."""
    return f"{value:.3f}" if 1e-3 <= abs(value) < 10 or value == 0 else label(value)
