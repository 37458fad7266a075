"""The status of a study's points, from their sessions' files alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from simulator.base.record import Record
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
    reason: str = ""
    """Why it failed or was stopped."""
    diverged: bool = False
    """Whether it failed since a client diverged and training.on_divergence is 'stop'."""

    @property
    def left(self) -> float | None:
        """Seconds until its last round, by the mean of its latest rounds; None before the first."""
        remaining = max(self.rounds - self.round, 0)
        return 0.0 if not remaining else fmean(self.seconds) * remaining if self.seconds else None

    def read(self, folder: Path) -> "Status":
        """The same point now, read from its session in `folder`. Unchanged if it has none yet."""
        try:
            if not checkpoints.is_session(folder):
                return self
            session = CheckedReader(folder)
            record = session.last_record()
            return replace(self, state=session.state(), reason="", **self._figures(record))
        except (SessionUnreadable, DiskError) as error:
            return replace(self, state=FAILED, reason=str(error))
        except (KeyError, TypeError):
            return replace(self, state=FAILED, reason=f"{folder} has a ledger that htfl-sim did not write.")

    def _figures(self, record: Record | None) -> dict[str, Any]:
        if record is None or record["round"] == self.round:
            return {}
        seconds = (*self.seconds, float(record["timing"]["seconds"]))[-_REMEMBERED:]
        accuracy = record["accuracy"]
        return {
            "round": record["round"],
            "accuracy": accuracy["mean"],
            "best": accuracy["best_mean"],
            "seconds": seconds,
        }


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
        (fmean(status.seconds) if status.seconds else a_round) * max(status.rounds - status.round, 0)
        for status in open_ones
    )
    return total / max(min(jobs, len(open_ones)), 1)
