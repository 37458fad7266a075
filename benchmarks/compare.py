"""`python -m benchmarks.compare`: how long `htfl-sim compare` takes over a hundred sessions, as a user waits for it.

Makes the ledgers of 100 sessions of 500 rounds and 20 clients (four methods, 25 seeds; some 95 MB), runs the command
as a process of its own several times, and prints the least and the median of the seconds.
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from checkpoints import Retention, Store
from simulator.base.nested import Raw

METHODS = ("standalone", "fedgh", "fedssa", "fedlora")
SENT = 122_680
LIMIT = 2.0


def config(method: str, seed: int, rounds: int, clients: int) -> Raw:
    """The settings of a session."""
    return {
        "preset": f"{method}_htm5",
        "profile": None,
        "seed": seed,
        "rounds": rounds,
        "method": {"name": method},
        "data": {"dataset": "fashion_mnist", "partition": "pathological", "classes_per_client": 2},
        "federation": {"clients": clients, "group": "htm5", "participation": 1.0},
        "training": {"lr": 0.01, "epochs": 1, "batch_size": 64},
        "evaluation": {"clients": "all"},
        "wire": {"drop": 0.0, "noise": 0.0},
        "cka": {"every": 0},
        "checkpoint": {"every": 1, "keep_last": 3},
    }


def record(round: int, clients: int, method: str, seed: int) -> dict[str, Any]:
    """A round's record, with all digits that a real one has."""
    shift = 0.002 * (len(method) + seed % 7)
    values = [0.9 - shift - 0.8 * math.exp(-round / (9 + client)) for client in range(clients)]
    mean = sum(values) / clients
    part = {"mean": mean - 0.001 * (seed % 3), "weighted": mean, "per_client": values}
    parts = {"accuracy": part, "loss": part, "f1": part}
    traffic = [SENT] * clients
    return {
        "round": round,
        "method": method,
        "participants": list(range(clients)),
        "diverged": [],
        "dropped": [],
        "accuracy": {
            "mean": mean,
            "std": statistics.pstdev(values),
            "weighted": mean - 0.001,
            "min": min(values),
            "max": max(values),
            "best_mean": mean,
            "per_client": values,
        },
        "evaluation": {"test": parts, "eval": parts},
        "loss": {"mean": 1 - mean, "per_client": [1 - value for value in values]},
        "bytes": {
            "up": SENT * clients,
            "down": SENT * clients,
            "up_total": SENT * clients * round,
            "down_total": SENT * clients * round,
            "per_client_up": traffic,
            "per_client_down": traffic,
            "by_tensor": {"down/adapter": SENT * clients, "up/adapter": SENT * clients},
        },
        "params": {"up": SENT // 4 * clients, "down": SENT // 4 * clients},
        "flops": {"clients": 50_000_000_000, "server": 1_000_000, "total": 50_001_000_000},
        "cka": None,
        "method_metrics": {},
        "timing": {
            "seconds": 2.5,
            "train": 2.0,
            "evaluate": 0.4,
            "checkpoint": 0.1,
            "at": "2026-01-02T10:20:00Z",
        },
    }


def make(folder: Path, method: str, seed: int, rounds: int, clients: int) -> None:
    """A finished session, whose last three rounds have checkpoints."""
    settings = config(method, seed, rounds, clients)
    document = {
        "config": settings,
        "environment": {},
        "data_fingerprint": f"{seed:064x}",
        "parent": None,
        "plugin": None,
    }
    history = [{"from_round": 1, "method": settings["method"], "settings": {"rounds": rounds}}]
    store = Store.create(folder, document, Retention(last=3))
    for round in range(1, rounds + 1):
        line = record(round, clients, method, seed)
        if round > rounds - 3:
            store.commit(round, {}, line, history, [])
        else:
            store.append(line)
    store.heartbeat("finished", round=rounds, rounds=rounds, phase="evaluate", done=clients, clients=clients)
    store.close("finished")


def main() -> None:
    """Make the sessions, time the command, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="make them here and leave them; else a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        for number in range(arguments.sessions):
            method, seed = METHODS[number % len(METHODS)], number // len(METHODS)
            if not (folder / f"{method}-s{seed}").exists():
                make(folder / f"{method}-s{seed}", method, seed, arguments.rounds, arguments.clients)
        bytes = sum(path.stat().st_size for path in folder.glob("*/ledger.jsonl"))
        options = ["--by", "method", "--target", "0.8", "--baseline", "standalone", "--select", "eval"]
        command = [
            Path(sys.executable).with_name("htfl-sim"),
            "compare",
            "*",
            "--sessions-dir",
            folder,
            *options,
        ]
        seconds = []
        for _ in range(arguments.repeats):
            began = time.perf_counter()
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds.append(time.perf_counter() - began)
    print(done.stdout)
    print(
        f"{arguments.sessions} sessions of {arguments.rounds} rounds and {arguments.clients} clients, "
        f"{bytes / 2**20:.0f} MiB of ledgers: {min(seconds):.2f} s at best, {statistics.median(seconds):.2f} s in the "
        f"median of {arguments.repeats} (wanted: under {LIMIT:.0f} s)"
    )


if __name__ == "__main__":
    main()
