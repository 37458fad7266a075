"""The sessions of a folder, read repeatedly on another thread. Only changed ones are read again."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from htfl_sim import sessions
from htfl_sim.errors import DiskError, SessionUnreadable
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.lineage import with_parents
from simulator.results.analysis.overview import read_overview
from simulator.results.analysis.pulse import SILENT_SECONDS
from simulator.results.analysis.run import LIVE
from simulator.results.analysis.summary import Summary
from simulator.results.analysis.totals import Totals
from simulator.studies.board import Board, BoardReader
from simulator.studies.cells import Seen
from simulator.studies.summary import StudySummary
from tui.common.formatting import printable

ENDED = ("finished", "stopped", "interrupted", "failed", "damaged")
LIVE_SECONDS = 1.0
"""Seconds between two readings while any session of the folder runs."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """A session's results so far: the numbers that a round has one of, and its settings."""

    totals: Totals
    config: dict[str, Any]

    @property
    def mean(self) -> Array:
        """The mean accuracies, 0…1, NaN without an evaluation [n]."""
        return self.totals["accuracy"]


class Library:
    """`tell` is called with the sessions after every change, and `tell_board` with the board of the study that is open.

    Both are called on the library's own thread.
    """

    def __init__(
        self,
        tell: Callable[[tuple[Summary, ...]], None],
        every: float = 3.0,
        often: bool = True,
        tell_board: Callable[[Board], None] = lambda board: None,
    ) -> None:
        """`every`: seconds between two readings; `often`: whether to read live sessions every second."""
        self._tell, self._every, self._often = tell, every, often
        self._tell_board = tell_board
        self._opened: BoardReader | None = None
        """Reads the board of the study that is open."""
        self._told_board: Board | None = None
        self._folder: Path | None = None
        self._known: dict[Path, tuple[tuple[sessions.Stamp, ...], Summary]] = {}
        self.studies: tuple[StudySummary, ...] = ()
        """The studies in the last reading."""
        self.sketches: Mapping[Path, Sketch] = {}
        """The results of every readable session that was read. They come after the list."""
        self._sketched: dict[Path, tuple[object, Sketch | str]] = {}
        """By session what it was like then, and its results, or why its ledger cannot be read."""
        self.silent: frozenset[Path] = frozenset()
        """Live sessions whose owners have not been heard for too long."""
        self._noted: dict[Path, tuple[object, float]] = {}
        """By live session its owner's note, and when this one was first seen."""
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

    def open_board(self, study: Path | None) -> None:
        """Read the board of this study too from now on; None: of none."""
        self._told_board = None
        self._opened = None if study is None else BoardReader(study)
        self._wake.set()

    def look(self) -> None:
        """Read the folder now."""
        self._wake.set()

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
        self._listen([path for path, (_, summary) in known.items() if summary.state in LIVE])
        return self._listed(folder)

    def _listen(self, live: Sequence[Path]) -> None:
        """Look at the notes of owners. A note that was old at the first look counts from then on."""
        now, noted = time.monotonic(), {path: sessions.changed_stamp(path, "owner") for path in live}
        before = self._noted
        self._noted = {
            path: before[path] if path in before and before[path][0] == at else (at, now)
            for path, at in noted.items()
        }
        self.silent = frozenset(
            path for path, (_, seen) in self._noted.items() if now - seen >= SILENT_SECONDS
        )

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
        if sketched == self._sketched:
            return False
        self._sketched = sketched
        self.sketches = {path: each for path, (_, each) in sketched.items() if isinstance(each, Sketch)}
        return True

    def board(self, reader: BoardReader) -> Board:
        """A study's board, by the sessions as last read."""
        seen = {}
        for path, (_, summary) in self._known.items():
            sketch = self.sketches.get(path)
            checked = self._checked(path, summary)
            if path in self.silent and checked.state in LIVE:
                checked = replace(checked, state="silent")
            seen[path] = Seen(checked, sketch.totals, sketch.config) if sketch else Seen(checked)
        return reader.read(seen)

    def _listed(self, folder: Path) -> tuple[Summary, ...]:
        """The sessions as last read. One whose ledger could not be read is damaged, and says why."""
        read = with_parents([self._checked(path, summary) for path, (_, summary) in self._known.items()])
        found = dict(zip(self._known, read, strict=True))
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
                if self._known:
                    self._look_at_board()  # one that was just opened need not wait for the next reading
                found = self.read(folder)
                if (
                    present := (folder, found, self.studies, self.silent)
                ) != told and not self._ended.is_set():
                    self._tell(found)
                    told = present
                if self.sketch() and not self._ended.is_set():
                    found = self._listed(folder)
                    told = (folder, found, self.studies, self.silent)
                    self._tell(found)
                self._look_at_board()
                live = self._often and any(each.state not in ENDED for each in found)
            self._wake.wait(min(LIVE_SECONDS, self._every) if live else self._every)

    def _look_at_board(self) -> None:
        """Tell the board of the open study if it is new."""
        if (reader := self._opened) is None or self._ended.is_set():
            return
        board = self.board(reader)
        if board != self._told_board:
            self._told_board = board
            self._tell_board(board)


def _sketch(folder: Path) -> Sketch | str:
    """A session's results; the reason if it cannot be read."""
    try:
        run = read_overview(folder)
    except (SessionUnreadable, DiskError, OSError) as error:
        return printable(error)
    return Sketch(run.totals, run.config)


def _studies(folder: Path, found: Mapping[Path, Summary]) -> tuple[StudySummary, ...]:
    """The studies of the folder, also those without sessions."""
    studies = []
    with suppress(OSError, DiskError):
        for study in sessions.studies_in(folder):
            inside = [summary for path, summary in found.items() if path.parent == study]
            studies.append(StudySummary.of(study, inside))
    return tuple(studies)
