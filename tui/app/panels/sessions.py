"""The Sessions panel: the sessions of a folder, read on another thread, a preview of one, and the first steps."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static

from htfl_sim import catalog, sessions
from htfl_sim.configuring import QUICKSTART
from htfl_sim.errors import DiskError, SessionUnreadable
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.comparison import differences
from simulator.results.analysis.ledger import NO_SCORE, Totals
from simulator.results.analysis.overview import Branch, Summary, read_overview, tree, with_parents
from simulator.results.analysis.run import LIVE, SILENT_SECONDS, SessionData
from simulator.studies.board import Board, BoardReader, Seen, StudySummary
from tui.app.charts.chart import Figure, Series
from tui.app.panels.base import PERCENT, Facts, Part, SizedPanel, at_best, by_round, no_match
from tui.app.panels.board import STATES, StudyBoard
from tui.app.view import NewRunWanted, SessionMarked, SessionOpened, View
from tui.app.widgets import Cell, Column, LineChart, Row, Table, Trend
from tui.app.widgets.screen import glyphs_of, offer_focus, room
from tui.common.formatting import (
    NONE,
    branches,
    counted,
    course,
    duration,
    percent,
    printable,
    spelled,
    text_of,
)

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
    """`tell` is called with the sessions after every change, `tell_board` with the open board, both on its thread."""

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
        if folder != self._folder:
            self._folder = folder
            self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="library", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Read the folder now, as after a change by the user."""
        self._wake.set()

    def open_board(self, study: Path | None) -> None:
        """Read the board of this study, too; None: of none."""
        self._told_board = None
        self._opened = None if study is None else BoardReader(study)
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
        now, noted = time.monotonic(), self._noted
        self._noted = {}
        for path, (_, summary) in known.items():
            if summary.state in LIVE:  # a note that was old at the first look counts from then on
                note = sessions.changed_stamp(path, "owner")
                self._noted[path] = noted[path] if path in noted and noted[path][0] == note else (note, now)
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
        found: tuple[Summary, ...]

    @dataclass
    class BoardRead(Message):
        board: Board

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, SessionList.BoardRead)

    def __init__(self, *, brief: bool = False) -> None:
        super().__init__(BRIEF if brief else FULL, cursor=True)
        self._brief = brief
        self.found: tuple[Summary, ...] | None = None
        """The sessions as last read; None before the first reading."""
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
    def studies(self) -> dict[Path, StudySummary]:
        return {folder_of(study): study for study in self._library.studies}

    @property
    def by_folder(self) -> dict[Path, Summary | StudySummary]:
        every: list[Summary | StudySummary] = [*(self.found or ()), *self._library.studies]
        return {folder_of(each): each for each in every}

    @property
    def sketches(self) -> Mapping[Path, Sketch]:
        return self._library.sketches

    @property
    def folder(self) -> Path | None:
        return self.selected if isinstance(self.selected, Path) else None

    def show_view(self, view: View) -> None:
        """Follow the view: its folder, its filter, its marks."""
        self._view = view
        if self.is_running:
            self._library.follow(view.library)
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
            self._folded ^= {study}
            self._list_anew()
            self.put_cursor(study)

    def on_session_list_listed(self, message: "SessionList.Listed") -> None:
        first = self.found is None
        self.found = message.found
        self._list_anew()
        if first and self._view is not None:
            self.put_cursor(self._view.run.folder)

    def on_resize(self) -> None:
        super().on_resize()
        self._list_anew()  # with the columns of the new width

    def on_unmount(self) -> None:
        self._library.close()

    def _list_anew(self) -> None:
        if self.found is None or self._view is None or self._hidden:
            return
        view, now, roomy = self._view, present(), room(self).width >= ROOMY
        listed = (
            self.found, self._library.studies, self.sketches, self._library.silent, self.order,
            frozenset(self._folded), view.run.folder, view.marked, roomy, int(now.timestamp() / AGING),
        )  # fmt: skip
        if listed != self._listed:
            self._listed = listed
            self.show(self._rows_of(self.found, view, now, roomy))
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
    if isinstance(session, StudySummary):
        return f"{session.name} study {session.state} {session.dataset} {' '.join(session.methods)}"
    words = (session.name, session.state, session.dataset, course(session.methods), *session.tags)
    return f"{' '.join(map(str, words))} {session.note}"


