"""Reading a session of this program: its JSON is what htfl-sim writes, or it is damaged. Needs no torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Damaged, Manifest, UnfinishedRound
from simulator import documents
from simulator.nested import Raw
from simulator.record import check_record


class SessionReader(checkpoints.SessionReader):
    """A session directory, to look at; whatever it hands out has been checked as it was read."""

    def __init__(self, folder: Path) -> None:
        """Raises SessionUnreadable (no session there), Damaged, UnsupportedVersion or DiskError."""
        super().__init__(folder)
        self._sound("session.json", documents.check_document, self.document)
        self.clients: int = self.document["config"]["federation"]["clients"]

    def manifest(self, round: int | None = None) -> Manifest:
        manifest = super().manifest(round)
        where = f"the checkpoint of round {manifest.round}"
        self._sound(where, documents.check_history, manifest.history)
        if manifest.initial is not None:
            self._sound(where, documents.check_initial, manifest.initial)
        if manifest.record is not None:
            self._sound(where, check_record, manifest.record, self.clients)
        return manifest

    def check_record(self, record: Raw, round: int | None = None) -> None:
        super().check_record(record, round)
        self._sound(f"the record of round {record['round']}", check_record, record, self.clients)

    def record(self, round: int) -> Raw:
        """The record of a round; raises Damaged when the ledger has none."""
        records = self.records()
        if not 1 <= round <= len(records):
            raise Damaged(f"{self.folder}: the ledger has no round {round}; it has {len(records)}.")
        return records[round - 1]

    def events(self) -> list[Raw]:
        return [event for event in super().events() if _fault_of(event) is None]

    def event_faults(self) -> list[str]:
        odd = [fault for event in super().events() if (fault := _fault_of(event)) is not None]
        return super().event_faults() + odd

    def unfinished_round(self) -> UnfinishedRound | None:
        found = super().unfinished_round()
        try:
            if found is not None:
                documents.check_unfinished(found.note)
        except ValueError:
            return None
        return found

    def _sound(self, where: str, check: Callable[..., object], *what: Any) -> None:
        try:
            check(*what)
        except ValueError as fault:
            raise Damaged(
                f"{self.folder} is no session that htfl-sim wrote: {where} is none of its own ({fault})."
            ) from fault


def _fault_of(event: Raw) -> str | None:
    try:
        documents.check_event(event)
    except ValueError as fault:
        return f"the event '{event['event']}' at {event['at']} is none that htfl-sim wrote: {fault}."
    return None
