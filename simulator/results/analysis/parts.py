"""What a session measured on the parts of its split beside accuracy: loss, F1, and the user's own metrics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from simulator.base.record import Record
from simulator.metrics import by_client
from simulator.results.analysis.client_values import Array

_OURS = ("loss", "f1")


def part_measures(records: Iterable[Record]) -> tuple[str, ...]:
    """What any round has measured on a part: `loss`, `f1`, and then the user's own metrics by their names."""
    parts = [part for record in records for part in record.get("evaluation", {}).values()]
    own = sorted({name for part in parts for name in part.get("metrics", ())})
    return (*(name for name in _OURS if any(name in part for part in parts)), *own)


def part_means(records: Sequence[Record], part: str, measure: str) -> Array:
    """[n] the mean over clients of what was measured on a part; NaN in rounds without it."""
    return np.array([_measured(record, part, measure).get("mean") for record in records], float)


def client_on_part(records: Sequence[Record], part: str, measure: str, client: int) -> Array:
    """[n] a client's values on a part, each kept in the rounds without a new one; NaN before the first."""
    found = list[float | None]()
    for record in records:
        values = _measured(record, part, measure).get("per_client", {})
        found.append(by_client.of(values, client, found[-1] if found else None))
    return np.array(found, float)


def _measured(record: Record, part: str, measure: str) -> Mapping[str, Any]:
    """Empty where a round has not measured it."""
    measures: Mapping[str, Any] = record.get("evaluation", {}).get(part, {})
    found: Mapping[str, Any] = (measures if measure in _OURS else measures.get("metrics", {})).get(
        measure, {}
    )
    return found
