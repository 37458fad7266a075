"""Sessions with made-up ledgers, of one client unless told, whose figures one can work out in one's head."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
        "mean": mean, "weighted": mean if weighted is None else weighted, "best_mean": mean,
        "min": min(known, default=None), "max": max(known, default=None),
        "std": float(np.std(known)) if known else None, "per_client": each,
    }  # fmt: skip
    made["bytes"] |= {"up": UP, "down": DOWN, "up_total": UP * round, "down_total": DOWN * round}
    made["flops"] = {"clients": FLOPS, "server": 0, "total": FLOPS}
    made["timing"] = {"seconds": SECONDS, "train": 1, "evaluate": 1, "checkpoint": 0, "at": ""}
    if on_eval is not None:
        figures = {"accuracy": on_eval, "f1": 0.1}
        parts = {
            name: {"mean": mean, "weighted": mean, "per_client": [mean]} for name, mean in figures.items()
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


def ledger(*means: float | None) -> Ledger:
    """The rounds of such a session."""
    return run("s", means).ledger  # type: ignore[return-value]


def time(begins: float, ends: float, joules: float = 3, **changes: Any) -> dict[str, Any]:
    """A round on the clock: one dispatch of client 0, which takes all of it and these joules in three equal parts."""
    flight = {
        "client": 0, "dispatch": 1, "begins": begins, "latency": 0.0, "down": 0.0, "compute": ends - begins,
        "up": 0.0, "arrives": ends, "fate": "used", "flops": FLOPS, "bytes": UP + DOWN, "wait": 0.0,
    }  # fmt: skip
    made = {
        "begins": begins, "aggregates": ends, "ends": ends, "sent": [0], "flights": [flight], "in_flight": 0,
        "staleness": {"0": 1}, "joules": dict.fromkeys(("compute", "radio", "idle"), joules / 3),
    }  # fmt: skip
    return made | changes


def clocked(
    name: str, rounds: Sequence[tuple[float, float | None]], seed: int = 0, method: str = "fedlora"
) -> SessionData:
    """A session on the clock: the simulated end of each round, and its mean accuracy. A round takes 3 joules."""
    begins = [0.0, *(end for end, _ in rounds)]
    records = [
        record(number, mean) | {"time": time(begins[number - 1], end)}
        for number, (end, mean) in enumerate(rounds, 1)
    ]
    return of(name, records, seed, method)


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
    clients = len(records[0]["accuracy"]["per_client"]) if records else 1
    config = {
        "seed": seed, "rounds": len(records), "method": own, "data": {"dataset": "digits"},
        "federation": {"group": "htm5", "clients": clients},
    }  # fmt: skip
    document, ledger = {"data_fingerprint": f"{seed}"}, Ledger.of(list(records))
    return SessionData(
        Path(name), document=document, config=config | settings, ledger=ledger, state="finished"
    )
