"""A series as one row of text."""

import math
from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"


def sparkline(
    values: Sequence[float | None],
    width: int,
    bars: str = BARS,
    limits: tuple[float, float] | None = None,
) -> str:
    """`width` characters for values from low to high of `limits`, the newest last. A space is a missing value.

    Without limits, the range is that of the values. A constant series is a line at half height. If there are more
    values than characters, neighbors are averaged.
    """
    series = [math.nan if value is None else float(value) for value in values]
    if len(series) > width:
        ends = [len(series) * place // width for place in range(width + 1)] if width else [0]
        series = [_mean(series[start:end]) for start, end in pairwise(ends)]
    known = [value for value in series if math.isfinite(value)]
    low, high = limits or (min(known, default=0.0), max(known, default=0.0))
    characters = []
    for value in series:
        share = (value - low) / (high - low) if high > low else 0.5
        level = min(max(int(share * len(bars)), 0), len(bars) - 1) if math.isfinite(value) else -1
        characters.append(bars[level] if level >= 0 else " ")
    return "".join(characters).rjust(width)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan
