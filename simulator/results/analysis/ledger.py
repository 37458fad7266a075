"""The finished rounds of a session as records and as arrays: scalars, values by client, CKA, and divergence."""

import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from checkpoints import Damaged
from simulator.base.record import SCALARS, Record, check_record, legible
from simulator.metrics import by_client
from simulator.results.analysis.client_values import Array, ClientValues, ClientValuesBuilder, Growing


@contextmanager
def well_formed(folder: Path) -> Iterator[None]:
    """Within it, a key or a value that the session's files lack raises Damaged instead of a KeyError."""
    try:
        yield
    except (
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        ValueError,
        ArithmeticError,
        RecursionError,
    ) as error:
        said = f"{folder} is no session that htfl-sim wrote: its JSON lacks what belongs there ({error})."
        raise Damaged(said) from error


@dataclass(frozen=True, eq=False)
class CkaMeasurement:
    """CKA after one round: the layers from shallow to deep, the mean over pairs and the matrix [N, N] of each."""

    round: int
    layers: tuple[str, ...]
    cka: Mapping[str, Any]

    @classmethod
    def of(cls, record: Record) -> "CkaMeasurement | None":
        """A record's measurement; None without one, or without a layer that two clients have. Foreign JSON raises."""
        cka = record.get("cka")
        if not cka:
            return None
        for part in ("layers", "matrix"):
            cka[part].items()
        layers = tuple(cka.get("order") or cka["layers"])
        return cls(record["round"], layers, cka) if layers else None

    def mean(self, layer: str) -> float:
        """Over the pairs of clients that have the layer; NaN where none have."""
        value = self.cka["layers"].get(layer)
        return float("nan") if value is None else float(value)

    @property
    def clients(self) -> Sequence[int]:
        """Whom the rows and columns of a matrix are of: everybody, or of very many clients those that were drawn."""
        drawn: list[int] | None = self.cka.get("clients")
        return range(len(next(iter(self.cka["matrix"].values()), []))) if drawn is None else drawn

    def between(self, one: int, other: int, layer: str) -> float:
        """CKA of two clients; NaN where they were not compared."""
        rows, clients = self.cka["matrix"].get(layer, []), self.clients
        if not rows or one not in clients or other not in clients:
            return float("nan")
        value = rows[clients.index(one)][clients.index(other)]
        return float("nan") if value is None else float(value)

    @property
    def whom(self) -> str:
        """What is to be said of `clients` where they are not everybody."""
        return f", {len(self.clients)} clients drawn" if "clients" in self.cka else ""

    def matrix(self, layer: str) -> Array:
        """[n, n] of `clients`, NaN for a pair that has none; [0, 0] for a layer that was not measured."""
        rows = self.cka["matrix"].get(layer, [])
        return np.array(rows, float).reshape(len(rows), -1 if rows else 0)  # None becomes NaN


def least_similar(matrix: Array) -> list[tuple[int, int]]:
    """The pairs (i < j) of a matrix [N, N] that have a value, the lowest first."""
    rows, columns = np.triu_indices(len(matrix), 1)
    values = matrix[rows, columns]
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]  # NaN sorts last
    return list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))


def last_measured(measured: Sequence[CkaMeasurement], round: int) -> CkaMeasurement | None:
    """The last measurement at or before a round, of those in order of round."""
    return next((one for one in reversed(measured) if one.round <= round), None)


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

    def upto(self, round: int) -> Self:
        """The first so many rounds, without a copy."""
        arrays = {column: values[:round] for column, values in self.arrays.items()}
        return replace(self, arrays=arrays, diverged=self.diverged[:round])


def totals_of(rounds: Iterable[Record | bytes]) -> Totals:
    """Of records, decoded or as text. Raises ValueError for those that htfl-sim did not write."""
    kind = _kind()
    decode = msgspec.json.Decoder(kind).decode
    try:
        rows = [decode(each) if isinstance(each, bytes) else msgspec.convert(each, kind) for each in rounds]
    except msgspec.MsgspecError as odd:
        raise ValueError(str(odd)) from odd
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


@dataclass(frozen=True, eq=False)
class Curves(Totals):
    """n rounds of N clients: the scalars, and by round and client the following.

    accuracy: which a client keeps until it is evaluated again; loss; client_up, client_down: bytes; client_seconds: of
    the client's update; participated: 1 or 0.
    """

    accuracy: ClientValues
    loss: ClientValues
    client_up: ClientValues
    client_down: ClientValues
    client_seconds: ClientValues
    participated: ClientValues

    @property
    def clients(self) -> int:
        return self.accuracy.clients

    @cached_property
    def evaluated(self) -> NDArray[np.int_]:
        """[k] the rounds, from 1, after which any client was evaluated."""
        return np.flatnonzero(np.isfinite(self["accuracy"])) + 1

    def upto(self, round: int) -> Self:
        clients: dict[str, Any] = {name: getattr(self, name).upto(round) for name in _CLIENTS}
        return replace(super().upto(round), **clients)


