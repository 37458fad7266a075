"""A run on a thread of this process. The app steers and reads it through its session, like anybody's."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from tui.app.begun import Begun
from tui.common.errors import explain

if TYPE_CHECKING:
    from simulator.progress import Event, Observer
    from simulator.sessions.session import Session

Opener = Callable[[], "Session"]
"""Makes or resumes a session. It is called on the run's own thread: the first one imports torch."""


class Launch(Begun):
    """Opens a session and runs it to its end, a stop, or a failure, which is kept and never raised."""

    def __init__(self, folder: Path, open: Opener, post: Callable[[Message], object]) -> None:
        super().__init__("run", folder, post)
        self.error: Exception | None = None
        """What ended it, if not the last round or a stop."""
        self.state = "stopped"
        """Once it is over: 'finished' or 'stopped'."""
        self.observe: Observer | None = None
        """Told of the run's events, if anybody wants them."""
        self._open = open
        self._reason: str | None = None

    def stop(self, reason: str) -> None:
        """Let the run end between two clients, with a checkpoint."""
        self._reason = self._reason or reason

    def run(self) -> None:
        try:
            with self._open() as session:
                self._tell_start()
                self.state = session.run(self._tell, stop=lambda: self._reason).state
        except Exception as error:  # whatever it is, it is shown, and the app goes on
            self.error = error
        failure = explain(self.error)[0] if self.error else None
        self._tell_end(self.state, failure)

    def _tell(self, event: "Event") -> None:
        if self.observe is not None:
            self.observe(event)
