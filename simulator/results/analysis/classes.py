"""Answers by class: samples, correct answers, and which classes a client's model answers for which (confusion)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.base.record import ByClass, Record
from simulator.metrics import by_client
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.gain import EQUAL

Counts = NDArray[np.int64]
Rows = list[list[int]]


class ClassCounts(NamedTuple):
    """One class on a part of a client's data."""

    samples: int
    """Samples of the class."""
    correct: int
    """Samples of the class that were answered correctly."""
    answered: int
    """Samples of any class that were assigned to the class."""

    @property
    def recall(self) -> float:
        """Share of the samples that were answered correctly; NaN without samples."""
        return self.correct / self.samples if self.samples else float("nan")

    @property
    def precision(self) -> float:
        """Share of the answers that were correct; NaN without answers."""
        return self.correct / self.answered if self.answered else float("nan")


@dataclass(frozen=True, eq=False)
class ClassTable:
    """N clients and C classes: samples, correct, and answered, [N, C] each. All are 0 for a client without counts."""

    samples: Counts
    correct: Counts
    answered: Counts

    @property
    def recall(self) -> Array:
        """[N, C] the share of the samples that were answered correctly; NaN without samples."""
        return _shares(self.correct, self.samples)

    @property
    def precision(self) -> Array:
        """[N, C] the share of the answers that were correct; NaN without answers."""
        return _shares(self.correct, self.answered)

    def only(self, cells: NDArray[np.bool_]) -> "ClassTable":
        """The same with 0 in all other cells."""
        return ClassTable(*(np.where(cells, each, 0) for each in (self.samples, self.correct, self.answered)))

    def over_clients(self) -> list[ClassCounts]:
        """[C] the sums over all clients."""
        sums = (each.sum(axis=0).tolist() for each in (self.samples, self.correct, self.answered))
        return [ClassCounts(*each) for each in zip(*sums, strict=True)]


def class_counts(records: Sequence[Record], client: int, part: str = "test") -> dict[int, ClassCounts] | None:
    """A client's counts after the last record, by class that has any; None: it has none, or none are counted."""
    for found in _backwards(records, part):
        rows = by_client.of(found, client, _UNNAMED)
        if rows is not _UNNAMED:
            return None if rows is None else {label: ClassCounts(*counts) for label, *counts in rows}
    return None


def class_table(
    records: Sequence[Record], clients: int, classes: int, part: str = "test"
) -> ClassTable | None:
    """The counts of all clients after the last of the records. None if it does not count classes."""
    standing: dict[int, Rows | None] = {}
    counted = False
    for found in _backwards(records, part):
        counted = True
        for client, rows in by_client.items(found):
            standing.setdefault(client, rows)
        if len(standing) == clients:
            break
    return _table(standing, clients, classes) if counted else None


def recalls(records: Sequence[Record], client: int, classes: int, part: str = "test") -> Array:
    """[n, C] a client's recall of each class after each of n rounds, kept in rounds without a new one. NaN where the
    round does not count classes, or the client has no samples of the class.
    """
    found = np.full((len(records), classes), np.nan)
    for row, record in enumerate(records):
        counted = _counted(record, part)
        if counted is None:
            continue
        rows = by_client.of(counted["per_client"], client, _UNNAMED)
        if rows is not _UNNAMED:
            found[row] = _table({0: rows}, 1, classes).recall[0]
        elif row:
            found[row] = found[row - 1]
    return found


@dataclass(frozen=True)
class ClassChange:
    """A class over the clients that have samples of it in both tables. change: in recall, −1…1."""

    label: int
    change: float
    now: ClassCounts
    before: ClassCounts


def recall_changes(now: ClassTable, before: ClassTable) -> Array:
    """[N, C] the recall now less the recall before; NaN where one of them is not known."""
    changes = now.recall - before.recall
    return np.where(np.abs(changes) < EQUAL, 0.0, changes)


def class_changes(now: ClassTable, before: ClassTable) -> list[ClassChange]:
    """The change of each class, the largest gain first. A class without samples in both tables is left out."""
    both = (now.samples > 0) & (before.samples > 0)
    sums = [each.only(both).over_clients() for each in (now, before)]
    changes = [one.recall - other.recall for one, other in zip(*sums, strict=True)]
    found = [
        ClassChange(label, 0.0 if abs(change) < EQUAL else change, one, other)
        for label, (change, one, other) in enumerate(zip(changes, *sums, strict=True))
        if one.samples
    ]
    return sorted(found, key=lambda each: -each.change)


_UNNAMED: Any = object()


def _counted(record: Record, part: str) -> ByClass | None:
    measured = record.get("evaluation", {}).get(part)
    return None if measured is None else measured.get("classes")


def _backwards(records: Sequence[Record], part: str) -> Iterator[by_client.Values]:
    """What the records say by client, the newest first, up to one that says it of all clients, or does not count."""
    for record in reversed(records):
        if (counted := _counted(record, part)) is None:
            return
        yield counted["per_client"]
        if isinstance(counted["per_client"], list):
            return


def _table(standing: dict[int, Rows | None], clients: int, classes: int) -> ClassTable:
    held = {client: rows for client, rows in standing.items() if rows}
    lengths = np.array([len(rows) for rows in held.values()], np.int64)
    owners = np.repeat(np.fromiter(held, np.int64), lengths)
    numbers = np.array(list(chain.from_iterable(held.values())), np.int64).reshape(-1, 4)
    inside = (numbers[:, 0] < classes) & (owners < clients)
    cell = owners[inside], numbers[inside, 0]
    found = np.zeros((3, clients, classes), np.int64)
    for column in range(3):
        found[column][cell] = numbers[inside, 1 + column]
    return ClassTable(*found)


def _shares(part: Counts, whole: Counts) -> Array:
    return np.asarray(np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0))


@dataclass(frozen=True)
class Confusion:
    """A client's answers on its test part after a round.

    counts: [C][C], the samples of the row's true class that were answered with the column's. as_recorded: whether the
    sums are those of the ledger; None if it does not count the client's answers by class.
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
        return found if recorded is None else replace(found, as_recorded=found.by_class() == recorded)

    def by_class(self) -> dict[int, ClassCounts]:
        """The sums by class, as `class_counts` reads them in the ledger. Classes without counts are left out."""
        answered = [sum(column) for column in zip(*self.counts, strict=True)]
        every = (ClassCounts(sum(row), row[label], answered[label]) for label, row in enumerate(self.counts))
        return {label: each for label, each in enumerate(every) if each.samples or each.answered}

    @property
    def samples(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def correct(self) -> int:
        return sum(row[label] for label, row in enumerate(self.counts))

    def to_json(self) -> dict[str, Any]:
        """Plain values, as the command `why` prints them."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Confusion":
        counts = tuple(map(tuple, found["counts"]))
        return cls(**{**found, "classes": tuple(found["classes"]), "counts": counts})
