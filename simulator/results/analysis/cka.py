"""How alike the clients' models were, where the ledger has it: CKA by layer, for all pairs of clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.base.record import Record
from simulator.results.analysis.client_values import Array


@dataclass(frozen=True, eq=False)
class CkaMeasurement:
    """CKA after one round: the layers from shallow to deep, the mean over pairs and the matrix [N, N] of each."""

    round: int
    layers: tuple[str, ...]
    cka: Mapping[str, Any]

    @classmethod
    def of(cls, record: Record) -> "CkaMeasurement | None":
        """A record's measurement; None where it has none, or no layer that two clients have. Raises what foreign JSON
        raises when it is read."""
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
        matrices: Mapping[str, list[Any]] = self.cka["matrix"]
        drawn: list[int] | None = self.cka.get("clients")
        return range(len(next(iter(matrices.values()), []))) if drawn is None else drawn

    def between(self, one: int, other: int, layer: str) -> float:
        """CKA of two clients; NaN where they were not compared."""
        rows, clients = self._rows(layer), self.clients
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
        rows = self._rows(layer)
        return np.array(rows, float).reshape(len(rows), -1 if rows else 0)  # None becomes NaN

    def _rows(self, layer: str) -> list[list[float | None]]:
        rows: list[list[float | None]] = self.cka["matrix"].get(layer, [])
        return rows


def least_similar(matrix: Array) -> list[tuple[int, int]]:
    """The pairs (i < j) of a matrix [N, N] that have a value, the lowest first."""
    rows, columns = np.triu_indices(len(matrix), 1)
    values = matrix[rows, columns]
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]  # NaN sorts last
    return list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))


def last_measured(measured: Sequence[CkaMeasurement], round: int) -> CkaMeasurement | None:
    """The last measurement at or before a round, of those in order of round."""
    return next((one for one in reversed(measured) if one.round <= round), None)
