"""`make bench`: how fast HtM5 trains on Fashion-MNIST as a share of what this machine's matrix products reach.

Setting: N=10, two classes each, batch 64, one local epoch, two workers of one thread. Every ratio is taken in
this one run: the matrix rate is measured before and after each method's rounds, with as many threads as workers.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import presets
import simulator
from simulator.config import Config
from simulator.nested import merged
from simulator.progress import Event, RoundFinished

WORKERS = 2
ROUNDS = 4
SIDE = 1024
METHODS = ("standalone", "fedlora", "fedgh", "fedssa")


def matrix_rate() -> float:
    """Floating-point operations per second of float32 products [1024, 1024] on WORKERS threads of one core each."""
    torch.set_num_threads(1)
    repeats, barrier = 40, threading.Barrier(WORKERS + 1)

    def multiply() -> None:
        stream = torch.Generator().manual_seed(0)
        a, b = torch.randn(SIDE, SIDE, generator=stream), torch.randn(SIDE, SIDE, generator=stream)
        out = a @ b
        barrier.wait()
        for _ in range(repeats):
            torch.mm(a, b, out=out)
        barrier.wait()

    threads = [threading.Thread(target=multiply) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    barrier.wait()
    return WORKERS * repeats * 2 * SIDE**3 / (time.perf_counter() - began)


def rounds(method: str, folder: Path) -> list[dict[str, Any]]:
    """The records of a session's rounds, each with the seconds between its end and the end of the one before."""
    raw = merged(
        presets.load(f"{method}_htm5").config,
        {
            "rounds": ROUNDS,
            "data": {"dataset": "fashion_mnist"},
            "training": {"batch_size": 64, "epochs": 1},
            "runtime": {"device": "cpu", "workers": WORKERS},
        },
    )
    records: list[dict[str, Any]] = []
    ended = time.perf_counter()

    def note(event: Event) -> None:
        nonlocal ended
        if isinstance(event, RoundFinished):
            now = time.perf_counter()
            records.append({**event.record, "wall": now - ended})
            ended = now

    with simulator.Session.create(Config.read(raw), folder, simulator.data_folder(None)) as session:
        ended = time.perf_counter()
        session.run(note)
    return records[1:]  # the first round pays for what torch loads when first used


def least(*command: str | Path) -> float:
    """The fewest seconds of three in which a process has begun and ended."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def starts() -> str:
    """How long `--help` takes, and a run with next to nothing to do; beside the latter, what importing torch takes."""
    command = Path(sys.executable).with_name("htfl-sim")
    with tempfile.TemporaryDirectory() as folder:
        tiny = [
            f"--sessions-dir={folder}",
            "--rounds=1",
            "--clients=1",
            "--set=data.limit=100",
            "--set=training.epochs=1",
        ]
        answer, run = least(command, "--help"), least(command, "run", *tiny)
    torch_alone = least(sys.executable, "-c", "import torch")
    return (
        f"`htfl-sim --help`: {answer:.2f} s · a run of one client, one round, 80 images: {run:.2f} s, "
        f"of which importing torch {torch_alone:.2f} s"
    )


def main() -> None:
    """Measure and print."""
    table = Table(title="HtM5 on Fashion-MNIST: N=10, 2 classes each, batch 64, 1 epoch, 2 workers")
    for column in ("method", "s/round", "GFLOP/s", "matrix GFLOP/s", "share", "checkpoint", "accuracy"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            before = matrix_rate()
            records = rounds(method, Path(folder) / "session")
            ceiling = statistics.fmean([before, matrix_rate()])
        wall = sum(record["wall"] for record in records)
        rate = sum(r["flops"]["clients"] for r in records) / sum(r["timing"]["train"] for r in records)
        inside = sum(r["timing"]["train"] + r["timing"]["evaluate"] for r in records)
        table.add_row(
            method,
            f"{wall / len(records):.2f}",
            f"{rate / 1e9:.0f}",
            f"{ceiling / 1e9:.0f}",
            f"{rate / ceiling:.2f}",
            f"{1 - inside / wall:.1%}",
            f"{records[-1]['accuracy']['mean']:.3f}",
        )
    console = Console()
    console.print(table)
    console.print(
        "share: training FLOPs (torch's counter) per second of the training part of a round, over the matrix rate.\n"
        "checkpoint: all of a round that is neither training nor evaluation: hashing, writing, syncing, retiring."
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"peak memory: {peak:.0f} MiB")
    console.print(starts())


if __name__ == "__main__":
    main()
