"""`make bench-sweep`: what a sweep adds to the time of its points, and what running two at once gains.

The points are FedLoRA on HtM5 with handwritten digits and batches of 10, which differ in their seeds. Alone, each is a
`htfl-sim run` of its own, one after the other; then the same as a sweep, with one job and with two. Every process
begins afresh, as a user's does. Busy are the cores that it had on average, by the processor time of its processes.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_RUN = "import sys; from tui.cli import main; sys.exit(main(sys.argv[1:]))"
SETTINGS = ("--preset", "quickstart", "--set", "training.batch_size=10", "--no-progress")


@dataclass(frozen=True)
class Took:
    """Seconds of the wall's clock, and of processors."""

    wall: float
    processors: float

    def __add__(self, other: "Took") -> "Took":
        return Took(self.wall + other.wall, self.processors + other.processors)

    def __str__(self) -> str:
        return f"{self.wall:7.1f} s   {self.processors / self.wall:.2f} cores busy"


def took(folder: Path, *arguments: str) -> Took:
    """What a command takes on sessions in `folder`."""
    command = [sys.executable, "-c", _RUN, *arguments, "--sessions-dir", str(folder)]
    began, before = time.perf_counter(), _processors()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Took(time.perf_counter() - began, _processors() - before)


def _processors() -> float:
    """Seconds that ended child processes, and theirs, have had."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def alone(folder: Path, seeds: int, rounds: int) -> Took:
    """Every point as a run of its own."""
    runs = (
        took(folder, "run", *SETTINGS, f"--rounds={rounds}", f"--seed={seed}", f"--session=s{seed}")
        for seed in range(seeds)
    )
    return sum(runs, Took(0.0, 0.0))


def sweep(folder: Path, seeds: int, rounds: int, jobs: int) -> Took:
    """All points as a sweep."""
    axis = f"--over=seed=0..{seeds - 1}"
    return took(folder, "sweep", f"jobs{jobs}", *SETTINGS, f"--rounds={rounds}", axis, f"--jobs={jobs}")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="points of the study")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each point")
    given = parser.parse_args()
    print(f"{given.seeds} points of {given.rounds} rounds on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        single = alone(folder, given.seeds, given.rounds)
        print(f"runs alone      {single}", flush=True)
        one = sweep(folder, given.seeds, given.rounds, 1)
        added = 100 * (one.wall / single.wall - 1)
        print(f"sweep, 1 job    {one}   {added:+.1f} % against the runs alone", flush=True)
        two = sweep(folder, given.seeds, given.rounds, 2)
        gain = one.wall / two.wall
        print(f"sweep, 2 jobs   {two}   {gain:.2f} times the points per hour of 1 job", flush=True)


if __name__ == "__main__":
    main()
