"""One owner per session: a flock held by the living, and a note whose epoch fences off whoever owned it before.

The kernel frees the flock when its holder dies, so on one machine it decides. On a folder shared between machines a
flock may not reach; there the note (`owner.json`) decides. Whoever takes a session over writes a note of a higher
epoch, and an owner looks before all that it writes whether the note is still its own. A thread keeps its heartbeat
moving for as long as the owner lives, whatever the owner is busy with.
"""

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakSet

from checkpoints import files, limits, machine, naming, note
from checkpoints.errors import Damaged, DiskError, Displaced, Locked
from checkpoints.layout import LOCK, OWNER
from checkpoints.seal import Json, seal

BEAT_SECONDS = 0.5
"""Least time between two notes of mere progress."""
PULSE_SECONDS = 0.5
"""How often the thread looks whether a note is due."""
SETTLE_SECONDS = 0.5
"""How long whoever displaces another waits before it does anything: of two that do so at once, one is left."""
WATCH_SECONDS = 4.0
"""How long a heartbeat must stand still: several beats, since a shared folder may show them late."""
_PROBES, _PROBE_SECONDS = 5, 0.05


class Ownership:
    """Holds the session's lock until `release`, and writes the owner's note from `claim` on."""

    def __init__(self, root: Path, fd: int, raw: bytes | None, before: Json | None, displaces: bool) -> None:
        self.before = before
        """What the last owner noted, if that can be read."""
        self._root = root
        self._fd = fd
        self._raw = raw
        self._displaces = displaces
        self._beats = 0
        self._written = float("-inf")
        self._state = ""
        self._facts: Json = {}
        self._by: Json | None = None
        self._guard = threading.RLock()
        self._released = threading.Event()
        self.forked = False
        """Whether this process is a fork of the owner: it may read the session, and nothing else."""
        _HELD.add(self)
        # The clock comes in so that epochs rise even where the last owner's note is lost.
        self._epoch = max(note.epoch(before) + 1, time.time_ns() // 1_000_000)
        self._who: Json = {
            "host": machine.host(),
            "machine_id": machine.machine_id(),
            "boot_id": machine.boot_id(),
            "process_space": machine.process_space(),
            "pid": os.getpid(),
            "start_time": machine.start_time(os.getpid()),
            "since": now(),
            "epoch": self._epoch,
            "token": secrets.token_hex(8),
        }

    @classmethod
    def acquire(cls, root: Path, *, steal: bool = False) -> "Ownership":
        """Hold the session's lock; writes nothing before `claim`. Raises Locked, saying who owns it, or DiskError.

        `steal` takes over from another machine, whose death cannot be seen from here, unless its heartbeat
        counter still moves.
        """
        fd = files.open_lock(root, LOCK)
        try:
            _take(root, fd)
            raw = _raw(root)
            before = _parsed(raw)
            return cls(root, fd, raw, before, _refuse_living(root, before, steal))
        except BaseException:
            os.close(fd)
            raise

    @property
    def descriptor(self) -> int:
        """The lock's: a process that inherits it holds the lock as well."""
        return self._fd

    def claim(self) -> None:
        """Become the owner: write the note of a new epoch. Raises Locked when another did so meanwhile."""
        with self._guard:
            if _raw(self._root) != self._raw:
                raise Locked(f"{self._root} was taken by {note.holder(note.legible(self._root))} just now.")
            self._facts = {"progress": {}}
            self._write("running", closed=False)
        if self._displaces:
            time.sleep(SETTLE_SECONDS)
        self.check()

    def refuse_fork(self) -> None:
        """Raise Locked in a fork of the owner. Takes no lock: a thread that is gone may hold it for good."""
        if self.forked:
            raise Locked(
                f"{self._root} belongs to process {self._who['pid']}, and this process is a fork of it. "
                "Run the session there, or close it before you fork."
            )

    def check(self) -> None:
        """The fence before all that is written: raise Displaced if another owns the session by now."""
        self.refuse_fork()
        with self._guard:
            if self._is_displaced():
                raise Displaced(
                    f"{self._root}: displaced by {note.holder(self._by)}; nothing was written. "
                    "Leave the session to that process, or stop it there and resume."
                )

    def moved(self, root: Path) -> None:
        """The session's folder, lock and all, has another name from now on."""
        self._root = root

    def beat(self, state: str, **facts: Any) -> None:
        """Note `state` and `facts`: at once when the state is new, else at most twice a second."""
        with self._guard:
            self._facts = facts
            if state != self._state or self._is_due():
                self._write(state, closed=False)

    def keep_beating(self) -> None:
        """From now until `release`, write a note at least once a second, with the latest facts."""
        threading.Thread(target=self._pulse, name=f"heartbeat of {self._root}", daemon=True).start()

    def release(self, state: str, *, clean: bool, **facts: Any) -> None:
        """Note the final state and let the lock go; `clean` says that nothing was left undone."""
        if self.forked:
            return
        with self._guard:
            self._released.set()
            self._facts = facts
            try:
                self._write(state, closed=clean)
            finally:
                self._unlock()

    @contextmanager
    def released_on_failure(self) -> Iterator[None]:
        """Release the session if what is done within fails."""
        try:
            yield
        except BaseException:
            with suppress(DiskError, Damaged):
                self.release("failed", clean=False)
            raise

    def let_go(self) -> None:
        """Let the lock go without a word: nothing was done under it."""
        self._released.set()
        if not self.forked:
            self._unlock()

    def leave_to_parent(self) -> None:
        """In a fork of the owner: close this copy of the lock, so that it does not outlive the owner's."""
        self.forked = True
        self._unlock()

    def _unlock(self) -> None:
        _HELD.discard(self)
        os.close(self._fd)

    def _pulse(self) -> None:
        while not self._released.wait(PULSE_SECONDS):
            with self._guard:
                if self._released.is_set():
                    return
                # A disk that refuses is found, and said, by the next commit.
                with suppress(DiskError, Damaged):
                    if self._is_due():
                        self._write(self._state, closed=False)

    def _is_due(self) -> bool:
        return time.monotonic() - self._written >= BEAT_SECONDS

    def _is_displaced(self) -> bool:
        """Whether another has taken the session over; a note of an earlier epoch is put right.

        An owner that was stopped in the middle of writing its note may, when it wakes, write it over ours.
        """
        if self._by is None and (raw := _raw(self._root)) != self._raw:
            found = _parsed(raw)
            if found is not None and not 0 < note.epoch(found) < self._epoch:
                self._by = found
            else:
                self._put(self._raw)
        return self._by is not None

    def _write(self, state: str, *, closed: bool) -> None:
        if self._beats and self._is_displaced():
            return
        self._beats += 1
        facts = {"state": state, "closed": closed, "heartbeat": self._beats}
        self._put(seal(self._who | self._facts | facts, limits.OWNER, OWNER))
        self._state, self._written = state, time.monotonic()

    def _put(self, raw: bytes | None) -> None:
        assert raw is not None
        files.replace(self._root, OWNER, raw, durable=False)
        self._raw = raw


_HELD: WeakSet[Ownership] = WeakSet()
"""The owners of this process whose lock is open."""


def _leave_to_parent() -> None:
    for owner in list(_HELD):
        owner.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def is_held(root: Path) -> bool:
    """Whether a process on this machine holds the lock now; raises Damaged or DiskError."""
    try:
        with files.open_regular(root, LOCK) as fd:
            # Shared, and for an instant: an opener that meets it tries again.
            return not _flock(fd, fcntl.LOCK_SH, probes=1)
    except FileNotFoundError:
        return False


def now() -> str:
    """The time as the store writes it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flock(fd: int, kind: int = fcntl.LOCK_EX, probes: int = _PROBES) -> bool:
    for left in reversed(range(probes)):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(_PROBE_SECONDS)
        except OSError:
            return True  # a file system without locks: the note decides
        else:
            return True
    return False


def _take(root: Path, fd: int) -> None:
    if not _flock(fd):
        raise Locked(f"{root} is in use by {note.holder(note.legible(root))}. Stop it there first.")


def _refuse_living(root: Path, found: Json | None, steal: bool) -> bool:
    """With the flock in hand, refuse if the last owner lives: elsewhere, or its lock file was removed.

    Returns whether it may live all the same: it ended without a word where this process cannot see it.
    """
    if found is None or note.is_closed(found):
        return False
    who = note.holder(found)
    if note.is_in_sight(found):
        if found["pid"] != os.getpid() and note.is_alive(found):
            raise Locked(f"{root} is in use by {who}, which is still running. Stop it first.")
        return False
    if note.is_elsewhere(found) and not steal:
        raise Locked(
            f"{root} is in use by {who}, on another machine. If that machine is dead, take it over: "
            f"`htfl-sim {naming.continues(root)} {naming.typed(root)} --steal`."
        )
    time.sleep(WATCH_SECONDS)
    if note.legible(root) != found:
        raise Locked(f"{root} is in use by {who}: its heartbeat still moves. Stop it there first.")
    return True


def _raw(root: Path) -> bytes | None:
    """The note's bytes; None when they cannot be had."""
    try:
        return note.read_raw(root)
    except Damaged:
        return None


def _parsed(raw: bytes | None) -> Json | None:
    try:
        return None if raw is None else note.parse(raw)
    except Damaged:
        return None
