"""An order of rows that puts like beside like."""

import numpy as np

from tui.app.charts.canvas import Array


def cluster_order(similarity: Array) -> Array:
    """The leaves, left to right, of the average-linkage tree on 1 − similarity [n, n], with its branches turned so
    that neighbours are most alike (Bar-Joseph et al. 2001).

    An asymmetric matrix counts by its mean with its transpose. Pairs without a value count as least alike.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage  # half a second to import, for one key
    from scipy.spatial.distance import squareform

    size = len(similarity)
    if size < 3:
        return np.arange(size)
    distance = 1 - (similarity + similarity.T) / 2
    finite = distance[np.isfinite(distance)]
    distance = np.where(np.isfinite(distance), distance, max(1.0, finite.max(initial=0.0)))
    np.fill_diagonal(distance, 0.0)
    pairs = squareform(np.maximum(distance, 0.0), checks=False)
    return np.asarray(leaves_list(linkage(pairs, "average", optimal_ordering=True)), int)
