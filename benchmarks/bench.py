"""`make bench`: how fast clients train on this device, beside what it can reach and beside a loop without a simulator.

On a CUDA device (`WHAT=gpu`) the tables are written into docs/performance.md. Every ratio is taken in one run.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path

import torch
from rich.console import Console

from benchmarks import figures, plain
from benchmarks.figures import Sheet, placed
from benchmarks.plain import GROUPS, config
from simulator import methods
from simulator.base.errors import ConfigError, HtflError
from simulator.base.nested import Raw
from simulator.base.tensors import select_device
from simulator.training.precision import Precision

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
METHODS = ("standalone", "fedlora", "fedgh", "fedssa")
PARTS = {"cpu": ("ceilings", "matrix", "plain", "workers"), "cuda": ("ceilings", "matrix", "plain", "memory")}
PRECISIONS: dict[str, tuple[Precision, ...]] = {
    "cpu": ("float32", "bf16"),
    "cuda": ("float32", "tf32", "bf16"),
}
WAYS: dict[str, dict[str, Raw]] = {
    "cpu": {"": {}},
    "cuda": {
        f"{precision}, {words}": {"training": {"precision": precision}, "runtime": {"runner": runner}}
        for precision in PRECISIONS["cuda"]
        for words, runner in {"side by side": "parallel", "stacked": "stacked"}.items()
    },
}
"""Settings laid over those of a run beside the plain loop, by what they are called."""
TAKE_PART = 10
"""Clients of a round whose memory is looked at, of however many there are."""


class Bench:
    """What is measured on a device, printed as it comes, with the figures of all of it by name."""

    def __init__(
        self, console: Console, rounds: int, device: torch.device = figures.CPU, images: int | None = None
    ) -> None:
        """images: on which each client trains, where a group's number would take too long; whole batches at least."""
        self.figures: dict[str, float] = {}
        self._console, self._rounds, self._images, self._device = console, rounds, images, device
        self._kind = device.type
        self._refused: list[str] = []
        on_cuda = self._kind == "cuda"
        self._ceiling: Callable[[Precision], float] = (
            cache(partial(plain.products, device))
            if on_cuda
            else lambda precision: plain.rate(precision=precision)
        )
        """Operations a second of matrix products in a precision; a GPU's do not scatter, and are measured once."""
        self._name = (
            f"an {torch.cuda.get_device_name(device)} with torch {torch.__version__}"
            if on_cuda
            else "the CPU"
        )

    def ceilings(self) -> Sheet:
        """The rates of matrix products, and what the CPU has for fast arithmetic."""
        sheet = Sheet(f"Matrix products on {self._name}", ("what", "GFLOP/s"))
        for precision in PRECISIONS[self._kind]:
            self.figures[f"ceiling/{precision}/rate"] = found = self._ceiling(precision)
            sheet.add(precision, f"{found / 1e9:,.1f}")
        names = ", ".join(figures.features()) or "none of those that speed up training"
        return self._shown(sheet, f"Features of the CPU: {names}.")

    def matrix(self, names: Iterable[str] = METHODS) -> Sheet:
        """Sessions of these methods as a share of the matrix rate."""
        sheet = Sheet(
            f"HtM5 on Fashion-MNIST, on {self._name}: N=10, 2 classes each, batch 64, 1 epoch",
            ("method", "s/round", "GFLOP/s", "matrix GFLOP/s", "share", "checkpoint", "accuracy"),
        )
        for method in names:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    session = Path(folder) / "session"
                    found = plain.session(
                        method, self._rounds, session, self._kind, lambda: self._ceiling("float32")
                    )
            except ConfigError as unmet:
                self._refused.append(f"{method} as a session: {unmet}")
                continue
            self._keep(f"matrix/htm5/64/{method}", found, "seconds", "share")
            rates = {"ours": found["rate"] / 1e9, "most": found["matrix_rate"] / 1e9}
            row = "{method}|{seconds:.2f}|{ours:,.0f}|{most:,.0f}|{share:.2f}|{checkpoint:.1%}|{accuracy:.3f}"
            sheet.fill(row, method=method, **rates, **found)
        return self._shown(
            sheet,
            "share: training FLOPs (torch's counter) per second of the training part of a round, over the matrix "
            "rate.\ncheckpoint: all of a round that is neither training nor evaluation: hashing, writing, syncing, "
            "retiring.",
        )

    def plain(self, groups: Iterable[str], batches: Sequence[int]) -> Sheet:
        """The training of a round of standalone beside the plain loop's."""
        sheet = Sheet(
            f"standalone beside a plain PyTorch loop, on {self._name}: IID in equal shares, 1 epoch",
            (
                *("group", "batch", "way", "plain s", "s", "times plain", "by processor time"),
                *("gain of all cores", "plain: gain of all cores", "share of matrix rate"),
            ),
        )
        for group, batch, (way, settings) in product(groups, batches, WAYS[self._kind].items()):
            run = config(group, batch, images=self._images, device=self._kind, **settings)
            precision = run.training.precision
            try:
                before = self._ceiling(precision)
                found = plain.beside(run, self._rounds)
            except ConfigError as unmet:
                self._refused.append(f"{group}, {way}: {unmet}")
                continue
            found["share"] = found["rate"] / statistics.fmean([before, self._ceiling(precision)])
            name = "/".join(filter(None, ("plain", group, str(batch), way)))
            self._keep(name, found, "seconds", "plain_seconds", "times_plain", "share")
            columns = ("plain_seconds", "seconds", "times_plain", "processor_times_plain", "by_cores",
                       "plain_by_cores", "share")  # fmt: skip
            cells = (f"{found[each]:.2f}" if each in found else "–" for each in columns)
            sheet.add(group, str(batch), way or "side by side", *cells)
        return self._shown(sheet)

    def workers(self, groups: Iterable[str], batches: Sequence[int]) -> Sheet:
        """The training of a round of standalone with other numbers of workers and threads than the default ones."""
        sheet = Sheet(
            f"standalone on {self._name} by workers and threads of each: IID in equal shares, 1 epoch",
            ("group", "batch", "workers × threads", "s", "over the default"),
        )
        for group, batch in product(groups, batches):
            found = plain.by_workers(config(group, batch, images=self._images), self._rounds)
            default = next(iter(found.values()))
            for (workers, threads), seconds in found.items():
                self.figures[f"workers/{group}/{batch}/{workers}×{threads}/seconds"] = seconds
                over = f"{seconds / default:.2f}"
                sheet.add(group, str(batch), f"{workers} × {threads}", f"{seconds:.2f}", over)
        return self._shown(sheet)

    def memory(self) -> Sheet:
        """The most memory of tensors on the device in a round in which as many clients take part each time."""
        sheet = Sheet(
            f"Most memory of tensors on {self._name}: HtM5, batch 10, {TAKE_PART} clients take part",
            ("clients", "at once", "MiB"),
        )
        for clients, at_once in product((TAKE_PART, 10 * TAKE_PART, 50 * TAKE_PART), (1, 4)):
            part = {"participation": TAKE_PART / clients}
            run = config(
                "htm5", 10, workers=at_once, images=64, clients=clients, device=self._kind, federation=part
            )
            ours = plain.Ours(run)
            ours.round()  # pays for what torch loads when first used
            torch.cuda.reset_peak_memory_stats(self._device)
            ours.round()
            peak = float(torch.cuda.max_memory_allocated(self._device))
            ours.close()
            self.figures[f"memory/htm5/{clients}/{at_once}/peak"] = peak
            sheet.add(f"{clients:,}", str(at_once), f"{peak / 2**20:,.0f}")
        return self._shown(sheet)

    def _shown(self, sheet: Sheet, note: str = "") -> Sheet:
        """The table, printed unless nothing in it could be measured, with a note."""
        if sheet.rows:
            self._console.print(sheet.shown())
        if note:
            self._console.print(note, highlight=False)
        return sheet

    def _keep(self, name: str, found: Mapping[str, float], *kinds: str) -> None:
        self.figures |= {f"{name}/{kind}": found[kind] for kind in kinds}

    def end(self) -> None:
        for each in self._refused:
            self._console.print(f"not measured: {each}", style="dim", highlight=False)


