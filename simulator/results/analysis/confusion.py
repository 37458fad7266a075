"""Which classes a client's model answers for which: its confusion matrix. Needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simulator.results.analysis.classes import ClassCounts


@dataclass(frozen=True)
class Confusion:
    """A client's answers on its test part after a round.

    counts: [C][C], the samples of the true class of the row that were answered with the class of the column. classes:
    their C names. as_recorded: whether the sums are those of the ledger; None if it does not count the client's
    answers by class.
    """

    client: int
    round: int
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    as_recorded: bool | None = None

    @classmethod
    def of(
        cls,
        client: int,
        round: int,
        classes: Sequence[str],
        counts: Sequence[Sequence[int]],
        recorded: Mapping[int, ClassCounts] | None,
    ) -> "Confusion":
        """The matrix, compared with the counts by class in the ledger."""
        found = cls(client, round, tuple(classes), tuple(map(tuple, counts)))
        same = None if recorded is None else found.by_class() == recorded
        return cls(client, round, found.classes, found.counts, same)

    def by_class(self) -> dict[int, ClassCounts]:
        """The sums by class, as `class_counts` reads them in the ledger. Classes without counts are left out."""
        answered = [sum(column) for column in zip(*self.counts, strict=True)]
        every = (ClassCounts(sum(row), row[label], answered[label]) for label, row in enumerate(self.counts))
        return {label: each for label, each in enumerate(every) if each.samples or each.answered}

    @property
    def samples(self) -> int:
        """The samples of all classes."""
        return sum(map(sum, self.counts))

    @property
    def correct(self) -> int:
        """The samples that were answered correctly."""
        return sum(row[label] for label, row in enumerate(self.counts))

    def to_json(self) -> dict[str, Any]:
        """Plain values, as the command `why` prints them."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Confusion":
        """What `to_json` gave."""
        counts = tuple(map(tuple, found["counts"]))
        return cls(**{**found, "classes": tuple(found["classes"]), "counts": counts})
