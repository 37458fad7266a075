"""`python -m benchmarks.long`, part of `make bench-scale`: how soon a long session of 10,000 clients can be looked at.

The session is a real one of the smallest models on Fashion-MNIST, 500 rounds of ten participants: what is read are
ledger and events, whose sizes do not depend on the models. `show` is a process of its own, by the wall's clock, the
median of five; the app reads the session and then draws each panel for the first time, in processor time.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import simulator
from benchmarks.app import drawn, read
from benchmarks.scale import config
from simulator.nested import merged
from simulator.progress import unobserved
from tui.app.panels import PANELS

COMMAND = Path(sys.executable).with_name("htfl-sim")
SHOWN = 5


def trained(clients: int, rounds: int, folder: Path) -> None:
    """The session, whose rounds are all in its ledger."""
    settings = config(clients, "tiny", rounds, "fedlora")
    asked = simulator.Config.read(merged(settings.to_json(), {"checkpoint": {"every": 50}}))
    with simulator.Session.create(asked, folder, simulator.data_folder(None)) as session:
        session.run(unobserved)


def shown(folder: Path) -> float:
    """Seconds that `htfl-sim show` takes, from the start of Python."""
    command = [str(COMMAND), "show", folder.name, "--sessions-dir", str(folder.parent)]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long", description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=500)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "long"
        trained(given.clients, given.rounds, folder)
        run, reading = read(folder)
        panels = {name: drawn(name, run) for name in PANELS}
        slowest = max(panels, key=lambda name: panels[name])
        table = Table(title=f"{given.clients:,} clients, {given.rounds} rounds", show_header=False)
        table.add_row("ledger", f"{(folder / 'ledger.jsonl').stat().st_size / 1e6:.1f} MB")
        table.add_row("htfl-sim show", f"{statistics.median(shown(folder) for _ in range(SHOWN)):.2f} s")
        table.add_row("the app reads it in", f"{reading:.2f} s")
        table.add_row("and draws Live in", f"{panels['live']:.2f} s")
        table.add_row(f"the slowest panel, {slowest}, in", f"{panels[slowest]:.2f} s")
        Console().print(table)


if __name__ == "__main__":
    main()
