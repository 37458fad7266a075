"""The screen under all dialogs, which is not painted anew when the focus moves."""

from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget


class MainScreen(Screen[None]):
    """A screen whose widgets show by themselves that they have the focus."""

    focused = Reactive[Widget | None](None, repaint=False)
    """Textual paints the whole screen when this changes: after a change of panel, the one before once more."""
