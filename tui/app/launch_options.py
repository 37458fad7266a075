"""What the command line said of every run begun in the app: where sessions and data lie, and how they are opened."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.sessions.reader import SessionReader
from tui.app.dialogs.new_run import NewRun
from tui.app.launch import Opener

if TYPE_CHECKING:
    from simulator.sessions.session import Session


@dataclass(frozen=True)
class LaunchOptions:
    """The folders, and the options of every run begun here."""

    sessions: Path
    data: Path
    workers: int | None = None
    device: str | None = None
    name: str | None = None
    """The name for the first new session, if one was given."""

    def creator(self, wish: NewRun) -> Opener:
        """Makes the session of a new run."""

        def create() -> "Session":
            from simulator.sessions.session import Session

            return Session.create(wish.choices.read(), wish.folder, self.data)

        return create

    def resumer(self, folder: Path, rounds: int | None = None, allow_inexact: bool = False) -> Opener:
        """Takes a session up again, with so many rounds in all if they are to be others."""

        def resume() -> "Session":
            from simulator.sessions.dry_run import extend
            from simulator.sessions.session import Session

            if rounds is not None:
                extend(SessionReader(folder), rounds)
            return Session.resume(
                folder, self.data, workers=self.workers, device=self.device, allow_inexact=allow_inexact
            )

        return resume
