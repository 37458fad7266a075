"""The Sessions panel: every session of the folder, forks under their parents, those of a study under its row."""

from collections import Counter
from pathlib import Path

from textual.app import ComposeResult

from simulator.analysis.summary import Summary
from simulator.studies.summary import StudySummary
from tui.app.messages import SessionMarked, SessionOpened
from tui.app.panels.base import Part, SizedPanel
from tui.app.panels.facts import Facts
from tui.app.panels.session_list import SessionList
from tui.app.view import View, in_sight
from tui.app.widgets import Table
from tui.common.formatting import NONE, course


class SessionsPanel(SizedPanel):
    """The list of sessions, and what it has no room for of the one under the cursor."""

    DEFAULT_CSS = """
    SessionsPanel > .about { height: 5; }
    SessionsPanel.-tall > .about { height: 9; }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._list = SessionList()
        self._about = Facts()
        self._sessions = Part("sessions", self._list)
        self._session = Part("session", self._about, classes="about")

    def compose(self) -> ComposeResult:
        yield self._sessions
        yield self._session

    def draw(self, view: View) -> None:
        self._list.show_view(view)
        studies, found = self._list.studies, self._list.found
        shown = sum(row.key not in studies for row in self._list.rows)
        sentence = None
        if found is None:
            sentence = f"Reading the sessions in {view.library}…"
        elif not found:
            sentence = f"No session is in {view.library} yet. n begins a run."
        elif not shown:
            sentence = "No session has all these words; / changes them."
        self._sessions.say(sentence)
        if found is not None:
            number = f"{shown} of {len(found)}" if shown != len(found) else f"{shown}"
            number += " sessions"
            if studies:
                number += f", {len(studies)} {'study' if len(studies) == 1 else 'studies'}"
            marked = f", {len(view.marked)} marked" if view.marked else ""
            self._sessions.caption(f"{number} in {view.library}, by {self._list.order}{marked}")
        self._draw_about()

    def _draw_about(self) -> None:
        found = {Path(each.path): each for each in self._list.found or ()}
        session = found.get(self._list.folder) if self._list.folder else None
        study = self._list.studies.get(self._list.folder) if self._list.folder else None
        self._session.display = session is not None or study is not None
        if study is not None:
            self._session.caption(f"study {study.name}")
            self._about.tell(study_facts(study))
        if session is None:
            return
        self._session.caption(session.name)
        self._about.tell(facts(session))

    def on_session_list_listed(self) -> None:
        self.update()
        if self.screen.focused is None and in_sight(self._list):
            self._list.focus()  # there was nothing to focus while the sessions were being read

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if message.table is self._list:
            self._draw_about()

    def on_table_chosen(self, message: Table.Chosen) -> None:
        if message.key in self._list.studies:
            self._list.fold(Path(str(message.key)))
        elif isinstance(message.key, Path):
            self.post_message(SessionOpened(message.key))

    def action_mark(self) -> None:
        """Mark the session, or the study, under the cursor for comparison, or unmark it."""
        if self._list.folder is not None:
            self.post_message(SessionMarked(self._list.folder))

    def action_sort(self) -> None:
        """As a tree, by age, by best accuracy, by name."""
        self._list.cycle_order()
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """A row a session, in the order shown."""
        columns = ["session", "state", "methods", "dataset", "round", "rounds"]
        columns += ["accuracy", "best", "created", "parent"]
        found = {Path(each.path): each for each in self._list.found or ()}
        shown = [found[row.key] for row in self._list.rows if isinstance(row.key, Path) and row.key in found]
        return columns, [
            [
                each.name,
                each.state,
                course(each.methods),
                each.dataset,
                each.round,
                each.rounds,
                each.accuracy,
                each.best,
                each.created,
                each.parent["name"] if each.parent else None,
            ]
            for each in shown
        ]


def facts(session: Summary) -> list[tuple[str, str]]:
    """What the list has no room for."""
    if session.error:
        return [("damaged", session.error)]
    found = [("methods", course(session.methods) or NONE)]
    if session.parent:
        found.append(("fork of", f"{session.parent['name']} at round {session.parent['round']}"))
    found.append(("made", str(session.created)[:19].replace("T", " ")))
    return [*found, ("in", session.path)]


def study_facts(study: StudySummary) -> list[tuple[str, str]]:
    """How far a study is."""
    states = Counter(each.state for each in study.sessions)
    begun = ", ".join(f"{number} {state}" for state, number in states.items())
    waiting = study.points - len(study.sessions)
    words = ", ".join(filter(None, (begun, f"{waiting} not begun" if waiting else "")))
    return [
        ("points", f"{study.points}: {words}" if words else str(study.points)),
        ("methods", ", ".join(study.methods) or NONE),
        ("in", study.path),
    ]
