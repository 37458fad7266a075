"""What changes the view: going back in time, selecting, sorting, and from panel to panel."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from tui.app import messages
from tui.app.host import Severity
from tui.app.parts import PartsApp
from tui.app.view import View


class ViewApp(PartsApp):
    """An app that shows a View."""

    view: View

    def __init__(self) -> None:
        super().__init__()
        self._came_from: list[str] = []

    @abstractmethod
    def draw(self) -> None:
        """Bring what is shown up to date."""

    @abstractmethod
    def show_panel(self, panel: str) -> None:
        """Show a panel, by its id."""

    @abstractmethod
    def say(self, message: str, severity: Severity = "information") -> None:
        """A notice, in a sentence."""

    def change(self, **changes: Any) -> None:
        """Show another View."""
        self.view = replace(self.view, **changes)
        self.draw()

    def on_client_selected(self, message: messages.ClientSelected) -> None:
        if self.view.shown and message.client != self.view.client:
            self.change(client=message.client)

    def on_clients_sorted(self, message: messages.ClientsSorted) -> None:
        self.change(sort=(message.column, message.descending))

    def on_panel_wanted(self, message: messages.PanelWanted) -> None:
        self._came_from.append(self.panel.id or "")
        self.show_panel(message.panel)

    def action_show_panel(self, panel: str) -> None:
        self._came_from.clear()
        self.show_panel(panel)

    def key_escape(self) -> None:
        """Back to where enter led from."""
        if self._came_from:
            self.show_panel(self._came_from.pop())

    def action_travel(self, rounds: int) -> None:
        """Show an earlier or a later round; the newest is live."""
        run = self.view.run
        if not run.round:
            self.say("No round is finished yet.")
            return
        target = max(1, self.view.shown + rounds)
        self.change(round=None if target >= run.round else target)

    def action_live(self) -> None:
        self.change(round=None)

    def action_chart_mode(self) -> None:
        self.change(chart=(self.view.chart + 1) % 3)
