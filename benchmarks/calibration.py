"""`make bench-calibration`: how well this machine's own profile predicts the seconds of a round with one worker.

Setting: HtM5 on 6,000 images of Fashion-MNIST, N=10, IID, batch 64, one local epoch, one worker of one thread. Each
method is calibrated as `htfl-sim calibrate` does it. After each pass of the calibration, the run has a round, so that
other programs disturb both alike. Predicted is what the ledger's `time` has in a round on the calibrated clock: the
seconds of all clients' training, which one worker does one after the other, and of the server's. Measured are the same
rounds without a clock, from the first downlink to the server's new state (the ledger's `timing.train`). The clock has
no time for evaluation, checkpoints, and the simulator's own work, so neither side has evaluation and checkpoints.

All of this is done twice: by the wall clock, and by the processor's clock, which other programs disturb less.
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import htfl_sim as hs
import simulator
from benchmarks.sheet import Sheet
from htfl_sim.calibrating import profiled
from simulator.base.nested import merged
from simulator.base.record import Record
from simulator.config import Config
from simulator.engine.builder import build
from simulator.engine.calibration import calibrated
from simulator.engine.progress import EvaluationStarted, Event

METHODS = ("standalone", "fedavg", "fedlora", "fedgh", "fedssa", "fml")
WARM_UP = 2
"""Rounds before those that are compared. In the first ones, operations are counted, and some servers have nothing."""
GOAL = 0.15


@dataclass(frozen=True)
class Comparison:
    """Seconds of a method's rounds by one timer: predicted by the calibration, and measured."""

    predicted: float
    measured: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Predicted over measured, where a measurement is the median over rounds."""
        return self.predicted / statistics.median(self.measured)


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


class Rounds:
    """Rounds of a run, one after the other, with the seconds of their training."""

    def __init__(self, run: Config, timer: Callable[[], float]) -> None:
        self._timer, self._trained = timer, 0.0
        self.seconds = list[float]()
        self._engine = build(run, simulator.data_folder(None)).engine
        self._state = self._engine.initial_state()
        for _ in range(WARM_UP):
            self()
        self.seconds.clear()

    def __call__(self) -> Record:
        """One more round."""
        began = self._timer()
        self._state = self._engine.round(self._state, self._note)
        assert self._state.record is not None
        self.seconds.append(self._trained - began)
        return self._state.record

    def _note(self, event: Event) -> None:
        if isinstance(event, EvaluationStarted):
            self._trained = self._timer()


def compared(run: Config, rounds: int, timer: Callable[[], float]) -> Comparison:
    """Calibrate, with a round of the run after each pass, and then predict a round on the calibrated clock."""
    ran = Rounds(run, timer)
    built = build(run, simulator.data_folder(None))
    found = calibrated(run, built, rounds, timer, ran)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mine.toml"
        profiled(run, found).save(file)
        clocked = Rounds(hs.config(file), timer)
    return Comparison(predicted(clocked()), tuple(ran.seconds))


def predicted(record: Record) -> float:
    """The seconds of a round's training on the clock, one client after the other, and then the server."""
    on_clock = record["time"]
    clients = math.fsum(flight["compute"] for flight in on_clock["flights"])
    return clients + on_clock["ends"] - on_clock["aggregates"]


def main() -> None:
    """Compare every method, or some of them, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", action="append", choices=METHODS, metavar="METHOD")
    parser.add_argument("--rounds", type=int, default=7, help="passes, and compared rounds (default: 7)")
    asked = parser.parse_args()
    sheet = Sheet(
        "A round on this machine's own clock: HtM5, 6,000 images, N=10, batch 64, 1 epoch, 1 worker",
        (
            "method",
            *(f"{each}{of}" for of in ("", ", processor") for each in ("predicted s", "measured s", "ratio")),
        ),
    )
    console, worst = Console(width=140), 0.0
    for name in asked.only or METHODS:
        found = [
            compared(config(name), asked.rounds, timer) for timer in (time.perf_counter, time.process_time)
        ]
        cells = [
            cell
            for each in found
            for cell in (
                f"{each.predicted:.3f}",
                f"{statistics.median(each.measured):.3f} ({min(each.measured):.3f} to {max(each.measured):.3f})",
                f"{each.ratio:.3f}",
            )
        ]
        worst = max(worst, abs(found[0].ratio - 1))
        print(name, *cells, file=sys.stderr)  # an unfinished table shows nothing
        sheet.add(name, *cells)
    console.print(sheet.shown())
    console.print("measured: median over rounds (lowest to highest). processor: by the processor's clock.")
    console.print(f"Largest error of a prediction: {worst:.1%} (goal: {GOAL:.0%}).", highlight=False)


if __name__ == "__main__":
    main()
