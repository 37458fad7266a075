"""`make bench WHAT=app`: what the terminal app costs, in processor time, as other programs may run.

Keys: seconds of the wall's clock from a key until the last that the app writes of it, by itself and beside a run with
two workers; beside them the app's own processor time, and the time less that in which its main thread waited for a
processor. `python -m benchmarks.app keys` measures keys alone, `large` 1,000 clients and 500 sessions.
"""

import argparse
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
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from rich.console import Console
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from benchmarks.figures import Sheet
from checkpoints import Store
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.gain import Partners
from simulator.results.analysis.ledger import LedgerBuilder
from simulator.results.analysis.measures import MEASURES
from simulator.results.analysis.run import SessionData
from tests import sessions
from tui.app.app import HtflApp
from tui.app.panels import PANELS
from tui.app.panels.sessions import Library, SessionList
from tui.app.runs import LaunchOptions
from tui.app.view import View

Answered = TypeVar("Answered")
CLIENTS, ROUNDS, LONG = 100, 500, 1000
MANY, SESSIONS = 1000, 500
SIZE = (120, 40)
REFRESHES = 15
WATCHED = 8.0  # seconds
MODES = ("band", "all lines", "heatmap")
LEFT, RIGHT, DOWN = "\x1b[D", "\x1b[C", "\x1b[B"
ESCAPE = "\x1b[27u"
"""As terminals send it that tell it from the beginning of another key; after another's it takes 0.1 s to be sure."""
MARKED = ("s", "g", "x", "j", "x")  # so that there is something to compare
KEYS = {
    "live": ("1", DOWN, DOWN, LEFT, LEFT, LEFT, ESCAPE, "y", "y", "y", "["),
    "clients": ("2", "j", "j", "G", "k", "o", "O", LEFT, LEFT, ESCAPE, "p"),
    "similarity": ("3", "d", "d", "e", "e", "o", "o", ",", ",", ".", "."),
    "cost": ("4", "u", "u", "u", "u", "y", "y", "o", "O", LEFT, LEFT, RIGHT, ESCAPE, "[", "[", "L"),
    "compare": ("5", *["y"] * (len(MEASURES) + 1), "u", "u", LEFT, LEFT, ESCAPE, ".", ".", ","),
    "log": ("6", "[", "[", "]", "L"),
    "data": ("7", "[", "[", "]", "L", "?", ESCAPE),
    "sessions": ("s", "j", "k", "o", "o", "?", ESCAPE),
}
"""By panel. Each changes what is on the screen, where the cursor stands in the first row, also in the next pass: in
Compare, y goes through all measures and back to the first, because a chart without a value has no crosshair."""
PRESSED = 200
SILENCE, PATIENCE = 0.15, 10.0
"""Seconds without a byte after which a key has been answered, and after which it never is."""


class Stage(App[None]):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.panel = PANELS[name](name)

    def compose(self) -> ComposeResult:
        yield self.panel


def growing(rounds: int, more: int, clients: int = CLIENTS, cka_every: int = 10) -> list[SessionData]:
    """A run after each of the last `more` rounds, CKA measured every tenth."""
    records: list[Any] = [
        sessions.record(round, clients, cka_every=cka_every) for round in range(1, rounds + 1)
    ]
    config = sessions.config(clients, rounds)
    grower = LedgerBuilder()
    grower.extend(records[: rounds - more])
    runs = []
    for done in range(rounds - more + 1, rounds + 1):
        grower.extend(records[done - 1 : done])
        runs.append(SessionData(Path("bench"), config=config, ledger=grower.ledger(), state="running"))
    return runs


def staged(name: str, script: Callable[[Stage, Pilot[None]], Awaitable[Answered]]) -> Answered:
    """The result of a script beside one panel."""

    async def run() -> Answered:
        app = Stage(name)
        async with app.run_test(size=(SIZE[0], SIZE[1] - 3)) as pilot:
            return await script(app, pilot)

    return asyncio.run(run())


async def shown(app: Stage, pilot: Pilot[None], view: View) -> float:
    """Processor seconds until the panel shows a view."""
    began = time.process_time()
    app.panel.show(view)
    await pilot.pause()
    return time.process_time() - began


def refresh(name: str, runs: list[SessionData], chart: int) -> float:
    """Milliseconds of processor time until a panel shows that a round has come; the median."""
    pinned = frozenset({3, 50})
    views = [View(run, chart=chart, pinned=pinned, compared=(run, runs[0])) for run in runs]

    async def measure(app: Stage, pilot: Pilot[None]) -> float:
        return statistics.median([await shown(app, pilot, view) for view in views][2:]) * 1000

    return staged(name, measure)


