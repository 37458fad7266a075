"""The ledger's accuracy of a round from the clients' correct answers."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from simulator.base.record import Accuracy
from simulator.metrics import by_client

Counts = tuple[int, int]
"""Correct answers, test samples."""


def accuracy(
    counts: Mapping[int, Counts],
    test_sizes: Sequence[int],
    before: Mapping[str, Any] | None,
    news: bool = False,
    absent: Collection[int] = (),
) -> Accuracy:
    """Accuracy of every client, those not evaluated this round as they last were, and its summary.

    `before` is that of the round before, with the accuracies of all who were evaluated so far. With `news`,
    `per_client` names those alone who were evaluated now; the summary is of all the same.

    `mean` and `std` (population) weigh clients alike; `weighted` weighs them by test samples; `per_client` has null
    for a client never evaluated, or absent now; `best_mean` and `best_weighted` are the highest so far.
    """
    now = {client: correct / samples for client, (correct, samples) in counts.items()}
    every = by_client.known(before, now, absent)
    best = before or {}
    per_client = (
        by_client.written(by_client.new(before, now, absent), None)
        if news
        else by_client.written(every, len(test_sizes))
    )
    if not every:  # all that were ever evaluated are absent
        return {
            "mean": None,
            "std": None,
            "weighted": None,
            "min": None,
            "max": None,
            "best_mean": best.get("best_mean"),
            "best_weighted": best.get("best_weighted"),
            "per_client": per_client,
        }
    values = list(every.values())
    mean = statistics.fmean(values)
    weighted = statistics.fmean(values, [test_sizes[client] for client in every])
    return {
        "mean": mean,
        "std": statistics.pstdev(values),
        "weighted": weighted,
        "min": min(values),
        "max": max(values),
        "best_mean": _best(mean, best.get("best_mean")),
        "best_weighted": _best(weighted, best.get("best_weighted", best.get("weighted"))),
        "per_client": per_client,
    }


def _best(now: float, before: float | None) -> float:
    return now if before is None else max(now, before)
