"""One session, read as it grows: the app's only source, whether the run is its own, another's, or long finished."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Command, DiskError, SessionUnreadable
from simulator.sessions.history import settings_in_force
from tui.app.curves import Curves, Grower, Record
from tui.cli.literals import assigned

SESSION, LEDGER, EVENTS, OWNER, MANIFESTS, INBOX = (
    "session.json",
    "ledger.jsonl",
    "events.jsonl",
    "owner.json",
    "manifests",
    "control/inbox",
)
LIVE = ("running", "pausing", "paused", "stopping")
NO_CURVES = Grower().curves()

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, eq=False)
class Run:
    """A session at one moment. It never changes; the next `Feed.poll` makes another."""

    folder: Path
    document: dict[str, Any] = field(default_factory=dict)
    """session.json."""
    config: dict[str, Any] = field(default_factory=dict)
    """The settings in force after the last checkpoint."""
    records: tuple[Record, ...] = ()
    """The ledger; records[i] is round i + 1."""
    curves: Curves = NO_CURVES
    events: tuple[dict[str, Any], ...] = ()
    checkpoints: tuple[int, ...] = ()
    """The rounds kept."""
    state: str = "running"
    """'running', 'pausing', 'paused', 'stopping', 'stopped', 'finished' or 'interrupted'."""
    progress: dict[str, Any] = field(default_factory=dict)
    """What the owner last said: round, rounds, phase, done, clients."""
    owner: dict[str, Any] = field(default_factory=dict)
    pending: tuple[Command, ...] = ()
    """Commands that wait for their boundary, oldest first."""
    error: str | None = None
    """What keeps the session from being read, if anything; the rest is then as it was read last."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def live(self) -> bool:
        """Whether a process owns the session now."""
        return self.state in LIVE

    @property
    def round(self) -> int:
        """The last finished round."""
        return len(self.records)

    @property
    def rounds(self) -> int:
        """The round that is to be the last."""
        return int(self.progress.get("rounds") or self.config.get("rounds") or 0)

    @property
    def method(self) -> str:
        """The method in force."""
        switched = [event["method"] for event in self.events if event["event"] == "switched"]
        return str(switched[-1] if switched else self.config.get("method", {}).get("name", ""))

    @property
    def models(self) -> list[str]:
        """The architecture of every client; "?" for a group that is not known here."""
        federation = self.config.get("federation", {})
        return [
            assigned(federation["group"], client) or "?" for client in range(federation.get("clients", 0))
        ]

    def record(self, round: int | None) -> Record | None:
        """The record of a round, of the last one for None."""
        number = self.round if round is None else round
        return self.records[number - 1] if 1 <= number <= self.round else None


class Feed:
    """Follows a session's files. Not thread-safe: one thread polls, and hands each `Run` on."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        self._folder = folder
        self._stamps: dict[str, Stamp] = {}
        self._session: checkpoints.SessionReader | None = None
        self._grower = Grower()
        self._offset = 0

    def poll(self) -> bool:
        """Read what is new; whether anything is. A fault becomes `run.error`, never an exception."""
        before = self.run
        try:
            self._read()
        except (SessionUnreadable, DiskError, OSError) as error:
            self._fail(str(error))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._fail(
                f"{self._folder} is no session that htfl-sim wrote: its JSON lacks what belongs there ({error})."
            )
        return self.run is not before

    def _fail(self, why: str) -> None:
        self._stamps.clear()  # once it can be read again, it is read afresh
        if self.run.error != why:
            self.run = replace(self.run, error=why)

    def _read(self) -> None:
        if self._session is None or self.run.error:
            self._session = checkpoints.SessionReader(self._folder)
            self._stamps.clear()
            self.run = replace(self.run, document=self._session.document, error=None)
        for name, read in self._parts():
            stamp = _stamp(self._folder / name)
            if name not in self._stamps or stamp != self._stamps[name]:
                read(self._session)
                self._stamps[name] = stamp
        # Without a file that says so: an owner that died leaves its note as it was.
        if (state := self._session.state()) != self.run.state:
            self.run = replace(self.run, state=state)

    def _parts(self) -> list[tuple[str, Callable[[checkpoints.SessionReader], None]]]:
        """Checkpoints last: what they say of the settings is then of rounds already read.

        session.json never changes, but it may be damaged or vanish, and the rest is worth nothing then.
        """
        return [
            (SESSION, self._read_document),
            (LEDGER, self._read_ledger),
            (EVENTS, self._read_events),
            (OWNER, self._read_owner),
            (INBOX, self._read_inbox),
            (MANIFESTS, self._read_manifests),
        ]

    def _read_document(self, session: checkpoints.SessionReader) -> None:
        checkpoints.SessionReader(session.folder)

    def _read_ledger(self, session: checkpoints.SessionReader) -> None:
        """The lines that came since; all of them when the file is another, or shorter."""
        path = self._folder / LEDGER
        stamp, before = _stamp(path), self._stamps.get(LEDGER)
        if before and stamp and stamp[0] == before[0] and stamp[1] >= self._offset:
            records = self._new_lines(path)
            self._grower.extend(records)
            records = [*self.run.records, *records]
        else:
            records = session.records()
            self._grower = Grower()
            self._grower.extend(records)
            self._offset = path.stat().st_size if records else 0
        if records and records[-1]["round"] != len(records):
            raise ValueError("a round is missing in the ledger")
        self.run = replace(self.run, records=tuple(records), curves=self._grower.curves())

    def _new_lines(self, path: Path) -> list[Record]:
        with path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]

    def _read_events(self, session: checkpoints.SessionReader) -> None:
        self.run = replace(self.run, events=tuple(session.events()))

    def _read_owner(self, session: checkpoints.SessionReader) -> None:
        owner = session.owner() or {}
        progress = owner.get("progress", {})
        quiet = {"heartbeat", "ledger"}  # these move while nothing that is shown does
        if any(owner.get(key) != self.run.owner.get(key) for key in owner.keys() - quiet):
            self.run = replace(self.run, owner=owner, progress=progress, state=session.state())

    def _read_inbox(self, session: checkpoints.SessionReader) -> None:
        pending = tuple(checkpoints.pending(self._folder))
        if pending != self.run.pending:
            self.run = replace(self.run, pending=pending)

    def _read_manifests(self, session: checkpoints.SessionReader) -> None:
        kept = tuple(session.rounds())
        history = session.manifest().history if kept else []
        config = settings_in_force(session.document, history)
        self.run = replace(self.run, checkpoints=kept, config=config)


def _stamp(path: Path) -> Stamp:
    """Which file is there, its size and when it was written; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called twice a second for each of five paths
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
