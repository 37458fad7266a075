"""`make bench`: how fast clients train on this CPU, beside what it can reach and beside a loop without a simulator.

Four tables: see `bench.py`. Sessions have two workers of one thread.
"""

import argparse
import resource
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import figures
from benchmarks.bench import METHODS, Bench, at_least, compared
from benchmarks.settings import GROUPS
from benchmarks.start import starts
from simulator import methods
from simulator.base.errors import HtflError

PARTS = ("ceilings", "matrix", "plain", "workers", "step")
BATCHES = (10, 64, 256)


def arguments() -> argparse.Namespace:
    """What is asked for on the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="tables (default: all five)")
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
    if "step" in asked.parts:
        bench.step(asked.groups, asked.batches, asked.methods)
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