def age(created: str | None, now: datetime) -> str:
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
    glyph, tone = STATES.get(state, (" ", "plain"))
    return Cell(f"{glyph} {state}", tone)


def _flags(session: Summary | StudySummary, view: View) -> str:
    folder = folder_of(session)
    return ("●" if folder == view.run.folder else " ") + ("◆" if folder in view.marked else " ")


UNREAD = "Reading the session…"
BEGINNING = "No round is finished yet."
OPEN = "This session is open. Other sessions are compared with it."
NONE_OPEN = "No session is open. Enter opens this one, and other sessions are then compared with it."


class Preview(Horizontal):
    """Previews the session or study under the list's cursor, next to the session shown."""

    DEFAULT_CSS = """
    Preview > .facts { width: 44; display: none; margin-right: 1; }
    Preview > .differences { width: 44; margin-left: 1; }
    Preview.-facts > .facts { display: block; width: 1fr; }
    Preview.-facts > .differences { display: none; }
    """

    def __init__(self) -> None:
        self._facts, self._chart, self._settings = Facts(), LineChart(), Table(())
        self._about = Part("session", self._facts, classes="facts")
        self._curve = Part("accuracy", self._chart)
        self._differences = Part("different settings", self._settings, classes="differences")
        super().__init__(self._about, self._curve, self._differences, classes="preview")

    def show_session(self, session: Summary, sketches: Mapping[Path, Sketch], view: View) -> None:
        sketch = sketches.get(Path(session.path))
        self.set_class(sketch is None, "-facts")
        self._about.caption(session.name)
        self._facts.tell(facts(session))
        self._curve.caption(f"accuracy of {session.name}")
        if sketch is None:
            self._curve.say(session.error or UNREAD)
            return
        other = view.run if view.run.document and view.run.folder != Path(session.path) else None
        what = f"accuracy of {session.name}"
        best = NO_SCORE if session.untrained else f"best {at_best(sketch.mean)}"
        self._curve.caption(f"{what}, {best}", what, "accuracy")
        series = [] if session.untrained else [by_round(session.name, "s", sketch.mean * PERCENT)]
        if other is not None:
            series.append(by_round(other.name, "o", other.curves["accuracy"] * PERCENT))
        self._draw(series)
        if session.untrained:
            self._curve.say("Every client diverged in every round, so there is no score.")
        self._differences.caption("different settings" if other is None else f"differs from {other.name}")
        if other is None:
            self._differences.say(OPEN if view.run.folder == Path(session.path) else NONE_OPEN)
            return
        found = differences([SessionData(Path(session.path), config=sketch.config), other])
        titles = {"setting": 9, "this": 8, "shown": 7}
        columns = [Column(each, stretch=True, names=True, worth=worth) for each, worth in titles.items()]
        rows = [Row(name, (name, *map(text_of, values))) for name, values in found]
        self._settings.show(rows, columns)
        self._differences.say(None if rows else f"It has the same settings as {other.name}.")

    def show_study(self, study: StudySummary, sketches: Mapping[Path, Sketch]) -> None:
        self.set_class(True, "-facts")
        self._about.caption(f"study {study.name}")
        self._facts.tell(study_facts(study))
        self._curve.caption(f"accuracy of the sessions of {study.name}")
        read = [Path(each.path) for each in study.sessions if not each.untrained]
        means = [(path.name, sketches[path].mean * PERCENT) for path in read if path in sketches]
        self._draw([by_round(name, "", mean, pinned=False) for name, mean in means])

    def _draw(self, series: list[Series]) -> None:
        drawn = [each for each in series if len(each.y)]
        self._curve.say(None if drawn else BEGINNING)
        self._chart.show(Figure(drawn, x_label="round", unit="%", crowd="sessions", over="rounds"))


def facts(session: Summary) -> list[tuple[str, str]]:
    if session.error:
        return [("damaged", session.error)]
    found = [("methods", course(session.methods) or NONE)]
    if session.parent:
        found.append(("fork of", f"{session.parent['name']} at round {session.parent['round']}"))
    if session.tags:
        found.append(("tags", ", ".join(session.tags)))
    if session.note:
        found.append(("note", session.note))
    found.append(("made", str(session.created)[:19].replace("T", " ")))
    return [*found, ("in", session.path)]


