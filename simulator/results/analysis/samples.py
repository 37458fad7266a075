"""The data that each client has, where its session says: how much, and of which classes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.significance import FEW as FEW
from simulator.results.analysis.run import SessionData


@dataclass(frozen=True, eq=False)
class Samples:
    """classes: the names of all C classes. train [N, C]: the samples that each client trains on. test [N]: how many it
    is tested on."""

    classes: tuple[str, ...]
    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def of(cls, run: SessionData) -> "Samples | None":
        """None for a session that does not say: one from before it was noted, or of very many clients and classes."""
        noted = run.document.get("samples")
        if noted is None:
            return None
        train = np.array(noted["train"], np.int64).reshape(len(noted["test"]), len(noted["classes"]))
        return cls(tuple(noted["classes"]), train, np.array(noted["test"], np.int64))

    def few(self, client: int) -> bool:
        """Whether its accuracy rests on fewer than FEW samples."""
        return bool(self.test[client] < FEW)

    def largest(self, client: int) -> list[tuple[str, int]]:
        """Its classes with their training samples, the largest first, those it has none of left out."""
        counts = self.train[client]
        order = np.argsort(-counts, kind="stable")
        return [(self.classes[label], int(counts[label])) for label in order if counts[label]]


def tested(run: SessionData, round: int) -> NDArray[np.int64] | None:
    """[N] the test samples behind each client's accuracy after a round.

    None where the session does not say, or where the timeline has changed the data of clients by then.
    """
    samples = Samples.of(run)
    changed = any(record["timeline"]["data"] for record in run.records[:round] if "timeline" in record)
    return None if samples is None or changed else samples.test
