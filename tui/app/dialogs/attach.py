"""Which session to show."""

from collections.abc import Callable, Sequence
from pathlib import Path

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from htfl_sim.folders import session_folder
from simulator.sessions.reader import SessionReader
from tui.app.dialogs.form import Field, Form, Known


class AttachDialog(Form[Path]):
    """Gives back the folder of a session, by its name in the sessions folder or by path."""

    def __init__(self, sessions: Path, known: Callable[[], Sequence[Known]] | None = None) -> None:
        """`known` are the sessions to choose from; by default those of the folder."""
        self._sessions = sessions
        super().__init__("Show a session", [Field("session", "name or path", known=known or self._known)])

    def accept(self, values: dict[str, str]) -> Path:
        folder = session_folder(values["session"], self._sessions)
        SessionReader(folder)  # says so if it is none
        return folder

    def _known(self) -> Sequence[Known]:
        return [(checkpoints.name_of(path), _state(path)) for path in checkpoints.sessions(self._sessions)]


def _state(folder: Path) -> str:
    try:
        return SessionReader(folder).state()
    except (SessionUnreadable, DiskError):
        return "damaged"
