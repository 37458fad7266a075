"""The interface of the app for its parts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from textual.message import Message
from textual.screen import Screen

from tui.app.dialogs.base import Dialog
from tui.app.view import Panel, View
from tui.app.watch import Watch

Answer = TypeVar("Answer")
Severity = Literal["information", "warning", "error"]
Holds = Callable[[], bool]
"""Whether a notice is still true."""


class Host(Protocol):
    """An app that shows a session."""

    view: View
    files: Watch
    sessions_dir: Path

    @property
    def screen(self) -> Screen[Any]:
        """The screen in front."""

    @property
    def is_running(self) -> bool:
        """Whether the app has begun and is not ending: an end removes the panels one by one, and then the screens."""

    @property
    def panel(self) -> Panel:
        """The visible panel."""

    def say(self, message: str, severity: Severity = "information", holds: Holds | None = None) -> None:
        """Show a notice of one sentence. It disappears early when it does not hold any more."""

    def ask(self, dialog: Dialog[Answer], then: Callable[[Answer], None]) -> None:
        """Show a dialog. `then` receives its result, unless the user cancels it."""

    def is_at(self, folder: Path) -> bool:
        """Whether this session is still shown, without a dialog, so an earlier request for it still applies."""

    def draw(self) -> None:
        """Update the display."""

    def session_changed(self, folder: Path, now: Path | None) -> None:
        """Follow a change to a session by the user. now: its folder since then; None: it is gone."""

    def draw_rows(self) -> None:
        """Update the rows around the panels."""

    def change(self, **changes: Any) -> None:
        """Show another View."""

    def open_session(self, folder: Path) -> None:
        """Show a session, live."""

    def show_panel(self, panel: str) -> None:
        """Show a panel, by its id."""

    def post_message(self, message: Message) -> bool:
        """Send the app a message, from any thread."""
