"""How a value is spread over the clients."""

import numpy as np

from simulator.results.analysis.client_values import Array


def quantiles(values: Array, shares: tuple[float, ...]) -> list[Array]:
    """For each share its quantile over the columns of `values` [n, m], NaN left out: [n], NaN where all are.

    Linear between order statistics, as numpy's default.
    """
    if not values.size:
        return [np.full(len(values), np.nan) for _ in shares]
    ordered = np.sort(values, axis=1)  # NaN last
    counts = np.isfinite(ordered).sum(axis=1)
    rows = np.arange(len(values))
    found = []
    for share in shares:
        place = np.maximum(counts - 1, 0) * share
        below = place.astype(int)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        low, high = ordered[rows, below], ordered[rows, above]
        found.append(low + (high - low) * (place - below))
    return found
