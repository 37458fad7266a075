"""The focus of the main screen."""

from typing import Any

from textual.screen import Screen
from textual.widget import Widget

from tui.app.widgets.filter import Filter


def offer_focus(screen: Screen[Any], part: Widget | None) -> None:
    """Give a part the focus, unless the user types in the line of the filter."""
    if not any(each.display for each in screen.children if isinstance(each, Filter)):
        screen.set_focus(part)