_CLIENTS: dict[str, tuple[Callable[[Record], by_client.Values], dict[str, Any]]] = {
    "accuracy": (lambda record: record["accuracy"]["per_client"], {"carried": True}),
    "loss": (lambda record: record["loss"]["per_client"], {}),
    "client_up": (lambda record: record["bytes"]["per_client_up"], {"absent": 0.0}),
    "client_down": (lambda record: record["bytes"]["per_client_down"], {"absent": 0.0}),
    # Earlier versions wrote no seconds.
    "client_seconds": (lambda record: record["timing"].get("per_client", {}), {}),
    "participated": (lambda record: dict.fromkeys(record["participants"], 1.0), {"absent": 0.0}),
}
"""By field of `Curves`: what a record reports of clients, and how `ClientValuesBuilder` takes it."""


def _clients(record: Record) -> int:
    values = record["accuracy"]["per_client"]
    return int(record["clients"]) if isinstance(values, Mapping) else len(values)


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
        every = totals.diverged[:upto]
        rounds = [diverged for diverged in every if diverged]
        trained = bool((totals["participants"][:upto] > [*map(len, every)]).any())
        return cls(
            sessions=bool(rounds),
            clients=len({client for each in rounds for client in each}),
            rounds=len(rounds),
            updates=sum(map(len, rounds)),
            untrained=bool(rounds) and not trained,
        )

    @classmethod
    def over(cls, sessions: Iterable["Divergence"]) -> "Divergence":
        each = [astuple(session) for session in sessions]
        return cls(*map(sum, zip(*each, strict=True))) if each else NO_SESSION

    def __bool__(self) -> bool:
        return self.sessions > 0

    def __str__(self) -> str:
        """'3 clients in 12 rounds'."""
        clients = f"{self.clients} client{'s' * (self.clients != 1)}"
        return f"{clients} in {self.rounds} round{'s' * (self.rounds != 1)}"

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


@dataclass(frozen=True, eq=False)
class Ledger:
    """The rounds up to one moment. It never changes."""

    records: tuple[Record, ...]
    """records[i] is round i + 1."""
    curves: Curves
    methods: tuple[tuple[int, str], ...]
    """The methods in order, each with the round from which on it was in force."""
    measured: tuple[CkaMeasurement, ...]
    """CKA where it was measured, in order of round."""

    @property
    def totals(self) -> Totals:
        return self.curves

    @property
    def whole(self) -> "Ledger":
        return self

    def upto(self, round: int) -> "Ledger":
        return Ledger.of(self.records[:round])

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Ledger":
        """Of the records of rounds 1, 2, …; raises like `LedgerBuilder.extend`."""
        builder = LedgerBuilder()
        builder.extend(records)
        return builder.ledger()


@dataclass(frozen=True, eq=False)
class Lines:
    """A ledger as text, decoded when more than its totals is asked for; raises Damaged where it is no session's."""

    folder: Path
    lines: tuple[bytes, ...]
    clients: int

    def upto(self, round: int) -> "Lines":
        return replace(self, lines=self.lines[:round])

    @cached_property
    def totals(self) -> Totals:
        with well_formed(self.folder):
            return totals_of(self.lines)

    @cached_property
    def whole(self) -> Ledger:
        with well_formed(self.folder):
            return Ledger.of(legible([check_record(json.loads(line), self.clients) for line in self.lines]))


class LedgerBuilder:
    """Takes in round after round; what was built earlier does not change."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._arrays = {each.column: Growing(np.float64) for each in NUMBERS}
        self._diverged: list[tuple[int, ...]] = []
        self._by_client = {name: ClientValuesBuilder(**options) for name, (_, options) in _CLIENTS.items()}
        self._methods: list[tuple[int, str]] = []
        self._measured: list[CkaMeasurement] = []

    def extend(self, records: Sequence[Record]) -> None:
        """Take in more rounds; raises KeyError, TypeError or ValueError for foreign records or a missing round."""
        if not records:
            return
        for record in records:
            if not all(0 <= client < _clients(record) for client in record["participants"]):
                raise ValueError("a participant is none of the clients")
        added, clients = totals_of(records), _clients(records[0])
        for column, array in self._arrays.items():
            array.extend(added[column])
        self._diverged += added.diverged
        for name, (values, _) in _CLIENTS.items():
            self._by_client[name].extend([values(record) for record in records], clients)
        for record in records:
            self._records.append(record)
            if record["round"] != len(self._records):
                raise ValueError(f"round {len(self._records)} is missing in the ledger")
            if not self._methods or self._methods[-1][1] != record["method"]:
                self._methods.append((record["round"], record["method"]))
            if measured := CkaMeasurement.of(record):
                self._measured.append(measured)

    def ledger(self) -> Ledger:
        by_client = {name: values.taken() for name, values in self._by_client.items()}
        arrays = {column: array.taken() for column, array in self._arrays.items()}
        curves = Curves(arrays, tuple(self._diverged), **by_client)
        return Ledger(tuple(self._records), curves, tuple(self._methods), tuple(self._measured))
