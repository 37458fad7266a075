"""The runs started here: on a thread of this process, or in their own processes."""

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from htfl_sim import sessions, steering
from htfl_sim.errors import DiskError, SessionUnreadable
from htfl_sim.machine import Process
from tui.app.messages import RunEnded, RunStarted
from tui.common.errors import WATCHED, explain

if TYPE_CHECKING:
    from htfl_sim.running import Session
    from simulator.engine.progress import Event as RoundEvent
    from simulator.engine.progress import Observer

Opener = Callable[[], "Session"]
"""Makes or resumes a session. It is called on the run's own thread: the first one imports torch."""
LOOK_SECONDS = 0.2
"""How often to check whether the session exists, and whether the process has ended."""
_ERROR = "error: "
_STOPPED = {0, WATCHED, *(128 + each for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))}
"""The exit codes of a run that finished, or stopped with a checkpoint."""


class LocalRun(threading.Thread):
    """A run started here. It is active until it reports its end, which may be before its thread ends."""

    def __init__(self, name: str, folder: Path, post: Callable[[Message], object]) -> None:
        super().__init__(name=name, daemon=True)
        self.folder = folder
        self._post = post
        self._has_ended = False

    @property
    def is_active(self) -> bool:
        return self.is_alive() and not self._has_ended

    def _tell_start(self) -> None:
        self._post(RunStarted(self.folder))

    def _tell_end(self, state: str, failure: str | None) -> None:
        self._has_ended = True
        self._post(RunEnded(self.folder, state, failure))


class ThreadRun(LocalRun):
    """Opens a session and runs it to its end, a stop, or an error, which is stored and never raised."""

    def __init__(self, folder: Path, open: Opener, post: Callable[[Message], object]) -> None:
        super().__init__("run", folder, post)
        self.error: Exception | None = None
        """The error that ended it, if any."""
        self.state = "stopped"
        """Once it is over: 'finished' or 'stopped'."""
        self.observe: Observer | None = None
        """Receives the run's events, if it is set."""
        self._open = open
        self._reason: str | None = None

    def stop(self, reason: str) -> None:
        """Stop the run between two clients, with a checkpoint."""
        self._reason = self._reason or reason

    def run(self) -> None:
        try:
            with self._open() as session:
                self._tell_start()
                self.state = session.run(self._tell, stop=lambda: self._reason).state
        except Exception as error:  # any error is shown, and the app continues
            self.error = error
        failure = explain(self.error)[0] if self.error else None
        self._tell_end(self.state, failure)

    def _tell(self, event: "RoundEvent") -> None:
        if self.observe is not None:
            self.observe(event)


class ProcessRun(LocalRun):
    """Starts `htfl-sim` with these arguments and waits for its end. It reports errors and leaves no zombie."""

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
    """The last error message of the process, or how it ended."""
    said = [line.removeprefix(_ERROR) for line in words.splitlines() if line.startswith(_ERROR)]
    if said:
        return said[-1]
    with suppress(ValueError):
        return f"its process was stopped by {signal.Signals(-code).name}."
    return f"its process ended with exit code {code}."


def _owner(folder: Path) -> int | None:
    """The process that owns the session; None if there is none."""
    with suppress(SessionUnreadable, DiskError):
        return steering.owner_pid(folder)
    return None


def _state(folder: Path) -> str:
    """The state of the session. A run that failed before it made one has stopped."""
    with suppress(SessionUnreadable, DiskError):
        return sessions.state(folder)
    return "stopped"
