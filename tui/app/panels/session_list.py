"""The sessions of a folder, read repeatedly on another thread. Only changed ones are read again."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.message import Message

from htfl_sim import sessions
from htfl_sim.errors import DiskError, SessionUnreadable
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.ledger import NO_SCORE, Totals
from simulator.results.analysis.overview import Branch, Summary, read_overview, tree, with_parents
from simulator.results.analysis.run import LIVE, SILENT_SECONDS
from simulator.studies.board import Board, BoardReader, Seen, StudySummary
from tui.app.view import View
from tui.app.widgets import Table
from tui.app.widgets.screen import room
from tui.app.widgets.table import Cell, Column, Row, Tone, Trend
from tui.common.formatting import NONE, branches, course, duration, percent, printable

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
        tell: Callable[[tuple[Summary, ...]], object],
        every: float = 3.0,
        often: bool = True,
        tell_board: Callable[[Board], object] = lambda board: None,
    ) -> None:
        """`every`: seconds between two readings; `often`: whether to read live sessions every second."""
        self._tell, self._every, self._often, self._tell_board = tell, every, often, tell_board
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
        # A note of an owner that was old at the first look counts from then on.
        now, noted, live = (
            time.monotonic(),
            self._noted,
            [path for path in known if known[path][1].state in LIVE],
        )
        notes = {path: sessions.changed_stamp(path, "owner") for path in live}
        self._noted = {
            path: noted[path] if path in noted and noted[path][0] == note else (note, now)
            for path, note in notes.items()
        }
        silent = (path for path, (_, seen) in self._noted.items() if now - seen >= SILENT_SECONDS)
        self.silent = frozenset(silent)
        return self._listed(folder)

    def sketch(self) -> bool:
        """Read the whole ledgers of the listed sessions with new rounds. Returns whether there are any."""
        sketched: dict[Path, tuple[object, Sketch | str]] = {}
        for path, (stamp, summary) in self._known.items():
            seen = stamp if summary.state in ENDED else None  # files of a live one also change between rounds
            about = (summary.id, summary.round, summary.rounds, summary.history, summary.error, seen)
            before = self._sketched.get(path)
            if before and before[0] == about:
                sketched[path] = before
                continue
            try:
                run = read_overview(path)
                sketched[path] = about, Sketch(run.totals, run.config)
            except (SessionUnreadable, DiskError, OSError) as error:
                sketched[path] = about, printable(error)
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
        studies = []
        with suppress(OSError, DiskError):
            for study in sessions.studies_in(folder):  # also those without sessions
                inside = [summary for path, summary in found.items() if path.parent == study]
                studies.append(StudySummary.of(study, inside))
        self.studies = tuple(studies)
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

        def look_at_board() -> None:
            """Tell the board of the open study if it is new."""
            if (reader := self._opened) is None or self._ended.is_set():
                return
            if (board := self.board(reader)) != self._told_board:
                self._told_board = board
                self._tell_board(board)

        while not self._ended.is_set():
            self._wake.clear()
            if (folder := self._folder) is not None:
                if self._known:
                    look_at_board()  # one that was just opened need not wait for the next reading
                found = self.read(folder)
                if (now := (folder, found, self.studies, self.silent)) != told and not self._ended.is_set():
                    self._tell(found)
                    told = now
                if self.sketch() and not self._ended.is_set():
                    found = self._listed(folder)
                    told = (folder, found, self.studies, self.silent)
                    self._tell(found)
                look_at_board()
                live = self._often and any(each.state not in ENDED for each in found)
            self._wake.wait(min(LIVE_SECONDS, self._every) if live else self._every)


FULL = (
    Column("", worth=9),
    Column("session", stretch=True, names=True, worth=10, least=18),
    Column("state", worth=7),
    Column("methods", stretch=True, worth=4),
    Column("data", worth=2),
    Column("round", numeric=True, worth=8),
    Column("acc", numeric=True, worth=6),
    Column("best", numeric=True, worth=5),
    Column("at", worth=1, tone="muted"),
    Column("trend", stretch=True, worth=6, least=5),
    Column("notes", stretch=True, worth=3, tone="muted"),
    Column("age", numeric=True, worth=3),
)
BRIEF = (
    Column("", worth=1),
    Column("session", stretch=True, names=True, worth=10),
    Column("", worth=8),
    Column("round", numeric=True, worth=8),
    Column("acc", numeric=True, worth=9),
)
Cells = tuple[str | Cell | Trend, ...]
IN_BRIEF = (0, 1, 2, 5, 6)
"""The positions of the columns of BRIEF among those of FULL."""
STATES: dict[str, tuple[str, Tone]] = {
    "running": ("▸", "gain"),
    "pausing": ("‖", "highlight"),
    "paused": ("‖", "highlight"),
    "stopping": ("■", "highlight"),
    "stopped": ("■", "muted"),
    "finished": ("✓", "plain"),
    "interrupted": ("!", "warning"),
    "failed": ("✗", "warning"),
    "damaged": ("✗", "warning"),
    "silent": ("!", "warning"),
}
"""The symbol before the word, and its color."""
TREND = 40  # rounds in a sparkline
AGING = 10.0  # seconds after which the ages in the rows are written anew
ROOMY = 100  # cells of a list that also names the round of the best accuracy
ORDERS = ("tree", "newest", "best", "name")


class SessionList(Table):
    """The sessions of the view's folder. Enter on one is `Table.Chosen` with its folder."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "fold(True)", "fold", show=False),
        Binding("right,l", "fold(False)", "unfold", show=False),
    ]

    @dataclass
    class Listed(Message):
        """The folder has been read and has changed."""

        found: tuple[Summary, ...]

    @dataclass
    class BoardRead(Message):
        """The board of the open study has changed."""

        board: Board

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, SessionList.BoardRead)

    def __init__(self, *, brief: bool = False) -> None:
        super().__init__(BRIEF if brief else FULL, cursor=True)
        self._brief = brief
        self._found: tuple[Summary, ...] | None = None
        self._view: View | None = None
        self._library = Library(
            lambda found: self.post_message(self.Listed(found)),
            often=not brief,
            tell_board=lambda board: self.post_message(self.BoardRead(board)),
        )
        self._hidden = False
        """Whether a study's board is shown instead."""
        self._folded: set[Path] = set()
        self._listed: tuple[object, ...] = ()
        """What the rows shown were made of."""
        self._made: dict[Path, tuple[tuple[object, ...], Row]] = {}
        """By session, what its row was made of, and its row."""
        self.order = ORDERS[0]

    @property
    def found(self) -> tuple[Summary, ...] | None:
        """The sessions as last read; None before the first reading."""
        return self._found

    @property
    def studies(self) -> dict[Path, StudySummary]:
        """The studies as last read, by their folders."""
        return {folder_of(study): study for study in self._library.studies}

    @property
    def by_folder(self) -> dict[Path, Summary | StudySummary]:
        """The sessions and studies as last read, by their folders."""
        every: list[Summary | StudySummary] = [*(self._found or ()), *self._library.studies]
        return {folder_of(each): each for each in every}

    @property
    def sketches(self) -> Mapping[Path, Sketch]:
        """The sessions' curves and settings, if they were read."""
        return self._library.sketches

    @property
    def folder(self) -> Path | None:
        """The session or study under the cursor."""
        return self.selected if isinstance(self.selected, Path) else None

    def show_view(self, view: View) -> None:
        """Follow the view: its folder, its filter, its marks."""
        self._view = view
        if self.is_running:
            self._library.follow(view.library)
        self._list_anew()

    def cycle_order(self) -> None:
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self._list_anew()

    def fold(self, study: Path) -> None:
        """Hide a study's sessions under its row, or show them again."""
        self._folded ^= {study}
        self._list_anew()

    def look(self) -> None:
        self._library.look()

    def open_board(self, study: Path | None) -> None:
        """Read the board of this study in place of listing the sessions; None: list them again."""
        self._hidden = study is not None
        self._library.open_board(study)
        self._list_anew()

    def action_fold(self, folded: bool) -> None:
        """Hide the sessions of the study under the cursor, or of the session's study; or show them again."""
        here = self.folder
        study = next((each for each in (here, here and here.parent) if each in self.studies), None)
        if study is None:
            raise SkipAction  # the app has these keys for charts
        if folded != (study in self._folded):
            self.fold(study)
            self.put_cursor(study)

    def on_session_list_listed(self, message: "SessionList.Listed") -> None:
        first = self._found is None
        self._found = message.found
        self._list_anew()
        if first and self._view is not None:
            self.put_cursor(self._view.run.folder)

    def on_resize(self) -> None:
        super().on_resize()
        self._list_anew()  # with the columns of the new width

    def on_unmount(self) -> None:
        self._library.close()

    def _list_anew(self) -> None:
        if self._found is None or self._view is None or self._hidden:
            return
        view, now, roomy = self._view, present(), room(self).width >= ROOMY
        listed = (
            self._found, self._library.studies, self.sketches, self._library.silent, self.order,
            frozenset(self._folded), view.run.folder, view.marked, roomy, int(now.timestamp() / AGING),
        )  # fmt: skip
        if listed != self._listed:
            self._listed = listed
            self.show(self._rows_of(self._found, view, now, roomy))
        self.filter("" if self._brief else view.filter)  # next to clients, whose words those are

    def _rows_of(self, found: Sequence[Summary], view: View, now: datetime, roomy: bool) -> list[Row]:
        """The rows. That of a session is made again only if something in it has changed."""
        rows, made = [], dict[Path, tuple[tuple[object, ...], Row]]()
        for line in grouped(found, self._library.studies, self.order, self._folded):
            if isinstance(line, StudySummary):
                rows.append(self._row(line, _study_cells(line, view, now)))
                continue
            one, folder = line.summary, folder_of(line.summary)
            sketch, state, old = self.sketches.get(folder), self._state_of(one), age(one.created, now)
            about = (one, line.last, sketch, state, _flags(one, view), old, roomy)
            known = self._made.get(folder)
            if known is None or known[0] != about:
                known = about, self._row(one, _cells(line, view, old, sketch, state, roomy))
            made[folder] = known
            rows.append(known[1])
        self._made = made
        return rows

    def _row(self, one: Summary | StudySummary, cells: Cells) -> Row:
        if self._brief:  # with only the glyph of the state
            flags, name, state, round, accuracy = (cells[place] for place in IN_BRIEF)
            assert isinstance(state, Cell)
            cells = flags, name, Cell(state.text[0], state.tone), round, accuracy
        alarming = one.state in ("damaged", "failed", "interrupted")
        return Row(folder_of(one), cells, "warning" if alarming else "plain", search=words_of(one))

    def _state_of(self, session: Summary) -> Cell:
        """The state of a session. The glyph of one that has ended comes once its whole ledger has been read."""
        folder = folder_of(session)
        if session.state in LIVE and folder in self._library.silent:
            return _state("silent")
        read = session.state in LIVE or session.error or folder in self.sketches
        return _state(session.state) if read else Cell(f"  {session.state}", "muted")


