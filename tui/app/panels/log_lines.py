"""Events as lines of a table, newest last."""

from collections.abc import Sequence

from htfl_sim.analysis import Event, description, is_alarming, shown_events
from tui.app.charts.table import Column, Row, Tone, has_words
from tui.app.view import View
from tui.common.formatting import wrapped

COLUMNS = (Column("", worth=1), Column("", numeric=True, worth=2), Column("", stretch=True, worth=3))
LINES = 2000  # the number of newest events shown; the file has all of them


def upto(view: View) -> Sequence[Event]:
    """The events of the rounds up to the one shown. Live, all of them."""
    events = shown_events(view.run)
    return [event for event in events if event.get("round", 0) <= view.shown] if view.replaying else events


def matches(event: Event, query: str) -> bool:
    """Whether every word is in the event's text."""
    return not query.strip() or has_words(
        f"{event.get('event')} {description(event)} round {event.get('round', '')}", query
    )


def lines(events: Sequence[Event], width: int, query: str = "", routine: bool = True) -> list[Row]:
    """Time, round, and words of each event that passes the filter. Long words wrap to `width` cells.

    Without `routine`, checkpoints are left out.
    """
    rows: list[Row] = []
    chosen = [
        (number, event)
        for number, event in enumerate(events)
        if (routine or event.get("event") != "checkpoint") and matches(event, query)
    ]
    for number, event in chosen[-LINES:]:
        tone: Tone = (
            "warning" if is_alarming(event) else "muted" if event.get("event") == "checkpoint" else "plain"
        )
        round = f"r{event['round']}" if "round" in event else ""
        for part, text in enumerate(wrapped(description(event), max(width, 20))):
            cells = (clock(event), round, text) if not part else ("", "", text)
            rows.append(Row((number, part), cells, tone))
    return rows


def clock(event: Event) -> str:
    """The time of day of an event, as in its session (UTC)."""
    return str(event.get("at", ""))[11:19]