def study_facts(study: StudySummary) -> list[tuple[str, str]]:
    """The progress of a study, the best of its finished settings, and their range."""
    states = Counter(each.state for each in study.sessions)
    begun = ", ".join(f"{number} {state}" for state, number in states.items())
    linked = f"{study.linked} use an identical run" if study.linked else ""
    waiting = study.points - len(study.sessions) - study.linked
    words = ", ".join(filter(None, (begun, linked, f"{waiting} not started" if waiting else "")))
    found = [("points", f"{study.points}: {words}" if words else str(study.points))]
    known, number = study.ranked, f"{len(study.ranked)} of {len(study.settings)} finished"
    if (best := study.best_setting) is not None:
        seeds = sum(each.accuracy is not None for each in best.level)
        accuracy = f"{percent(best.accuracy)}{f', the mean of {seeds} seeds' if seeds > 1 else ''}"
        if len(study.settings) == 1:
            found.append(("accuracy", accuracy))
        elif len(known) == 1:
            found += [("finished", f"{best.name}: {accuracy}"), ("settings", number)]
        else:
            worst = min(each.accuracy for each in known if each.accuracy is not None)
            reach = f"from {percent(worst)} to {percent(best.accuracy)}"
            found += [("best", f"{best.name}: {accuracy}"), ("settings", f"{number}, {reach}")]
    return [*found, ("methods", ", ".join(study.methods) or NONE), ("in", study.path)]


ATTACH = "attach"
"""The key of the row that is no preset."""
WORDS = (
    "No sessions in {folder}. Press n for a new run, or choose a line with ↑↓ and press enter. "
    "On the command line, `htfl-sim run` starts the quickstart."
)
STEPS = (
    Column("start with", names=True, worth=2, most=30, tone="strong"),
    Column("about", stretch=True, worth=1, tone="muted"),
)


@cache
def first_steps() -> tuple[Row, ...]:
    quickstart = "FedLoRA on digits: no download, about a minute"
    steps = {QUICKSTART: quickstart, ATTACH: "Open a session of another folder"}
    steps = steps | {preset.name: preset.title for preset in catalog.presets()} | {QUICKSTART: quickstart}
    return tuple(Row(name, (name, about), search=f"{name} {about}") for name, about in steps.items())


