"""The ledger's accuracy of a round from the clients' correct answers."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Counts = tuple[int, int]
"""Correct answers, test samples."""


def accuracy(
    counts: Mapping[int, Counts], test_sizes: Sequence[int], before: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Accuracy of every client, those not evaluated this round as they last were, and its summary.

    `mean` and `std` (population) weigh clients alike; `weighted` weighs them by test samples; `per_client` has null
    for a client never evaluated; `best_mean` and `best_weighted` are the highest so far.
    """
    per_client: list[float | None] = list(before["per_client"]) if before else [None] * len(test_sizes)
    for client, (correct, samples) in counts.items():
        per_client[client] = correct / samples
    known = [(value, test_sizes[client]) for client, value in enumerate(per_client) if value is not None]
    values = [value for value, _ in known]
    mean = statistics.fmean(values)
    weighted = statistics.fmean(values, [samples for _, samples in known])
    best = before or {}
    return {
        "mean": mean,
        "std": statistics.pstdev(values),
        "weighted": weighted,
        "min": min(values),
        "max": max(values),
        "best_mean": max(mean, best.get("best_mean", mean)),
        "best_weighted": max(weighted, best.get("best_weighted", best.get("weighted", weighted))),
        "per_client": per_client,
    }
