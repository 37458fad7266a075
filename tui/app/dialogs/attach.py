"""A dialog for the session to show."""

from collections.abc import Callable, Sequence
from pathlib import Path

from htfl_sim.errors import DiskError, SessionUnreadable
from htfl_sim.folders import session_folder, session_names
from htfl_sim.sessions import state
from tui.app.dialogs.form import Field, Form, Known, form_hint


class AttachDialog(Form[Path]):
    """Returns the folder of a session, by its name in the sessions folder or by path."""

    hint = form_hint("open")

    def __init__(self, sessions: Path, known: Callable[[], Sequence[Known]] | None = None) -> None:
        """`known`: the sessions to choose from; by default, those of the folder."""
        self._sessions = sessions
        super().__init__("Show a session", [Field("session", "name or path", known=known or self._known)])

    def accept(self, values: dict[str, str]) -> Path:
        folder = session_folder(values["session"], self._sessions)
        state(folder)  # raises for an unknown session
        return folder

    def _known(self) -> Sequence[Known]:
        return [(name, _state(self._sessions / name)) for name in session_names(self._sessions)]


def _state(folder: Path) -> str:
    try:
        return state(folder)
    except (SessionUnreadable, DiskError):
        return "damaged"
