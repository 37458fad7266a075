"""`make bench`: how fast clients train on this CPU, beside what it can reach and beside a loop without a simulator.

Three tables. Sessions of HtM5 on all of Fashion-MNIST (N=10, two classes each, batch 64, one local epoch, two workers
of one thread) as a share of the rate of matrix products. The training of a round beside a plain PyTorch loop over the
same clients, by group of models and batch size. A training step, piece by piece, by group, batch size and method. Every
ratio is taken in this one run.
"""

import argparse
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import figures, matrix, pieces, plain
from benchmarks.settings import GROUPS, config
from benchmarks.start import starts
from simulator import methods
from simulator.errors import ConfigError, HtflError

PARTS = ("matrix", "plain", "step")
METHODS = ("standalone", "fedlora", "fedgh", "fedssa")
BATCHES = (10, 64, 256)


class Bench:
    """What is measured, printed as it comes, with the figures of all of it by name."""

    def __init__(self, console: Console, rounds: int) -> None:
        self.figures: dict[str, float] = {}
        self._console = console
        self._rounds = rounds
        self._refused: list[str] = []

    def matrix(self, names: Iterable[str]) -> None:
        """Sessions of these methods as a share of the matrix rate."""
        table = _table(
            "HtM5 on Fashion-MNIST: N=10, 2 classes each, batch 64, 1 epoch, 2 workers",
            *("method", "s/round", "GFLOP/s", "matrix GFLOP/s", "share", "checkpoint", "accuracy"),
        )
        for method in names:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    found = matrix.session(method, self._rounds, Path(folder) / "session")
            except ConfigError as unmet:
                self._refused.append(f"{method} as a session: {unmet}")
                continue
            self._keep(f"matrix/htm5/64/{method}", found, "seconds", "share")
            table.add_row(
                method,
                f"{found['seconds']:.2f}",
                f"{found['rate'] / 1e9:.0f}",
                f"{found['matrix_rate'] / 1e9:.0f}",
                f"{found['share']:.2f}",
                f"{found['checkpoint']:.1%}",
                f"{found['accuracy']:.3f}",
            )
        self._console.print(table)
        self._console.print(
            "share: training FLOPs (torch's counter) per second of the training part of a round, over the matrix "
            "rate.\ncheckpoint: all of a round that is neither training nor evaluation: hashing, writing, syncing, "
            "retiring."
        )

    def plain(self, groups: Iterable[str], batches: Iterable[int]) -> None:
        """The training of a round of standalone beside the plain loop's."""
        table = _table(
            "standalone beside a plain PyTorch loop: IID in equal shares, 1 epoch, all cores",
            *("group", "batch", "plain s", "s", "times plain", "by processor time", "share of matrix rate"),
        )
        for group, batch in _each(groups, batches):
            before = matrix.rate()
            found = plain.beside(config(group, batch), self._rounds)
            found["share"] = found["rate"] / statistics.fmean([before, matrix.rate()])
            self._keep(f"plain/{group}/{batch}", found, "seconds", "plain_seconds", "times_plain", "share")
            table.add_row(
                group,
                str(batch),
                f"{found['plain_seconds']:.2f}",
                f"{found['seconds']:.2f}",
                f"{found['times_plain']:.2f}",
                f"{found['processor_times_plain']:.2f}",
                f"{found['share']:.2f}",
            )
        self._console.print(table)

    def step(self, groups: Iterable[str], batches: Iterable[int], names: Iterable[str]) -> None:
        """A step of these methods, piece by piece."""
        table = _table(
            "A client's training step on one thread, processor time in µs",
            *("group", "batch", "method", *pieces.PIECES, "step", "per image"),
        )
        for group, batch in _each(groups, batches):
            for method in names:
                try:
                    of_a_step = pieces.of_a_step(pieces.setting(group, batch, method), self._rounds)
                except ConfigError as unmet:
                    self._refused.append(f"{method} with {group}: {unmet}")
                    continue
                found = of_a_step | {"step": sum(of_a_step.values())}
                self._keep(f"step/{group}/{batch}/{method}", found, *found)
                shown = (*found.values(), found["step"] / batch)
                table.add_row(group, str(batch), method, *(f"{each:,.0f}" for each in shown))
        self._console.print(table)

    def end(self) -> None:
        """What could not be measured, and the memory that the rest took."""
        for each in self._refused:
            self._console.print(f"not measured: {each}", style="dim", highlight=False)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self._console.print(f"peak memory: {peak:.0f} MiB")

    def _keep(self, name: str, found: dict[str, float], *kinds: str) -> None:
        self.figures |= {f"{name}/{kind}": found[kind] for kind in kinds}


def compared(console: Console, path: Path, before: figures.Figures, now: figures.Figures) -> None:
    """Print what has become of the figures of an earlier run, and what got slower."""
    found = figures.changes(before, now)
    table = _table(f"Against {path}", "figure", "before", "now", "now / before")
    for change in found:
        table.add_row(change.name, f"{change.before:.4g}", f"{change.now:.4g}", f"{change.ratio:.2f}")
    if found:
        console.print(table)
    for sentence in figures.verdict(found):
        console.print(sentence, highlight=False)


def _each(groups: Iterable[str], batches: Iterable[int]) -> list[tuple[str, int]]:
    return [(group, batch) for group in groups for batch in batches]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for column in columns:
        words = column in ("group", "method", "figure")
        table.add_column(column, justify="left" if words else "right")
    return table


def arguments() -> argparse.Namespace:
    """What is asked for on the command line."""

    def at_least(least: int) -> Callable[[str], int]:
        def number(text: str) -> int:
            if (found := int(text)) < least:
                raise argparse.ArgumentTypeError(f"{text} is below {least}")
            return found

        return number

    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="tables (default: all three)"
    )
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
    bench = Bench(console, asked.rounds)
    if "matrix" in asked.parts:
        bench.matrix(asked.methods)
    if "plain" in asked.parts:
        bench.plain(asked.groups, asked.batches)
    if "step" in asked.parts:
        bench.step(asked.groups, asked.batches, asked.methods)
    bench.end()
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
