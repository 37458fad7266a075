"""`make bench-sweep`: what a sweep adds to the time of its points, and what running two at once gains.

The points are FedLoRA on HtM5 with handwritten digits and batches of 10, which differ in their seeds. Alone, each is a
`htfl-sim run` of its own, one after the other; then the same as a sweep, with one job and with two. Every process
begins afresh, as a user's does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_RUN = "import sys; from tui.cli import main; sys.exit(main(sys.argv[1:]))"
SETTINGS = ("--preset", "quickstart", "--set", "training.batch_size=10", "--no-progress")


def seconds(folder: Path, *arguments: str) -> float:
    """How long a command takes on sessions in `folder`."""
    command = [sys.executable, "-c", _RUN, *arguments, "--sessions-dir", str(folder)]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def alone(folder: Path, seeds: int, rounds: int) -> float:
    """Every point as a run of its own."""
    return sum(
        seconds(folder, "run", *SETTINGS, f"--rounds={rounds}", f"--seed={seed}", f"--session=s{seed}")
        for seed in range(seeds)
    )


def sweep(folder: Path, seeds: int, rounds: int, jobs: int) -> float:
    """All points as a sweep."""
    axis = f"--over=seed=0..{seeds - 1}"
    return seconds(folder, "sweep", f"jobs{jobs}", *SETTINGS, f"--rounds={rounds}", axis, f"--jobs={jobs}")


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
        print(f"runs alone      {single:7.1f} s", flush=True)
        one = sweep(folder, given.seeds, given.rounds, 1)
        print(
            f"sweep, 1 job    {one:7.1f} s   {100 * (one / single - 1):+.1f} % against the runs alone",
            flush=True,
        )
        two = sweep(folder, given.seeds, given.rounds, 2)
        print(
            f"sweep, 2 jobs   {two:7.1f} s   {one / two:.2f} times the points per hour of 1 job", flush=True
        )


if __name__ == "__main__":
    main()
