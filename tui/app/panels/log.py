"""The Log panel: events as lines of a table, newest at the bottom."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from simulator.base.documents import Event
from simulator.results.analysis.events import description, is_alarming, shown_events
from tui.app.panels.base import Part, SizedPanel, no_match, unread
from tui.app.view import View
from tui.app.widgets import Column, Row, Table
from tui.app.widgets.screen import room
from tui.app.widgets.table import Tone
from tui.common.formatting import wrapped
from tui.common.fuzzy import fits

COLUMNS = (Column("", worth=1), Column("", numeric=True, worth=2), Column("", stretch=True, worth=3))
CHECKPOINT = "checkpoint"
LINES = 2000  # the number of newest events shown; the file has all of them


def upto(view: View) -> Sequence[Event]:
    """The events of the rounds up to the one shown. Live, all of them."""
    events = shown_events(view.run)
    return [event for event in events if event.get("round", 0) <= view.shown] if view.replaying else events


def matches(event: Event, query: str) -> bool:
    words = f"{event.get('event')} {description(event)} round {event.get('round', '')}"
    return not query.strip() or fits(words, query)


def lines(events: Sequence[Event], width: int, query: str = "", routine: bool = True) -> list[Row]:
    """Time, round, and words of each event that passes the filter. Long words wrap to `width` cells."""
    chosen = (
        (number, event)
        for number, event in enumerate(events)
        if (routine or event.get("event") != CHECKPOINT) and matches(event, query)
    )
    rows: list[Row] = []
    for number, together in _folded(chosen)[-LINES:]:
        event = together[-1]
        quiet = event.get("event") == CHECKPOINT
        tone: Tone = "warning" if is_alarming(event) else "muted" if quiet else "plain"
        said = checkpoints_said(together) if len(together) > 1 else description(event)
        round = f"r{event['round']}" if "round" in event else ""
        for part, text in enumerate(wrapped(said, max(width, 20))):
            cells = (clock(event), round, text) if not part else ("", "", text)
            rows.append(Row((number, part), cells, tone))
    return rows


def checkpoints_said(events: Sequence[Event]) -> str:
    """How many checkpoints these are, and of which rounds: '3 checkpoints, rounds 4 to 6'."""
    rounds = sorted({event["round"] for event in events if "round" in event})
    count = f"{len(events)} checkpoints"
    steps = {later - earlier for earlier, later in pairwise(rounds)}
    if not rounds:
        return count
    if not steps:
        return f"{count}, round {rounds[0]}"
    if len(rounds) == 2:
        return f"{count}, rounds {rounds[0]} and {rounds[1]}"
    span = f"rounds {rounds[0]} to {rounds[-1]}"
    if steps == {1}:
        return f"{count}, {span}"
    if len(steps) == 1:
        return f"{count}, {span} in steps of {steps.pop()}"
    stretches: list[list[int]] = []
    for each in rounds:  # those in a row as one: '1, 4 to 6'
        if stretches and each == stretches[-1][1] + 1:
            stretches[-1][1] = each
        else:
            stretches.append([each, each])
    said = (str(first) if first == last else f"{first} to {last}" for first, last in stretches)
    return f"{count}, rounds {', '.join(said)}"


def _folded(events: Iterable[tuple[int, Event]]) -> list[tuple[int, list[Event]]]:
    """The events with the number of the first, and consecutive checkpoints together."""
    found: list[tuple[int, list[Event]]] = []
    for number, event in events:
        if found and event.get("event") == found[-1][1][0].get("event") == CHECKPOINT:
            found[-1][1].append(event)
        else:
            found.append((number, [event]))
    return found


def clock(event: Event) -> str:
    return str(event.get("at", ""))[11:19]


MARGIN = 16  # cells of time and round in a line


class LogPanel(SizedPanel):
    """Events and warnings, up to the round shown."""

    def __init__(self, id: str) -> None:
        self._lines = Table(COLUMNS, follows=True)
        self._part = Part("log", self._lines)
        super().__init__(id, self._part)

    def draw(self, view: View) -> None:
        width = room(self).width - MARGIN
        if not self.differs(
            "log", view.run.events, view.run.outages, view.shown, view.filter, width, unread(view)
        ):
            return
        events = upto(view)
        rows = lines(events, width, view.filter)
        warnings = sum(is_alarming(event) for event in events)
        told = f"{len(events)} event{'s' * (len(events) != 1)}"
        told += f", {warnings} warning{'s' * (warnings > 1)}" if warnings else ""
        self._part.caption(told + (f", filter '{view.filter}'" if view.filter else "") + ", times in UTC")
        self._lines.show(rows)
        nothing = no_match("event") if events else unread(view) or "No events yet."
        self._part.say(None if rows else nothing)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        return ["at", "round", "event", "text"], [
            [event.get("at"), event.get("round"), event.get("event"), description(event)]
            for event in upto(view)
            if matches(event, view.filter)
        ]
