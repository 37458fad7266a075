"""Finds the partner of the session shown, and reads it as it grows: for the thread that reads files."""

import time
from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from htfl_sim.folders import sessions_folder
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.partners import Pair, Partner, Partners
from simulator.results.analysis.run import SessionData
from tui.app.messages import PairRead

SEARCH_SECONDS = 4.0
"""Seconds between two searches of the folder of sessions."""


class Pairing:
    """Posts the partner of one session after another. Not thread-safe, except `prefer`."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._search = Partners()
        self._preferred: Path | None = None
        self._folder: Path | None = None
        self._looked_at = 0.0
        self._found: tuple[Partner, ...] = ()
        self._feed: Feed | None = None
        self._told: SessionData | None = None
        """The partner's rounds that were posted last."""

    def prefer(self, partner: Path) -> None:
        """Choose this partner, if it is one, from the next look on."""
        self._preferred, self._looked_at = partner, 0.0

    def look(self, run: SessionData, again: bool = False) -> None:
        """Post the partner of `run` if it has changed, or in any case with `again`."""
        if run.folder != self._folder:
            self._folder, self._looked_at, self._found, again = run.folder, 0.0, (), True
        if not run.document:
            return
        if again or time.monotonic() - self._looked_at >= SEARCH_SECONDS:
            self._found = self._search.find(run, sessions_folder(run.folder))
            self._looked_at = time.monotonic()
        chosen = next((each for each in self._found if each.folder == self._preferred), None)
        partner = chosen or next(iter(self._found), None)
        if partner is None:
            if again or self._told is not None:
                self._post(PairRead(run.folder, None))
            self._feed = self._told = None
            return
        if self._feed is None or self._feed.run.folder != partner.folder:
            self._feed, again = Feed(partner.folder), True
        self._feed.poll()
        now, before = self._feed.run, self._told
        if again or before is None or not _same(before, now):
            self._told = now
            self._post(PairRead(run.folder, Pair(run.folder, partner, now, self._found)))


def _same(one: SessionData, other: SessionData) -> bool:
    """Whether both have the same rounds and state. What its run does within a round is of no interest."""
    return one.ledger is other.ledger and (one.state, one.error) == (other.state, other.error)
