"""The app's screens, their focus, and the line for the words of a filter."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

Result = TypeVar("Result")


class AppScreen(Screen[Result]):
    """A screen that Textual does not repaint as a whole when the focus moves: the widgets show their focus."""

    focused = Reactive[Widget | None](None, repaint=False)

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Find the widget there. A removed one, which is in the layout until the next one, counts as none.

        Textual reads the region of its parent at a press, and would end the app, and a run in its process.
        """
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (None, None) if widget is not None and not widget.is_attached else (widget, offset)


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
