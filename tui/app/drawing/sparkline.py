"""A series as one row of text."""

from collections.abc import Sequence

import numpy as np

from tui.app.drawing.cells import Array
from tui.app.drawing.glyphs import GlyphSet


def sparkline(
    values: Sequence[float] | Array,
    width: int,
    glyphs: GlyphSet,
    low: float | None = None,
    high: float | None = None,
) -> str:
    """`width` characters, the newest value last; NaN is a space, as is what is missing at the start.

    low and high are the values of the lowest and the highest character; without them, the values' own extremes. More
    values than characters: neighbours are averaged. A series that never changes is a line half-way up.
    """
    series = np.asarray(values, float).ravel()
    if width <= 0:
        return ""
    if len(series) > width:
        starts = np.arange(width) * len(series) // width
        there = np.isfinite(series)
        totals = np.add.reduceat(np.where(there, series, 0.0), starts)
        counts = np.add.reduceat(there.astype(float), starts)
        series = np.divide(totals, counts, out=np.full(width, np.nan), where=counts > 0)
    finite = series[np.isfinite(series)]
    if not finite.size:
        return " " * width
    bottom = float(finite.min()) if low is None else low
    top = float(finite.max()) if high is None else high
    shares = (series - bottom) / (top - bottom) if top > bottom else series * 0 + 0.5
    steps = len(glyphs.bars)
    levels = np.clip(np.nan_to_num(shares) * steps, 0, steps - 1).astype(int)
    text = "".join(
        glyphs.bars[level] if there else " " for level, there in zip(levels, np.isfinite(series), strict=True)
    )
    return text.rjust(width)
