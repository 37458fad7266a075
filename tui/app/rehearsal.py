"""Hidden panels are laid out and drawn while nobody waits for the screen.

Textual gives a widget its size when it is displayed. So the first visit of a panel lays it out and draws it twice: once
to find the sizes of its parts, and once with them. A rehearsal displays a hidden panel below the edge of the screen
until the next one begins, and then draws its lines, which Textual keeps. Nothing is written to the terminal. On its
first visit, the panel is laid out once, and its lines are there already.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from textual.geometry import Region, Size
from textual.widget import Widget

from tui.app.host import Host
from tui.app.view import Panel, in_sight
from tui.common.errors import explain

Given = TypeVar("Given")
LAYER = "below"
"""A layer of its own, so that the visible panel keeps its place. style.tcss names it."""
BELOW = 1000
"""More rows than a screen has."""


class Rehearsal:
    """Rehearsals of the app's panels, each once for a session and a size of the screen."""

    def __init__(self, host: Host, quiet: Callable[[], bool]) -> None:
        """quiet: whether nobody waits for the screen."""
        self._host, self._quiet = host, quiet
        self._done: dict[Panel, tuple[Path, Size]] = {}
        self._panel: Panel | None = None

    def rest(self) -> None:
        """End a rehearsal, and begin the next one if nobody waits and a panel needs it."""
        if not self._host.is_running:
            return
        run, screen = self._host.view.run, self._host.screen
        at_rest = run.document and self._host.is_at(run.folder) and self._quiet()
        if self._panel is not None and at_rest:
            self._try(keep_lines, self._panel)
        self.end()
        if not at_rest or screen.maximized is not None:
            return
        about = (run.folder, screen.size)
        self._done[self._host.panel] = about
        due = (each for each in self._host.panels if each.REHEARSED and self._done.get(each) != about)
        if (panel := next(due, None)) is not None:
            self._done[panel], self._panel = about, panel
            panel.styles.layer, panel.styles.offset = LAYER, (0, BELOW)
            panel.display = True
            self._try(panel.show, self._host.view)

    def _try(self, draw: Callable[[Given], None], given: Given) -> None:
        try:
            draw(given)
        except Exception as fault:  # said now, as the first visit does not draw the same part again
            self._host.say(explain(fault)[0], "error")

    def end(self) -> None:
        """Hide the panel again, because the next key may show it or move the focus."""
        if (panel := self._panel) is not None:
            self._panel = None
            panel.display = panel is self._host.panel
            panel.styles.layer, panel.styles.offset = None, None


def keep_lines(panel: Panel) -> None:
    """Draw the lines of a panel that is laid out, which Textual keeps until they change."""
    for part in panel.walk_children(Widget, with_self=True):
        if in_sight(part) and part.outer_size:
            part.render_lines(Region(0, 0, *part.outer_size))
