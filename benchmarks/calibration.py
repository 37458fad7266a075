"""`make bench-calibration`: how well this machine's own profile predicts the seconds of a round with one worker.

Setting: HtM5 on 6,000 images of Fashion-MNIST, N=10, IID, batch 64, one local epoch, one worker of one thread. Each
method is calibrated as `htfl-sim calibrate` does it, and then runs rounds on the clock. Both take turns, because other
programs may disturb this machine. Predicted is what the ledger's `time` has: the seconds of all clients' training,
which one worker does one after the other, and of the server's. Measured is the ledger's `timing.train`, from the first
downlink to the server's new state. The clock has no time for evaluation, checkpoints, and links, so neither side has.

The same is measured by the processor's clock, which other programs disturb less. There, predicted are the counted FLOPs
of the round over the FLOP/s that a calibration by that clock finds.
"""

import argparse
import math
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

import htfl_sim as hs
import simulator
from benchmarks.sheet import Sheet
from simulator.base.nested import merged
from simulator.base.record import Record
from simulator.config import Config
from simulator.engine.builder import Built, build
from simulator.engine.calibration import Calibration, calibrated
from simulator.engine.progress import EvaluationStarted, Event

METHODS = ("standalone", "fedavg", "fedlora", "fedgh", "fedssa", "fml")
WARM_UP = 2
"""Rounds before those that are compared. In the first ones, operations are counted, and some servers have nothing."""
GOAL = 0.15


@dataclass
class Comparison:
    """Ratios of predicted to measured seconds of a method's rounds."""

    predicted: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def config(method: str, **more: object) -> Config:
    """A run of that method in the setting; `more` is laid over it."""
    setting: dict[str, Any] = {
        "rounds": 1_000,
        "method": {"name": method},
        "data": {"dataset": "fashion_mnist", "limit": 6_000, "partition": "iid", "quantity": "equal"},
        "federation": {"clients": 10, "group": "htm5"},
        "training": {"batch_size": 64, "epochs": 1},
        "evaluation": {"clients": 1},
        "runtime": {"device": "cpu", "workers": 1},
    }
    return Config.read(merged(setting, more))


def compared(run: Config, blocks: int, passes: int, rounds: int) -> Comparison:
    """Calibrate and run rounds in turn. Every block starts from round 1, with a warm-up of its own."""
    found = Comparison()
    plain = build(run, simulator.data_folder(None))
    for _ in range(blocks):
        by_processor = calibrated(run, plain, passes, time.process_time)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "mine.toml"
            hs.calibrate(run, file, passes=passes)
            built = build(hs.config(file), simulator.data_folder(None))
        _rounds(built, by_processor, rounds, found)
        built.engine.close()
    plain.engine.close()
    return found


def _rounds(built: Built, by_processor: Calibration, rounds: int, found: Comparison) -> None:
    trained = 0.0

    def note(event: Event) -> None:
        nonlocal trained
        if isinstance(event, EvaluationStarted):
            trained = time.process_time()

    state = built.engine.initial_state()
    for number in range(WARM_UP + rounds):
        began = time.process_time()
        state = built.engine.round(state, note)
        if number < WARM_UP or state.record is None:
            continue
        seconds, took = predicted(state.record), state.record["timing"]["train"]
        found.predicted.append(seconds)
        found.measured.append(took)
        found.wall.append(seconds / took)
        found.processor.append(at_rates(by_processor, built, state.record) / (trained - began))


def predicted(record: Record) -> float:
    """The seconds of a round's training on the clock, one client after the other, and then the server."""
    on_clock = record["time"]
    clients = math.fsum(flight["compute"] for flight in on_clock["flights"])
    return clients + on_clock["ends"] - on_clock["aggregates"]


def at_rates(found: Calibration, built: Built, record: Record) -> float:
    """The seconds of a round's counted operations at the calibrated FLOP/s."""
    clients = math.fsum(
        flight["flops"]
        / (found.flops * found.utilization[built.federation.clients[flight["client"]].architecture])
        for flight in record["time"]["flights"]
    )
    return clients + (record["flops"]["server"] / found.server if found.server else 0.0)


def main() -> None:
    """Compare every method, or some of them, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", action="append", choices=METHODS, metavar="METHOD")
    parser.add_argument(
        "--blocks",
        type=int,
        default=3,
        help="calibrations of each method, with rounds after each (default: 3)",
    )
    parser.add_argument("--passes", type=int, default=5, help="timed passes of a calibration (default: 5)")
    parser.add_argument("--rounds", type=int, default=3, help="compared rounds after each (default: 3)")
    asked = parser.parse_args()
    sheet = Sheet(
        "A round on this machine's own clock: HtM5, 6,000 images, N=10, batch 64, 1 epoch, 1 worker",
        ("method", "predicted s", "measured s", "ratio", "lowest", "highest", "ratio, processor", "n"),
    )
    console, worst = Console(), 0.0
    for name in asked.only or METHODS:
        found = compared(config(name), asked.blocks, asked.passes, asked.rounds)
        ratio, processor = statistics.median(found.wall), statistics.median(found.processor)
        worst = max(worst, abs(ratio - 1))
        row = (
            name,
            f"{statistics.median(found.predicted):.3f}",
            f"{statistics.median(found.measured):.3f}",
            f"{ratio:.3f}",
            f"{min(found.wall):.3f}",
            f"{max(found.wall):.3f}",
            f"{processor:.3f}",
            str(len(found.wall)),
        )
        console.print(*row)
        sheet.add(*row)
    console.print(sheet.shown())
    console.print(
        "ratio: predicted over measured seconds of a round's training, median over n rounds, with the lowest and the\n"
        "highest. processor: the same by the processor's clock, which other programs disturb less."
    )
    verdict = "within" if worst <= GOAL else "not within"
    console.print(f"The largest median error is {worst:.1%}: {verdict} {GOAL:.0%}.")


if __name__ == "__main__":
    main()