def listed(folder: Path) -> tuple[float, float, float]:
    """Milliseconds of a list of sessions: to read unchanged ones, to show a change, to find the first's partners."""
    library = Library(lambda found: None)
    found = library.read(folder)
    library.sketch()
    began = time.process_time()
    library.read(folder)
    library.sketch()
    again = time.process_time() - began

    async def measure(app: Stage, pilot: Pilot[None]) -> float:
        took = []
        app.panel.show(View(SessionData(folder / "none"), sessions_dir=folder))
        rows = app.panel.query_one(SessionList)
        while len(rows.sketches) < len(found):
            await pilot.pause(0.2)
        for round in range(REFRESHES):
            began = time.process_time()
            rows.post_message(SessionList.Listed((replace(found[0], accuracy=round / 100), *found[1:])))
            await pilot.pause()
            took.append(time.process_time() - began)
        return statistics.median(took[2:])

    shown, (one, _) = staged("sessions", measure), read(Path(found[0].path))
    began = time.process_time()
    Partners().find(one, folder)
    return again * 1000, shown * 1000, (time.process_time() - began) * 1000


def large(console: Console) -> None:
    runs = growing(60, REFRESHES, MANY, cka_every=0)
    title = f"A refresh: {MANY} clients, 60 rounds, {SIZE[0]}×{SIZE[1]}; processor time"
    table = Sheet(title, ("what", "ms"))
    for name in ("live", "clients", "cost", "compare", "log"):
        table.add(name, f"{refresh(name, runs, 0):.0f}")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(SESSIONS):
            method = ("standalone", "fedlora", "fedproto")[number % 3]
            sessions.make(Path(folder) / f"s{number:03}", clients=4, rounds=4, method=method)
        again, shown, partners = listed(Path(folder))
    table.add(f"{SESSIONS} sessions, one has changed", f"{shown:.0f}")
    table.add(f"{SESSIONS} sessions, read again in the background", f"{again:.0f}")
    table.add(f"{SESSIONS} sessions, first search for partners, in the background", f"{partners:.0f}")
    console.print(table.shown())


def read(folder: Path) -> tuple[SessionData, float]:
    began = time.process_time()
    feed = Feed(folder)
    feed.poll()
    if feed.run.error:
        raise SystemExit(feed.run.error)
    return feed.run, time.process_time() - began


class Answer(NamedTuple):
    """Seconds from a key to its screen: on the wall, of processors in the app, and on the wall without queueing."""

    wall: float
    processor: float
    unqueued: float


