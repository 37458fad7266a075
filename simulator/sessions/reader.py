"""Reading a session of this program: its JSON is what htfl-sim writes, or it is damaged. Needs no torch."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import checkpoints
from checkpoints import Damaged, DiskError, Manifest, SessionUnreadable, UnfinishedRound, checked
from simulator.base.documents import (
    Dispatched,
    Document,
    Event,
    Initial,
    Note,
    Parent,
    check_document,
    check_event,
    check_history,
)
from simulator.base.errors import ConfigError
from simulator.base.record import Client, Record, check_record

T = TypeVar("T")


class CheckedReader(checkpoints.SessionReader):
    """A session directory, to look at; whatever it hands out has been checked as it was read."""

    document: Document

    def __init__(self, folder: Path) -> None:
        """Raises SessionUnreadable (no session there), Damaged, UnsupportedVersion or DiskError."""
        super().__init__(folder)
        self._sound("session.json", lambda: check_document(self.document))
        self.clients: int = self.document["config"]["federation"]["clients"]

    def manifest(self, round: int | None = None) -> Manifest:
        manifest = super().manifest(round)
        where = f"the checkpoint of round {manifest.round}"
        self._sound(where, lambda: check_history(manifest.history))
        if manifest.initial is not None:
            self._sound(where, lambda: checked(Initial, manifest.initial, "initial"))
        if manifest.in_flight is not None:
            self._sound(where, lambda: checked(dict[Client, Dispatched], manifest.in_flight, "in_flight"))
        if manifest.record is not None:
            self._sound_record(where, manifest.record)
        return manifest

    def check_record(self, record: Mapping[str, Any], round: int | None = None) -> None:
        super().check_record(record, round)
        self._sound_record(f"the record of round {record['round']}", record)

    def records(self) -> list[Record]:
        return cast(list[Record], super().records())

    def check_round(self, round: int) -> None:
        """Raise ConfigError unless a fork can begin after this round."""
        done = len(self.records())
        if not 0 <= round <= done:
            has = f"rounds 0 to {done}" if done else "no finished round yet: fork it at 0"
            raise ConfigError(f"{self.folder} has no round {round}; it has {has}.")

    def record(self, round: int) -> Record:
        """The record of a round; raises Damaged when the ledger has none."""
        records = self.records()
        if not 1 <= round <= len(records):
            raise Damaged(f"{self.folder}: the ledger has no round {round}; it has {len(records)}.")
        return records[round - 1]

    def last_record(self, newest: Manifest | None) -> Record | None:
        """The last round's record, without decoding the rest of the ledger; like `checkpoints.last_record`."""
        return cast(Record | None, checkpoints.last_record(self, newest))

    def best_round(self, last: Record | None) -> int | None:
        """The first round whose mean accuracy is the best up to `last`, without reading the whole ledger."""
        best = last["accuracy"]["best_mean"] if last else None
        if best is None:
            return None
        with suppress(KeyError, TypeError):  # a line of the ledger that is no record: `verify` says so
            first = checkpoints.first_record(self, lambda record: record["accuracy"]["best_mean"] == best)
            return first["round"] if first else None
        return None

    def events(self) -> list[Event]:
        return [cast(Event, event) for event in super().events() if _fault_of(event) is None]

    def event_faults(self) -> list[str]:
        odd = [fault for event in super().events() if (fault := _fault_of(event)) is not None]
        return super().event_faults() + odd

    def unfinished_round(self) -> UnfinishedRound | None:
        found = super().unfinished_round()
        try:
            if found is not None:
                checked(Note, found.note)
        except ValueError:
            return None
        return found

    def _sound_record(self, where: str, record: Mapping[str, Any]) -> None:
        self._sound(where, lambda: check_record(record, self.clients))

    def _sound(self, where: str, check: Callable[[], object]) -> None:
        try:
            check()
        except ValueError as fault:
            raise Damaged(
                f"{self.folder} is no session that htfl-sim wrote: {where} is none of its own ({fault})."
            ) from fault


def _fault_of(event: Mapping[str, Any]) -> str | None:
    try:
        check_event(event)
    except ValueError as fault:
        return f"the event '{event['event']}' at {event['at']} is none that htfl-sim wrote: {fault}."
    return None


def parent_folder(parent: Parent, sessions: Path) -> Path | None:
    """The folder of a fork's parent: the one of its name or, after it was renamed, the one with its id."""
    with suppress(DiskError, OSError):
        named = sessions / parent["name"]
        others = (path for path in checkpoints.session_folders(sessions) if path != named)
        for path in (named, *others):
            if checkpoints.mentions(path, f'"{parent["id"]}"'):
                with suppress(SessionUnreadable, DiskError, OSError):
                    if CheckedReader(path).document["id"] == parent["id"]:
                        return path
    return None


def unrecorded(session: CheckedReader) -> str | None:
    """What to say of an older session, which has no hashes of the code that made it."""
    if "program" in session.document["environment"]:
        return None
    return (
        f"{checkpoints.name_of(session.folder)} was made by an older htfl-sim, which recorded no hashes of its code. "
        "Changes of the code since then cannot be seen."
    )