def write(path: Path, part: str, sheet: Sheet) -> None:
    """Put a GPU's table into its place in the page if it has rows. Raises ValueError where the page has none."""
    if sheet.rows:
        page = path.read_text("utf-8")
        path.write_text(placed(page, f"gpu-{part}", f"{sheet.markdown()}\n"), "utf-8")


def compared(console: Console, path: Path, before: figures.Figures, now: figures.Figures) -> None:
    found = figures.changes(before, now)
    sheet = Sheet(f"Against {path}", ("figure", "before", "now", "now / before"))
    for change in found:
        sheet.add(change.name, f"{change.before:.4g}", f"{change.now:.4g}", f"{change.ratio:.2f}")
    if found:
        console.print(sheet.shown())
    for sentence in figures.verdict(found):
        console.print(sentence, highlight=False)


def at_least(least: int) -> Callable[[str], int]:

    def number(text: str) -> int:
        if (found := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{text} is below {least}")
        return found

    return number


def starts() -> str:
    """How long `--help` takes, and a run with next to nothing to do; beside the latter, what importing torch takes."""

    def least(*command: str | Path) -> float:
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
        return min(seconds)

    command = Path(sys.executable).with_name("htfl-sim")
    with tempfile.TemporaryDirectory() as folder:
        tiny = (f"--sessions-dir={folder}", "--rounds=1", "--clients=1", "--set=data.limit=100")
        answer, run = least(command, "--help"), least(command, "run", *tiny, "--set=training.epochs=1")
    torch_alone = least(sys.executable, "-c", "import torch")
    return (
        f"`htfl-sim --help`: {answer:.2f} s · a run of one client, one round, 80 images: {run:.2f} s, "
        f"of which importing torch {torch_alone:.2f} s"
    )


def main(given: list[str] | None = None, kind: str = "cpu") -> None:
    """Measure and print; of a CUDA device, also write the page."""
    assert __doc__ is not None
    on_cuda = kind == "cuda"
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{'gpu' if on_cuda else 'bench'}", description=__doc__.splitlines()[0]
    )

    def several(name: str, **about: object) -> None:
        parser.add_argument(f"--{name}", nargs="+", **about)  # type: ignore[arg-type]

    several("parts", choices=PARTS[kind], default=PARTS[kind], help="tables (default: all four)")
    groups = ("htm5", "htfe8") if on_cuda else ("htm5",)
    several("groups", choices=GROUPS, default=groups, help=f"of models (default: {' and '.join(groups)})")
    several("batches", type=at_least(2), default=(10, 64) if on_cuda else (10, 64, 256), metavar="SIZE")
    several("methods", choices=methods.names(), default=METHODS, metavar="METHOD", help="(default: four)")
    parser.add_argument(
        "--images", type=at_least(2), metavar="N", help="on which each client trains (default: by group)"
    )
    parser.add_argument("--rounds", type=at_least(1), default=3, help="timed, of each (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with what --json wrote earlier")
    asked = parser.parse_args(given)
    if on_cuda and not torch.cuda.is_available():
        raise ConfigError("there is no CUDA device here to measure; `make bench` measures the CPU.")
    device = select_device(kind)
    # refused now, not in minutes
    before = None if asked.against is None else figures.read(asked.against, device)
    if asked.json is not None:
        figures.refuse_unwritable(asked.json)
    console = Console(width=None if sys.stdout.isatty() else 120)
    bench = Bench(console, asked.rounds, device, asked.images)
    parts: dict[str, Callable[[], Sheet]] = {
        "ceilings": bench.ceilings,
        "matrix": partial(bench.matrix, asked.methods),
        "plain": partial(bench.plain, asked.groups, asked.batches),
        "workers": partial(bench.workers, asked.groups, asked.batches),
        "memory": bench.memory,
    }
    for part in (each for each in parts if each in asked.parts):
        sheet = parts[part]()
        if on_cuda:
            write(PAGE, part, sheet)
        if asked.json is not None:  # at once: what comes after it may fail, or be cut short
            figures.write(asked.json, bench.figures, device)
    bench.end()
    console.print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    if before is not None:
        compared(console, asked.against, before, bench.figures)
    elif not on_cuda and set(asked.parts) == set(PARTS[kind]):
        console.print(starts())


def start(kind: str) -> None:
    """`main` of a module: an error is one sentence and its exit code."""
    try:
        main(kind=kind)
    except HtflError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    start("cpu")
