"""Which session to show."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tui.app.dialogs.form import Field, Form, Known


class AttachDialog(Form[Path]):
    """Gives back the folder of a session, by its name in the sessions folder or by path."""

    def __init__(self, sessions: Path, known: Callable[[], Sequence[Known]]) -> None:
        self._sessions = sessions
        super().__init__("Show a session", [Field("session", "name or path", known=known)])

    def accept(self, values: dict[str, str]) -> Path:
        import checkpoints
        from tui.common.folders import session_folder

        folder = session_folder(values["session"], self._sessions)
        checkpoints.SessionReader(folder)  # says so if it is none
        return folder
