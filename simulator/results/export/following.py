"""A session's rounds handed to a sink, all that there are and, while it is run, each as it is finished."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from simulator.base.record import Record
from simulator.metrics import by_client
from simulator.results.analysis.divergence import Divergence
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.tidy import round_row

POLL_SECONDS = 0.5
"""How often a live session is looked at."""


class Sink(Protocol):
    """Where rounds go. `begin` comes first and `close` last, also when something failed in between."""

    def begin(self, run: SessionData) -> None:
        """The session, as it was found."""

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        """The next rounds, in order, each exactly once."""

    def close(self) -> None:
        """There will be no more."""


def send(folder: Path, sink: Sink, follow: bool = False) -> int:
    """Hand every finished round to the sink, in order; how many there were.

    With `follow` the session is watched as long as a process runs it. Raises SessionUnreadable or DiskError.
    """
    feed = Feed(folder)
    feed.refresh()
    sent, live = 0, True
    try:
        sink.begin(feed.run)
        while True:
            # A round that is run again after a kill gives what it gave: it has been sent.
            if new := feed.run.records[sent:]:
                sink.add(new, feed.run)
                sent += len(new)
            if not (follow and live):
                return sent
            live = (
                feed.run.live
            )  # once it is not, one more look: rounds may have come before the end was seen
            if live:
                time.sleep(POLL_SECONDS)
            feed.refresh()
    finally:
        sink.close()


_SCORES = ("rounds/accuracy", *(f"rounds/{part}_" for part in ("train", "eval", "test", "unseen")))
"""How the names of a round's scores begin."""


def scalars(record: Record, run: SessionData) -> dict[str, float]:
    """A round's numbers for a tracker: `rounds/COLUMN` as the table of rounds has them, and every client's.

    Trackers take the last number of a name for the result. So as long as every update has diverged, there are no
    scores, and `rounds/untrained` is 1.
    """
    numbers = {
        f"rounds/{name}": value
        for name, value in round_row(record).items()
        if name != "round" and isinstance(value, int | float) and not isinstance(value, bool)
    }
    # The count over all rounds is asked for only if this round has brought nothing.
    if len(record["participants"]) == len(record.get("diverged", ())) and (
        Divergence.of(run.totals, record["round"]).untrained
    ):
        numbers = {name: each for name, each in numbers.items() if not name.startswith(_SCORES)}
        return numbers | {"rounds/untrained": 1}
    for what in ("accuracy", "loss"):
        numbers |= {
            f"{what}/client_{client}": value
            for client, value in by_client.items(record[what]["per_client"])
            if value is not None
        }
    return numbers
