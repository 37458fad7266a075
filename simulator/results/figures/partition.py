"""Who holds which classes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from simulator.base.errors import ConfigError
from simulator.results.figures import style
from simulator.results.figures.style import Width


def partition(held: ArrayLike, classes: Sequence[str], *, width: Width = "column") -> Figure:
    """A bubble for every client and class, its area the training samples [clients, classes]; none where it has none."""
    counts = np.asarray(held, np.int64)
    clients, known = counts.shape
    if known != len(classes) or not counts.any():
        raise ConfigError("the partition has no samples to show.")
    most = int(counts.max())
    inches = style.WIDTHS[width]
    figure, axes = style.blank(width, min(1.4, 0.32 + 0.52 * known / max(clients, known)))
    with style.styled():
        plot = axes[0, 0]
        client, label = np.nonzero(counts)
        largest = (0.72 * 72 * (inches - 1.1) / max(clients, known)) ** 2
        plot.scatter(
            client, label, s=np.maximum(largest * counts[client, label] / most, 1.0),
            color=style.colour(4), alpha=0.75, linewidths=0,
        )  # fmt: skip
        every = max(1, clients // 20)
        names = list(map(style.label, classes)) if known <= 30 else [str(number) for number in range(known)]
        plot.set_xticks(range(0, clients, every))
        plot.set_yticks(range(0, known, max(1, known // 30)), names[:: max(1, known // 30)])
        plot.set(xlabel="client", ylabel="class", title=f"largest bubble: {most:,} training samples")
        plot.set(xlim=(-0.7, clients - 0.3), ylim=(-0.7, known - 0.3))
        plot.grid(True)
    return figure
