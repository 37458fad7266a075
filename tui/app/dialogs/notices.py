"""Notices: a text to read, and a message for a terminal that is too small for the app."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from tui.app.dialogs.base import Dialog

SMALLEST = (60, 16)
"""Columns and rows that the app needs."""


class TooSmall(ModalScreen[None]):
    """Covers everything until there is enough room again. A run continues meanwhile."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "quit", show=False)]

    def compose(self) -> ComposeResult:
        yield Static(id="small", markup=False)

    def on_resize(self) -> None:
        width, height = self.app.size
        self.query_one("#small", Static).update(
            f"This terminal has {width} columns and {height} rows. The app needs {SMALLEST[0]} and {SMALLEST[1]}. "
            "Make it larger, or press q to quit."
        )


class Text(Dialog[None]):
    """A title and a text."""

    hint = "esc close"

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title)
        self._text = text

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(Static(self.spelled(self._text), markup=False))

    def on_mount(self) -> None:
        self.set_focus(self.query_one(VerticalScroll))
