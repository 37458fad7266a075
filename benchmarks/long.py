"""`python -m benchmarks.long`, part of `make bench-scale`: cost of reading a long session of very many clients.

The session is generated: 500 rounds of 100,000 clients, with ten participants in each. Every command is a process of
its own. The app draws all panels; it runs without a terminal. The table shows the median of five.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

COMMAND = str(Path(sys.executable).with_name("htfl-sim"))
REPEATS = 5
LAUNCHER = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
sys.exit(code)
"""
"""A small process that starts the measured one: Linux counts a parent's memory at the fork as the child's peak."""
SIZE = (120, 40)
KEYS = "yyy2345678"
"""All modes of the accuracy chart, then all panels after Live."""


@dataclass(frozen=True)
class Cost:
    """Processor seconds, and peak memory in bytes."""

    seconds: float
    memory: int


def of_process(command: Sequence[str]) -> Cost:
    """What a process takes from its start to its end."""
    done = subprocess.run(
        [sys.executable, "-IS", "-c", LAUNCHER, *command], stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {done.returncode}.")
    seconds, kib = json.loads(done.stdout)
    return Cost(seconds, kib * 1024)


def show(folder: Path) -> Cost:
    return of_process([COMMAND, "show", folder.name, "--sessions-dir", str(folder.parent)])


def app(folder: Path, keys: str = "") -> Cost:
    """The app, which draws the session and presses keys."""
    return of_process([sys.executable, "-m", "benchmarks.long", "--app", str(folder), f"--keys={keys}"])


async def drawn(folder: Path, keys: str) -> None:
    """Open a session in the app, wait until it is drawn, press keys, and end the process."""
    from tui.app.app import HtflApp
    from tui.app.launch_options import LaunchOptions

    shown = HtflApp(LaunchOptions(folder.parent, folder.parent), folder)
    async with shown.run_test(size=SIZE) as pilot:
        began = time.monotonic()
        while not shown.view.run.round:
            if time.monotonic() - began > 60:
                raise SystemExit(shown.view.run.error or "The app did not read the session within a minute.")
            await pilot.pause(0.05)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause()
        os._exit(0)  # what it takes to close the app does not count


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long", description=__doc__)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--app", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--keys", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.app:
        asyncio.run(drawn(given.app, given.keys))
        return
    from tests import sessions

    with tempfile.TemporaryDirectory() as place:
        folder = sessions.make_large(Path(place) / "long", given.clients, given.rounds)
        table = Table(title=f"{given.clients:,} clients, {given.rounds} rounds, ten participants in each")
        for column in ("", "CPU s", "peak MB"):
            table.add_column(column, justify="right" if column else "left")
        for name, costs in {
            "htfl-sim --version": [of_process([COMMAND, "--version"]) for _ in range(REPEATS)],
            "htfl-sim show": [show(folder) for _ in range(REPEATS)],
            "the app opens it": [app(folder) for _ in range(REPEATS)],
            "the app draws all panels": [app(folder, KEYS) for _ in range(REPEATS)],
        }.items():
            seconds = statistics.median(cost.seconds for cost in costs)
            memory = statistics.median(cost.memory for cost in costs)
            table.add_row(name, f"{seconds:.2f}", f"{memory / 1e6:.0f}")
        Console().print(table)


if __name__ == "__main__":
    main()
