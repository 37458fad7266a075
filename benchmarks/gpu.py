"""`make bench WHAT=gpu`: what `make bench` measures, on one CUDA device. It writes the page.

Four tables, each into its place in docs/performance.md: matrix products by precision; sessions, and the training of a
round beside a plain PyTorch loop, as `bench.py` has them, in every precision, side by side and stacked; the most memory
on the device, by clients that train at once and by clients that there are.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from rich.console import Console

import simulator
from benchmarks import figures
from benchmarks.bench import METHODS, Bench, Machine, at_least, compared
from benchmarks.figures import Sheet, placed
from benchmarks.plain import GROUPS, config
from simulator.base.errors import ConfigError, HtflError
from simulator.base.nested import Raw
from simulator.base.tensors import select_device
from simulator.config import Config
from simulator.engine.builder import build
from simulator.engine.progress import unobserved
from simulator.training.precision import Precision, tf32_in_force

Seen = TypeVar("Seen")

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
PARTS = ("ceilings", "matrix", "plain", "memory")
GROUPS_MEASURED = ("htm5", "htfe8")
BATCHES = (10, 64)
TAKE_PART = 10
"""Clients of a round whose memory is looked at, of however many there are."""
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")
RUNNERS = {"side by side": "parallel", "stacked": "stacked"}
WAYS: Mapping[str, Raw] = {
    f"{precision}, {words}": {"training": {"precision": precision}, "runtime": {"runner": runner}}
    for precision in PRECISIONS
    for words, runner in RUNNERS.items()
}


class OnDevice(Bench):
    """The tables of a CPU's benchmark and that of memory, of a device."""

    def __init__(self, console: Console, rounds: int, device: torch.device, name: str) -> None:
        self.device = device
        self._reached: dict[Precision, float] = {}
        super().__init__(console, rounds, Machine(device.type, self.reached, WAYS, name))

    def reached(self, precision: Precision) -> float:
        """Operations a second of matrix products, measured once."""
        if precision not in self._reached:
            self._reached[precision] = products(self.device, precision)
        return self._reached[precision]

    def ceilings(self) -> Sheet:
        """What the device can reach."""
        sheet = Sheet(f"What {self.place.name} reaches", ("what", "rate"))
        for precision in PRECISIONS:
            self.figures[f"ceiling/{precision}/rate"] = rate = self.reached(precision)
            sheet.add(f"matrix products, {precision}", f"{rate / 1e12:,.1f} TFLOP/s")
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


def seconds(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """Seconds for which so many calls of `work` keep the device busy, after one that is not timed."""
    work()
    wait_for(device)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    wait_for(device)
    return time.perf_counter() - began


def wait_for(device: torch.device) -> None:
    """Until the device has done all that it was given; a CPU has done so when a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def products(device: torch.device, precision: Precision, side: int = 8192, repeats: int = 20) -> float:
    """Floating-point operations a second of products [side, side] · [side, side]."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    stream = torch.Generator().manual_seed(0)
    a, b = (torch.randn(side, side, generator=stream).to(device, dtype) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=dtype)
    with tf32_in_force(precision, device):
        return repeats * 2 * side**3 / seconds(device, lambda: torch.mm(a, b, out=out), repeats)


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
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="tables (default: all four)")
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