class SessionsPanel(SizedPanel):
    """The list of sessions, and a preview of the one under the cursor. Keys steer that one, or all marked ones."""

    DEFAULT_CSS = """
    SessionsPanel > .preview { height: 9; }
    SessionsPanel.-tall > .preview { height: 14; }
    SessionsPanel.-full.-tall > .preview { height: 20; }
    SessionsPanel.-full > .preview > .facts { display: block; width: 60; }
    SessionsPanel.-full > .preview > .differences { width: 60; }
    SessionsPanel .words { height: auto; padding: 1 2; }
    """

    def __init__(self, id: str) -> None:
        self._list, self._preview, self._board = SessionList(), Preview(), StudyBoard()
        self._words, self._steps = Static(classes="words", markup=False), Table(STEPS, cursor=True)
        self._sessions, self._first = (
            Part("sessions", self._list),
            Part("first steps", self._words, self._steps),
        )
        self._first.display = False
        super().__init__(id, self._sessions, self._first, self._preview, self._board)

    @property
    def place(self) -> str:
        return "board" if self._board.folder else super().place

    def labels(self) -> Mapping[str, str]:
        return {"unit": "cost", "chart": self._board.next_mode} if self._board.folder else {}

    def draw(self, view: View) -> None:
        self._list.show_view(view)
        if self._board.folder is not None:
            self._board.follow(self._list.studies.get(self._board.folder), view.filter)
            return
        studies, found = self._list.studies, self._list.found
        shown = sum(row.key not in studies for row in self._list.rows)
        reading = f"Reading sessions in {view.library}…" if found is None else None
        self._sessions.say(no_match("session") if found and not self._list.rows else reading)
        empty = found is not None and not found and not studies
        self._first.display, self._sessions.display = empty, not empty
        if empty:
            self._words.update(spelled(WORDS.format(folder=view.library), glyphs_of(self)))
            self._steps.show(first_steps())
            self._steps.filter(view.filter)
        if found is not None:
            number = f"{shown} of {len(found)} sessions" if shown != len(found) else counted(shown, "session")
            if studies:
                number += f", {len(studies)} {'study' if len(studies) == 1 else 'studies'}"
            marked = f", {len(view.marked)} marked" if view.marked else ""
            order = f"by {self._list.order}{marked}"
            self._sessions.caption(f"{number} in {view.library}, {order}", f"{number}, {order}")
        self._draw_preview()

    def _draw_preview(self) -> None:
        one = self.under_cursor()
        self._preview.display = one is not None and not self.has_class("-short")
        view, sketches = self._view, self._list.sketches
        about = (one, sketches, view.run.folder, view.run.curves) if view is not None else None
        if view is None or one is None or not self.differs("preview", about):
            return
        if isinstance(one, StudySummary):
            self._preview.show_study(one, sketches)
        else:
            self._preview.show_session(one, sketches, view)

    def under_cursor(self) -> Summary | StudySummary | None:
        if self._board.folder is not None:
            return self._list.studies.get(self._board.folder)
        return self._list.by_folder.get(self._list.folder) if self._list.folder else None

    def steered(self) -> Sequence[Summary | StudySummary]:
        """The one under the cursor. If it is marked, all marked ones. The study whose board is open."""
        one = self.under_cursor()
        if one is None or self._view is None:
            return ()
        if self._board.folder is not None or Path(one.path) not in self._view.marked:
            return (one,)
        listed = self._list.by_folder
        return [listed[folder] for folder in self._view.marked if folder in listed]

    def on_session_list_listed(self) -> None:
        self.update()
        self.call_after_refresh(self._list.show_cursor)  # it had no rows to scroll in
        if self.screen.focused is None and (first := self.first()) is not None:
            offer_focus(self.screen, first)  # there was nothing to focus before the sessions were read

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if message.table is self._list:
            self._draw_preview()

    def on_table_chosen(self, message: Table.Chosen) -> None:
        """Open a session or a study's board; or of the first steps, the dialog for a session or a form for a run."""
        if message.key == ATTACH:
            self.call_later(self.app.run_action, "attach")
        elif isinstance(message.key, str):
            self.post_message(NewRunWanted(message.key))
        elif isinstance(message.key, Path) and (study := self._list.studies.get(message.key)):
            self._sessions.display = self._preview.display = False
            self._board.display = True
            self._board.open(study)
            self._list.open_board(self._board.folder)
            self.call_after_refresh(self._board.take_focus)
        elif isinstance(message.key, Path):
            self.post_message(SessionOpened(message.key))

    def back(self) -> bool:
        """Return from a study's board to the list. Returns whether one was open."""
        if self._board.folder is None:
            return False
        self._board.close()
        self._list.open_board(None)
        self._board.display, self._sessions.display = False, True
        self.redraw()

        def focus() -> None:
            if self._board.folder is None and self._list.is_on_screen:
                offer_focus(self.screen, self._list)

        self.call_after_refresh(focus)
        return True

    def on_session_list_board_read(self, message: SessionList.BoardRead) -> None:
        self._board.show(message.board)

    def action_chart(self) -> None:
        """Show a study's points, its settings over their costs, or its trials."""
        self._board.cycle()

    def action_unit(self) -> None:
        self._board.next_cost()

    def idle(self, view: View) -> Sequence[str]:
        return () if self._list.rows else ("mark", "sort")

    def action_mark(self) -> None:
        if self._list.folder is not None:
            self.post_message(SessionMarked(self._list.folder))

    def action_sort(self) -> None:
        self._list.order = ORDERS[(ORDERS.index(self._list.order) + 1) % len(ORDERS)]
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per session, in the order shown."""
        if self._board.folder is not None:
            return self._board.table()
        columns = ["session", "state", "methods", "dataset", "round", "rounds"]
        columns += ["accuracy", "best", "created", "parent"]
        listed, rows = self._list.by_folder, list[list[object]]()
        for row in self._list.rows:
            if isinstance(row.key, Path) and isinstance(each := listed[row.key], Summary):
                about = course(each.methods), each.dataset, each.round, each.rounds, each.accuracy, each.best
                parent = each.parent["name"] if each.parent else None
                rows.append([each.name, each.state, *about, each.created, parent])
        return columns, rows
