"""Moves through panels, rounds, clients, and charts. Every choice becomes part of the View."""

from collections.abc import Sequence
from pathlib import Path

from simulator.results.analysis.costs import Position
from tui.app import messages
from tui.app.host import Host
from tui.app.panels.base import Part
from tui.app.view import in_sight
from tui.app.widgets import LineChart


class Navigation:
    """The path back for Escape, and the actions of keys that move or select."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._came_from: list[str] = []

    # Panels

    def drill_in(self, panel: str) -> None:
        """Show another panel; Escape returns to this one."""
        self._came_from.append(self._host.panel.id or "")
        self._host.show_panel(panel)

    def show_panel(self, panel: str) -> None:
        """Show a panel from its tab."""
        self._came_from.clear()
        self._host.show_panel(panel)

    def back(self) -> None:
        """Hide the crosshair, or return to the panel that Enter left."""
        if self._host.panel.back():
            self._host.draw_rows()
        elif self._host.view.crosshair is not None:
            self._host.change(crosshair=None)
        elif self._came_from:
            self._host.show_panel(self._came_from.pop())

    # Clients and sessions

    def select(self, message: messages.ClientSelected) -> None:
        """Select a client in every panel."""
        view = self._host.view
        if view.shown and message.client != view.client:
            self._host.change(client=message.client)

    def mark(self, folder: Path) -> None:
        """Mark a session for comparison, or remove its mark."""
        marked = self._host.view.marked
        self.mark_all(
            tuple(each for each in marked if each != folder) if folder in marked else (*marked, folder)
        )

    def compare(self) -> None:
        """Show the marked sessions beside the current one."""
        run, marked = self._host.view.run, self._host.view.marked
        if run.name and run.folder not in marked:
            self.mark_all((run.folder, *marked))
        self._host.show_panel("compare")

    def mark_all(self, folders: Sequence[Path]) -> None:
        """Mark these sessions and no others."""
        compared = tuple(
            run for run in self._host.view.compared if {run.folder, run.folder.parent} & {*folders}
        )
        self._host.change(marked=tuple(folders), compared=compared)
        self._host.files.compare(tuple(folders))

    # Rounds

    def travel(self, rounds: int) -> None:
        """Show an earlier or a later round; the newest is live."""
        view = self._host.view
        if view.run.round:
            self.show_round(max(1, view.shown + rounds))
        else:
            self._host.say("No round is finished yet.", holds=lambda: not self._host.view.run.round)

    def goto(self, round: int) -> None:
        """Show this round, or the newest if it is later."""
        self.travel(round - self._host.view.shown)

    def live(self) -> None:
        """Show the newest round, and hide the crosshair."""
        self._host.change(round=None, crosshair=None)

    def replay(self) -> None:
        """Show the round under the crosshair."""
        if (at := self._host.view.cursor()) is None:
            how = "Choose a round first: move the crosshair with ← and →, or click in a chart."
            self._host.say(how, holds=lambda: self._host.view.cursor() is None)
        else:
            self.show_round(int(at))

    def show_round(self, round: int) -> None:
        """Show this round; the newest is live. The crosshair disappears: the charts' cursor marks the round shown."""
        self._host.change(round=None if round >= self._host.view.run.round else round, crosshair=None)

    # Charts

    def move_crosshair(self, steps: int) -> None:
        """Move the crosshair; the first step shows it at the newest round."""
        if (chart := self._chart(over_rounds=True)) is not None and (x := chart.step(steps)) is not None:
            self.point(chart, x)

    def point(self, chart: LineChart, x: float) -> None:
        """Put the crosshair of all charts at this x of one of them."""
        if chart.figure.over is not None:
            self.set_crosshair((chart.figure.over, x * chart.figure.x_unit))

    def set_crosshair(self, place: Position | None) -> None:
        if place != self._host.view.crosshair:
            self._host.change(crosshair=place)

    def zoom(self, direction: int) -> None:
        """1: in, -1: out, 0: the whole chart."""
        if (chart := self._chart()) is not None:
            {1: chart.zoom_in, -1: chart.zoom_out, 0: chart.reset_view}[direction]()

    def pan(self, share: float) -> None:
        """Move a zoomed chart by a share of its width."""
        if (chart := self._chart()) is not None:
            chart.pan(share)

    def maximise(self) -> None:
        """Give the focused part the whole screen, with its title, or undo that."""
        screen = self._host.screen
        if screen.maximized is not None:
            screen.minimize()
        elif (widget := screen.focused or self._chart()) is not None:
            part = next((each for each in widget.ancestors if isinstance(each, Part)), widget)
            screen.maximize(part, container=False)

    def _chart(self, over_rounds: bool = False) -> LineChart | None:
        """The focused chart, else the panel's first visible one. over_rounds: only one that shows a crosshair."""
        screen = self._host.screen
        charts = self._host.panel.walk_children(LineChart)
        shown = [chart for chart in charts if chart.is_on_screen]
        if not shown and screen.maximized is None:  # a panel that has just appeared has no layout yet
            shown = [chart for chart in charts if in_sight(chart)]
        able = (chart for chart in (screen.focused, *shown) if isinstance(chart, LineChart))
        return next((chart for chart in able if not over_rounds or chart.figure.over is not None), None)


class Moves:
    """The actions of keys that move or move back: each is a method of `navigation`."""

    navigation: Navigation

    def action_show_panel(self, panel: str) -> None:
        self.navigation.show_panel(panel)

    def key_escape(self) -> None:
        self.navigation.back()

    def action_compare(self) -> None:
        self.navigation.compare()

    def action_travel(self, rounds: int) -> None:
        self.navigation.travel(rounds)

    def action_goto(self, round: int) -> None:
        self.navigation.goto(round)

    def action_live(self) -> None:
        self.navigation.live()

    def action_replay(self) -> None:
        self.navigation.replay()

    def action_crosshair(self, steps: int) -> None:
        self.navigation.move_crosshair(steps)

    def action_zoom(self, direction: int) -> None:
        self.navigation.zoom(direction)

    def action_pan(self, share: float) -> None:
        self.navigation.pan(share)

    def action_maximise(self) -> None:
        self.navigation.maximise()
