"""Manifests: one sealed file per kept checkpoint, naming everything that belongs to a round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints import files, limits
from checkpoints.errors import Damaged
from checkpoints.layout import MANIFESTS, manifest_name, manifest_round
from checkpoints.schema import Json, ManifestDocument, ObjectRef, Prefix, canonical, seal, unseal, well_formed


@dataclass(frozen=True)
class Manifest:
    """A checkpoint: the states after a round, the round's record, and the ledger before that record."""

    round: int
    history: Sequence[Mapping[str, Any]]
    states: Mapping[str, ObjectRef]
    record: Mapping[str, Any] | None
    ledger: Prefix
    applied: list[str]
    initial: Mapping[str, Any] | None = None
    """What the clients began with that `states` does not name, in the caller's words; None: it names all."""
    in_flight: Mapping[str, Any] | None = None
    """The caller's note of uplinks that wait for a later round. `states` names their tensors. None: there are none."""

    @property
    def line(self) -> bytes:
        """The round's ledger line; empty for the initial state, which has none."""
        return b"" if self.record is None else canonical(self.record) + b"\n"

    def to_bytes(self) -> bytes:
        limits.check_count(len(self.states), limits.STATES, f"The checkpoint of round {self.round}", "states")
        document: Json = {
            "round": self.round,
            "history": self.history,
            "states": {name: ref.to_json() for name, ref in self.states.items()},
            "record": self.record,
            "ledger": {"bytes": self.ledger.bytes, "sha256": self.ledger.sha256},
            "applied": self.applied,
        }
        if self.initial is not None:
            document["initial"] = self.initial
        if self.in_flight is not None:
            document["in_flight"] = self.in_flight
        return seal(document, limits.MANIFEST, path(self.round))

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> "Manifest":
        """Raises Damaged, naming `where`, unless the bytes are a sealed, well-formed manifest."""
        claim = f"{where} is not a manifest"
        manifest = well_formed(ManifestDocument, unseal(raw, where), claim)
        record, round = manifest["record"], manifest["round"]
        if record is None and round > 0:
            raise Damaged(f"{claim}: it has no record.")
        if record is not None and record.get("round") != round:
            raise Damaged(f"{claim}: its record is not of its round.")
        return cls(
            round=manifest["round"],
            history=manifest["history"],
            states={name: ObjectRef(**ref) for name, ref in manifest["states"].items()},
            record=manifest["record"],
            ledger=Prefix(**manifest["ledger"]),
            applied=manifest["applied"],
            initial=manifest.get("initial"),
            in_flight=manifest.get("in_flight"),
        )


def rounds(root: Path) -> list[int]:
    """The rounds that have a manifest, in order of round, whatever their files' dates; raises Damaged for a link."""
    try:
        names = files.names(root, MANIFESTS)
    except FileNotFoundError:
        return []
    return sorted(round for name in names if (round := manifest_round(name)) is not None)


def path(round: int) -> str:
    """A manifest's path inside the session directory."""
    return f"{MANIFESTS}/{manifest_name(round)}"


def read(root: Path, round: int) -> Manifest:
    """The manifest of a round; raises FileNotFoundError or Damaged."""
    manifest = Manifest.from_bytes(
        files.read(root, MANIFESTS, manifest_name(round), cap=limits.MANIFEST), path(round)
    )
    if manifest.round != round:
        raise Damaged(f"{path(round)} is of round {manifest.round}, not {round}.")
    return manifest
