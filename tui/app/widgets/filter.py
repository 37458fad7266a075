"""The line for the words of a filter."""

from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input


class Filter(Input):
    """Appears on demand. Enter leaves it with its words, Escape without any."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "no filter", show=False)]

    @dataclass
    class Filtered(Message):
        """Filter by these words from now on. `done`: the user types no more."""

        words: str
        done: bool

    def __init__(self) -> None:
        super().__init__(id="filter", placeholder="filter by words", compact=True)

    def ask(self, words: str) -> None:
        """Appear with these words."""
        self.value = words
        self._appear(True)
        self.focus()

    def _appear(self, shown: bool) -> None:
        """Appear, or leave. Notices stand above the line."""
        self.display = shown
        for rack in self.screen.query("ToastRack"):
            rack.styles.margin = (0, 0, 2 if shown else 1, 0)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.post_message(self.Filtered(event.value, done=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._leave(self.value)

    def action_give_up(self) -> None:
        self._leave("")

    def _leave(self, words: str) -> None:
        self._appear(False)
        self.post_message(self.Filtered(words, done=True))


def offer_focus(screen: Screen[Any], part: Widget | None) -> None:
    """Give a part the focus, unless the user types in the line of the filter."""
    if not any(each.display for each in screen.children if isinstance(each, Filter)):
        screen.set_focus(part)
