"""`python -m benchmarks.app`: what the terminal app costs.

A refresh: a round has come, the panel is shown anew and its screen composed; median of many. Opening: a session of
1,000 rounds and 100 clients, from disk to a drawn screen. Times are the processor's, as other programs may run. The
wire: bytes that the app writes to its terminal, a pseudo-terminal of 120×40, when nothing happens and when a round of
100 clients ends every second.
"""

import asyncio
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
from pathlib import Path

from rich.console import Console
from rich.table import Table
from textual.app import App, ComposeResult

from checkpoints import Store
from simulator.analysis.feed import Feed
from simulator.analysis.ledger import LedgerBuilder
from simulator.analysis.run import Run
from tests import sessions
from tui.app.app import HtflApp
from tui.app.launch_options import LaunchOptions
from tui.app.panels import PANELS
from tui.app.view import View

CLIENTS, ROUNDS, LONG = 100, 500, 1000
SIZE = (120, 40)
REFRESHES = 15
WATCHED = 8.0  # seconds
MODES = ("band", "all lines", "heatmap")


class Stage(App[None]):
    """One panel."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.panel = PANELS[name](name)

    def compose(self) -> ComposeResult:
        yield self.panel


def growing(rounds: int, more: int) -> list[Run]:
    """A run after each of the last `more` rounds, CKA measured every tenth."""
    records = [sessions.record(round, CLIENTS, cka_every=10) for round in range(1, rounds + 1)]
    config = sessions.config(CLIENTS, rounds)
    grower = LedgerBuilder()
    grower.extend(records[: rounds - more])
    runs = []
    for done in range(rounds - more + 1, rounds + 1):
        grower.extend(records[done - 1 : done])
        runs.append(
            Run(
                Path("bench"),
                config=config,
                ledger=grower.ledger(),
                state="running",
            )
        )
    return runs


def refresh(name: str, runs: list[Run], chart: int) -> float:
    """Milliseconds of processor time until a panel shows that a round has come; the median."""

    async def measure() -> float:
        app, took = Stage(name), []
        async with app.run_test(size=(SIZE[0], SIZE[1] - 3)) as pilot:
            for run in runs:
                view = View(run, chart=chart, pinned=frozenset({3, 50}), compared=(run, runs[0]))
                began = time.process_time()
                app.panel.show(view)
                await pilot.pause()
                took.append(time.process_time() - began)
        return statistics.median(took[2:]) * 1000

    return asyncio.run(measure())


def opening(folder: Path) -> tuple[float, float]:
    """Seconds to read a long session, and to show it from there."""
    began = time.process_time()
    feed = Feed(folder)
    feed.poll()
    read = time.process_time() - began
    if feed.run.error:
        raise SystemExit(feed.run.error)

    async def show() -> float:
        app = Stage("live")
        async with app.run_test(size=(SIZE[0], SIZE[1] - 3)) as pilot:
            began = time.process_time()
            app.panel.show(View(feed.run))
            await pilot.pause()
            return time.process_time() - began

    return read, asyncio.run(show())


def written(folder: Path, live: bool) -> float:
    """Bytes a second that the app writes to its terminal while it shows a session that rests, or grows."""
    store = Store.create(folder, document()) if live else None
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    command = [sys.executable, "-m", "benchmarks.app", str(folder)]
    app = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    os.close(follower)
    counted = [0]

    def drain() -> None:
        try:
            while data := os.read(leader, 1 << 16):
                counted[0] += len(data)
        except OSError:  # the terminal's other end is gone
            return

    threading.Thread(target=drain, daemon=True).start()
    try:
        done = settle(counted, store)
        before = counted[0]
        if store is not None:
            train(store, done + 1, int(WATCHED))
        else:
            time.sleep(WATCHED)
        if app.poll() is not None:
            raise SystemExit("the app ended: nothing was measured")
        return (counted[0] - before) / WATCHED
    finally:
        app.terminate()
        app.wait()
        os.close(leader)
        if store is not None:
            store.close()


def settle(counted: list[int], store: Store | None) -> int:
    """Wait until the app has drawn its first screens; how many rounds were trained meanwhile."""
    for second in range(1, 60):
        before = counted[0]
        if store is not None:
            train(store, second, 1)
        else:
            time.sleep(2)
        drawn = before > 20_000
        if drawn and (store is not None or counted[0] == before):
            return second
    raise SystemExit("the app did not come to rest within a minute")


def train(store: Store, first: int, rounds: int) -> None:
    """A round a second, with word of its progress four times."""
    for round in range(first, first + rounds):
        for quarter in range(4):
            store.heartbeat(
                "running", round=round, rounds=LONG, phase="train", done=25 * quarter, clients=CLIENTS
            )
            time.sleep(0.25)
        store.append(sessions.record(round, CLIENTS, cka_every=5))


def document() -> dict[str, object]:
    """What session.json says of a run."""
    return {
        "config": sessions.config(CLIENTS, LONG),
        "environment": {},
        "data_fingerprint": "f" * 64,
        "parent": None,
        "plugin": None,
    }


def main() -> None:
    """Measure and print."""
    console = Console()
    runs = growing(ROUNDS, REFRESHES)
    table = Table(title=f"A refresh: {CLIENTS} clients, {ROUNDS} rounds, {SIZE[0]}×{SIZE[1]}; processor time")
    table.add_column("panel")
    table.add_column("ms", justify="right")
    for name in PANELS:
        for chart, mode in enumerate(MODES) if name == "live" else [(0, "")]:
            table.add_row(f"{name} {mode}".strip(), f"{refresh(name, runs, chart):.0f}")
    console.print(table)
    with tempfile.TemporaryDirectory() as folder:
        long = sessions.make(
            Path(folder) / "long", clients=CLIENTS, rounds=LONG, cka_every=100, checkpoint_every=100
        )
        read, drawn = opening(long)
        console.print(
            f"opening {LONG} rounds × {CLIENTS} clients: read in {read:.2f} s, drawn in {drawn:.2f} s"
        )
        console.print(f"to the terminal, idle: {written(long, live=False):.0f} B/s")
        console.print(
            f"to the terminal, a round a second: {written(Path(folder) / 'live', live=True):.0f} B/s"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        session = Path(sys.argv[1])
        HtflApp(LaunchOptions(session.parent, session.parent), session).run()
    else:
        main()
