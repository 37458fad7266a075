"""Hidden panels are laid out and drawn while nobody waits for the screen.

Textual gives a widget its size when it is displayed. So the first visit of a panel lays it out and draws it twice: once
to find the sizes of its parts, and once with them. A rehearsal displays a hidden panel below the edge of the screen
until the next one begins. Nothing is written to the terminal, and the first visit is laid out and drawn once.
"""

from collections.abc import Callable
from pathlib import Path

from textual.geometry import Size

from tui.app.host import Host
from tui.app.view import Panel
from tui.common.errors import explain

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
        self.end()
        run, screen = self._host.view.run, self._host.screen
        if not (run.document and self._host.is_at(run.folder) and screen.maximized is None and self._quiet()):
            return
        about = (run.folder, screen.size)
        self._done[self._host.panel] = about
        due = (each for each in self._host.panels if each.REHEARSED and self._done.get(each) != about)
        if (panel := next(due, None)) is not None:
            self._done[panel], self._panel = about, panel
            panel.styles.layer, panel.styles.offset = LAYER, (0, BELOW)
            panel.display = True
            try:
                panel.show(self._host.view)
            except Exception as fault:  # said now, as its first visit does not draw the same part again
                self._host.say(explain(fault)[0], "error")

    def end(self) -> None:
        """Hide the panel again, because the next key may show it or move the focus."""
        if (panel := self._panel) is not None:
            self._panel = None
            panel.display = panel is self._host.panel
            panel.styles.layer, panel.styles.offset = None, None
