"""Sessions with made-up ledgers, of one client unless told, whose figures one can work out in one's head."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions

UP, DOWN, FLOPS, SECONDS = 100, 50, 7, 2


def record(
    round: int,
    mean: float | None,
    on_eval: float | None = None,
    clients: Sequence[float | None] | None = None,
    weighted: float | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A round of 150 bytes, 7 operations and 2 seconds; without `on_eval` no evaluation of parts."""
    each = [mean] if clients is None else list(clients)
    made = sessions.record(round, len(each))
    known = [value for value in each if value is not None]
    made["accuracy"] |= {
        "mean": mean,
        "weighted": mean if weighted is None else weighted,
        "best_mean": mean,
        "min": min(known, default=None),
        "max": max(known, default=None),
        "per_client": each,
    }
    made["bytes"] |= {"up": UP, "down": DOWN, "up_total": UP * round, "down_total": DOWN * round}
    made["flops"] = {"clients": FLOPS, "server": 0, "total": FLOPS}
    made["timing"] = {"seconds": SECONDS, "train": 1, "evaluate": 1, "checkpoint": 0, "at": ""}
    if on_eval is not None:
        parts = {
            "accuracy": {"mean": on_eval, "weighted": on_eval, "per_client": [on_eval]},
            "f1": {"mean": 0.1, "weighted": 0.1, "per_client": [0.1]},
        }
        made["evaluation"] = {"test": parts, "eval": parts}
    return made | changes


def run(
    name: str,
    means: Sequence[float | None],
    seed: int = 0,
    method: str | dict[str, Any] = "fedlora",
    **settings: Any,
) -> SessionData:
    """A session with one mean accuracy a round. `settings` are sections of the configuration."""
    return of(name, [record(round, mean) for round, mean in enumerate(means, 1)], seed, method, **settings)


def chosen(name: str, rounds: Sequence[tuple[float, float]], seed: int = 0, **settings: Any) -> SessionData:
    """A session whose rounds have an accuracy on test and one on eval."""
    records = [record(round, test, on_eval) for round, (test, on_eval) in enumerate(rounds, 1)]
    return of(name, records, seed, **settings)


def of(
    name: str,
    records: Sequence[dict[str, Any]],
    seed: int = 0,
    method: str | dict[str, Any] = "fedlora",
    **settings: Any,
) -> SessionData:
    """A session with these records."""
    own = ({"name": method} if isinstance(method, str) else method) | settings.pop("method_settings", {})
    config = {
        "seed": seed,
        "rounds": len(records),
        "method": own,
        "data": {"dataset": "digits"},
        "federation": {
            "group": "htm5",
            "clients": len(records[0]["accuracy"]["per_client"]) if records else 1,
        },
    }
    document = {"data_fingerprint": f"{seed}"}
    return SessionData(
        Path(name),
        document=document,
        config=config | settings,
        ledger=Ledger.of(list(records)),
        state="finished",
    )
