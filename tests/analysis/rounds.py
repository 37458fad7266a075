"""Rounds whose figures one can work out in one's head."""

from typing import Any

from simulator.results.analysis.ledger import Ledger
from tests import sessions


def ledger(
    *means: float | None, up: int = 100, down: int = 50, flops: float = 7, seconds: float = 2
) -> Ledger:
    """One client; every round costs the same."""
    return Ledger.of(
        [
            sessions.record(round, 1)
            | {
                "accuracy": _accuracy(round, mean),
                "bytes": {
                    "up": up,
                    "down": down,
                    "up_total": up * round,
                    "down_total": down * round,
                    "per_client_up": [up],
                    "per_client_down": [down],
                    "by_tensor": {},
                },
                "flops": {"clients": flops, "server": 0, "total": flops},
                "timing": {"seconds": seconds, "train": 1, "evaluate": 1, "checkpoint": 0},
            }
            for round, mean in enumerate(means, 1)
        ]
    )


def _accuracy(round: int, mean: float | None) -> dict[str, Any]:
    means = dict.fromkeys(("mean", "weighted", "best_mean"), mean)
    return sessions.record(round, 1)["accuracy"] | means | {"per_client": [mean]}
