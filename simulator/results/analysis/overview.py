"""Many sessions at once, each read no further than is asked of it: what a table of a hundred takes."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from checkpoints import DiskError, SessionUnreadable, shown
from simulator.base.record import legible
from simulator.results.analysis.ledger import Lines
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.well_formed import well_formed
from simulator.sessions.history import settings_in_force
from simulator.sessions.reader import CheckedReader


@dataclass(frozen=True)
class Fault:
    """A session that could not be read, and why."""

    folder: Path
    error: str


def read_overview(folder: Path) -> SessionData:
    """A session as it is now, its ledger verified and its totals read. Raises SessionUnreadable or DiskError."""
    session = CheckedReader(folder)
    kept, newest = tuple(session.rounds()), session.newest()
    history = legible(newest.history) if newest else []
    document = legible(session.document)
    ledger = Lines(folder, tuple(session.lines()), session.clients)
    with well_formed(folder):
        config: dict[str, Any] = settings_in_force(document, history)
        config["method"]["name"], config["data"]["dataset"]
    ledger.totals  # noqa: B018 - read now, so that damage is reported here
    return SessionData(
        folder,
        document=document,
        history=tuple(history),
        config=config,
        ledger=ledger,
        checkpoints=kept,
        state=session.state(),
    )


def read_overviews(
    folders: Iterable[Path], look: Callable[[Path], SessionData] = read_overview
) -> tuple[list[SessionData], list[Fault]]:
    """Those that can be read, in order, and those that cannot. Hashing one overlaps reading the next.

    look: how far each is read; `feed.read` reads all of it.
    """
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = list(pool.map(partial(_attempt, look), folders))
    return [each for each in found if isinstance(each, SessionData)], [
        each for each in found if isinstance(each, Fault)
    ]


def _attempt(look: Callable[[Path], SessionData], folder: Path) -> SessionData | Fault:
    try:
        return look(folder)
    except (SessionUnreadable, DiskError, OSError) as error:
        return Fault(folder, shown(str(error)))
