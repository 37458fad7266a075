"""`make bench WHAT=scale`: cost of a run of 10,000 clients, ten of them in each round, beside one of 100 clients.

Each run is a process of its own on Fashion-MNIST, with as many participants, of as many images each. Start-up is from
an imported torch to the first round, a round the median of those after the first. `drawing` is what of it goes into
drawing the models of those that take part for the first time.
"""

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console

import checkpoints
import simulator
from benchmarks import plain
from benchmarks.figures import Sheet
from benchmarks.plain import alone
from simulator.base.tensors import Tensors
from simulator.config import Config
from simulator.engine.client_states import Beginning
from simulator.engine.progress import Event, RoundFinished, RoundStarted

PARTICIPANTS = 10
GROUPS = ("cnn5", "htm5")
"""One model of CNN-5 for all, and CNN-1 to CNN-5 in turn."""
ROW = (
    "{group}|{clients:,}|{took_part}|{start:.1f}|{start_cpu:.1f}|{round:.3f}|{round_cpu:.3f}|{drawing:.3f}|{times:.2f}"
    "|{peak:,.0f}|{session:,.1f}|{ledger:.1f}"
)


def config(clients: int, group: str, rounds: int, method: str) -> Config:
    """A federation in which everybody holds about seven images, of two classes."""
    more: dict[str, Any] = {
        "data": {"partition": "pathological", "limit": 7 * clients},
        "federation": {"group": group, "participation": PARTICIPANTS / clients},
        "evaluation": {"clients": "all", "initial": "skip", "metrics_for": "changed"},
    }
    return plain.config("htm5", 64, method, 2, clients=clients, rounds=rounds, **more)


def run(clients: int, group: str, rounds: int, method: str, folder: Path) -> dict[str, Any]:
    """One run, measured in this process: seconds, processor seconds, MiB, MB, and KB a round."""
    began, cpu = time.perf_counter(), time.process_time()
    marks: list[tuple[float, float]] = []
    ends: list[tuple[float, float]] = []
    drawing: list[float] = []  # processor seconds by round, on whatever thread
    draw = Beginning.__call__

    def timed(beginning: Beginning, client: int) -> Tensors:
        started = time.thread_time()
        try:
            return draw(beginning, client)
        finally:
            if drawing:
                drawing[-1] += time.thread_time() - started

    def note(event: Event) -> None:
        if isinstance(event, RoundStarted):
            drawing.append(0.0)
            marks.append((time.perf_counter(), time.process_time()))
        if isinstance(event, RoundFinished):
            ends.append((time.perf_counter(), time.process_time()))

    settings = config(clients, group, rounds, method)
    with (
        mock.patch.object(Beginning, "__call__", timed),
        simulator.Session.create(settings, folder, simulator.data_folder(None)) as session,
    ):
        session.run(note)
    taken = [(end[0] - mark[0], end[1] - mark[1]) for mark, end in zip(marks, ends, strict=True)][1:]
    found = checkpoints.SessionReader(folder)
    took_part = {client for record in found.records() for client in record["participants"]}
    return {
        "start": marks[0][0] - began,
        "start_cpu": marks[0][1] - cpu,
        "round": statistics.median(each[0] for each in taken),
        "round_cpu": statistics.median(each[1] for each in taken),
        "drawing": statistics.median(drawing[1:]),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "session": checkpoints.size_on_disk(folder) / 1e6,
        "ledger": (folder / "ledger.jsonl").stat().st_size / rounds / 1e3,
        "took_part": len(took_part),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--groups", nargs="+", default=list(GROUPS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--method", default="fedlora")
    given = parser.parse_args()
    title = (
        f"{given.method} on Fashion-MNIST, {PARTICIPANTS} clients a round, {given.rounds} rounds, 2 workers"
    )
    columns = ("group", "clients", "took part", "start s", "start CPU s", "round s", "round CPU s", "drawing", "CPU ×",
               "peak MiB", "session MB", "ledger KB a round")  # fmt: skip
    table = Sheet(title, columns)
    for group in given.groups:
        first: float | None = None
        for clients in given.clients:
            with tempfile.TemporaryDirectory() as folder:
                found = alone(run, clients, group, given.rounds, given.method, Path(folder) / "s")
            first = first or found["round_cpu"]
            times = found["round_cpu"] / first
            table.fill(ROW, group=group, clients=clients, times=times, **found)
    Console(width=150).print(table.shown())


if __name__ == "__main__":
    main()
