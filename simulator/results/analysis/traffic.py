"""What crossed the wire, by tensor and direction."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.base.record import Record


@dataclass(frozen=True)
class TensorTraffic:
    """Bytes of one tensor in one direction ('up', 'down'): in the last round, as a share of it, and in all rounds."""

    name: str
    direction: str
    bytes: int
    share: float
    total: int


def by_tensor(records: Sequence[Record]) -> list[TensorTraffic]:
    """The traffic of the last of `records`, and of all; those of the most bytes in all first, without those of none."""
    if not records:
        return []
    totals: Counter[str] = Counter()
    for record in records:
        totals.update(record["bytes"]["by_tensor"])
    now = records[-1]["bytes"]["by_tensor"]
    whole = sum(now.values())
    found = []
    for key, total in totals.items():
        direction, _, name = key.partition("/")
        count = now.get(key, 0)
        if total:
            found.append(TensorTraffic(name, direction, count, count / whole if whole else 0.0, total))
    return sorted(found, key=lambda each: (-each.total, each.name, each.direction))
