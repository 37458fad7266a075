"""Which checkpoints are kept, and which objects nobody needs once one goes."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from checkpoints import manifests
from checkpoints.manifests import Manifest
from checkpoints.schema import ObjectRef


@dataclass(frozen=True)
class Retention:
    """Keep the last `last` checkpoints, every round divisible by `every`, the best one, and those `pinned`.

    `best` is where in a record its score stands ("accuracy.mean"), higher being better, the earlier round
    winning a tie; None keeps no best. A record without a finite number there does not compete.
    """

    last: int = 3
    every: int | None = None
    best: str | None = None
    pinned: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.last < 1 or (self.every is not None and self.every < 1):
            raise ValueError("retention keeps at least the last checkpoint; last and every count from 1")

    def score(self, record: Mapping[str, Any] | None) -> float | None:
        """The record's score, or None."""
        if self.best is None:
            return None
        value: object = record
        for key in self.best.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if number and isfinite(value) else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class Pruned:
    """The checkpoints removed (or to be removed), and the bytes of the objects only they needed."""

    rounds: list[int]
    bytes: int


def kept_manifests(folder: Path) -> Iterator[Manifest]:
    """The session's manifests, in order of round; raises Damaged."""
    return (manifests.read(folder, round) for round in manifests.rounds(folder))


class Kept:
    """The kept checkpoints in memory: their scores, and how many of them refer to each object."""

    def __init__(self, retention: Retention, manifests: Iterable[Manifest] = ()) -> None:
        self._retention = retention
        self._refs: dict[int, Collection[ObjectRef]] = {}
        self._scores: dict[int, float] = {}
        self._uses: Counter[ObjectRef] = Counter()
        for manifest in manifests:
            self.add(manifest)

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self._uses

    def rounds(self) -> list[int]:
        """The rounds kept, in order."""
        return sorted(self._refs)

    def add(self, manifest: Manifest) -> None:
        refs = frozenset(manifest.states.values())
        self._refs[manifest.round] = refs
        self._uses.update(refs)
        if (score := self._retention.score(manifest.record)) is not None:
            self._scores[manifest.round] = score

    def surplus(self) -> list[int]:
        """The rounds the policy does not keep, oldest first."""
        policy = self._retention
        rounds = sorted(self._refs)
        keep = {*rounds[-policy.last :], *policy.pinned}
        if policy.every:
            keep.update(round for round in rounds if round % policy.every == 0)
        if self._scores:
            keep.add(max(self._scores, key=lambda round: (self._scores[round], -round)))
        return [round for round in rounds if round not in keep]

    def drop(self, round: int) -> list[ObjectRef]:
        """Forget a checkpoint; the objects that no other refers to, in order of name."""
        refs = self._refs.pop(round)
        self._scores.pop(round, None)
        self._uses.subtract(refs)
        unused = sorted((ref for ref in refs if not self._uses[ref]), key=lambda ref: ref.sha256)
        for ref in unused:
            del self._uses[ref]
        return unused
