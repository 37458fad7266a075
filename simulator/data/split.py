"""Divide a client's samples into train, eval, and test parts, stratified by class."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from simulator.base.errors import DataError
from simulator.data.samples import Indices, Labels
from simulator.data.shares import apportion


class TooFew(DataError):
    """A client has too few samples for all parts."""


def stratified(
    indices: Indices, labels: Labels, shares: Sequence[float], client: int, stream: np.random.Generator
) -> tuple[Indices, ...]:
    """Divide one client's sample indices [n] with their labels [n] into parts (train first) by `shares`.

    Parts have their shares of n to within one. No part is empty, and the train part has every class; where that takes
    more than its share, the others give way. Raises TooFew when the client has too few samples for that.

    Each class comes close to its shares, but not to within a fixed number. The first sample of each of the K
    classes is trained on, and large classes compensate for it. With P parts, a class of c samples, and r = (c - 1)
    / (n - K), a part of share s has s c of it to within 1 + (P - 2) t + r + |r K - 1| max(s, 1 - s). t is the
    part's share of the n - K samples that are not a first one: `_interleaved` gives a part of any stretch its share
    to within 1 + (P - 2) t.
    """
    held, rank = np.unique(labels, return_inverse=True)
    if len(indices) < max(len(held), 1) + len(shares) - 1:
        raise TooFew(
            f"client {client} holds {len(indices)} samples of {len(held)} classes, too few for "
            f"{len(shares)} parts with every class in training."
        )
    by_class = _shuffled_by_class(rank, len(held), stream)
    firsts = np.ones(len(indices), dtype=bool)
    firsts[1:] = labels[by_class[1:]] != labels[by_class[:-1]]
    part = np.zeros(len(indices), dtype=np.int64)
    part[by_class[~firsts]] = _others(len(indices), len(held), tuple(shares))
    return tuple(indices[part == number] for number in range(len(shares)))


def _shuffled_by_class(rank: Indices, classes: int, stream: np.random.Generator) -> Indices:
    """Positions with the classes in sequence. The classes and the samples of each are in random order.

    `rank` [n] is the position of each sample's class among the client's.
    """
    return np.lexsort((stream.random(len(rank)), stream.permutation(classes)[rank]))


@cache  # only a few are distinct, even for many clients
def _others(samples: int, classes: int, shares: tuple[float, ...]) -> Indices:
    """Part numbers of a client's samples by class, without the first of each class, which is for training."""
    minimum = [max(classes, 1)] + [1] * (len(shares) - 1)
    train, *rest = apportion(samples, shares, minimum).tolist()
    return _interleaved([train - classes, *rest])


def _interleaved(totals: list[int]) -> Indices:
    """Part numbers, each as often as in `totals` and evenly spread, so that any stretch is a fair sample."""
    places = np.concatenate([(np.arange(total) + 0.5) / max(total, 1) for total in totals])
    return np.repeat(np.arange(len(totals)), totals)[np.argsort(places, kind="stable")]
