"""One number per round and client, stored only where a round reports one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.metrics import by_client

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=np.generic)
TOGETHER = 32
"""Rounds that a builder turns into arrays at a time."""
CELLS = 1 << 21
"""Values in a table that `by_round` makes at a time: 16 MiB."""


@dataclass(frozen=True, eq=False)
class ClientValues:
    """n rounds of N clients. Row i is round i + 1.

    A large federation trains few clients in each round, so a table of all rounds and clients is nearly empty. Row i
    reports `values[starts[i]:starts[i + 1]]`, and `owners` has the client of each, ascending. Other clients have the
    value `absent` in that round or, if values are `carried`, the value that they had before.
    """

    clients: int
    absent: float
    carried: bool
    starts: Numbers
    owners: NDArray[np.int32]
    values: Array

    @property
    def rounds(self) -> int:
        return len(self.starts) - 1

    def upto(self, round: int) -> "ClientValues":
        """The first rounds, without a copy."""
        starts = self.starts[: round + 1]
        return replace(
            self, starts=starts, owners=self.owners[: starts[-1]], values=self.values[: starts[-1]]
        )

    @cached_property
    def named(self) -> Numbers:
        """The clients for whom any round reports a value, ascending."""
        return np.arange(self.clients) if self._full else np.unique(self.owners).astype(int)

    def after(self, round: int) -> Array:
        """[N] all clients' values of a round, from 1."""
        if self._full:
            return np.asarray(self._table[round - 1])
        end = int(self.starts[round])
        first = 0 if self.carried else int(self.starts[round - 1])
        newest = np.full(self.clients, -1)
        np.maximum.at(newest, self.owners[first:end], np.arange(first, end))
        return np.asarray(np.append(self.values, self.absent)[newest])

    def of(self, client: int) -> Array:
        return self._table[:, client] if self._full else self.select([client])[:, 0]

    def select(self, clients: Sequence[int] | Numbers, first: int = 0, last: int | None = None) -> Array:
        """[n, k] the values of k different clients, in rows `first` up to and without `last`."""
        last = self.rounds if last is None else min(last, self.rounds)
        if self._full:
            rows = self._table[first:last]
            return rows if len(clients) == self.clients and clients is self.named else rows[:, clients]
        begin, end = self.starts[first], self.starts[last]
        columns = np.full(self.clients, -1)
        columns[clients] = np.arange(len(clients))
        column = columns[self.owners[begin:end]]
        entries = np.flatnonzero(column >= 0)
        rows = np.repeat(np.arange(last - first), np.diff(self.starts[first : last + 1]))
        cell = rows[entries], column[entries]
        if not self.carried:
            found = np.full((last - first, len(clients)), self.absent)
            found[cell] = self.values[begin:end][entries]
            return found
        before = self.after(first)[clients] if first else np.full(len(clients), self.absent)
        # Where each cell has its value from: of `before`, or reported since.
        newest = np.zeros((last - first, len(clients)), np.int32 if len(self.values) < 1 << 30 else np.int64)
        newest[:1] = np.arange(len(clients))
        newest[cell] = len(clients) + entries
        np.maximum.accumulate(newest, axis=0, out=newest)
        return np.concatenate([before, self.values[begin:end]]).take(newest)

    def reported(self, first: int = 0) -> Array:
        """The values that rows from `first` on report, by row and client."""
        return self.values[self.starts[first] :]

    def by_round(self, reduce: Callable[[Array], Array]) -> Array:
        """[n, …] what `reduce` makes of the values [b, k] of b rounds at a time; k are the clients that have any."""
        step = max(1, CELLS // max(1, len(self.named)))
        pieces = [self.select(self.named, row, row + step) for row in range(0, self.rounds, step)]
        return np.concatenate([reduce(piece) for piece in pieces or [np.empty((0, 0))]])

    def totals(self) -> Array:
        """[N] each client's sum over the rounds that report it."""
        return np.bincount(self.owners, self.values, self.clients).astype(float)

    def means(self) -> Array:
        """[n] the mean over the finite values that each round reports; NaN without any."""
        sums, counts = self.sums(), np.bincount(self._rows[np.isfinite(self.values)], minlength=self.rounds)
        return np.asarray(np.divide(sums, counts, out=np.full(self.rounds, np.nan), where=counts > 0))

    def sums(self) -> Array:
        """[n] the sum of the finite values that each round reports; NaN without any."""
        finite = np.isfinite(self.values)
        rows = self._rows[finite]
        sums = np.bincount(rows, self.values[finite], self.rounds).astype(float)
        return np.where(np.bincount(rows, minlength=self.rounds) > 0, sums, np.nan)

    def changes(self) -> tuple[Numbers, Numbers, Array]:
        """For each reported value: its round, its client, and the change from the client's value before (NaN: none)."""
        changes = np.full(len(self.values), np.nan)
        if self._full:
            changes[self.clients :] = np.diff(self._table, axis=0).ravel()
        else:
            order = np.argsort(self.owners, kind="stable")
            owners, values = self.owners[order], self.values[order]
            same = owners[1:] == owners[:-1]
            changes[order[1:][same]] = np.diff(values)[same]
        return self._rows + 1, self.owners.astype(int), changes

    @property
    def _full(self) -> bool:
        """Whether each round reports all clients, so that the values are a table as they are."""
        return len(self.values) == self.rounds * self.clients

    @property
    def _table(self) -> Array:
        return self.values.reshape(self.rounds, self.clients)

    @property
    def _rows(self) -> Numbers:
        return np.repeat(np.arange(self.rounds), np.diff(self.starts))


class ClientValuesBuilder:
    """Appends rounds; `ClientValues` taken earlier do not change."""

    def __init__(self, absent: float = np.nan, carried: bool = False) -> None:
        self._clients, self._absent, self._carried = 0, absent, carried
        self._ends, self._owners, self._values = Growing(np.int64), Growing(np.int32), Growing(np.float64)
        self._ends.extend([0])

    def extend(self, rounds: Sequence[by_client.Values], clients: int) -> None:
        """Add rounds of so many clients. Raises TypeError or ValueError for values that are no numbers by client."""
        self._clients = clients
        for first in range(0, len(rounds), TOGETHER):
            self._extend(rounds[first : first + TOGETHER], clients)

    def _extend(self, rounds: Sequence[by_client.Values], clients: int) -> None:
        owners, found = list[Iterable[int]](), list[Iterable[float | None]]()
        for reported in rounds:
            if isinstance(reported, Mapping):
                owners.append(map(int, reported))
                found.append(reported.values())
            elif len(reported) == clients:
                owners.append(range(clients))
                found.append(reported)
            else:
                raise ValueError(f"values are of {len(reported)} clients, not {clients}")
        values = np.array(list(chain.from_iterable(found)), float)
        row = np.repeat(np.arange(len(rounds)), [len(reported) for reported in rounds])
        owner = np.fromiter(chain.from_iterable(owners), np.int64, len(values))
        if ((owner < 0) | (owner >= clients)).any():
            raise ValueError(f"a value is of none of the {clients} clients")
        cell = row * clients + owner
        if (np.diff(cell) <= 0).any():  # JSON sorts clients as texts
            order = np.argsort(cell)
            cell, values = cell[order], values[order]
            if not np.diff(cell).all():
                raise ValueError("a round reports a client twice")
        if not self._carried:
            there = ~np.isnan(values) if np.isnan(self._absent) else values != self._absent
            cell, values = cell[there], values[there]
        row, owner = np.divmod(cell, max(clients, 1))
        self._values.extend(values)
        self._owners.extend(owner)
        self._ends.extend(self._ends.taken()[-1] + np.cumsum(np.bincount(row, minlength=len(rounds))))

    def taken(self) -> ClientValues:
        arrays = self._ends.taken(), self._owners.taken(), self._values.taken()
        return ClientValues(self._clients, self._absent, self._carried, *arrays)


class Growing(Generic[_Kind]):
    """An array with room at its end; parts taken earlier do not change."""

    def __init__(self, kind: type[_Kind]) -> None:
        self._size, self._array = 0, np.empty(0, kind)

    def extend(self, values: ArrayLike) -> None:
        added = np.asarray(values, self._array.dtype)
        end = self._size + len(added)
        if end > len(self._array):
            roomy = np.empty(2 * end, self._array.dtype)
            roomy[: self._size] = self._array[: self._size]
            self._array = roomy
        self._array[self._size : end] = added
        self._size = end

    def taken(self) -> NDArray[_Kind]:
        return self._array[: self._size]


def quantiles(values: Array, shares: tuple[float, ...]) -> list[Array]:
    """For each share its quantile over the columns of `values` [n, m], as numpy's default, NaN left out: [n]."""
    if not values.size:
        return [np.full(len(values), np.nan) for _ in shares]
    ordered = np.sort(values, axis=1)  # NaN last
    counts = np.isfinite(ordered).sum(axis=1)
    rows = np.arange(len(values))
    found = []
    for share in shares:
        place = np.maximum(counts - 1, 0) * share
        below = place.astype(int)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        low, high = ordered[rows, below], ordered[rows, above]
        found.append(low + (high - low) * (place - below))
    return found
