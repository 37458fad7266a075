"""A run in a process of its own. It goes on without the app, which reads and steers it through its session."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from textual.message import Message

from checkpoints import DiskError, SessionUnreadable
from simulator.sessions.reader import SessionReader
from simulator.studies.process import Process
from tui.app.begun import Begun
from tui.common.errors import explain

LOOK_SECONDS = 0.2
"""How often to look whether the session is there, and whether the process has ended."""
_ERROR = "error: "
_STOPPED = {0, *(128 + each for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))}
"""The exit codes of a run that came to its end, or was stopped with a checkpoint."""


class Elsewhere(Begun):
    """Starts `htfl-sim` with these arguments, and waits for its end: why it failed is told, and no zombie is left."""

    def __init__(self, folder: Path, arguments: Sequence[str], post: Callable[[Message], object]) -> None:
        super().__init__(f"process of {folder.name}", folder, post)
        self._arguments = arguments

    def run(self) -> None:
        try:
            process = Process("tui.cli", self._arguments)
        except OSError as error:
            self._tell_end("stopped", explain(error)[0])
            return
        began = False
        while (code := process.wait(LOOK_SECONDS)) is None:
            if not began and _owner(self.folder) == process.pid:
                began = True
                self._tell_start()
        failure = None if code in _STOPPED else _failure(code, process.words())
        process.close()
        self._tell_end(_state(self.folder), failure)


def _failure(code: int, words: str) -> str:
    """What the process said last of an error, or else how it ended."""
    said = [line.removeprefix(_ERROR) for line in words.splitlines() if line.startswith(_ERROR)]
    if said:
        return said[-1]
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-code).name}."
    return f"its process ended with exit code {code}."


def _owner(folder: Path) -> int | None:
    """The process that owns the session; None while there is none."""
    with suppress(SessionUnreadable, DiskError):
        note = SessionReader(folder).owner()
        return note["pid"] if note and not note["closed"] else None
    return None


def _state(folder: Path) -> str:
    """How the session stands; a run that failed before it made one has stopped."""
    with suppress(SessionUnreadable, DiskError):
        return SessionReader(folder).state()
    return "stopped"
