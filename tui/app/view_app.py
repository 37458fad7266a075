"""What changes the view: going back in time, selecting, marking, sorting, and from panel to panel."""

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.analysis.costs import Place
from tui.app import messages
from tui.app.host import Severity
from tui.app.parts import PartsApp
from tui.app.view import View
from tui.app.watch import Watch
from tui.app.widgets import LineChart


class ViewApp(PartsApp):
    """An app that shows a View."""

    view: View
    files: Watch

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

    def on_line_chart_pointed(self, message: LineChart.Pointed) -> None:
        self._point(message.chart, message.x)

    def on_place_pointed(self, message: messages.PlacePointed) -> None:
        self._have_crosshair(message.place)

    def on_chart_wanted(self) -> None:
        self.change(chart=(self.view.chart + 1) % 3)

    def on_compared_read(self, message: messages.ComparedRead) -> None:
        self.change(compared=message.runs)

    def on_session_marked(self, message: messages.SessionMarked) -> None:
        marked = self.view.marked
        others = tuple(each for each in marked if each != message.folder)
        self._mark(others if message.folder in marked else (*marked, message.folder))

    def _mark(self, folders: tuple[Path, ...]) -> None:
        compared = tuple(run for run in self.view.compared if {run.folder, run.folder.parent} & {*folders})
        self.change(marked=folders, compared=compared)
        self.files.compare(folders)

    def action_compare(self) -> None:
        """The marked sessions beside the one shown."""
        run, marked = self.view.run, self.view.marked
        if run.name and run.folder not in marked:
            self._mark((run.folder, *marked))
        if len(self.view.marked) < 2:
            self.say("Mark the sessions to compare with x in Sessions (s).")
        self.show_panel("compare")

    def on_clients_sorted(self, message: messages.ClientsSorted) -> None:
        self.change(sort=(message.column, message.descending))

    def on_panel_wanted(self, message: messages.PanelWanted) -> None:
        self._came_from.append(self.panel.id or "")
        self.show_panel(message.panel)

    def action_show_panel(self, panel: str) -> None:
        self._came_from.clear()
        self.show_panel(panel)

    def key_escape(self) -> None:
        """Put the crosshair away, or go back to where enter led from."""
        if self.view.crosshair is not None:
            self.change(crosshair=None)
        elif self._came_from:
            self.show_panel(self._came_from.pop())

    def action_crosshair(self, places: int) -> None:
        """Move the crosshair; where there is none yet, it comes up at the newest."""
        if (chart := self._chart(over_rounds=True)) is not None and (x := chart.step(places)) is not None:
            self._point(chart, x)

    def _point(self, chart: LineChart, x: float) -> None:
        if chart.figure.over is not None:
            self._have_crosshair((chart.figure.over, x * chart.figure.x_unit))

    def _have_crosshair(self, place: Place | None) -> None:
        if place != self.view.crosshair:
            self.change(crosshair=place)

    def action_replay(self) -> None:
        """Travel to the round under the crosshair."""
        if (at := self.view.cursor()) is None:
            self.say("Choose a round first: left and right, or a click, move the crosshair of the charts.")
        else:
            self._travel(int(at))

    def action_travel(self, rounds: int) -> None:
        """Show an earlier or a later round; the newest is live."""
        if not self.view.run.round:
            self.say("No round is finished yet.")
            return
        self._travel(max(1, self.view.shown + rounds))

    def _travel(self, round: int) -> None:
        """The crosshair goes: charts have their cursor at the round travelled to."""
        self.change(round=None if round >= self.view.run.round else round, crosshair=None)

    def action_live(self) -> None:
        self.change(round=None, crosshair=None)
