"""A text to read, and to select with the mouse."""

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from tui.app.dialogs.base import Dialog


class Text(Dialog[None]):
    """A title and a text."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title)
        self._text = text

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(Static(self.spelled(self._text), markup=False))

    def on_mount(self) -> None:
        self.set_focus(self.query_one(VerticalScroll))
