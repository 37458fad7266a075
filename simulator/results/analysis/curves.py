"""A session's rounds as arrays, grown line by line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from simulator.base.record import Record
from simulator.metrics import by_client
from simulator.results.analysis.client_values import ClientValues, ClientValuesBuilder, Growing
from simulator.results.analysis.totals import NUMBERS, Totals, of_records


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
        """The first so many rounds, without a copy."""
        clients: dict[str, Any] = {name: getattr(self, name).upto(round) for name in _CLIENTS}
        return replace(super().upto(round), **clients)


class CurvesBuilder:
    """Appends records; a `Curves` taken earlier does not change."""

    def __init__(self) -> None:
        self._arrays = {each.column: Growing(np.float64) for each in NUMBERS}
        self._diverged: list[tuple[int, ...]] = []
        self._by_client = {name: ClientValuesBuilder(**options) for name, (_, options) in _CLIENTS.items()}

    def extend(self, records: Sequence[Record]) -> None:
        """Take in more rounds. Raises KeyError, TypeError or ValueError for records that htfl-sim did not write."""
        if not records:
            return
        for record in records:
            _check(record)
        added, clients = of_records(records), _clients(records[0])
        for column, array in self._arrays.items():
            array.extend(added[column])
        self._diverged += added.diverged
        for name, (values, _) in _CLIENTS.items():
            self._by_client[name].extend([values(record) for record in records], clients)

    def curves(self) -> Curves:
        by_clients = {name: values.taken() for name, values in self._by_client.items()}
        arrays = {column: array.taken() for column, array in self._arrays.items()}
        return Curves(arrays, tuple(self._diverged), **by_clients)


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


def _check(record: Record) -> None:
    """Raise ValueError where a record names clients that the session lacks."""
    clients = _clients(record)
    if not all(0 <= client < clients for client in record["participants"]):
        raise ValueError("a participant is none of the clients")


def _clients(record: Record) -> int:
    """How many clients there are; a record that names some of them says it."""
    values = record["accuracy"]["per_client"]
    return int(record["clients"]) if isinstance(values, Mapping) else len(values)
