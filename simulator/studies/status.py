"""The status of a study's points, from their sessions' files alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from simulator.base.record import Record
from simulator.results.analysis.costs import rounds_left
from simulator.results.analysis.ledger import Divergence, totals_of_lines
from simulator.results.analysis.overview import untrained
from simulator.sessions.reader import CheckedReader

WAITING, STARTING, FINISHED, STOPPED, FAILED = "waiting", "starting", "finished", "stopped", "failed"
LIVE = ("starting", "running", "pausing", "paused", "stopping")
"""The states of a point whose process runs."""
_REMEMBERED = 10


@dataclass(frozen=True)
class Status:
    """A point at one moment. accuracy, best: means over clients, 0…1; seconds: durations of its latest rounds."""

    name: str
    rounds: int
    state: str = WAITING
    round: int = 0
    accuracy: float | None = None
    best: float | None = None
    seconds: tuple[float, ...] = ()
    last: int = 0
    """Rounds over whose mean a trial is scored; 0: it is no trial."""
    score: float | None = None
    """The score of a trial so far, on eval; None before the first round."""
    losers: int = 0
    """The number of clients of a trial that diverged."""
    reason: str = ""
    """Why it failed or was stopped."""
    until_time: float = 0.0
    """Simulated seconds after which it ends; 0: it ends with its last round."""
    simulated: float | None = None
    """Simulated seconds after its round; None without a clock."""
    untrained: bool = False
    """Whether every client diverged in every round, so that there is no score."""
    diverged: bool = False
    """Whether it failed since a client diverged and training.on_divergence is 'stop'."""

    @property
    def rounds_left(self) -> int:
        """Rounds until its end; with `until_time`, by the mean simulated time of a round."""
        return rounds_left(self.rounds, self.round, self.until_time, self.simulated)

    @property
    def left(self) -> float | None:
        """Seconds until its end, by the mean of its latest rounds; None before the first."""
        left = self.rounds_left
        return 0.0 if not left else fmean(self.seconds) * left if self.seconds else None

    def read(self, folder: Path) -> "Status":
        """The same point now, read from its session in `folder`. Unchanged if it has none yet."""
        try:
            if not checkpoints.is_session(folder):
                return self
            session = CheckedReader(folder)
            record = session.last_record(session.newest())
            return replace(self, state=session.state(), reason="", **self._figures(record, session))
        except (SessionUnreadable, DiskError) as error:
            return replace(self, state=FAILED, reason=str(error))
        except (KeyError, TypeError):
            return replace(self, state=FAILED, reason=f"{folder} has a ledger that htfl-sim did not write.")

    def _figures(self, record: Record | None, session: CheckedReader) -> dict[str, Any]:
        if record is None or record["round"] == self.round:
            return {}
        seconds = (*self.seconds, float(record["timing"]["seconds"]))[-_REMEMBERED:]
        accuracy, time = record["accuracy"], record.get("time")
        timed: dict[str, Any] = {}
        failed = untrained(session, record)
        if time is not None:
            timed = {"simulated": time["ends"], "until_time": self._until_time(session)}
        if self.last:
            totals = totals_of_lines(session.lines())
            timed |= {
                "score": totals.score(min(self.last, record["round"]), record["round"]),
                "losers": Divergence.of(totals).clients,
            }
        return timed | {
            "round": record["round"],
            "accuracy": None if failed else accuracy["mean"],
            "best": None if failed else accuracy["best_mean"],
            "untrained": failed,
            "seconds": seconds,
        }

    def _until_time(self, session: CheckedReader) -> float:
        return self.until_time or float(session.document["config"].get("until_time", 0.0))


def time_left(statuses: Sequence[Status], jobs: int) -> float | None:
    """Seconds until all points are done, `jobs` at a time. Points that have not begun are assumed to take as long.

    None until a round has been timed.
    """
    known = [fmean(status.seconds) for status in statuses if status.seconds]
    if not known:
        return None
    a_round = fmean(known)
    open_ones = [status for status in statuses if status.state not in (FINISHED, FAILED)]
    total = sum(
        (fmean(status.seconds) if status.seconds else a_round) * status.rounds_left for status in open_ones
    )
    return total / max(min(jobs, len(open_ones)), 1)
