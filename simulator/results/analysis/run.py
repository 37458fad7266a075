"""A session at one moment, as everything that shows or compares sessions takes it; its data, and its owner's pulse."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from checkpoints import Command, name_of
from simulator.base.documents import Document, Entry, Event
from simulator.base.record import Record
from simulator.metrics.significance import FEW
from simulator.results.analysis.ledger import Curves, Ledger, Lines, Totals
from simulator.results.analysis.static_names import members

STILL_SECONDS = 2.5
"""Seconds without a heartbeat after which an owner may have died. It beats at least once a second."""
SILENT_SECONDS = 10.0
"""Seconds without a heartbeat after which an owner counts as unresponsive."""


@dataclass(frozen=True)
class Silence:
    """Whole seconds since the last heartbeat. exact: whether its time is known; otherwise it may be longer ago."""

    seconds: int
    exact: bool = True

    @property
    def long(self) -> bool:
        """Whether the owner counts as unresponsive."""
        return self.seconds >= SILENT_SECONDS


class Pulse:
    """The heartbeat of an owner, as its notes come."""

    def __init__(self) -> None:
        self._beat: object = None
        self._at = 0.0
        self._exact = False

    def take(self, note: Mapping[str, Any], ago: float | None) -> None:
        """Take a note of the owner. ago: seconds since it was written; None if its clock is another machine's."""
        beat = note.get("epoch"), note.get("heartbeat")
        if not note or beat == self._beat:
            return
        unseen = self._beat is None
        self._beat, self._at = beat, time.monotonic()
        self._exact = not unseen or ago is not None
        if unseen and ago is not None:
            self._at -= max(ago, 0.0)

    def silence(self) -> Silence | None:
        """None if it is not longer than usual, or there is no note."""
        quiet = time.monotonic() - self._at
        return Silence(int(quiet), self._exact) if self._beat is not None and quiet > STILL_SECONDS else None


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
        return self.state in LIVE

    @property
    def records(self) -> tuple[Record, ...]:
        """The ledger; records[i] is round i + 1."""
        return self.ledger.whole.records

    @property
    def curves(self) -> Curves:
        return self.ledger.whole.curves

    @property
    def totals(self) -> Totals:
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
        switched = [event["method"] for event in self.events if event["event"] == "switched"]
        return str(switched[-1] if switched else self.config.get("method", {}).get("name", ""))

    @property
    def methods(self) -> tuple[tuple[int, str], ...]:
        """The methods in order, each with the round from which on it is in force; the last may be yet to begin."""
        found, in_force = self.ledger.whole.methods, self.method
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


@dataclass(frozen=True, eq=False)
class Samples:
    """classes: the names of all C. train [N, C]: each client's training samples. test [N]: how many it is tested on."""

    classes: tuple[str, ...]
    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def of(cls, run: SessionData) -> "Samples | None":
        """None for a session that does not say: one from before it was noted, or of very many clients and classes."""
        noted = run.document.get("samples")
        if noted is None:
            return None
        train = np.array(noted["train"], np.int64).reshape(len(noted["test"]), len(noted["classes"]))
        return cls(tuple(noted["classes"]), train, np.array(noted["test"], np.int64))

    def few(self, client: int) -> bool:
        """Whether its accuracy rests on fewer than FEW samples."""
        return bool(self.test[client] < FEW)

    def largest(self, client: int) -> list[tuple[str, int]]:
        """Its classes with their training samples, the largest first, those it has none of left out."""
        counts = self.train[client]
        order = np.argsort(-counts, kind="stable")
        return [(self.classes[label], int(counts[label])) for label in order if counts[label]]


def tested(run: SessionData, round: int) -> NDArray[np.int64] | None:
    """[N] each client's test samples after a round; None: unknown, also because the timeline changed them."""
    samples = Samples.of(run)
    changed = any(record["timeline"]["data"] for record in run.records[:round] if "timeline" in record)
    return None if samples is None or changed else samples.test
