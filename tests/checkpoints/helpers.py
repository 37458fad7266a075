"""A small federation's worth of states: the server's and two clients', told apart by one number each."""

from pathlib import Path
from typing import Any

import torch

from checkpoints import ObjectRef, Retention, Store, verify

KEEP_ALL = Retention(last=1_000_000)


def weights(value: float, size: int = 3) -> dict[str, torch.Tensor]:
    return {"fc.weight": torch.full((size, 2), float(value)), "fc.steps": torch.tensor([int(value)])}


def record(round: int, score: float | None = 0.5) -> dict[str, Any]:
    return {"round": round, "accuracy": {"mean": score}, "timing": {"seconds": 0.25}}


def commit(store: Store, round: int, server: float | None = None, score: float | None = 0.5) -> None:
    """Commit a round whose server state holds `server` (the round by default); client/1 never changes."""
    states = {
        "server": store.put(weights(round if server is None else server)),
        "client/0": store.put(weights(1000 + round)),
        "client/1": store.put(weights(-1)),
    }
    history = [{"round": 1, "method": "fedlora"}]
    store.commit(round, states, record(round, score) if round else None, history, applied=[])


def save_unfinished_round(store: Store, round: int, clients: int = 1) -> dict[str, ObjectRef]:
    """Save what the first clients of an unfinished round made: client k's state holds 100·round + k."""
    states: dict[str, ObjectRef] = {}
    for client in range(clients):
        states[f"client/{client}/state"] = store.put(weights(100 * round + client))
        states[f"client/{client}/uplink"] = store.put(weights(-100 * round - client))
    store.save_unfinished_round(round, {"clients": clients}, states)
    return states


def make(folder: Path, rounds: int = 3, retention: Retention = KEEP_ALL) -> Path:
    """A closed session of `rounds` checkpoints, with an event."""
    with Store.create(folder, {"config": {"seed": 7}}, retention) as store:
        store.event("started", pid=1)
        for round in range(1, rounds + 1):
            commit(store, round)
    return folder


def damaged(folder: Path) -> set[str]:
    """The paths of what `verify` finds damaged."""
    return {finding.path for finding in verify(folder) if finding.severity == "damage"}


def warnings(store: Store) -> list[str]:
    return [event["message"] for event in store.session.events() if event["event"] == "warning"]


def server_value(tensors: dict[str, torch.Tensor]) -> float:
    return float(tensors["fc.weight"][0, 0])