_folder, _moment = lru_cache(maxsize=8192)(Path), lru_cache(maxsize=8192)(datetime.fromisoformat)
"""Cached: a path takes longer to make than a row to draw."""


def folder_of(one: Summary | StudySummary) -> Path:
    return _folder(one.path)


def present() -> datetime:
    """The present time, for ages."""
    return datetime.now(UTC)


def arranged(sessions: Sequence[Summary], order: str) -> list[Branch]:
    """The sessions in one of ORDERS. Rules show the tree."""
    if order == "tree":
        return tree(sessions)
    found = sorted(sessions, key=lambda each: each.name)
    if order == "newest":
        found.sort(key=lambda each: each.created or "", reverse=True)
    if order == "best":
        found.sort(key=lambda each: -1.0 if each.best is None else each.best, reverse=True)
    return [Branch(each) for each in found]


def grouped(
    sessions: Sequence[Summary], studies: Sequence[StudySummary], order: str, folded: Collection[Path] = ()
) -> list[Branch | StudySummary]:
    """The sessions with a row for every study before its sessions, if rules show the tree."""
    if order != "tree" or not studies:
        return list(arranged(sessions, order))
    inside = {each.path for study in studies for each in study.sessions}
    blocks: list[tuple[str, list[Branch | StudySummary]]] = []
    for branch in arranged([each for each in sessions if each.path not in inside], order):
        if not branch.last:
            blocks.append((branch.summary.created or "", []))
        blocks[-1][1].append(branch)
    for study in studies:
        shown = () if folder_of(study) in folded else study.sessions
        lines = [Branch(each, (each is study.sessions[-1],)) for each in shown]
        blocks.append((study.created or "", [study, *lines]))
    return [line for _, lines in sorted(blocks, key=lambda block: block[0]) for line in lines]


