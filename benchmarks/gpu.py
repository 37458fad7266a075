"""`make bench-gpu`: what `make bench` measures, on one CUDA device, beside what that can reach; it writes the page.

Six tables, each into its place in docs/performance.md: ceilings (matrix products by precision, copies, launches);
sessions, the training of a round beside a plain PyTorch loop, and a step, as `bench.py` has them, in every precision,
side by side and stacked; for how much of a round of 100 clients kernels run; the most memory on the device, by clients
that train at once and by clients that there are.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from rich.console import Console

import simulator
from benchmarks import ceilings, figures, trace
from benchmarks.bench import METHODS, Bench, Machine, at_least, compared
from benchmarks.page import placed
from benchmarks.settings import GROUPS, config
from benchmarks.sheet import Sheet
from simulator.base.devices import select_device
from simulator.base.errors import ConfigError, HtflError
from simulator.base.nested import Raw
from simulator.config import Config
from simulator.engine.builder import build
from simulator.engine.progress import unobserved
from simulator.training.precision import Precision

Seen = TypeVar("Seen")

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
PARTS = ("ceilings", "matrix", "plain", "step", "trace", "memory")
GROUPS_MEASURED = ("htm5", "htfe8")
BATCHES = (10, 64)
CLIENTS = 100
"""Of a round whose kernels are looked at."""
TAKE_PART = 10
"""Clients of a round whose memory is looked at, of however many there are."""
RUNNERS = {"side by side": "parallel", "stacked": "stacked"}
WAYS: Mapping[str, Raw] = {
    f"{precision}, {words}": {"training": {"precision": precision}, "runtime": {"runner": runner}}
    for precision in ceilings.PRECISIONS
    for words, runner in RUNNERS.items()
}


class OnDevice(Bench):
    """The tables of a CPU's benchmark and three more, of a device."""

    def __init__(self, console: Console, rounds: int, device: torch.device, name: str) -> None:
        self.device = device
        self._reached: dict[Precision, float] = {}
        super().__init__(console, rounds, Machine(device.type, self.reached, WAYS, name))

    def reached(self, precision: Precision) -> float:
        """Operations a second of matrix products, measured once."""
        if precision not in self._reached:
            self._reached[precision] = ceilings.products(self.device, precision)
        return self._reached[precision]

    def ceilings(self) -> Sheet:
        """What the device can reach."""
        sheet = Sheet(f"What {self.place.name} reaches", ("what", "rate"))
        rates: list[tuple[str, str, float, float, str]] = [
            *(
                (f"matrix products, {each}", f"ceiling/{each}/rate", self.reached(each), 1e12, "TFLOP/s")
                for each in ceilings.PRECISIONS
            ),
            ("copies, read and written", "ceiling/copy/rate", ceilings.copies(self.device), 1e9, "GB/s"),
            *(
                (
                    f"to the host, {words} memory",
                    f"ceiling/{words}/rate",
                    ceilings.departures(self.device, pinned=words == "pinned"),
                    1e9,
                    "GB/s",
                )
                for words in ("pinned", "ordinary")
            ),
            (
                "launches by one thread",
                "ceiling/launch/rate",
                ceilings.launches(self.device),
                1e3,
                "thousand/s",
            ),
        ]
        for words, name, rate, unit, of in rates:
            self.figures[name] = rate
            sheet.add(words, f"{rate / unit:,.1f} {of}")
        self.show(sheet)
        return sheet

    def trace(self, groups: Iterable[str], batches: Iterable[int]) -> Sheet:
        """For how much of a round of many clients kernels run."""
        sheet = Sheet(
            f"A round of {CLIENTS} clients on {self.place.name}, standalone, under the profiler",
            ("group", "batch", "way", "s", "kernels", "of which any ran, s", "share of the round"),
        )
        for group, batch, way in self.each(groups, batches):
            run = config(group, batch, clients=CLIENTS, device=self.device.type, **WAYS[way])
            try:
                found = of_a_round(run, lambda work: trace.traced(work, self.device))
            except ConfigError as unmet:
                self.refused(f"{group}, {way}, {CLIENTS} clients", unmet)
                continue
            self.figures[f"trace/{group}/{batch}/{way}/kernel_share"] = found.share
            sheet.add(
                *(group, str(batch), way, f"{found.wall:.2f}", f"{found.launched:,}", f"{found.kernels:.2f}"),
                f"{found.share:.2f}",
            )
        self.show(sheet)
        return sheet

    def memory(self) -> Sheet:
        """The most memory of tensors on the device in a round in which as many clients take part each time."""
        sheet = Sheet(
            f"Most memory of tensors on {self.place.name}: HtM5, batch 10, {TAKE_PART} clients take part",
            ("clients", "at once", "MiB"),
        )
        for clients in (TAKE_PART, 10 * TAKE_PART, 50 * TAKE_PART):
            for at_once in (1, 4):
                run = config(
                    *("htm5", 10),
                    workers=at_once,
                    images=64,
                    clients=clients,
                    device=self.device.type,
                    federation={"participation": TAKE_PART / clients},
                )
                peak = of_a_round(run, lambda work: peak_of(work, self.device))
                self.figures[f"memory/htm5/{clients}/{at_once}/peak"] = peak
                sheet.add(f"{clients:,}", str(at_once), f"{peak / 2**20:,.0f}")
        self.show(sheet)
        return sheet


