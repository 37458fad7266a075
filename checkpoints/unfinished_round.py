"""Unfinished rounds: what their finished clients made, kept so that a stop between two clients loses none."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints import files, limits
from checkpoints.errors import Damaged
from checkpoints.layout import PARTIAL, manifest_name, manifest_round
from checkpoints.schema import ObjectRef, UnfinishedDocument, seal, unseal, well_formed


@dataclass(frozen=True)
class UnfinishedRound:
    """The part of a round that is done: the caller's note, and objects ("client/3/state", "client/3/uplink")."""

    round: int
    note: Mapping[str, Any]
    states: Mapping[str, ObjectRef]

    def to_bytes(self) -> bytes:
        states = {name: ref.to_json() for name, ref in self.states.items()}
        document = {"round": self.round, "note": self.note, "states": states}
        return seal(document, limits.MANIFEST, path(self.round))

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> "UnfinishedRound":
        """Raises Damaged, naming `where`, unless the bytes are a sealed, well-formed unfinished round."""
        claim = f"{where} is not an unfinished round"
        document = well_formed(UnfinishedDocument, unseal(raw, where), claim)
        states = {name: ObjectRef(**ref) for name, ref in document["states"].items()}
        return cls(document["round"], document["note"], states)


def path(round: int) -> str:
    """An unfinished round's path inside the session directory."""
    return f"{PARTIAL}/{manifest_name(round)}"


def rounds(root: Path) -> list[int]:
    """The rounds that have such a file, in order."""
    try:
        names = files.names(root, PARTIAL)
    except FileNotFoundError:
        return []
    return sorted(round for name in names if (round := manifest_round(name)) is not None)


def read(root: Path, round: int) -> UnfinishedRound:
    """The finished part of a round; raises FileNotFoundError or Damaged."""
    unfinished = UnfinishedRound.from_bytes(
        files.read(root, PARTIAL, manifest_name(round), cap=limits.MANIFEST), path(round)
    )
    if unfinished.round != round:
        raise Damaged(f"{path(round)} is of round {unfinished.round}, not {round}.")
    return unfinished


class UnfinishedRounds:
    """The unfinished rounds of a session that is owned and in order."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._saved = {round: read(root, round) for round in rounds(root)}

    def __contains__(self, ref: ObjectRef) -> bool:
        return any(ref in unfinished.states.values() for unfinished in self._saved.values())

    def get(self, round: int) -> UnfinishedRound | None:
        return self._saved.get(round)

    def save(self, unfinished: UnfinishedRound) -> list[ObjectRef]:
        """Make it durable in place of an earlier one of its round; the objects no longer named."""
        files.replace(self._root, path(unfinished.round), unfinished.to_bytes())
        files.sync_folder(self._root, PARTIAL)
        before = self._saved.get(unfinished.round)
        self._saved[unfinished.round] = unfinished
        return self._unnamed(before)

    def drop(self, newest: int) -> list[ObjectRef]:
        """Remove those of rounds up to `newest`, which are finished; the objects no longer named."""
        gone = [self._saved.pop(round) for round in sorted(self._saved) if round <= newest]
        for unfinished in gone:
            files.remove(self._root, path(unfinished.round))
        if gone:
            files.sync_folder(self._root, PARTIAL)
        return self._unnamed(*gone)

    def _unnamed(self, *gone: UnfinishedRound | None) -> list[ObjectRef]:
        refs = {ref for unfinished in gone if unfinished for ref in unfinished.states.values()}
        return sorted((ref for ref in refs if ref not in self), key=lambda ref: ref.sha256)
