"""`make bench`: how fast clients train on this CPU, beside what it can reach and beside a loop without a simulator.

The rates of matrix products. Sessions of HtM5 on all of Fashion-MNIST (N=10, two classes each, batch 64, one local
epoch) as a share of that in float32. The training of a round beside a plain PyTorch loop over the same clients, by
group of models, batch size and way. The training of a round by workers and threads. Every ratio is taken in one run.
Sessions have two workers of one thread. `gpu.py` makes the same tables of a CUDA device.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from rich.console import Console

from benchmarks import figures, plain
from benchmarks.figures import Sheet
from benchmarks.plain import GROUPS, config
from simulator import methods
from simulator.base.errors import ConfigError, HtflError
from simulator.base.nested import Raw
from simulator.training.precision import Precision

CPU_PRECISIONS: tuple[Precision, ...] = ("float32", "bf16")
METHODS = ("standalone", "fedlora", "fedgh", "fedssa")
PARTS = ("ceilings", "matrix", "plain", "workers")
BATCHES = (10, 64, 256)


@dataclass(frozen=True)
class Machine:
    """Where it is measured, and what that can reach."""

    device: str = "cpu"
    ceiling: Callable[[Precision], float] = field(default=lambda precision: plain.rate(precision=precision))
    """Operations a second of matrix products in a precision."""
    ways: Mapping[str, Raw] = field(default_factory=lambda: {"": {}})
    """Settings laid over those of a run beside the plain loop, by what they are called."""
    name: str = "the CPU"


class Bench:
    """What is measured, printed as it comes, with the figures of all of it by name."""

    def __init__(
        self, console: Console, rounds: int, place: Machine | None = None, images: int | None = None
    ) -> None:
        """`images`: on which each client trains, where a group's number would take too long; whole batches at least."""
        self.figures: dict[str, float] = {}
        self.place = place or Machine()
        self._console = console
        self._rounds = rounds
        self._images = images
        self._refused: list[str] = []

    def ceilings(self) -> Sheet:
        """What the CPU has for fast arithmetic, and the rates of its matrix products."""
        sheet = Sheet(f"Matrix products on {self.place.name}", ("what", "GFLOP/s"))
        for precision in CPU_PRECISIONS:
            self.figures[f"ceiling/{precision}/rate"] = found = self.place.ceiling(precision)
            sheet.add(precision, f"{found / 1e9:,.1f}")
        self.show(sheet)
        names = ", ".join(figures.features()) or "none of those that speed up training"
        self._console.print(f"Features of the CPU: {names}.", highlight=False)
        return sheet

    def matrix(self, names: Iterable[str]) -> Sheet:
        """Sessions of these methods as a share of the matrix rate."""
        sheet = Sheet(
            f"HtM5 on Fashion-MNIST, on {self.place.name}: N=10, 2 classes each, batch 64, 1 epoch",
            ("method", "s/round", "GFLOP/s", "matrix GFLOP/s", "share", "checkpoint", "accuracy"),
        )

        def in_float32() -> float:
            return self.place.ceiling("float32")

        for method in names:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    session = Path(folder) / "session"
                    found = plain.session(method, self._rounds, session, self.place.device, in_float32)
            except ConfigError as unmet:
                self.refused(f"{method} as a session", unmet)
                continue
            self.keep(f"matrix/htm5/64/{method}", found, "seconds", "share")
            sheet.add(
                method,
                f"{found['seconds']:.2f}",
                f"{found['rate'] / 1e9:,.0f}",
                f"{found['matrix_rate'] / 1e9:,.0f}",
                f"{found['share']:.2f}",
                f"{found['checkpoint']:.1%}",
                f"{found['accuracy']:.3f}",
            )
        self.show(sheet)
        self._console.print(
            "share: training FLOPs (torch's counter) per second of the training part of a round, over the matrix "
            "rate.\ncheckpoint: all of a round that is neither training nor evaluation: hashing, writing, syncing, "
            "retiring."
        )
        return sheet

    def plain(self, groups: Iterable[str], batches: Iterable[int]) -> Sheet:
        """The training of a round of standalone beside the plain loop's."""
        sheet = Sheet(
            f"standalone beside a plain PyTorch loop, on {self.place.name}: IID in equal shares, 1 epoch",
            (
                *("group", "batch", "way", "plain s", "s", "times plain", "by processor time"),
                *("gain of all cores", "plain: gain of all cores", "share of matrix rate"),
            ),
        )
        for group, batch, way in self.each(groups, batches):
            ours = self.place.ways[way]
            run = config(group, batch, images=self._images, device=self.place.device, **ours)
            precision = run.training.precision
            try:
                before = self.place.ceiling(precision)
                found = plain.beside(run, self._rounds)
            except ConfigError as unmet:
                self.refused(f"{group}, {way}", unmet)
                continue
            found["share"] = found["rate"] / statistics.fmean([before, self.place.ceiling(precision)])
            name = "/".join(filter(None, ("plain", group, str(batch), way)))
            self.keep(name, found, "seconds", "plain_seconds", "times_plain", "share")
            sheet.add(
                *(group, str(batch), way or "side by side"),
                f"{found['plain_seconds']:.2f}",
                f"{found['seconds']:.2f}",
                f"{found['times_plain']:.2f}",
                f"{found['processor_times_plain']:.2f}",
                *(f"{found[name]:.2f}" if name in found else "–" for name in ("by_cores", "plain_by_cores")),
                f"{found['share']:.2f}",
            )
        self.show(sheet)
        return sheet

    def workers(self, groups: Iterable[str], batches: Iterable[int]) -> Sheet:
        """The training of a round of standalone with other numbers of workers and threads than the default ones."""
        sheet = Sheet(
            f"standalone on {self.place.name} by workers and threads of each: IID in equal shares, 1 epoch",
            ("group", "batch", "workers × threads", "s", "over the default"),
        )
        for group, batch in product(groups, batches):
            run = config(group, batch, images=self._images, device=self.place.device)
            found = plain.by_workers(run, self._rounds)
            default = next(iter(found.values()))
            for (workers, threads), seconds in found.items():
                self.figures[f"workers/{group}/{batch}/{workers}×{threads}/seconds"] = seconds
                sheet.add(
                    group, str(batch), f"{workers} × {threads}", f"{seconds:.2f}", f"{seconds / default:.2f}"
                )
        self.show(sheet)
        return sheet

    def each(self, groups: Iterable[str], batches: Iterable[int]) -> list[tuple[str, int, str]]:
        """Every group with every batch size, in every way."""
        batches = list(batches)
        return [(group, batch, way) for group in groups for batch in batches for way in self.place.ways]

    def show(self, sheet: Sheet) -> None:
        """Print a table, unless nothing in it could be measured."""
        if sheet.rows:
            self._console.print(sheet.shown())

    def refused(self, what: str, why: ConfigError) -> None:
        """Say at the end that this was not measured, and why."""
        self._refused.append(f"{what}: {why}")

    def keep(self, name: str, found: Mapping[str, float], *kinds: str) -> None:
        """Keep these of the figures, under a name."""
        self.figures |= {f"{name}/{kind}": found[kind] for kind in kinds}

    def end(self) -> None:
        """What could not be measured."""
        for each in self._refused:
            self._console.print(f"not measured: {each}", style="dim", highlight=False)


