"""The watchers of a running session: what they notice goes into records and events, and may pause or stop the run."""

from collections.abc import Sequence

from checkpoints import Store
from simulator.base.documents import Entry, Event
from simulator.base.notice import Notice
from simulator.base.record import Record
from simulator.base.watch_section import WatchConfig
from simulator.engine.progress import Noticed
from simulator.metrics.watchers import Watchers
from simulator.sessions.history import watching_since

BY_WATCHER = "watcher "
"""The beginning of the reason of a stop."""


class Noticing:
    """Has the watchers look at each new record. Without watchers, it does nothing and reads nothing."""

    def __init__(self, store: Store, settings: WatchConfig, tested: Sequence[int]) -> None:
        """tested: each client's number of test samples."""
        self._store = store
        self._tested = tested
        self._told: set[tuple[int, str, tuple[int, ...]]] = set()
        self.begin(settings)

    @property
    def on(self) -> bool:
        return self._watchers is not None

    def begin(self, settings: WatchConfig) -> None:
        """Watch with these settings from round 1 on, or after `catch_up`."""
        self._settings = settings
        self._watchers = Watchers(settings, self._tested) if settings.watchers else None

    def catch_up(
        self, records: Sequence[Record], history: Sequence[Entry], events: Sequence[Event] = ()
    ) -> None:
        """Look at the finished rounds, about which nothing new is told.

        Rounds before these settings are known, but what goes on is told again. events: of this session. What they
        tell is not written twice if its round was lost and is run again.
        """
        if self._watchers is None:
            return
        since = watching_since(history)
        for record in records:
            if record["round"] == since:
                self._watchers.forget()
            self._watchers.after(record)
        if since > len(records):
            self._watchers.forget()
        for event in events:
            if event["event"] == "noticed":
                self._told.add((event["round"], event["watcher"], tuple(event["clients"])))

    def look(self, record: Record) -> list[Noticed]:
        """What is noticed after this round, also in its record. It is written before the round is committed."""
        found = self._watchers.after(record) if self._watchers is not None else []
        if found:
            record["watch"] = found
        return [self._noticed(notice, record["round"]) for notice in found]

    def _noticed(self, notice: Notice, round: int) -> Noticed:
        watcher, clients = notice["watcher"], tuple(notice["clients"])
        action = self._settings.action(watcher)
        if (round, watcher, clients) not in self._told:
            self._store.event("noticed", round=round, **notice, action=action)
            self._told.add((round, watcher, clients))
        return Noticed(round, watcher, notice["message"], clients, action)


def stop_reason(noticed: Sequence[Noticed]) -> str | None:
    """Why these stop the run; None if they do not."""
    stops = [each for each in noticed if each.action == "stop"]
    return f"{BY_WATCHER}{stops[0].watcher}: {stops[0].message}" if stops else None
