"""The sessions of a folder, read repeatedly on another thread. Only changed ones are read again."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htfl_sim import sessions
from htfl_sim.analysis import Array, StudySummary, Summary, read_overview
from htfl_sim.errors import DiskError, SessionUnreadable

ENDED = ("finished", "stopped", "interrupted", "failed", "damaged")
LIVE_SECONDS = 1.0
"""Seconds between two readings while any session of the folder runs."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """A session's results so far: its mean accuracies, 0…1, NaN without an evaluation [n]; its settings."""

    mean: Array
    config: dict[str, Any]


class Library:
    """`tell` is called with the sessions after every change, on the library's own thread."""

    def __init__(
        self, tell: Callable[[tuple[Summary, ...]], None], every: float = 3.0, sketches: bool = True
    ) -> None:
        """`every`: seconds between two readings; `sketches`: whether to read whole ledgers, live ones more often."""
        self._tell, self._every, self._sketching = tell, every, sketches
        self._folder: Path | None = None
        self._known: dict[Path, tuple[tuple[sessions.Stamp, ...], Summary]] = {}
        self.studies: tuple[StudySummary, ...] = ()
        """The studies in the last reading."""
        self.sketches: Mapping[Path, Sketch] = {}
        """The results of every readable session that was read. They come after the list."""
        self._sketched: dict[Path, tuple[object, Sketch | None]] = {}
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, folder: Path) -> None:
        """Read this folder from now on."""
        if folder != self._folder:
            self._folder = folder
            self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="library", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._wake.set()

    def read(self, folder: Path) -> tuple[Summary, ...]:
        """Every session of the folder. A session with unchanged files is not opened again."""
        known: dict[Path, tuple[tuple[sessions.Stamp, ...], Summary]] = {}
        with suppress(OSError, DiskError):
            for path in sessions.folders_in(folder):
                stamp, before = sessions.changed_stamp(path), self._known.get(path)
                # The files do not show whether an owner still lives, so a running session is checked again.
                if before is not None and before[0] == stamp and before[1].state in ENDED:
                    known[path] = before
                else:
                    known[path] = stamp, Summary.read(path)
        self._known = known
        self.studies = _studies(folder, known)
        return tuple(summary for _, summary in known.values())

    def sketch(self) -> bool:
        """Read the whole ledgers of the listed sessions with new rounds. Returns whether there are any."""
        sketched: dict[Path, tuple[object, Sketch | None]] = {}
        for path, (_, summary) in self._known.items():
            about = (summary.id, summary.round, summary.rounds, summary.history, summary.error)
            before = self._sketched.get(path)
            sketched[path] = before if before and before[0] == about else (about, _sketch(path))
            if self._ended.is_set():
                return False
        changed = sketched != self._sketched
        self._sketched = sketched
        self.sketches = {path: sketch for path, (_, sketch) in sketched.items() if sketch is not None}
        return changed

    def _run(self) -> None:
        told: tuple[object, ...] | None = None
        live = False
        while not self._ended.is_set():
            self._wake.clear()
            if (folder := self._folder) is not None:
                found = self.read(folder)
                if (present := (folder, found, self.studies)) != told and not self._ended.is_set():
                    self._tell(found)
                    told = present
                if self._sketching and self.sketch() and not self._ended.is_set():
                    self._tell(found)
                live = self._sketching and any(each.state not in ENDED for each in found)
            self._wake.wait(min(LIVE_SECONDS, self._every) if live else self._every)


def _sketch(folder: Path) -> Sketch | None:
    with suppress(SessionUnreadable, DiskError, OSError):
        run = read_overview(folder)
        return Sketch(run.totals.mean, run.config)
    return None


def _studies(folder: Path, known: Mapping[Path, tuple[object, Summary]]) -> tuple[StudySummary, ...]:
    """The studies of the folder, also those without sessions."""
    found = []
    with suppress(OSError, DiskError):
        for study in sessions.studies_in(folder):
            inside = [summary for path, (_, summary) in known.items() if path.parent == study]
            found.append(StudySummary.of(study, inside))
    return tuple(found)