def compared(console: Console, path: Path, before: figures.Figures, now: figures.Figures) -> None:
    """Print what has become of the figures of an earlier run, and what got slower."""
    found = figures.changes(before, now)
    sheet = Sheet(f"Against {path}", ("figure", "before", "now", "now / before"))
    for change in found:
        sheet.add(change.name, f"{change.before:.4g}", f"{change.now:.4g}", f"{change.ratio:.2f}")
    if found:
        console.print(sheet.shown())
    for sentence in figures.verdict(found):
        console.print(sentence, highlight=False)


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number of a command line that is not below `least`."""

    def number(text: str) -> int:
        if (found := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{text} is below {least}")
        return found

    return number


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


def arguments() -> argparse.Namespace:
    """What is asked for on the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="tables (default: all four)")
    parser.add_argument(
        "--groups",
        nargs="+",
        choices=GROUPS,
        default=["htm5"],
        help="of models (default: htm5; others take long)",
    )
    parser.add_argument("--batches", nargs="+", type=at_least(2), default=BATCHES, metavar="SIZE")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=methods.names(),
        default=METHODS,
        metavar="METHOD",
        help="(default: four)",
    )
    parser.add_argument(
        "--images", type=at_least(2), metavar="N", help="on which each client trains (default: by group)"
    )
    parser.add_argument("--rounds", type=at_least(1), default=3, help="timed, of each (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with what --json wrote earlier")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    asked, console = arguments(), Console(width=None if sys.stdout.isatty() else 120)
    before = (
        None if asked.against is None else figures.read(asked.against)
    )  # refused now rather than in minutes
    if asked.json is not None:
        figures.refuse_unwritable(asked.json)
    bench = Bench(console, asked.rounds, images=asked.images)
    if "ceilings" in asked.parts:
        bench.ceilings()
    if "matrix" in asked.parts:
        bench.matrix(asked.methods)
    if "plain" in asked.parts:
        bench.plain(asked.groups, asked.batches)
    if "workers" in asked.parts:
        bench.workers(asked.groups, asked.batches)
    bench.end()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"peak memory: {peak:.0f} MiB")
    if asked.json is not None:
        figures.write(asked.json, bench.figures)
    if before is not None:
        compared(console, asked.against, before, bench.figures)
    elif set(asked.parts) == set(PARTS):
        console.print(starts())


if __name__ == "__main__":
    try:
        main()
    except HtflError as error:
        raise SystemExit(f"error: {error}") from None
