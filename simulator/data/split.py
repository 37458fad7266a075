"""A client's images divided into train, eval and test parts, stratified by class."""

from collections.abc import Sequence

import numpy as np

from simulator.data.images import Indices, Labels
from simulator.data.shares import apportion
from simulator.errors import DataError


def stratified(
    indices: Indices, labels: Labels, shares: Sequence[float], client: int, stream: np.random.Generator
) -> tuple[Indices, ...]:
    """Divide one client's image indices [n] with their labels [n] into parts (train first) by `shares`.

    Parts have their shares of n to within one, and of each class to within two. No part is empty, and the
    train part has every class; where that takes more than its share, the others give way. Raises DataError
    when the client has too few samples for that.
    """
    held = np.unique(labels)
    minimum = [max(len(held), 1)] + [1] * (len(shares) - 1)
    if len(indices) < sum(minimum):
        raise DataError(
            f"client {client} holds {len(indices)} samples of {len(held)} classes, too few for "
            f"{len(shares)} parts with every class in training; use fewer clients, or raise data.limit "
            f"or data.min_samples."
        )
    totals = apportion(len(indices), shares, minimum)
    by_class = _shuffled_by_class(labels, stream)
    firsts = np.ones(len(indices), dtype=bool)
    firsts[1:] = labels[by_class[1:]] != labels[by_class[:-1]]
    part = np.zeros(len(indices), dtype=np.int64)
    part[by_class[~firsts]] = _interleaved([int(totals[0]) - len(held), *totals[1:].tolist()])
    return tuple(indices[part == number] for number in range(len(shares)))


def _shuffled_by_class(labels: Labels, stream: np.random.Generator) -> Indices:
    """Positions with the classes one after another, the classes and the images of each in random order."""
    held, rank = np.unique(labels, return_inverse=True)
    return np.lexsort((stream.random(len(labels)), stream.permutation(len(held))[rank]))


def _interleaved(totals: list[int]) -> Indices:
    """Part numbers, each as often as `totals` says and evenly spread, so any stretch is a fair sample."""
    places = np.concatenate([(np.arange(total) + 0.5) / max(total, 1) for total in totals])
    return np.repeat(np.arange(len(totals)), totals)[np.argsort(places, kind="stable")]
