"""Which files make a round: its manifest, or what its finished clients made while it is unfinished.

`Kept` says which checkpoints stay, and which objects nobody needs once one goes.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar

from checkpoints import files, limits
from checkpoints.files import Damaged
from checkpoints.layout import HELD, MANIFESTS, PART, PARTIAL, manifest_name, manifest_round
from checkpoints.schema import (
    FirstFault,
    InJson,
    Json,
    Many,
    Natural,
    Object,
    ObjectRef,
    Prefix,
    Spelled,
    canonical,
    fields_in,
    seal,
    unseal,
)

OfRound = TypeVar("OfRound", "Manifest", "UnfinishedRound")


def _refs(names: re.Pattern[str]) -> Any:
    """In JSON, objects by the names of their states."""
    return Annotated[dict[Annotated[str, Spelled(names)], Annotated[Object, InJson(ObjectRef)]], FirstFault()]


@dataclass(frozen=True)
class Manifest:
    """A checkpoint: the states after a round, its record, and the ledger before that. `Any` is JSON of the caller's."""

    round: Natural
    history: Annotated[Any, InJson(Many[Object])]
    states: Annotated[Mapping[str, ObjectRef], InJson(_refs(HELD))]
    record: Annotated[Any, InJson(Object | None)]
    ledger: Annotated[Prefix, InJson(Prefix)]
    applied: Many[str]
    initial: Annotated[Any, InJson(Object)] = None
    """What the clients began with that `states` does not name, in the caller's words; None: it names all."""
    in_flight: Annotated[Any, InJson(Object)] = None
    """The caller's note of uplinks that wait for a later round. `states` names their tensors. None: there are none."""

    @property
    def line(self) -> bytes:
        """The round's ledger line; empty for the initial state, which has none."""
        return b"" if self.record is None else canonical(self.record) + b"\n"

    def to_bytes(self) -> bytes:
        limits.check_count(len(self.states), limits.STATES, f"The checkpoint of round {self.round}", "states")
        document = {key: value for key, value in vars(self).items() if value is not None or key == "record"}
        document |= {"states": _in_json(self.states), "ledger": asdict(self.ledger)}
        return seal(document, limits.MANIFEST, path(self.round))

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> "Manifest":
        """Raises Damaged, naming `where`, unless the bytes are a sealed, well-formed manifest."""
        claim = f"{where} is not a manifest"
        found = fields_in(Manifest, unseal(raw, where), claim)
        record, round = found["record"], found["round"]
        if record is None and round > 0:
            raise Damaged(f"{claim}: it has no record.")
        if record is not None and record.get("round") != round:
            raise Damaged(f"{claim}: its record is not of its round.")
        return cls(**found | {"states": _of_json(found["states"]), "ledger": Prefix(**found["ledger"])})


@dataclass(frozen=True)
class UnfinishedRound:
    """The part of a round that is done: the caller's note, and objects ("client/3/state", "client/3/uplink")."""

    round: Natural
    note: Annotated[Mapping[str, Any], InJson(Object)]
    states: Annotated[Mapping[str, ObjectRef], InJson(_refs(PART))]

    def to_bytes(self) -> bytes:
        document = {"round": self.round, "note": self.note, "states": _in_json(self.states)}
        return seal(document, limits.MANIFEST, path(self.round, PARTIAL))

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> "UnfinishedRound":
        """Raises like `Manifest.from_bytes`."""
        found = fields_in(UnfinishedRound, unseal(raw, where), f"{where} is not an unfinished round")
        return cls(**found | {"states": _of_json(found["states"])})


def _in_json(states: Mapping[str, ObjectRef]) -> Json:
    return {name: asdict(ref) for name, ref in states.items()}


def _of_json(states: Json) -> dict[str, ObjectRef]:
    return {name: ObjectRef(**ref) for name, ref in states.items()}


def path(round: int, folder: str = MANIFESTS) -> str:
    """The path of a round's manifest, or of its file in `PARTIAL`, inside the session directory."""
    return f"{folder}/{manifest_name(round)}"


def rounds(root: Path, folder: str = MANIFESTS) -> list[int]:
    """The rounds that have such a file, in order, whatever the files' dates; raises Damaged for a link."""
    try:
        names = files.names(root, folder)
    except FileNotFoundError:
        return []
    return sorted(round for name in names if (round := manifest_round(name)) is not None)


def read(root: Path, round: int) -> Manifest:
    return _read(Manifest, root, path(round), round)


def read_unfinished(root: Path, round: int) -> UnfinishedRound:
    return _read(UnfinishedRound, root, path(round, PARTIAL), round)


def _read(kind: type[OfRound], root: Path, where: str, round: int) -> OfRound:
    found = kind.from_bytes(files.read(root, where, cap=limits.MANIFEST), where)
    if found.round != round:
        raise Damaged(f"{where} is of round {found.round}, not {round}.")
    return found


class UnfinishedRounds:
    """The unfinished rounds of a session that is owned and in order."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._saved = {round: read_unfinished(root, round) for round in rounds(root, PARTIAL)}

    def __contains__(self, ref: ObjectRef) -> bool:
        return any(ref in unfinished.states.values() for unfinished in self._saved.values())

    def get(self, round: int) -> UnfinishedRound | None:
        return self._saved.get(round)

    def save(self, unfinished: UnfinishedRound) -> list[ObjectRef]:
        """Make it durable in place of an earlier one of its round; the objects no longer named."""
        files.replace(self._root, path(unfinished.round, PARTIAL), unfinished.to_bytes())
        files.sync_folder(self._root, PARTIAL)
        before = self._saved.get(unfinished.round)
        self._saved[unfinished.round] = unfinished
        return self._unnamed(before)

    def drop(self, newest: int) -> list[ObjectRef]:
        """Remove those of rounds up to `newest`, which are finished; the objects no longer named."""
        gone = [self._saved.pop(round) for round in sorted(self._saved) if round <= newest]
        for unfinished in gone:
            files.remove(self._root, path(unfinished.round, PARTIAL))
        if gone:
            files.sync_folder(self._root, PARTIAL)
        return self._unnamed(*gone)

    def _unnamed(self, *gone: UnfinishedRound | None) -> list[ObjectRef]:
        refs = {ref for unfinished in gone if unfinished for ref in unfinished.states.values()}
        return sorted((ref for ref in refs if ref not in self), key=lambda ref: ref.sha256)


@dataclass(frozen=True)
class Retention:
    """Keep the last `last` checkpoints, every round divisible by `every`, the best one, and those `pinned`.

    `best` is where a record has its score ("accuracy.mean"); higher is better, and of equals the earlier round.
    """

    last: int = 3
    every: int | None = None
    best: str | None = None
    pinned: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.last < 1 or (self.every is not None and self.every < 1):
            raise ValueError("retention keeps at least the last checkpoint; last and every count from 1")

    def score(self, record: Mapping[str, Any] | None) -> float | None:
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
    return (read(folder, round) for round in rounds(folder))


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
