"""The base class of the app's screens."""

from typing import TypeVar

from textual.geometry import Offset
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

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
