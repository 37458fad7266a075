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


class Host(Protocol):
    """An app that shows a session."""

    view: View
    files: Watch
    sessions_dir: Path

    @property
    def screen(self) -> Screen[Any]:
        """The screen in front."""

    @property
    def panel(self) -> Panel:
        """The visible panel."""

    def say(self, message: str, severity: Severity = "information") -> None:
        """Show a notice of one sentence."""

    def ask(self, dialog: Dialog[Answer], then: Callable[[Answer], None]) -> None:
        """Show a dialog. `then` receives its result, unless the user cancels it."""

    def is_at(self, folder: Path) -> bool:
        """Whether this session is still shown, without a dialog, so an earlier request for it still applies."""

    def draw(self) -> None:
        """Update the display."""

    def change(self, **changes: Any) -> None:
        """Show another View."""

    def open_session(self, folder: Path) -> None:
        """Show a session, live."""

    def show_panel(self, panel: str) -> None:
        """Show a panel, by its id."""

    def post_message(self, message: Message) -> bool:
        """Send the app a message, from any thread."""
