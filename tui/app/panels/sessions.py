"""A preview of a session in the list: its curve, its facts, and the differences of its settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Static

from htfl_sim import catalog
from htfl_sim.configuring import QUICKSTART
from simulator.results.analysis.comparison import differences
from simulator.results.analysis.ledger import NO_SCORE
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.studies.board import StudySummary
from tui.app.charts.chart import Figure, Series
from tui.app.panels.base import PERCENT, Facts, Part, SizedPanel, at_best, by_round, no_match
from tui.app.panels.board import StudyBoard
from tui.app.panels.session_list import SessionList, Sketch
from tui.app.view import NewRunWanted, SessionMarked, SessionOpened, View
from tui.app.widgets import LineChart, Table
from tui.app.widgets.screen import glyphs_of, offer_focus
from tui.app.widgets.table import Column, Row
from tui.common.formatting import NONE, course, percent, spelled, text_of

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
        """Preview a session: its curve next to that of the session shown, and the settings that differ."""
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
        """Preview a study: a line for each of its sessions."""
        self.set_class(True, "-facts")
        self._about.caption(f"study {study.name}")
        self._facts.tell(study_facts(study))
        self._curve.caption(f"accuracy of the sessions of {study.name}")
        read = [
            (Path(each.path).name, sketches[Path(each.path)].mean * PERCENT)
            for each in study.sessions
            if not each.untrained and Path(each.path) in sketches
        ]
        self._draw([by_round(name, "", mean, pinned=False) for name, mean in read])

    def _draw(self, series: list[Series]) -> None:
        drawn = [each for each in series if len(each.y)]
        self._curve.say(None if drawn else BEGINNING)
        self._chart.show(Figure(drawn, x_label="round", unit="%", crowd="sessions", over="rounds"))


def facts(session: Summary) -> list[tuple[str, str]]:
    """Facts without room in the list."""
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
COLUMNS = (
    Column("start with", names=True, worth=2, most=30, tone="strong"),
    Column("about", stretch=True, worth=1, tone="muted"),
)


class Start(Vertical):
    """The first steps, in place of an empty list of sessions: a sentence, the presets, and another folder."""

    DEFAULT_CSS = """
    Start { height: 1fr; }
    Start > Static { height: auto; padding: 1 2; }
    """

    @dataclass
    class Chosen(Message):
        """Enter was pressed on a first step: ATTACH, or the name of a preset."""

        what: str

    def __init__(self) -> None:
        self._words, self.list = Static("", markup=False), Table(COLUMNS, cursor=True)
        super().__init__(self._words, self.list)

    def show(self, view: View) -> None:
        """Name the folder of the view, and list the steps that its filter lets pass."""
        self._words.update(spelled(WORDS.format(folder=view.library), glyphs_of(self)))
        self.list.show(first_steps())
        self.list.filter(view.filter)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        message.stop()
        self.post_message(self.Chosen(str(message.key)))


@cache
def first_steps() -> tuple[Row, ...]:
    """The quickstart and another folder first. Then all other presets."""
    first = {
        QUICKSTART: "FedLoRA on digits: no download, about a minute",
        ATTACH: "Open a session of another folder",
    }
    presets = {preset.name: preset.title for preset in catalog.presets()}
    presets.pop(QUICKSTART)
    return tuple(
        Row(name, (name, about), search=f"{name} {about}") for name, about in (first | presets).items()
    )


class SessionsPanel(SizedPanel):
    """The list of sessions, and a preview of the one under the cursor. Keys steer that one, or all marked ones."""

    DEFAULT_CSS = """
    SessionsPanel > .preview { height: 9; }
    SessionsPanel.-tall > .preview { height: 14; }
    SessionsPanel.-full.-tall > .preview { height: 20; }
    SessionsPanel.-full > .preview > .facts { display: block; width: 60; }
    SessionsPanel.-full > .preview > .differences { width: 60; }
    """

    def __init__(self, id: str) -> None:
        self._list, self._preview, self._board, self._start = SessionList(), Preview(), StudyBoard(), Start()
        self._sessions, self._first = Part("sessions", self._list), Part("first steps", self._start)
        self._first.display = False
        super().__init__(id, self._sessions, self._first, self._preview, self._board)

    @property
    def place(self) -> str:
        return "board" if self._board.folder else super().place

    def labels(self) -> Mapping[str, str]:
        return {"unit": "cost", "chart": self._board.next_mode} if self._board.folder else super().labels()

    def draw(self, view: View) -> None:
        self._list.show_view(view)
        if self._board.folder is not None:
            self._board.follow(self._list.studies.get(self._board.folder), view.filter)
            return
        studies, found = self._list.studies, self._list.found
        shown = sum(row.key not in studies for row in self._list.rows)
        sentence = None
        if found is None:
            sentence = f"Reading sessions in {view.library}…"
        elif found and not self._list.rows:
            sentence = no_match("session")
        self._sessions.say(sentence)
        empty = found is not None and not found and not studies
        self._first.display, self._sessions.display = empty, not empty
        if empty:
            self._start.show(view)
        if found is not None:
            number = f"{shown} of {len(found)}" if shown != len(found) else f"{shown}"
            number += " session" if number == "1" else " sessions"
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
        if self._board.folder is not None:
            return (one,)
        if Path(one.path) not in self._view.marked:
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
        if isinstance(message.key, Path) and (study := self._list.studies.get(message.key)):
            self._sessions.display = self._preview.display = False
            self._board.display = True
            self._board.open(study)
            self._list.open_board(self._board.folder)
            self.call_after_refresh(self._board.take_focus)
        elif isinstance(message.key, Path):
            self.post_message(SessionOpened(message.key))

    def on_start_chosen(self, message: Start.Chosen) -> None:
        """Open the form for a run of the preset, or the dialog for another session."""
        if message.what == ATTACH:
            self.call_later(self.app.run_action, "attach")
        else:
            self.post_message(NewRunWanted(message.what))

    def back(self) -> bool:
        """Return from a study's board to the list. Returns whether one was open."""
        if self._board.folder is None:
            return False
        self._board.close()
        self._list.open_board(None)
        self._board.display, self._sessions.display = False, True
        self.redraw()
        self.call_after_refresh(self._focus_list)
        return True

    def _focus_list(self) -> None:
        if self._board.folder is None and self._list.is_on_screen:
            offer_focus(self.screen, self._list)

    def on_session_list_board_read(self, message: SessionList.BoardRead) -> None:
        self._board.show(message.board)

    def action_chart(self) -> None:
        """Show a study's points, its settings over their costs, or its trials."""
        self._board.cycle()

    def action_unit(self) -> None:
        """Show a study's settings over the next cost."""
        self._board.next_cost()

    def idle(self, view: View) -> Sequence[str]:
        return () if self._list.rows else ("mark", "sort")

    def action_mark(self) -> None:
        """Mark the session or study under the cursor for comparison, or unmark it."""
        if self._list.folder is not None:
            self.post_message(SessionMarked(self._list.folder))

    def action_sort(self) -> None:
        """Show as a tree, by age, by best accuracy, or by name."""
        self._list.cycle_order()
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per session, in the order shown."""
        if self._board.folder is not None:
            return self._board.table()
        columns = ["session", "state", "methods", "dataset", "round", "rounds"]
        columns += ["accuracy", "best", "created", "parent"]
        listed = (self._list.by_folder[row.key] for row in self._list.rows if isinstance(row.key, Path))
        return columns, [
            [
                *(each.name, each.state, course(each.methods), each.dataset, each.round, each.rounds),
                *(each.accuracy, each.best, each.created, each.parent["name"] if each.parent else None),
            ]
            for each in listed
            if isinstance(each, Summary)
        ]
