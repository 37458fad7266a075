"""`python -m benchmarks.overhead`: what watching a run costs it, in rounds per second.

The same run of HtM5 on Fashion-MNIST, headless, begun in the app, and headless with an app attached from another
process; in turn, several times. The figure is the median over rounds of the ledger's seconds for training and
evaluation. The terminal is a pseudo-terminal of 120×40 that is read as fast as it is written.
"""

import argparse
import fcntl
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

import checkpoints

COMMAND = str(Path(sys.executable).with_name("htfl-sim"))
RUN = ("--preset", "fedlora_htm5", "--dataset", "fashion_mnist", "--workers", "2")
WAYS = ("headless", "begun in the app", "an app attached")


@contextmanager
def in_terminal(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command with a terminal of its own."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        [COMMAND, *arguments], stdin=follower, stdout=follower, stderr=follower, start_new_session=True
    )
    os.close(follower)

    def drain() -> None:
        try:
            while os.read(leader, 1 << 16):
                pass
        except OSError:  # the other end is gone
            return

    threading.Thread(target=drain, daemon=True).start()
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        os.close(leader)


def seconds(way: str, folder: Path, rounds: int) -> list[float]:
    """Seconds of every round but the first, which warms up."""
    where = ("--sessions-dir", str(folder), "--session", "run", "--rounds", str(rounds))
    if way == "begun in the app":
        with in_terminal("tui", "--no-tour", *RUN, *where):
            await_rounds(folder / "run", rounds)
    else:
        nowhere = subprocess.DEVNULL
        run = subprocess.Popen([COMMAND, "run", *RUN, *where], stdout=nowhere, stderr=nowhere)
        if way == "an app attached":
            await_rounds(folder / "run", 1)
            with in_terminal("tui", "--no-tour", "--sessions-dir", str(folder), "--session", "run"):
                run.wait()
        run.wait()
    records = checkpoints.SessionReader(folder / "run").records()
    return [record["timing"]["train"] + record["timing"]["evaluate"] for record in records[1:]]


def await_rounds(session: Path, rounds: int) -> None:
    """Until so many rounds are in the ledger."""
    for _ in range(3600):
        if checkpoints.is_session(session) and len(checkpoints.SessionReader(session).records()) >= rounds:
            return
        time.sleep(0.5)
    raise SystemExit(f"{session} did not get to round {rounds} within half an hour")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(arguments.turns):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                taken[way] += seconds(way, Path(folder), arguments.rounds)
            print(f"turn {turn + 1}, {way}: {statistics.median(taken[way]):.2f} s a round", file=sys.stderr)
    table = Table(title="HtM5 on Fashion-MNIST, 10 clients, two workers")
    for column in ("", "s a round", "over headless"):
        table.add_column(column, justify="left" if not column else "right")
    base = statistics.median(taken[WAYS[0]])
    for way, values in taken.items():
        median = statistics.median(values)
        table.add_row(way, f"{median:.2f}", f"{100 * (median / base - 1):+.1f} %")
    Console().print(table)


if __name__ == "__main__":
    main()
