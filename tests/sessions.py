"""Sessions to look at, made through the store in no time: their numbers follow a formula, their times a fixed clock."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from checkpoints import Retention, Store
from checkpoints.schema import canonical
from simulator.config import Config
from simulator.results.analysis.ledger import NUMBERS, Totals
from simulator.results.inspection.client_samples import Embedding

BEGAN = datetime(2026, 1, 2, 10, 15, tzinfo=UTC)
LAYERS = ("conv1", "conv2", "fc1", "fc2")
ADAPTER = 122_680  # bytes of FedLoRA's adapter for HtM5 on digits
MODELS = ("cnn1", "cnn2", "cnn3", "cnn4", "cnn5")


@contextmanager
def fixed_clock(seconds: float = 0.5) -> Iterator[None]:
    """Within it the store writes BEGAN, and at every later look `seconds` more."""
    ticks = iter(range(1_000_000))

    def now() -> str:
        at = BEGAN + timedelta(seconds=next(ticks) * seconds)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    with patch("checkpoints.lock.now", now):
        yield


@contextmanager
def unsynced() -> Iterator[None]:
    """Within it nothing waits for the disk, which takes ten times as long as making a session to look at."""
    with patch("os.fsync", lambda descriptor: None):
        yield


def accuracy(client: int, round: int, ceiling: float = 0.95) -> float:
    """Rises from near 0.1; every client has a speed and a ceiling of its own."""
    pace, top = 4 + client % 5, ceiling - 0.04 * (client % 7)
    ripple = 0.01 * math.sin(1.7 * round + client)
    return round_to(top - (top - 0.1) * math.exp(-round / pace) + ripple)


@cache
def _mean(clients: int, round: int, ceiling: float) -> float:
    return sum(accuracy(client, round, ceiling) for client in range(clients)) / clients


def round_to(value: float) -> float:
    return float(f"{value:.6f}")


def config(clients: int, rounds: int, method: str = "fedlora", **changes: Any) -> dict[str, Any]:
    """The settings of a session, with those sections that the app reads."""
    return {
        "preset": "quickstart",
        "seed": 0,
        "rounds": rounds,
        "method": {"name": method, "mu": 0.9},
        "data": {"dataset": "digits", "classes_per_client": 2},
        "federation": {"clients": clients, "group": "htm5", "participation": 1.0},
        "training": {"lr": 0.01, "epochs": 5},
        "evaluation": {"clients": "all"},
        "wire": {"drop": 0.0, "noise": 0.0},
        "cka": {"every": 0},
        "checkpoint": {"every": 1, "keep_last": 3},
        **changes,
    }


def whole(clients: int = 10, rounds: int = 20, **changes: Any) -> dict[str, Any]:
    """The same with every setting there is, as a session that was run has them."""
    settings = config(clients, rounds) | {"method": {"name": "fedlora"}, "cka": {}} | changes
    return Config.read(settings).to_json()


def samples(clients: int, classes: int = 10) -> dict[str, Any]:
    """Of a client's classes every third is empty; the first four clients have fewer than 20 test images."""
    train = [
        [0 if (client + label) % 3 == 0 else 4 + (7 * client + 3 * label) % 41 for label in range(classes)]
        for client in range(clients)
    ]
    test = [12 + 2 * client for client in range(clients)]
    return {"classes": [str(label) for label in range(classes)], "train": train, "test": test}


