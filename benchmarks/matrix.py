"""How fast sessions train as a share of what this machine's matrix products reach.

The matrix rate is measured before and after a method's rounds, with as many threads as workers.
"""

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import presets
import simulator
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.config import Config
from simulator.engine.progress import Event, RoundFinished
from simulator.training.precision import Precision

WORKERS = 2
SIDE = 1024
SECONDS = 0.5
"""For which products are timed. A CPU that emulates bf16 takes fifty times as long for one as a CPU that has it."""


def rate(workers: int = WORKERS, precision: Precision = "float32") -> float:
    """Floating-point operations per second of products [1024, 1024] on threads of one core each."""
    torch.set_num_threads(1)
    barrier = threading.Barrier(workers + 1)
    stream = torch.Generator().manual_seed(0)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(SIDE, SIDE, generator=stream).to(dtype) for _ in range(2))
    took = _seconds(lambda: torch.mm(a, b))
    if took < SECONDS:  # the first one also loaded its kernel
        took = _seconds(lambda: torch.mm(a, b))
    repeats = max(1, round(SECONDS / took))

    def multiply() -> None:
        mine, yours = a.clone(), b.clone()
        out = torch.empty_like(mine)
        barrier.wait()
        for _ in range(repeats):
            torch.mm(mine, yours, out=out)
        barrier.wait()

    threads = [threading.Thread(target=multiply) for _ in range(workers)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    barrier.wait()
    return workers * repeats * 2 * SIDE**3 / (time.perf_counter() - began)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def session(
    method: str, rounds: int, folder: Path, device: str = "cpu", ceiling: Callable[[], float] = rate
) -> dict[str, float]:
    """A session of the method's HtM5 preset on Fashion-MNIST, of so many rounds and one before them.

    Seconds a round; operations a second of its training, and of matrix products; the share of the one in the other; the
    share of a round that is neither training nor evaluation; the accuracy it reached.

    Raises ConfigError for a method without such a preset.
    """
    before = ceiling()
    records = trained(method, rounds, folder, device)
    matrix_rate = statistics.fmean([before, ceiling()])
    wall = sum(record["wall"] for record in records)
    reached = sum(r["flops"]["clients"] for r in records) / sum(r["timing"]["train"] for r in records)
    inside = sum(r["timing"]["train"] + r["timing"]["evaluate"] for r in records)
    return {
        "seconds": wall / len(records),
        "rate": reached,
        "matrix_rate": matrix_rate,
        "share": reached / matrix_rate,
        "checkpoint": 1 - inside / wall,
        "accuracy": records[-1]["accuracy"]["mean"],
    }


def trained(method: str, rounds: int, folder: Path, device: str = "cpu") -> list[dict[str, Any]]:
    """The records of a session's rounds, each with the seconds between its end and the end of the one before."""
    try:
        preset = presets.load(f"{method}_htm5")
    except presets.PresetError as unknown:
        raise ConfigError(str(unknown)) from unknown
    raw = merged(
        preset.config,
        {
            "rounds": rounds + 1,
            "data": {"dataset": "fashion_mnist"},
            "training": {"batch_size": 64, "epochs": 1},
            "runtime": {"device": device, "workers": WORKERS if device == "cpu" else None},
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
