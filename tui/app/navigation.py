"""Moves through panels, rounds, clients, and charts. Every choice becomes part of the View."""

from collections.abc import Sequence
from pathlib import Path

from simulator.results.analysis.costs import Position
from tui.app import messages
from tui.app.host import Host
from tui.app.panels.base import Part
from tui.app.view import in_sight
from tui.app.widgets import LineChart


class Navigation(Host):
    """The part of the app with the path back for Escape, and the actions of keys that move or select."""

    def __init__(self) -> None:
        super().__init__()
        self._came_from: list[str] = []

    # Panels

    def on_panel_wanted(self, message: messages.PanelWanted) -> None:
        """Show another panel; Escape returns to this one."""
        self._came_from.append(self.panel.id or "")
        self.show_panel(message.panel)

    def action_show_panel(self, panel: str) -> None:
        """Show a panel from its tab."""
        self._came_from.clear()
        self.show_panel(panel)

    def key_escape(self) -> None:
        """Hide the crosshair, or return to the panel that Enter left."""
        if self.panel.back():
            self.draw_rows()
        elif self.view.crosshair is not None:
            self.change(crosshair=None)
        elif self._came_from:
            self.show_panel(self._came_from.pop())

    # Clients and sessions

    def on_client_selected(self, message: messages.ClientSelected) -> None:
        if self.view.shown and message.client != self.view.client:
            self.change(client=message.client)

    def on_session_marked(self, message: messages.SessionMarked) -> None:
        folder, marked = message.folder, self.view.marked
        self.mark_all([each for each in marked if each != folder] if folder in marked else [*marked, folder])

    def action_compare(self) -> None:
        """Show the marked sessions beside the current one."""
        run, marked = self.view.run, self.view.marked
        if run.name and run.folder not in marked:
            self.mark_all((run.folder, *marked))
        self.show_panel("compare")

    def mark_all(self, folders: Sequence[Path]) -> None:
        """Mark these sessions and no others."""
        compared = tuple(run for run in self.view.compared if {run.folder, run.folder.parent} & {*folders})
        self.change(marked=tuple(folders), compared=compared)
        self.files.compare(tuple(folders))

    # Rounds

    def action_travel(self, rounds: int) -> None:
        """Show an earlier or a later round; the newest is live."""
        if self.view.run.round:
            self._show_round(max(1, self.view.shown + rounds))
        else:
            self.say("No round is finished yet.", holds=lambda: not self.view.run.round)

    def action_goto(self, round: int) -> None:
        """Show this round, or the newest if it is later."""
        self.action_travel(round - self.view.shown)

    def action_live(self) -> None:
        """Show the newest round, and hide the crosshair."""
        self.change(round=None, crosshair=None)

    def action_replay(self) -> None:
        """Show the round under the crosshair."""
        if (at := self.view.cursor()) is None:
            how = "Choose a round first: move the crosshair with ← and →, or click in a chart."
            self.say(how, holds=lambda: self.view.cursor() is None)
        else:
            self._show_round(int(at))

    def _show_round(self, round: int) -> None:
        """Show this round; the newest is live. The crosshair disappears: the charts' cursor marks the round shown."""
        self.change(round=None if round >= self.view.run.round else round, crosshair=None)

    # Charts

    def action_crosshair(self, steps: int) -> None:
        """Move the crosshair; the first step shows it at the newest round."""
        if (chart := self._chart(over_rounds=True)) is not None and (x := chart.step(steps)) is not None:
            self.on_line_chart_pointed(LineChart.Pointed(chart, x))

    def on_line_chart_pointed(self, message: LineChart.Pointed) -> None:
        """Put the crosshair of all charts at this x of one of them."""
        figure = message.chart.figure
        if figure.over is not None:
            self._set_crosshair((figure.over, message.x * figure.x_unit))

    def on_crosshair_moved(self, message: messages.CrosshairMoved) -> None:
        self._set_crosshair(message.place)

    def _set_crosshair(self, place: Position | None) -> None:
        if place != self.view.crosshair:
            self.change(crosshair=place)

    def action_zoom(self, direction: int) -> None:
        """1: in, -1: out, 0: the whole chart."""
        if (chart := self._chart()) is not None:
            {1: chart.zoom_in, -1: chart.zoom_out, 0: chart.reset_view}[direction]()

    def action_pan(self, share: float) -> None:
        """Move a zoomed chart by a share of its width."""
        if (chart := self._chart()) is not None:
            chart.pan(share)

    def action_maximise(self) -> None:
        """Give the focused part the whole screen, with its title, or undo that."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif (widget := self.screen.focused or self._chart()) is not None:
            part = next((each for each in widget.ancestors if isinstance(each, Part)), widget)
            self.screen.maximize(part, container=False)

    def _chart(self, over_rounds: bool = False) -> LineChart | None:
        """The focused chart, else the panel's first visible one. over_rounds: only one that shows a crosshair."""
        charts = self.panel.walk_children(LineChart)
        shown = [chart for chart in charts if chart.is_on_screen]
        if not shown and self.screen.maximized is None:  # a panel that has just appeared has no layout yet
            shown = [chart for chart in charts if in_sight(chart)]
        able = (chart for chart in (self.screen.focused, *shown) if isinstance(chart, LineChart))
        return next((chart for chart in able if not over_rounds or chart.figure.over is not None), None)
