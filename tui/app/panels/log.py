"""The Log panel: events, newest at the bottom."""

from textual.app import ComposeResult

from simulator.results.analysis.events import description, is_alarming
from tui.app.panels import log_lines
from tui.app.panels.base import Part, SizedPanel
from tui.app.panels.chart_parts import unread
from tui.app.view import View
from tui.app.widgets import Table
from tui.app.widgets.surface import room

MARGIN = 16  # cells of time and round in a line


class LogPanel(SizedPanel):
    """Events and warnings, up to the round shown."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._lines = Table(log_lines.COLUMNS, follows=True)
        self._part = Part("log", self._lines)

    def compose(self) -> ComposeResult:
        yield self._part

    def draw(self, view: View) -> None:
        width = room(self).width - MARGIN
        if not self.differs(
            "log", view.run.events, view.run.outages, view.shown, view.filter, width, unread(view)
        ):
            return
        events = log_lines.upto(view)
        rows = log_lines.lines(events, width, view.filter)
        warnings = sum(is_alarming(event) for event in events)
        told = f"{len(events)} event{'s' * (len(events) != 1)}"
        told += f", {warnings} warning{'s' * (warnings > 1)}" if warnings else ""
        self._part.caption(told + (f", filter '{view.filter}'" if view.filter else "") + ", times in UTC")
        self._lines.show(rows)
        nothing = (
            "No event matches the filter. Press / to change it."
            if events
            else unread(view) or "No events yet."
        )
        self._part.say(None if rows else nothing)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per event."""
        return ["at", "round", "event", "text"], [
            [event.get("at"), event.get("round"), event.get("event"), description(event)]
            for event in log_lines.upto(view)
            if log_lines.matches(event, view.filter)
        ]