class Terminal:
    """The app on a session, in a terminal of its own that is read as fast as it is written."""

    def __init__(self, folder: Path) -> None:
        self.bytes, self.last = 0, 0.0  # written by the app; when it wrote last
        self.queued = 0.0  # the seconds of its queueing until then
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        command = [sys.executable, "-m", "benchmarks.app", "--show", str(folder)]
        self._app = subprocess.Popen(
            command, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
        )
        os.close(follower)
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        try:
            while data := os.read(self._leader, 1 << 16):
                self.last, self.queued = time.perf_counter(), self._queued()
                self.bytes += len(data)
        except OSError:  # the terminal's other end is gone
            return

    def send(self, key: str) -> None:
        os.write(self._leader, key.encode())

    def processor(self) -> float:
        """Seconds for which the app has had a processor."""
        threads = Path(f"/proc/{self._app.pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9

    def _queued(self) -> float:
        """Seconds for which the app's main thread has waited for a processor."""
        return int(Path(f"/proc/{self._app.pid}/schedstat").read_text().split()[1]) / 1e9

    def press(self, key: str) -> Answer:
        """What a key takes until the last that is written of it, after which there is silence."""
        on, queued, before, began = self.processor(), self._queued(), self.bytes, time.perf_counter()
        self.send(key)
        while (now := time.perf_counter()) - began < PATIENCE:
            if self.bytes > before and now - self.last > SILENCE:
                wall = self.last - began
                return Answer(wall, self.processor() - on, max(wall - (self.queued - queued), 0.0))
            time.sleep(0.005)
        raise SystemExit(
            f"{key!r} was not answered: it changed nothing on the screen within {PATIENCE:.0f} s"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        ended = self._app.poll() is not None
        self._app.terminate()
        self._app.wait()
        os.close(self._leader)
        if ended:
            raise SystemExit("the app ended: nothing was measured")


def written(folder: Path, live: bool) -> float:
    """Bytes a second that the app writes to its terminal while it shows a session that rests, or grows."""
    with Store.create(folder, document()) if live else nullcontext() as store, Terminal(folder) as terminal:
        done = settle(terminal, store)
        before = terminal.bytes
        if store is not None:
            train(store, done + 1, int(WATCHED))
        else:
            time.sleep(WATCHED)
        return (terminal.bytes - before) / WATCHED


def answers(folder: Path) -> list[tuple[str, str, Answer]]:
    """Panel, key and its answer for PRESSED keys."""
    with Terminal(folder) as terminal:
        settle(terminal, None)
        for key in MARKED:
            terminal.send(key)
            settle(terminal, None)
        took = list[tuple[str, str, Answer]]()
        while len(took) < PRESSED:
            for panel, (show, *others) in KEYS.items():
                took.append((panel, show, terminal.press(show)))
                terminal.send("g")
                time.sleep(1.0)
                took += [(panel, key, terminal.press(key)) for key in others]
        return took[:PRESSED]


@contextmanager
def training(folder: Path) -> Iterator[None]:
    """A run that has both cores: the quickstart, endless, with two workers."""
    htfl_sim = str(Path(sys.executable).with_name("htfl-sim"))
    where = ("--sessions-dir", str(folder), "--session", "run")
    command = [htfl_sim, "run", "--rounds", "100000", "--workers", "2", *where]
    nowhere = subprocess.DEVNULL
    run = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        ledger = folder / "run" / "ledger.jsonl"
        while not (ledger.exists() and ledger.stat().st_size) and run.poll() is None:
            time.sleep(0.2)
        yield
        if run.poll() is not None:
            raise SystemExit("the run ended: nothing was measured beside it")
    finally:
        run.terminate()
        run.wait()


def keys(console: Console, each_key: bool = False) -> None:
    """Measure how soon keys are answered, and print it; `each_key`: also every single answer."""
    table = Sheet(
        f"From a key to its screen: {PRESSED} keys, {len(KEYS)} panels, {SIZE[0]}×{SIZE[1]}; ms",
        ("way", "what", "median", "95th percentile", "longest", "load", "a million additions"),
    )
    with tempfile.TemporaryDirectory() as folder:
        home, other = Path(folder) / "home", Path(folder) / "other"
        samples = sessions.samples(CLIENTS)
        sessions.make(home / "first", clients=CLIENTS, rounds=ROUNDS, cka_every=10, samples=samples)
        sessions.make(home / "second", clients=CLIENTS, rounds=ROUNDS, method="fedssa", ceiling=0.85)
        for beside, way in (("by itself", nullcontext()), ("beside a run with both cores", training(other))):
            with way:
                took = answers(home / "first")
                load, speed = os.getloadavg()[0], additions() * 1000
            for clock, name in enumerate(("wall", "processor", "wall, unqueued")):
                median, high = np.percentile([each[2][clock] for each in took], (50, 95)) * 1000
                panel, key, longest = max(took, key=lambda each: each[2][clock])
                slowest = f"{longest[clock] * 1000:.0f} ({key!r}, {panel})"
                told = (beside, name, f"{median:.0f}", f"{high:.0f}", slowest, f"{load:.1f}", f"{speed:.0f}")
                table.add(*(told if not clock else ("", *told[1:5], "", "")))
            if each_key:
                for panel, key, found in took:
                    console.print(panel, repr(key), *(f"{clock * 1000:.0f}" for clock in found))
    console.print(table.shown())


def additions() -> float:
    """Processor seconds of a million additions in Python, the least of nine: how fast this machine is at this hour."""
    took = []
    for _ in range(9):
        began, total = time.process_time(), 0
        for number in range(1_000_000):
            total += number
        took.append(time.process_time() - began)
    return min(took)


def settle(terminal: Terminal, store: Store | None) -> int:
    """Wait until the app has drawn its first screens; how many rounds were trained meanwhile."""
    for second in range(1, 60):
        before = terminal.bytes
        if store is not None:
            train(store, second, 1)
        else:
            time.sleep(2)
        drawn = before > 20_000
        if drawn and (store is not None or terminal.bytes == before):
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
    known = {"config": sessions.config(CLIENTS, LONG), "data_fingerprint": "f" * 64}
    return known | {"environment": {}, "parent": None, "plugin": None}


def main() -> None:
    console = Console()
    runs = growing(ROUNDS, REFRESHES)
    title = f"A refresh: {CLIENTS} clients, {ROUNDS} rounds, {SIZE[0]}×{SIZE[1]}; processor time"
    table = Sheet(title, ("what", "ms"))
    for name in PANELS:
        for chart, mode in enumerate(MODES) if name == "live" else [(0, "")]:
            table.add(f"{name} {mode}".strip(), f"{refresh(name, runs, chart):.0f}")
    console.print(table.shown())
    with tempfile.TemporaryDirectory() as folder:
        long = sessions.make(
            Path(folder) / "long", clients=CLIENTS, rounds=LONG, cka_every=100, checkpoint_every=100
        )
        run, reading = read(long)
        drawn = staged("live", lambda app, pilot: shown(app, pilot, View(run)))
        console.print(
            f"opening {LONG} rounds × {CLIENTS} clients: read in {reading:.2f} s, drawn in {drawn:.2f} s"
        )
        console.print(f"to the terminal, idle: {written(long, live=False):.0f} B/s")
        console.print(
            f"to the terminal, a round a second: {written(Path(folder) / 'live', live=True):.0f} B/s"
        )
    large(console)
    keys(console)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=["keys", "large"], help="measure this alone")
    parser.add_argument("--show", type=Path, metavar="SESSION", help="be the app that is measured")
    parser.add_argument("--each", action="store_true", help="also print the answer to each key")
    asked = parser.parse_args()
    if asked.show:
        HtflApp(LaunchOptions(asked.show.parent, asked.show.parent), asked.show).run()
    elif asked.part == "large":
        large(Console())
    elif asked.part:
        keys(Console(), asked.each)
    else:
        main()
