"""The sessions of a folder, read repeatedly on another thread. Only changed ones are read again."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from htfl_sim import sessions
from htfl_sim.analysis import Array, StudySummary, Summary, read_overview
from htfl_sim.errors import DiskError, SessionUnreadable
from tui.common.formatting import printable

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
        self._sketched: dict[Path, tuple[object, Sketch | str]] = {}
        """By session what it was like then, and its results, or why its ledger cannot be read."""
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
        return self._listed(folder)

    def sketch(self) -> bool:
        """Read the whole ledgers of the listed sessions with new rounds. Returns whether there are any."""
        sketched: dict[Path, tuple[object, Sketch | str]] = {}
        for path, (stamp, summary) in self._known.items():
            seen = stamp if summary.state in ENDED else None  # files of a live one also change between rounds
            about = (summary.id, summary.round, summary.rounds, summary.history, summary.error, seen)
            before = self._sketched.get(path)
            sketched[path] = before if before and before[0] == about else (about, _sketch(path))
            if self._ended.is_set():
                return False
        changed = sketched != self._sketched
        self._sketched = sketched
        self.sketches = {path: each for path, (_, each) in sketched.items() if isinstance(each, Sketch)}
        return changed

    def _listed(self, folder: Path) -> tuple[Summary, ...]:
        """The sessions as last read. One whose ledger could not be read is damaged, and says why."""
        found = {path: self._checked(path, summary) for path, (_, summary) in self._known.items()}
        self.studies = _studies(folder, found)
        return tuple(found.values())

    def _checked(self, path: Path, summary: Summary) -> Summary:
        _, fault = self._sketched.get(path, (None, None))
        if not isinstance(fault, str) or summary.error:
            return summary
        state = "damaged" if summary.state in ENDED else summary.state
        return replace(summary, state=state, round=None, accuracy=None, best=None, error=fault)

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
                    found = self._listed(folder)
                    told = (folder, found, self.studies)
                    self._tell(found)
                live = self._sketching and any(each.state not in ENDED for each in found)
            self._wake.wait(min(LIVE_SECONDS, self._every) if live else self._every)


def _sketch(folder: Path) -> Sketch | str:
    """A session's results; the reason if it cannot be read."""
    try:
        run = read_overview(folder)
    except (SessionUnreadable, DiskError, OSError) as error:
        return printable(error)
    return Sketch(run.totals.mean, run.config)


def _studies(folder: Path, found: Mapping[Path, Summary]) -> tuple[StudySummary, ...]:
    """The studies of the folder, also those without sessions."""
    studies = []
    with suppress(OSError, DiskError):
        for study in sessions.studies_in(folder):
            inside = [summary for path, summary in found.items() if path.parent == study]
            studies.append(StudySummary.of(study, inside))
    return tuple(studies)
