"""A session at one moment, as everything that shows or compares sessions takes it."""

from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

from checkpoints import Command, name_of
from simulator.base.documents import Document, Entry, Event
from simulator.base.record import Record
from simulator.results.analysis.curves import Curves
from simulator.results.analysis.ledger import Ledger, Lines
from simulator.results.analysis.pulse import Silence
from simulator.results.analysis.static_names import members
from simulator.results.analysis.totals import Totals

LIVE = ("running", "pausing", "paused", "stopping")
"""The states in which a process owns the session."""
NOTHING = Ledger.of(())


@dataclass(frozen=True, eq=False)
class SessionData:
    """A session at one moment. It never changes; a `Feed` makes another when there is more to say."""

    folder: Path
    document: Document = field(default_factory=lambda: cast(Document, {}))
    """session.json; empty until it is read."""
    history: tuple[Entry, ...] = ()
    """The newest checkpoint's: what was in force from which round on."""
    config: dict[str, Any] = field(default_factory=dict)
    """The settings in force after the last checkpoint."""
    ledger: Ledger | Lines = NOTHING
    events: tuple[Event, ...] = ()
    noticed: tuple[Event, ...] = ()
    """What watchers notice in a session that has none, if its `Feed` looks for it: events that it did not write."""
    event_faults: tuple[str, ...] = ()
    """What of the events cannot be read, as sentences."""
    checkpoints: tuple[int, ...] = ()
    """The rounds kept."""
    state: str = "running"
    """'running', 'pausing', 'paused', 'stopping', 'stopped', 'finished', 'interrupted', or 'gone' with its folder."""
    progress: dict[str, Any] = field(default_factory=dict)
    """What the owner last said: round, rounds, phase, done, clients."""
    owner: dict[str, Any] = field(default_factory=dict)
    silence: Silence | None = None
    """Since when its owner has not been heard, if that is longer than usual."""
    outages: tuple[Event, ...] = ()
    """What a `Feed` saw happen to the session that its own events do not tell."""
    pending: tuple[Command, ...] = ()
    """Commands that wait for their boundary, oldest first."""
    trial: int | None = None
    """Its number, if it was chosen as a trial of a tuning study."""
    studies: tuple[str, ...] = ()
    """Those by which it was chosen; the one in which it lies if none is told."""
    error: str | None = None
    """What keeps the session from being read, if anything; the rest is then as it was read last."""

    @property
    def name(self) -> str:
        return name_of(self.folder) if self.folder.name else ""

    @property
    def live(self) -> bool:
        """Whether a process owns the session now."""
        return self.state in LIVE

    @property
    def records(self) -> tuple[Record, ...]:
        """The ledger; records[i] is round i + 1."""
        return self.ledger.records

    @property
    def curves(self) -> Curves:
        """The same as arrays."""
        return self.ledger.curves

    @property
    def totals(self) -> Totals:
        """What a round has one number of."""
        return self.ledger.totals

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
    def methods(self) -> tuple[tuple[int, str], ...]:
        """The methods in order, each with the round from which on it is in force; the last may be yet to begin."""
        found, in_force = self.ledger.methods, self.method
        return found if found and found[-1][1] == in_force else (*found, (self.round + 1, in_force))

    @property
    def models(self) -> list[str]:
        """The architecture of every client; "?" where the settings do not say, or name a group not known here."""
        federation = self.config.get("federation", {})
        group = members(federation["group"]) if federation else ()
        known = list(islice(cycle(group or "?"), federation.get("clients", 0)))
        return known + ["?"] * (self.curves.clients - len(known))

    def record(self, round: int | None) -> Record | None:
        """The record of a round, of the last one for None; None where there is none."""
        number = self.round if round is None else round
        return self.records[number - 1] if 1 <= number <= self.round else None
