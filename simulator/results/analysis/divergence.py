"""How often clients diverged: the one count that tables, tuning, and the app show."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from simulator.base.record import Record
from simulator.results.analysis.totals import Totals

NO_SCORE = "no score"
"""The cell of sessions of which one has learned nothing."""


@dataclass(frozen=True)
class Divergence:
    """The diverged clients of n sessions.

    sessions: in how many a client diverged. clients, rounds, updates: how many diverged, in how many rounds, and how
    often, summed over the sessions. untrained: sessions whose every update diverged. Their clients have their first
    models, so their accuracies are no result.
    """

    n: int = 1
    sessions: int = 0
    clients: int = 0
    rounds: int = 0
    updates: int = 0
    untrained: int = 0

    @classmethod
    def of(cls, totals: Totals, upto: int | None = None) -> "Divergence":
        """Those of a session, up to a round."""
        return cls._of(zip(totals["participants"][:upto], totals.diverged[:upto], strict=True))

    @classmethod
    def of_records(cls, records: Iterable[Record]) -> "Divergence":
        """Those of the rounds of a session."""
        return cls._of((len(each["participants"]), each.get("diverged", ())) for each in records)

    @classmethod
    def _of(cls, clients: Iterable[tuple[float, Sequence[int]]]) -> "Divergence":
        each_round = list(clients)
        rounds = [diverged for _, diverged in each_round if diverged]
        trained = any(participants > len(diverged) for participants, diverged in each_round)
        return cls(
            sessions=bool(rounds),
            clients=len({client for each in rounds for client in each}),
            rounds=len(rounds),
            updates=sum(map(len, rounds)),
            untrained=bool(rounds) and not trained,
        )

    @classmethod
    def over(cls, sessions: Iterable["Divergence"]) -> "Divergence":
        """Those of several sessions together."""
        each = [(s.n, s.sessions, s.clients, s.rounds, s.updates, s.untrained) for s in sessions]
        return cls(*map(sum, zip(*each, strict=True))) if each else NO_SESSION

    def __bool__(self) -> bool:
        return self.sessions > 0

    def __str__(self) -> str:
        """'3 clients in 12 rounds'."""
        return f"{_number(self.clients, 'client')} in {_number(self.rounds, 'round')}"

    def fields(self) -> Iterator[tuple[str, int]]:
        """The columns of a table for programs."""
        yield from {"diverged": self.sessions, "diverged_clients": self.clients}.items()
        yield from {"diverged_rounds": self.rounds, "untrained": self.untrained}.items()

    def marked(self, text: str) -> str:
        """The cell of an accuracy with this count: '77.37 ± 13.37 (2 of 5 diverged)'."""
        if not self:
            return text
        return f"{text} (diverged)" if self.n == 1 else f"{text} ({self.sessions} of {self.n} diverged)"


NO_SESSION = Divergence(0)
"""That of no session."""


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
