"""One session, read as it grows: whether its run is this process's, another's, or long finished."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import checkpoints
from checkpoints import Damaged, DiskError, SessionFollower, SessionUnreadable, now, shown
from simulator.base.documents import Event
from simulator.base.record import Record, legible
from simulator.base.sections import EVERY
from simulator.metrics.watchers import Watchers
from simulator.results.analysis.ledger import Ledger, LedgerBuilder, well_formed
from simulator.results.analysis.run import LIVE, Pulse, Samples, SessionData
from simulator.sessions.history import settings_in_force
from simulator.sessions.reader import CheckedReader

_QUIET = {"heartbeat", "ledger"}
"""Entries of the owner's note that move while nothing else does."""


def read(folder: Path) -> SessionData:
    """A session as it is now. Raises SessionUnreadable (none there, damaged) or DiskError."""
    feed = Feed(folder)
    feed.refresh()
    return feed.run


class Feed:
    """Follows a session's files. Not thread-safe: one thread asks it, and hands each `SessionData` on."""

    def __init__(self, folder: Path, notices: bool = False) -> None:
        """notices: also look for what watchers notice, in a session that has none."""
        self.run = SessionData(folder)
        self._noticer = Noticer() if notices else None
        self._follower: SessionFollower | None = None
        self._builder = LedgerBuilder()
        self._pulse = Pulse()
        self._noted_at: float | None = None

    def poll(self) -> bool:
        """Read what is new; whether anything is. A fault becomes `run.error`, never an exception."""
        before = self.run
        try:
            self.refresh()
        except (SessionUnreadable, DiskError, OSError) as error:
            said, state = shown(str(error)), "gone" if before.document and _is_gone(before.folder) else None
            state = state or before.state
            if (before.error, before.state) != (said, state):
                self.run = replace(before, error=said, state=state, silence=None)
        if self.run is not before:
            heard = None
            if self._noted_at is not None:
                at = datetime.fromtimestamp(self._noted_at, UTC).isoformat(timespec="milliseconds")
                heard = at.replace("+00:00", "Z")
            if new := outages(before, self.run, heard):
                self.run = replace(self.run, outages=(*self.run.outages, *new))
        return self.run is not before

    def refresh(self) -> None:
        """Read what is new. Raises SessionUnreadable, DiskError or OSError; `run` is then as it was."""
        follower, self._follower = self._follower, None  # after a fault all is read afresh
        with well_formed(self.run.folder):
            run = self.run
            if follower is None:
                follower = SessionFollower(CheckedReader(run.folder))
                run = replace(run, document=legible(_typed(follower).document))
            self.run = self._changes(follower, run)
        self._follower = follower

    def _changes(self, follower: SessionFollower, run: SessionData) -> SessionData:
        """`run` with what was written since the last look."""
        session = _typed(follower)
        for part in follower.changes():
            match part:
                case "document":  # it never changes; but if it is damaged or gone, the rest is worth nothing
                    CheckedReader(session.folder)
                case "ledger":
                    run = replace(run, ledger=self._ledger(follower))
                case "events":
                    events, faults = legible(session.events()), legible(session.event_faults())
                    run = replace(run, events=tuple(events), event_faults=tuple(faults))
                case "owner":
                    owner: dict[str, Any] = {}
                    with suppress(Damaged):  # it is not flushed to disk, and a power cut may tear it
                        owner = session.owner() or {}
                    if any(owner.get(key) != run.owner.get(key) for key in owner.keys() - _QUIET):
                        run = replace(run, owner=owner, progress=owner.get("progress", {}))
                    self._noted_at, ago = session.noted_at(), None
                    # A session with heartbeats elsewhere may have another machine's clock.
                    if self._noted_at is not None and session.heartbeat() is None:
                        ago = time.time() - self._noted_at
                    self._pulse.take(owner, ago)
                case "inbox":
                    waiting = checkpoints.pending(session.folder)
                    shown_ones = (replace(each, arguments=legible(each.arguments)) for each in waiting)
                    run = replace(run, pending=tuple(shown_ones))
                case "checkpoints":
                    kept, newest = tuple(session.rounds()), session.newest()
                    history = legible(newest.history) if newest else []
                    config = settings_in_force(run.document, history)
                    run = replace(run, checkpoints=kept, history=tuple(history), config=config)
        # Without a file that says so: an owner that died leaves its note as it was.
        state = session.state()
        silence = self._pulse.silence() if state in LIVE else None
        noticed = run.noticed if self._noticer is None else self._noticer.events(run)
        known = (state, silence, None) == (run.state, run.silence, run.error)
        if known and noticed is run.noticed:
            return run
        return replace(run, state=state, silence=silence, error=None, noticed=noticed)

    def _ledger(self, follower: SessionFollower) -> Ledger:
        growth = follower.new_records()
        if growth.anew:
            self._builder = LedgerBuilder()
        self._builder.extend(legible(cast(Sequence[Record], growth.records)))  # checked as they were read
        return self._builder.ledger()


