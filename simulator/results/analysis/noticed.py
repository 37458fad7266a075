"""What watchers notice in a session that has none of its own: from its ledger, for whoever opens it."""

from simulator.base.documents import Event
from simulator.base.notice import Notice
from simulator.base.record import Record
from simulator.base.watch_section import EVERY
from simulator.metrics.watchers import Watchers
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.samples import Samples


class Noticer:
    """Follows one session. Each round is looked at once."""

    def __init__(self) -> None:
        self._watchers: Watchers | None = None
        self._last: Record | None = None
        self._rounds = 0
        self._events: tuple[Event, ...] = ()

    def events(self, run: SessionData) -> tuple[Event, ...]:
        """What all watchers with their defaults notice, as events; nothing if the session has watchers.

        The same object while nothing is new.
        """
        if _has_watchers(run):
            return ()
        if self._watchers is None or run.record(self._rounds) is not self._last:
            samples = Samples.of(run)
            self._watchers = Watchers(EVERY, None if samples is None else samples.test.tolist())
            self._rounds, self._events = 0, ()
        found: list[Event] = []
        for record in run.records[self._rounds :]:
            found += [
                _event(notice, record) for notice in self._watchers.after(record) if not _is_told(notice)
            ]
        self._last, self._rounds = run.record(None), run.round
        if found:
            self._events = (*self._events, *found)
        return self._events


def _event(notice: Notice, record: Record) -> Event:
    return {
        "at": record["timing"]["at"],
        "event": "noticed",
        "round": record["round"],
        "watcher": notice["watcher"],
        "message": notice["message"],
        "clients": notice["clients"],
        "action": "log",
    }


def _is_told(notice: Notice) -> bool:
    """Whether the session's own events tell it: a client that diverges is a warning."""
    return notice["watcher"] == "divergence" and bool(notice["clients"])


def _has_watchers(run: SessionData) -> bool:
    """Whether watchers look at it, or did so before a switch."""
    return bool(run.config.get("watch")) or any(event["event"] == "noticed" for event in run.events)
