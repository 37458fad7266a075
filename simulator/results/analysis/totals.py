"""The scalars of a session's rounds as arrays, read from its ledger without decoding the rest of it."""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Self

import msgspec
import numpy as np

from simulator.base.record import SCALARS, Record
from simulator.results.analysis.client_values import Array

NUMBERS = tuple(each for each in SCALARS if each.unit != "text")


@dataclass(frozen=True, eq=False)
class Totals:
    """n rounds. Row i is round i + 1."""

    arrays: Mapping[str, Array]
    """The scalars [n] by column, without texts; NaN where a record has none."""
    diverged: tuple[tuple[int, ...], ...]
    """The participants that diverged [n]."""

    def __getitem__(self, column: str) -> Array:
        """[n] the scalar of a column of `SCALARS`, such as 'accuracy'."""
        return self.arrays[column]

    @property
    def rounds(self) -> int:
        return len(self.diverged)

    @property
    def traffic(self) -> Array:
        """[n] bytes up and down since round 1."""
        return np.asarray(self["bytes_up_total"] + self["bytes_down_total"])

    def score(self, last: int, upto: int) -> float:
        """The mean eval accuracy of the last rounds up to one, in which a round without an accuracy counts as 0."""
        known = np.zeros(min(last, upto))
        values = np.nan_to_num(self["eval_accuracy"][:upto][max(0, upto - last) :], nan=0.0)
        known[: len(values)] = values
        return math.fsum(known) / len(known)

    def without_scores(self) -> Self:
        """The same without accuracies: those of a session that has learned nothing are no result."""
        none = {each.column: np.full(self.rounds, np.nan) for each in NUMBERS if each.unit == "share"}
        return replace(self, arrays={**self.arrays, **none})

    def upto(self, round: int) -> Self:
        """The first so many rounds, without a copy."""
        arrays = {column: values[:round] for column, values in self.arrays.items()}
        return replace(self, arrays=arrays, diverged=self.diverged[:round])


def of_records(records: Iterable[Record]) -> Totals:
    """Of decoded records. Raises ValueError for those that htfl-sim did not write."""
    try:
        return _totals([msgspec.convert(record, _kind()) for record in records])
    except msgspec.MsgspecError as odd:
        raise ValueError(str(odd)) from odd


def of_lines(lines: Sequence[bytes]) -> Totals:
    """Of records as text. Raises ValueError for text that is no record."""
    decoder = msgspec.json.Decoder(_kind())
    try:
        return _totals([decoder.decode(line) for line in lines])
    except msgspec.MsgspecError as odd:
        raise ValueError(str(odd)) from odd


def _totals(rows: Sequence[Any]) -> Totals:
    arrays = {
        each.column: sum(_numbers(map(attrgetter(path), rows)) for path in each.paths) for each in NUMBERS
    }
    return Totals(arrays, tuple(tuple(row.diverged) for row in rows))  # type: ignore[arg-type]


def _numbers(values: Iterable[Any]) -> Array:
    return np.array([len(each) if isinstance(each, list) else each for each in values], float)


@functools.cache
def _kind() -> Any:
    """A type that has only the scalars of a record, so that the rest of a line is skipped."""
    tree: dict[str, Any] = {}
    for each in NUMBERS:
        for path in each.paths:
            *sections, key = path.split(".")
            at = functools.reduce(lambda inner, section: inner.setdefault(section, {}), sections, tree)
            at[key] = each
    return _object("record", tree)


def _object(name: str, tree: Mapping[str, Any]) -> Any:
    """A type of these keys. One that may be missing has None, and an object without any other key has its like."""
    fields: list[Any] = []
    for key, inner in tree.items():
        if isinstance(inner, dict):
            kind = _object(key, inner)
            fields.append((key, kind, kind()) if _may_lack(inner) else (key, kind))
        elif inner.listed:
            fields.append((key, list[int], msgspec.field(default_factory=list)))
        else:
            fields.append((key, float | None, None) if inner.optional else (key, float | None))
    return msgspec.defstruct(name, fields, frozen=True, kw_only=True)


def _may_lack(tree: Mapping[str, Any]) -> bool:
    return all(_may_lack(each) if isinstance(each, dict) else each.optional for each in tree.values())
