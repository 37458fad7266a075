"""A series as one row of text."""

import math
from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int, bars: str = BARS) -> str:
    """`width` characters, from the lowest value's to the highest's, the newest last; a space where there is none.

    More values than characters: neighbours are averaged. A series that never changes is a line half-way up.
    """
    series = [math.nan if value is None else float(value) for value in values]
    if len(series) > width:
        ends = [len(series) * place // width for place in range(width + 1)] if width else [0]
        series = [_mean(series[start:end]) for start, end in pairwise(ends)]
    known = [value for value in series if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    characters = []
    for value in series:
        share = (value - low) / (high - low) if high > low else 0.5
        level = min(int(share * len(bars)), len(bars) - 1) if math.isfinite(value) else -1
        characters.append(bars[level] if level >= 0 else " ")
    return "".join(characters).rjust(width)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan
