"""Whole numbers in proportion to weights."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def apportion(total: int, weights: ArrayLike, minimum: ArrayLike = 0) -> NDArray[np.int64]:
    """Divide `total` into whole counts in proportion to `weights`, each at least its `minimum`.

    The largest remainders are rounded up, the earlier entry on a tie. So every count is within one of its exact share,
    unless a minimum raises it. Samples for a minimum come from the entries that are furthest above theirs. Raises
    ValueError if the minima exceed the total.
    """
    weight = np.asarray(weights, dtype=np.float64)
    least = np.broadcast_to(np.asarray(minimum, dtype=np.int64), weight.shape)
    if least.sum() > total:
        raise ValueError(f"{total} cannot give each its minimum, {least.sum()} in all")
    exact = total * (weight / weight.sum())
    counts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    left_over = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left_over]] += 1
    while (short := np.flatnonzero(counts < least)).size:
        counts[(counts - least).argmax()] -= 1
        counts[short[0]] += 1
    return counts