def of_a_round(run: Config, look: Callable[[Callable[[], object]], Seen]) -> Seen:
    """What is seen of the second round of a run; the first pays for what torch loads when first used."""
    engine = build(run, simulator.data_folder(None)).engine
    try:
        state = engine.round(engine.initial_state(), unobserved)
        return look(lambda: engine.round(state, unobserved))
    finally:
        engine.close()


def peak_of(work: Callable[[], object], device: torch.device) -> float:
    """The most bytes of tensors that were on the device during the work."""
    torch.cuda.reset_peak_memory_stats(device)
    work()
    return float(torch.cuda.max_memory_allocated(device))


def arguments(given: list[str] | None) -> argparse.Namespace:
    """What is asked for on the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="tables (default: all six)")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS_MEASURED, help="of models")
    parser.add_argument("--batches", nargs="+", type=at_least(2), default=BATCHES, metavar="SIZE")
    parser.add_argument("--rounds", type=at_least(1), default=3, help="timed, of each (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with what --json wrote earlier")
    return parser.parse_args(given)


def write(path: Path, sheets: Mapping[str, Sheet]) -> None:
    """Put each table that has rows into its place in the page. Raises ValueError where the page has none."""
    page = path.read_text("utf-8")
    for part, sheet in sheets.items():
        if sheet.rows:
            page = placed(page, f"gpu-{part}", f"{sheet.markdown()}\n")
    path.write_text(page, "utf-8")


def main(given: list[str] | None = None) -> None:
    """Measure, print, and write the page."""
    asked = arguments(given)
    if not torch.cuda.is_available():
        raise ConfigError("there is no CUDA device here to measure; `make bench` measures the CPU.")
    device = select_device("cuda")
    before = None if asked.against is None else figures.read(asked.against, device)
    if asked.json is not None:
        figures.refuse_unwritable(asked.json)
    console = Console(width=None if sys.stdout.isatty() else 120)
    name = f"an {torch.cuda.get_device_name(device)} with torch {torch.__version__}"
    bench = OnDevice(console, asked.rounds, device, name)
    parts: dict[str, Callable[[], Sheet]] = {
        "ceilings": bench.ceilings,
        "matrix": lambda: bench.matrix(METHODS),
        "plain": lambda: bench.plain(asked.groups, asked.batches),
        "step": lambda: bench.step(asked.groups, asked.batches, METHODS),
        "trace": lambda: bench.trace(asked.groups, asked.batches),
        "memory": bench.memory,
    }
    for part in PARTS:
        if part in asked.parts:  # written at once: what comes after it may fail, or be cut short
            write(PAGE, {part: parts[part]()})
            if asked.json is not None:
                figures.write(asked.json, bench.figures, device)
    bench.end()
    if before is not None:
        compared(console, asked.against, before, bench.figures)


if __name__ == "__main__":
    try:
        main()
    except HtflError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
