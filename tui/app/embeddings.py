"""Which embeddings there are: what has been computed since the app began, and what is being computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.analysis.run import Run
from simulator.inspection.embedding import Embedding

Place = tuple[str, int]
"""A session's id and a round of it."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """found: by place, the embedding or the sentence why there is none. under_way: the place being computed, if any."""

    found: Mapping[Place, Embedding | str] = field(default_factory=dict)
    under_way: Place | None = None

    def last(self, run: Run, round: int) -> Embedding | None:
        """The last one of a session at or before a round."""
        own = [
            each
            for (session, at), each in self.found.items()
            if session == session_of(run) and at <= round and isinstance(each, Embedding)
        ]
        return max(own, key=lambda each: each.round, default=None)

    def refusal(self, run: Run, round: int) -> str | None:
        """Why there is none of a round, where that has been tried."""
        found = self.found.get((session_of(run), round))
        return found if isinstance(found, str) else None


def session_of(run: Run) -> str:
    """The id of a session; "" before it has been read."""
    return str(run.document.get("id", ""))
