"""The sessions of a folder, read again and again off the UI thread, and only those that changed."""

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
"""Between two readings while any session of the folder runs."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """What a session came to so far: its mean accuracies, 0…1, NaN where nobody was evaluated [n]; its settings."""

    mean: Array
    config: dict[str, Any]


class Library:
    """`tell` is called, on a thread of the library's own, with the sessions whenever anything about them changed."""

    def __init__(
        self, tell: Callable[[tuple[Summary, ...]], None], every: float = 3.0, sketches: bool = True
    ) -> None:
        """`every`: seconds between two readings; `sketches`: whether ledgers are read whole, live ones oftener."""
        self._tell, self._every, self._sketching = tell, every, sketches
        self._folder: Path | None = None
        self._known: dict[Path, tuple[tuple[sessions.Stamp, ...], Summary]] = {}
        self.studies: tuple[StudySummary, ...] = ()
        """The studies among what was read last."""
        self.sketches: Mapping[Path, Sketch] = {}
        """Of every session that can be read, as far as they were read: they come after the list."""
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
        """Every session of the folder; one whose files are as they were is not opened again."""
        known: dict[Path, tuple[tuple[sessions.Stamp, ...], Summary]] = {}
        with suppress(OSError, DiskError):
            for path in sessions.folders_in(folder):
                stamp, before = sessions.changed_stamp(path), self._known.get(path)
                # Whether an owner still lives is not in the files: one that is said to run is looked at again.
                if before is not None and before[0] == stamp and before[1].state in ENDED:
                    known[path] = before
                else:
                    known[path] = stamp, Summary.read(path)
        self._known = known
        self.studies = _studies(folder, known)
        return tuple(summary for _, summary in known.values())

    def sketch(self) -> bool:
        """Read the whole ledgers of the sessions last found that have other rounds since; whether there are any."""
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
    """The studies of the folder, also those none of whose sessions has begun."""
    found = []
    with suppress(OSError, DiskError):
        for study in sessions.studies_in(folder):
            inside = [summary for path, (_, summary) in known.items() if path.parent == study]
            found.append(StudySummary.of(study, inside))
    return tuple(found)
