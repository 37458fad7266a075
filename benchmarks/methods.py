"""`make bench WHAT=methods`: what a round of each method costs in time and memory, relative to a round of standalone.

Setting: HtM5 on 14,000 images of Fashion-MNIST, N=10, two classes each, batch 64, one local epoch, two workers of one
thread. Each method runs in a process of its own. Its peak memory is read first; then its rounds take turns with
standalone's, timed by the processor's clock, so that other programs disturb both little and alike. The ratio of counted
operations is the ratio of times to expect: a method that costs more than its extra passes explain has an overhead
worth finding.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from rich.console import Console

import simulator
from benchmarks.figures import Sheet
from simulator.base.errors import ConfigError
from simulator.base.record import Record
from simulator.config import Config
from simulator.engine.builder import build
from simulator.engine.progress import EvaluationStarted, Event

BASELINE = "standalone"
MIB = 2**20


def config(method: str) -> Config:
    """A run of that method in the setting."""
    return Config.read(
        {
            "rounds": 10,
            "method": {"name": method},
            "data": {"dataset": "fashion_mnist", "limit": 14_000},
            "federation": {"clients": 10, "group": "htm5"},
            "training": {"batch_size": 64, "epochs": 1},
            "evaluation": {"batch_size": 256},
            "runtime": {"device": "cpu", "workers": 2},
        }
    )


class MethodRun:
    """A method's rounds, one after the other."""

    def __init__(self, method: str) -> None:
        self._engine = build(config(method), simulator.data_folder(None)).engine
        self._state = self._engine.initial_state()
        self._trained = 0.0

    def round(self) -> float:
        """One more round; the processor's seconds, over all threads, of its training, from downlink to merge."""
        began = time.process_time()
        self._state = self._engine.round(self._state, self._note)
        return self._trained - began

    def _note(self, event: Event) -> None:
        if isinstance(event, EvaluationStarted):
            self._trained = time.process_time()

    @property
    def record(self) -> Record:
        """The last round's."""
        assert self._state.record is not None
        return self._state.record


def measure(method: str, rounds: int) -> dict[str, Any]:
    """The figures of one method, in a process that has done nothing else."""
    try:
        run = MethodRun(method)
    except ConfigError as refused:
        return {"refused": str(refused)}
    run.round()
    run.round()  # the first pays for what torch loads when first used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    beside = MethodRun(BASELINE)
    beside.round()
    ratios, seconds = [], []
    for _ in range(rounds):
        ratios.append(run.round() / beside.round())
        seconds.append(run.record["timing"]["seconds"])
    return {
        "seconds": statistics.median(seconds),
        "measured": statistics.median(ratios),
        "expected": run.record["flops"]["total"] / beside.record["flops"]["total"],
        "peak": peak,
    }


def in_a_process(method: str, rounds: int) -> dict[str, Any]:
    """`measure` in a fresh process, whose peak memory is the method's alone."""
    command = [sys.executable, "-m", "benchmarks.methods", "--only", method, f"--rounds={rounds}", "--json"]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(result.stdout)
    return figures


def main() -> None:
    """Measure every method, or one of them, and print."""
    from simulator import methods

    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=methods.names(), metavar="METHOD")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of each method (default: 3)")
    parser.add_argument(
        "--json", action="store_true", help="the figures of one method, measured in this process"
    )
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(measure(asked.only[0], asked.rounds)))
        return
    wanted = [BASELINE, *(name for name in asked.only or methods.names() if name != BASELINE)]
    setting = "HtM5, 14,000 images of Fashion-MNIST, N=10, batch 64, 1 epoch, 2 workers"
    columns = ("method", "s/round", "time ×", "expected ×", "time/expected", "peak MiB", "memory ×")
    table = Sheet(f"A round of each method: {setting}", columns)
    console, refused, baseline = Console(), [], 0.0
    for name in wanted:
        figures = in_a_process(name, asked.rounds)
        print(f"{name}: {json.dumps(figures)}", file=sys.stderr)  # an unfinished table shows nothing
        if "refused" in figures:
            refused.append(figures["refused"])
            continue
        baseline = baseline or figures["peak"]
        excess = figures["measured"] / figures["expected"]
        table.add(
            name,
            f"{figures['seconds']:.2f}",
            f"{figures['measured']:.2f}",
            f"{figures['expected']:.2f}",
            f"{excess:.2f}" + (" !" if excess > 1.3 else ""),
            f"{figures['peak'] / MIB:.0f}",
            f"{figures['peak'] / baseline:.2f}",
        )
    console.print(table.shown())
    console.print(
        "time ×: processor time of a round's training, from downlink to merge, over standalone's in turn with it.\n"
        "expected ×: the same ratio in operations, counted by torch's formulas. '!': more than 1.3 times that."
    )
    for each in refused:
        console.print(f"not in the table: {each}", style="dim", highlight=False)


if __name__ == "__main__":
    main()
