"""`make bench WHAT=methods`: what a round of each method costs in time and memory, relative to a round of standalone.

Each method runs in a process of its own. Its peak memory is read first; then its rounds take turns with standalone's,
timed by the processor's clock, so that other programs disturb both little and alike. The ratio of counted operations
is the ratio of times to expect.
"""

import argparse
import json
import resource
import statistics
import sys
from typing import Any

from rich.console import Console

from benchmarks import plain
from benchmarks.figures import Sheet
from benchmarks.plain import Ours, alone
from simulator import methods
from simulator.base.errors import ConfigError
from simulator.config import Config

BASELINE = "standalone"


def config(method: str) -> Config:
    """Two classes each, as in the papers, and all clients evaluated."""
    data = {"limit": 14_000, "split": "8:1:1", "partition": "pathological", "quantity": "varied"}
    evaluation = {"clients": "all", "batch_size": 256}
    return plain.config("htm5", 64, method, 2, rounds=10, data=data, evaluation=evaluation)


def measure(method: str, rounds: int) -> dict[str, Any]:
    """In a process that has done nothing else."""
    try:
        run = Ours(config(method))
    except ConfigError as refused:
        return {"refused": str(refused)}
    run.round()
    run.round()  # the first pays for what torch loads when first used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    beside = Ours(config(BASELINE))
    beside.round()
    ratios, seconds = [], []
    for _ in range(rounds):
        ratios.append(run.round()[1] / beside.round()[1])
        seconds.append(run.record["timing"]["seconds"])
    return {
        "seconds": statistics.median(seconds),
        "measured": statistics.median(ratios),
        "expected": run.record["flops"]["total"] / beside.record["flops"]["total"],
        "peak": peak,
    }


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=methods.names(), metavar="METHOD")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of each method (default: 3)")
    asked = parser.parse_args()
    setting = "HtM5, 14,000 images of Fashion-MNIST, N=10, batch 64, 1 epoch, 2 workers"
    columns = ("method", "s/round", "time ×", "expected ×", "time/expected", "peak MiB", "memory ×")
    table = Sheet(f"A round of each method: {setting}", columns)
    console, refused, baseline = Console(), [], 0.0
    for name in dict.fromkeys([BASELINE, *(asked.only or methods.names())]):
        figures = alone(measure, name, asked.rounds)
        print(f"{name}: {json.dumps(figures)}", file=sys.stderr)  # an unfinished table shows nothing
        if "refused" in figures:
            refused.append(figures["refused"])
            continue
        baseline = baseline or figures["peak"]
        excess = figures["measured"] / figures["expected"]
        table.add(
            name,
            *(f"{figures[each]:.2f}" for each in ("seconds", "measured", "expected")),
            f"{excess:.2f}" + (" !" if excess > 1.3 else ""),
            f"{figures['peak'] / 2**20:.0f}",
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