def _is_gone(folder: Path) -> bool:
    """Whether a folder was deleted. One that cannot be reached may still be there."""
    try:
        folder.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def _typed(follower: SessionFollower) -> CheckedReader:
    return cast(CheckedReader, follower.session)


class Noticer:
    """What watchers notice in a session that has none of its own, from its ledger. Each round is looked at once."""

    def __init__(self) -> None:
        self._watchers: Watchers | None = None
        self._last: Record | None = None
        self._rounds = 0
        self._events: tuple[Event, ...] = ()

    def events(self, run: SessionData) -> tuple[Event, ...]:
        """What watchers with their defaults notice, if the session has none; the same object while nothing is new."""
        if run.config.get("watch") or any(event["event"] == "noticed" for event in run.events):
            return ()  # watchers look at it, or did so before a switch
        if self._watchers is None or run.record(self._rounds) is not self._last:
            samples = Samples.of(run)
            self._watchers = Watchers(EVERY, None if samples is None else samples.test.tolist())
            self._rounds, self._events = 0, ()
        found: list[Event] = []
        for record in run.records[self._rounds :]:
            for notice in self._watchers.after(record):
                if notice["watcher"] == "divergence" and notice["clients"]:
                    continue  # the session's own events tell it: a client that diverges is a warning
                found.append({
                    "at": record["timing"]["at"], "event": "noticed", "round": record["round"],
                    "watcher": notice["watcher"], "message": notice["message"], "clients": notice["clients"],
                    "action": "log",
                })  # fmt: skip
        self._last, self._rounds = run.record(None), run.round
        if found:
            self._events = (*self._events, *found)
        return self._events


def outages(before: SessionData, after: SessionData, heard: str | None) -> tuple[Event, ...]:
    """What files do not tell between two looks: an owner dies or freezes, files are lost. heard: its last note."""
    found = []
    if after.error and (after.error, after.state) != (before.error, before.state):
        gone = f"the folder {after.folder} was deleted or moved"
        kind, message = ("gone", gone) if after.state == "gone" else ("unreadable", after.error)
        found.append(_outage(kind, after, message))
    elif before.error and not after.error:
        found.append(_outage("readable", after, "can be read again"))
    pid = after.owner.get("pid")
    owner = "its process" if pid is None else f"process {pid}"
    if after.state == "interrupted" and (before.state != "interrupted" or not before.document):
        reached = after.progress.get("round", 0)
        where = f"in round {reached}" if reached > after.round else f"after round {after.round}"
        found.append(_outage("interrupted", after, f"{owner} ended without a stop {where}"))
        if heard is not None and not before.document:
            # One that died before the session was read has the time of its last note, but stands after all events.
            found[-1]["at"] = max([heard, *(each["at"] for each in after.events[-1:])])
    was, is_now = (run.silence is not None and run.silence.long for run in (before, after))
    if is_now and not was and after.silence is not None:
        found.append(_outage("silent", after, f"no heartbeat of {owner} for {after.silence.seconds} s"))
    elif was and not is_now and after.live and before.silence is not None and not after.error:
        found.append(_outage("heard", after, f"heartbeat again after {before.silence.seconds} s"))
    return tuple(found)


def _outage(kind: str, run: SessionData, message: str) -> Event:
    return {"event": kind, "at": now(), "round": run.round, "message": message}
