"""How alike the clients' models were, where the ledger has it: CKA by layer, for all pairs of clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.analysis.curves import Array, Record


@dataclass(frozen=True, eq=False)
class Measured:
    """CKA after one round: the layers from shallow to deep, the mean over pairs and the matrix [N, N] of each."""

    round: int
    layers: tuple[str, ...]
    cka: Mapping[str, Any]

    @classmethod
    def of(cls, record: Record) -> "Measured | None":
        """A record's measurement; None where it has none. Raises what foreign JSON raises when it is read."""
        cka = record.get("cka")
        if not cka:
            return None
        for part in ("layers", "matrix"):
            cka[part].items()
        return cls(record["round"], tuple(cka.get("order") or cka["layers"]), cka)

    def mean(self, layer: str) -> float:
        """Over the pairs of clients that have the layer; NaN where none have."""
        value = self.cka["layers"].get(layer)
        return float("nan") if value is None else float(value)

    def matrix(self, layer: str) -> Array:
        """[N, N], NaN for a pair that has none; [0, 0] for a layer that was not measured."""
        rows: list[list[float | None]] = self.cka["matrix"].get(layer, [])
        values = [[np.nan if value is None else value for value in row] for row in rows]
        return np.array(values, float).reshape(len(rows), -1 if rows else 0)


def least_alike(matrix: Array) -> list[tuple[int, int]]:
    """The pairs (i < j) of a matrix [N, N] that have a value, the lowest first."""
    rows, columns = np.triu_indices(len(matrix), 1)
    values = matrix[rows, columns]
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]  # NaN sorts last
    return list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))


def last_measured(measured: Sequence[Measured], round: int) -> Measured | None:
    """The last measurement at or before a round, of those in order of round."""
    return next((one for one in reversed(measured) if one.round <= round), None)
