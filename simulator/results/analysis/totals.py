"""The numbers that a ledger has one of a round, read with as little of it decoded as they take.

A table of a hundred sessions reads a hundred megabytes of ledgers, of which it needs eight numbers a line. JSON of ours
is spelled in one way only (sorted keys, no spaces), so these are found in its text by what stands before them.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from simulator.base.record import Record
from simulator.results.analysis.curves import Array, on_the_clock

_PLACES = (
    (b'{"accuracy":{', b'"mean":', b","),
    (b"", b'"min":', b","),
    (b"", b'"weighted":', b"}"),
    (b'"bytes":{', b'"down_total":', b","),
    (b"", b'"up_total":', b"}"),
    (b'"flops":{', b'"total":', b"}"),
    (b'"timing":{', b'"seconds":', b","),
)
"""In the order in which a line, and `Totals`, has them: the section, where it is another one, the key, what ends it."""
_EVAL = b'"evaluation":{"eval":{"accuracy":{'
_CLOCK = b'"time":{'
_LISTS = (b'"diverged":[', b'"participants":[')
"""A record with the computed clock is decoded: its flights are of any number."""


@dataclass(frozen=True, eq=False)
class Totals:
    """n rounds; NaN where the ledger has null. Row i is round i + 1.

    worst: the test accuracy of the worst client, 0…1 [n]; selection: mean accuracy on the clients' eval parts [n], NaN
    where it was not measured; the others as in `Curves`.
    """

    mean: Array
    worst: Array
    weighted: Array
    down_total: Array
    up_total: Array
    flops: Array
    seconds: Array
    selection: Array
    clock: Array
    joules: Array
    participants: tuple[int, ...] = ()
    """Their number [n]."""
    diverged: tuple[tuple[int, ...], ...] = ()
    """The participants that diverged [n]."""

    @property
    def rounds(self) -> int:
        return len(self.mean)

    def score(self, last: int, upto: int) -> float:
        """The mean eval accuracy of the last rounds up to one, in which a round without an accuracy counts as 0."""
        known = np.zeros(min(last, upto))
        values = np.nan_to_num(self.selection[:upto][max(0, upto - last) :], nan=0.0)
        known[: len(values)] = values
        return math.fsum(known) / len(known)

    def upto(self, round: int) -> "Totals":
        """The first so many rounds, without a copy."""
        return Totals(**{each.name: getattr(self, each.name)[:round] for each in fields(self)})


def of_records(records: Sequence[Record]) -> Totals:
    """Of decoded records. Raises KeyError or TypeError for those that htfl-sim did not write."""
    return _totals([_of_record(record) for record in records], [clients_of(record) for record in records])


def of_lines(lines: Sequence[bytes]) -> Totals:
    """Of records as text; one is decoded only where it is not spelled as expected. Raises ValueError for no JSON."""
    return _totals(
        [_of_line(line) or _of_record(json.loads(line)) for line in lines], list(map(_clients_in, lines))
    )


def _totals(rows: Sequence[Sequence[float]], clients: Sequence[tuple[int, tuple[int, ...]]]) -> Totals:
    numbers = np.array(rows, float).reshape(len(rows), len(_PLACES) + 3).T
    participants, diverged = tuple(each for each, _ in clients), tuple(each for _, each in clients)
    return replace(Totals(*numbers), participants=participants, diverged=diverged)


def clients_of(record: Record) -> tuple[int, tuple[int, ...]]:
    """The number of participants, and those that diverged."""
    return len(record["participants"]), tuple(record.get("diverged", ()))


def _clients_in(line: bytes) -> tuple[int, tuple[int, ...]]:
    """The same of a line. It is decoded only if a client diverged."""
    diverged, participants = (_inside(line, line.find(key), len(key)) for key in _LISTS)
    if diverged or not line.startswith(_PLACES[0][0]):
        return clients_of(json.loads(line))
    return participants.count(b",") + bool(participants), ()


def _inside(line: bytes, at: int, skipped: int) -> bytes:
    """The text of a list up to its end; empty without the list."""
    return b"" if at < 0 else line[at + skipped : line.index(b"]", at)]


def _of_line(line: bytes) -> list[float] | None:
    """A line's numbers in the order of `Totals`; None where one is not in its place."""
    row: list[float] = []
    at = 0
    if _CLOCK in line:
        return None
    try:
        for section, key, end in _PLACES:
            at = line.index(key, line.index(section, at) if section else at) + len(key)
            row.append(_parsed(line[at : line.index(end, at)]))
        at = line.find(_EVAL)
        if at < 0:
            row.append(np.nan)
        else:
            at = line.index(b'"mean":', at) + 7
            row.append(_parsed(line[at : line.index(b",", at)]))
    except ValueError:
        return None
    return [*row, np.nan, np.nan]


def _of_record(record: Record) -> list[float]:
    accuracy, traffic = record["accuracy"], record["bytes"]
    held_out = record.get("evaluation", {}).get("eval")
    values = (
        accuracy["mean"],
        accuracy["min"],
        accuracy["weighted"],
        traffic["down_total"],
        traffic["up_total"],
        record["flops"]["total"],
        record["timing"]["seconds"],
        held_out and held_out["accuracy"]["mean"],
        *on_the_clock(record),
    )
    return [np.nan if value is None else float(value) for value in values]


def _parsed(text: bytes) -> float:
    return np.nan if text == b"null" else float(text)