def words_of(session: Summary | StudySummary) -> str:
    """The text that a filter searches."""
    if isinstance(session, StudySummary):
        return f"{session.name} study {session.state} {session.dataset} {' '.join(session.methods)}"
    words = (session.name, session.state, session.dataset, course(session.methods), *session.tags)
    return f"{' '.join(map(str, words))} {session.note}"


def age(created: str | None, now: datetime) -> str:
    """The time since a session was made."""
    try:
        return duration(max((now - _moment(str(created))).total_seconds(), 0.0))
    except (ValueError, TypeError):
        return NONE


def _cells(line: Branch, view: View, old: str, sketch: Sketch | None, state: Cell, roomy: bool) -> Cells:
    session = line.summary
    seen = sketch.mean[np.isfinite(sketch.mean)][-TREND:] if sketch and not session.untrained else ()
    return (
        _flags(session, view),
        branches(line.last) + (session.name if not line.last else session.name.rpartition("/")[2]),
        state,
        course(session.methods) or NONE,
        session.dataset or NONE,
        NONE if session.round is None else f"{session.round}/{session.rounds}",
        NO_SCORE if session.untrained else percent(session.accuracy),
        percent(session.best),
        f"r{session.best_round}" if session.best_round and roomy else "",
        Trend(tuple(map(float, seen)), width=TREND if len(seen) else 0),
        ": ".join(filter(None, (", ".join(session.tags), session.note))),
        old,
    )


def _study_cells(study: StudySummary, view: View, now: datetime) -> Cells:
    """A study's row, with its number of finished points in the place of a session's rounds."""
    methods, best, ranked = study.methods, study.best_setting, len(study.ranked)
    about = ", ".join(methods) if len(methods) < 4 else f"{len(methods)} methods"
    if best is not None and (every := len(study.settings)) > 1:
        of = f"best of {ranked}" if ranked == every else f"best of {ranked} of {every}"
        about = f"{of}: {best.name}" if ranked > 1 else f"{best.name}, 1 of {every} finished"
    return (
        _flags(study, view),
        study.name,
        _state(study.state),
        about,
        study.dataset or NONE,
        f"{study.finished}/{study.points}",
        *(percent(study.accuracy), percent(study.best)),
        *("", "", "", age(study.created, now)),
    )


def _state(state: str) -> Cell:
    """A state's glyph, word, and color."""
    glyph, tone = STATES.get(state, (" ", "plain"))
    return Cell(f"{glyph} {state}", tone)


def _flags(session: Summary | StudySummary, view: View) -> str:
    """The marks of the shown and of marked sessions."""
    folder = folder_of(session)
    return ("●" if folder == view.run.folder else " ") + ("◆" if folder in view.marked else " ")
