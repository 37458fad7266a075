"""Axes: the numbers to label, their format, and the position of a value between the ends."""

import math
from dataclasses import dataclass

import numpy as np

from simulator.base.units import SUFFIXES
from tui.app.charts.canvas import Array


@dataclass(frozen=True)
class Axis:
    """The range low…high of an axis, low < high."""

    low: float
    high: float

    def fraction(self, value: float) -> float:
        """The position of one value between the ends."""
        return float(self.fractions(np.asarray(value, float)))

    def fractions(self, values: Array) -> Array:
        """The positions of values between the ends: 0 at low, 1 at high."""
        return (values - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[float]:
        """At most `most` round numbers within the range, ascending. Fewer if the range is short."""
        return nice_ticks(self.low, self.high, most)


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
    """The smallest of 1, 2, 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def whole_ticks(low: float, high: float, most: int) -> list[float]:
    """`nice_ticks` at whole numbers only, for rounds."""
    return [tick for tick in nice_ticks(low, high, most) if abs(tick - round(tick)) < 1e-6]


def label(value: float, step: float = 0.0, largest: float = 0.0) -> str:
    """A number in an axis's format, with the decimals that steps of `step` need (0: three significant digits).

    From 10,000 on, it has a suffix k, M, G, or T. Smaller numbers have it too if the axis reaches that far (`largest`).
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
        return with_minus(f"{value:.0e}".replace("e-0", "e-"))
    return _decimals(value, step)


def labels(ticks: list[float]) -> list[str]:
    """Labels for ticks, with enough decimals to tell them apart."""
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


def apart(low: float, high: float) -> tuple[float, float]:
    """low and high, or values a little below and above them if they are almost equal."""
    size = max(abs(low), abs(high))
    if high - low > size * 1e-9:
        return low, high
    room = max(size * 0.05, 0.05)
    return low - room, high + room


def reach(values: Array, ceiling: float = 1.0, margin: float = 0.04) -> Axis:
    """The axis that shows all finite values with a margin at both ends; 0…1 if there are none.

    There is no margin below 0 if all values are at least 0, and none above the ceiling if all are below it. For
    example, an accuracy is at most 1, or 100 %.
    """
    values = np.asarray(values, float).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return Axis(0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    at_least_0, under_ceiling = low >= 0, low >= 0 and high <= ceiling
    low, high = apart(low, high)
    room = (high - low) * margin
    return Axis(
        max(low - room, 0.0) if at_least_0 else low - room,
        min(high + room, ceiling) if under_ceiling else high + room,
    )


def reading(value: float, unit: str = "") -> str:
    """A number in a legend's format: with a unit such as "%" or "MiB", one decimal, as everywhere.

    Without a unit, three decimals below ten, as in columns of numbers; otherwise, as on an axis.
    """
    if unit:
        return with_minus(f"{value:.1f} {unit}")
    return with_minus(f"{value:.3f}") if 1e-3 <= abs(value) < 10 or value == 0 else label(value)