def embedding(clients: int, round: int, classes: int = 10, images: int = 12) -> Embedding:
    """Every class around a place of its own on a ring, its prototype in the middle; the rounds draw them together."""
    number = np.arange(clients * images)
    client, label = number // images, (number // images + number) % classes
    angle, turn = 2 * np.pi * np.arange(classes) / classes, 2.4 * number
    centres = 30 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    away = (2 + 40 / round) * np.sqrt((number % 7 + 1) / 8)
    around = away[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    names = tuple(str(each) for each in range(classes))
    kind, labels = "prototype", np.arange(classes)
    return Embedding(round, centres[label] + around, label, client, names, centres, labels, kind)


def cka(clients: int, round: int, layers: Sequence[str] = LAYERS) -> dict[str, Any]:
    """Deeper layers are less alike, clients far apart in number are less alike, and with the rounds it shows more."""
    matrices = {
        layer: [
            [
                round_to(math.exp(-depth * abs(one - other) * (0.5 + round / 20) / (2 * clients)))
                for other in range(clients)
            ]
            for one in range(clients)
        ]
        for depth, layer in enumerate(layers)
    }
    pairs = clients * (clients - 1) / 2
    means = {
        layer: round_to(sum(matrix[i][j] for i in range(clients) for j in range(i + 1, clients)) / pairs)
        for layer, matrix in matrices.items()
    }
    return {"order": list(layers), "layers": means, "matrix": matrices}


def record(
    round: int,
    clients: int,
    method: str = "fedlora",
    cka_every: int = 0,
    ceiling: float = 0.95,
    **changes: Any,
) -> dict[str, Any]:
    """A round's ledger record; client 3 takes no part in every fourth round, client 4 diverges in round 5."""
    per_client = [accuracy(client, round, ceiling) for client in range(clients)]
    best = max(_mean(clients, each, ceiling) for each in range(1, round + 1))
    taking_part = [client for client in range(clients) if not (client == 3 and round % 4 == 0)]
    traffic = [ADAPTER if client in taking_part else 0 for client in range(clients)]
    up = down = sum(traffic)
    before = sum(ADAPTER * (clients - (clients > 3 and r % 4 == 0)) for r in range(1, round))
    losses = [
        round_to(2.3 * math.exp(-round / (5 + client % 5))) if client in taking_part else None
        for client in range(clients)
    ]
    diverged = [4] if round == 5 and clients > 4 else []
    if diverged:
        losses[4] = None
    known = [loss for loss in losses if loss is not None]
    mean = sum(per_client) / clients
    return {
        "round": round,
        "method": method,
        "participants": taking_part,
        "diverged": diverged,
        "dropped": [],
        "accuracy": {
            "mean": mean,
            "std": math.sqrt(sum((one - mean) ** 2 for one in per_client) / clients),
            "weighted": mean,
            "min": min(per_client),
            "max": max(per_client),
            "best_mean": best,
            "per_client": per_client,
        },
        "loss": {"mean": sum(known) / len(known), "per_client": losses},
        "bytes": {
            "up": up,
            "down": down,
            "up_total": before + up,
            "down_total": before + down,
            "per_client_up": traffic,
            "per_client_down": traffic,
            "by_tensor": {"down/adapter": down, "up/adapter": up},
        },
        "params": {"up": up // 4, "down": down // 4},
        "flops": {"clients": 50_000_000_000, "server": 1_000_000, "total": 50_001_000_000},
        "cka": cka(clients, round) if cka_every and round % cka_every == 0 else None,
        "method_metrics": {},
        "timing": {
            "seconds": 2.5,
            "train": 2.0,
            "evaluate": 0.4,
            "checkpoint": 0.1,
            "server": 0.2,
            "waited": 0.0,
            "per_client": [
                0.1 + 0.1 * (client % 5) if client in taking_part else None for client in range(clients)
            ],
            "workers": 2,
            "cpu": 4.5,
            "memory": (700 + round) << 20,
            "at": "2026-01-02T10:20:00Z",
        },
        **changes,
    }


def make(
    folder: Path,
    *,
    clients: int = 10,
    rounds: int = 20,
    of: int | None = None,
    method: str = "fedlora",
    switch: tuple[int, str] | None = None,
    parent: tuple[Path, str, int] | None = None,
    cka_every: int = 5,
    ceiling: float = 0.95,
    warning: str | None = None,
    checkpoint_every: int = 5,
    state: str = "finished",
    document: dict[str, Any] | None = None,
    samples: dict[str, Any] | None = None,
) -> Path:
    """A session of so many rounds of `of`, each with its checkpoint or line; returns its folder.

    `switch`: (the round after which, the method). `parent`: folder, id and round of the session it is forked from.
    """
    settings = document or config(clients, of or rounds, method)
    about = {"name": parent[0].name, "id": parent[1], "round": parent[2]} if parent else None
    with fixed_clock(), unsynced():
        store = Store.create(
            folder,
            {
                "config": settings,
                "environment": {"device": "cpu"},
                "data_fingerprint": "f" * 64,
                "parent": about,
                "plugin": None,
                **({"samples": samples} if samples else {}),
            },
            Retention(last=3, every=10),
        )
        if about:
            store.event("forked", method=method, **about, changes=[], adopted=None)
        else:
            store.event("started", method=method, round=0)
        history = [_entry(settings, 1)]
        state_of = {"server": store.put({"w": torch.zeros(1)})}
        store.heartbeat("running", round=0, rounds=of or rounds, phase="train", done=0, clients=clients)
        for round in range(1, rounds + 1):
            line = record(round, clients, history[-1]["method"]["name"], cka_every, ceiling)
            if round % checkpoint_every == 0 or round == rounds:
                store.commit(round, state_of, line, history, [])
                store.event("checkpoint", round=round)
            else:
                store.append(line)
            if 4 in line["diverged"]:
                store.event("warning", round=round, client=4, message="loss of phase 'local' is not finite")
            if warning and round == rounds:
                store.event("warning", round=round, message=warning)
            if switch and round == switch[0]:
                new = settings | {"method": {"name": switch[1]}}
                store.event(
                    "switched",
                    round=round,
                    method=switch[1],
                    before=method,
                    changes=[f"method {method} → {switch[1]}"],
                    adopted="the server's adapter",
                )
                history = [*history, _entry(new, round + 1)]
        store.heartbeat(
            state, round=rounds, rounds=of or rounds, phase="evaluate", done=clients, clients=clients
        )
        if state in ("finished", "stopped"):
            store.event("stopped", round=rounds, reason=state)
        store.close(state)
    return folder


def _entry(settings: dict[str, Any], from_round: int) -> dict[str, Any]:
    kept = ("rounds", "training", "evaluation", "wire", "cka", "checkpoint")
    return {
        "from_round": from_round,
        "method": settings["method"],
        "settings": {key: settings[key] for key in kept},
    }


def line(round: int, clients: int) -> str:
    """A round's line of the ledger."""
    return canonical(record(round, clients)).decode() + "\n"


def changes_record(
    round: int, clients: int, participants: int, before: dict[str, Any] | None
) -> dict[str, Any]:
    """A record of a large federation: it names the clients that changed. `before`: the record of the round before."""
    draw = np.random.default_rng(round)
    taking_part = sorted(draw.choice(clients, participants, replace=False).tolist())
    reached = {str(client): accuracy(client, round) for client in taking_part}
    losses = {client: round_to(2.3 * math.exp(-round / 50)) for client in reached}
    mean, sent = sum(reached.values()) / participants, ADAPTER * participants
    whole_record = record(round, 1)
    total = sent * round
    figure = {"mean": mean, "weighted": mean, "per_client": reached}
    return {
        **whole_record,
        "clients": clients,
        "participants": taking_part,
        "accuracy": {
            **whole_record["accuracy"],
            **figure,
            "best_mean": max(mean, before["accuracy"]["best_mean"] if before else 0.0),
        },
        "evaluation": {"test": {"accuracy": figure, "loss": {**figure, "per_client": losses}, "f1": figure}},
        "loss": {"mean": sum(losses.values()) / participants, "per_client": losses},
        "bytes": {
            "up": sent,
            "down": sent,
            "up_total": total,
            "down_total": total,
            **dict.fromkeys(("per_client_up", "per_client_down"), dict.fromkeys(reached, ADAPTER)),
            "by_tensor": {"down/adapter": sent, "up/adapter": sent},
        },
        "timing": {**whole_record["timing"], "per_client": dict.fromkeys(reached, 0.25)},
    }


def make_large(folder: Path, clients: int, rounds: int, participants: int = 10) -> Path:
    """A session of many clients, of which few take part in a round; a checkpoint every 50 rounds and at the end."""
    settings = whole(
        clients, rounds, federation={"clients": clients, "participation": participants / clients}
    )
    document = {
        "format": 2,
        "config": settings,
        "environment": {"device": "cpu"},
        "data_fingerprint": "f" * 64,
        "parent": None,
        "plugin": None,
    }
    with fixed_clock(), unsynced():
        store = Store.create(folder, document, Retention(last=3))
        store.event("started", method=settings["method"]["name"], round=0)
        weights = store.put({"w": torch.zeros(1)})
        states, line = {"server": weights}, None
        initial = {"models": clients, "beside": 0, "method": settings["method"], "sha256": "f" * 64}
        for round in range(1, rounds + 1):
            line = changes_record(round, clients, participants, line)
            states |= {f"client/{client}": weights for client in line["participants"]}
            if round % 50 == 0 or round == rounds:
                store.commit(round, states, line, [_entry(settings, 1)], [], initial)
                store.event("checkpoint", round=round)
            else:
                store.append(line)
        store.event("stopped", round=rounds, reason="finished")
        store.close("finished")
    return folder


def totals(diverged: Sequence[tuple[int, ...]] = (), **columns: NDArray[np.float64] | float) -> Totals:
    """The scalars of rounds: those given, one number for all rounds or one each, and NaN for all others."""
    n = max(np.size(values) for values in columns.values())
    arrays = {each.column: np.full(n, columns.get(each.column, np.nan)) for each in NUMBERS}
    return Totals(arrays, tuple(diverged) or ((),) * n)
