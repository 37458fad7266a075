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
    """`width` characters, from that of `limits`' low to its high, the newest last; a space where there is none.

    Without limits, from the lowest value to the highest; a series that never changes is then a line half-way up. More
    values than characters: neighbours are averaged.
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
