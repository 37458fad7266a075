"""The notice in a terminal that is too small for the app."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

SMALLEST = (60, 16)
"""Columns and rows that the app needs."""


class TooSmall(ModalScreen[None]):
    """Covers everything until there is room again; a run goes on under it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "quit", show=False)]

    def compose(self) -> ComposeResult:
        yield Static(id="small", markup=False)

    def on_resize(self) -> None:
        width, height = self.app.size
        self.query_one("#small", Static).update(
            f"This terminal has {width} columns and {height} rows. The app needs {SMALLEST[0]} and {SMALLEST[1]}: "
            "make it larger, or q to leave."
        )
