"""One owner per session: a flock held by the living, and a note whose epoch fences off whoever owned it before.

On a folder shared between machines a flock may not reach; there the note (`owner.json`) decides: an owner looks before
all that it writes whether the note is still its own. A thread keeps its heartbeat moving for as long as the owner
lives.
"""

import fcntl
import os
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import psutil

from checkpoints import files, layout, limits
from checkpoints.files import Damaged, DiskError, Displaced, Locked
from checkpoints.layout import LOCK, OWNER
from checkpoints.schema import Json, OwnerNote, seal, unseal, well_formed

BEAT_SECONDS = 0.5
"""Least time between two notes of mere progress."""
PULSE_SECONDS = 0.5
"""How often the thread looks whether a note is due."""
SETTLE_SECONDS = 0.5
"""How long whoever displaces another waits before it does anything: of two that do so at once, one is left."""
WATCH_SECONDS = 4.0
"""How long a heartbeat must stand still: several beats, since a shared folder may show them late."""
_PROBES, _PROBE_SECONDS = 5, 0.05

# Which machine, boot, and process this is


def host() -> str:
    """The machine's name in its network; two machines may have the same."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """A text that is another after every start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))


@cache
def machine_id() -> str:
    """A text that is the installed system's own; a copy of its disk has the same."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if (id := Path(path).read_text(encoding="ascii").strip()) and id.isalnum():
                return id
        except (OSError, UnicodeDecodeError):
            continue
    return f"{uuid.getnode():012x}"


@cache
def process_space() -> str:
    """In which space process numbers count: a container has its own, and sees no process outside it."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def start_time(pid: int) -> float | None:
    """When a process of this space started, in seconds since 1970; None if it does not run."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


# The owner's note: who owns a session, since when, and how far it got


def read_note(root: Path) -> Json | None:
    """What owner.json says, or None before there was an owner; raises Damaged. It can be shown in a terminal."""
    with suppress(FileNotFoundError):
        return _parsed(files.read(root, OWNER, cap=limits.OWNER))
    return None


def legible_note(root: Path) -> Json | None:
    """The note if it can be read: it is not flushed to disk, so a power cut may leave half of one."""
    return _legible(_raw(root))


def _raw(root: Path) -> bytes | None:
    """The note's bytes; None when they cannot be had."""
    with suppress(FileNotFoundError, Damaged):
        return files.read(root, OWNER, cap=limits.OWNER)
    return None


def _legible(raw: bytes | None) -> Json | None:
    with suppress(Damaged):
        return None if raw is None else _parsed(raw)
    return None


def _parsed(raw: bytes) -> Json:
    note = unseal(raw, OWNER)
    well_formed(OwnerNote, note, f"{OWNER} is not an owner's note")
    return note


def is_closed(note: Json | None) -> bool:
    """Whether its owner let go of the session with nothing left undone."""
    return note is not None and note["closed"] is True


def is_elsewhere(note: Json) -> bool:
    """Whether the note is of another machine, whose flock may not be visible here. A restart changes no machine."""
    same_machine = note["host"] == host() and note.get("machine_id") in (None, machine_id())
    return note["boot_id"] != boot_id() and not same_machine


def is_in_sight(note: Json) -> bool:
    """Whether this process would see the owner's if it ran: same boot, same space of process numbers."""
    space = note.get("process_space")
    return note["boot_id"] == boot_id() and space in (None, process_space())


def is_alive(note: Json) -> bool:
    """Whether the very process that wrote the note runs, not another that was given its number; in sight only."""
    pid, started = note["pid"], note["start_time"]
    if started is None or not 0 < pid < 1 << 31:
        return False
    # The clock that start times are told by may be set by a second meanwhile.
    return (since := start_time(pid)) is not None and abs(since - started) < 2


def epoch(note: Json | None) -> int:
    """Which ownership of the session it was; 0 of versions that did not count them."""
    return int(note.get("epoch", 0)) if note else 0


def holder(note: Json | None) -> str:
    """'process 12 on host since …'; 'another process' when nothing is known of it."""
    if note is None:
        return "another process"
    return f"process {note['pid']} on {note['host']} since {note['since']}"


# The lock


class Ownership:
    """Holds the session's lock until `release`, and writes the owner's note from `claim` on."""

    def __init__(self, root: Path, fd: int, raw: bytes | None, before: Json | None, displaces: bool) -> None:
        self.before = before
        """What the last owner noted, if that can be read."""
        self._root = root
        self.descriptor = fd
        """The lock's: a process that inherits it holds the lock as well."""
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
        self._epoch = max(epoch(before) + 1, time.time_ns() // 1_000_000)
        self._who: Json = {
            "host": host(),
            "machine_id": machine_id(),
            "boot_id": boot_id(),
            "process_space": process_space(),
            "pid": os.getpid(),
            "start_time": start_time(os.getpid()),
            "since": now(),
            "epoch": self._epoch,
            "token": secrets.token_hex(8),
        }

    @classmethod
    def acquire(cls, root: Path, *, steal: bool = False) -> "Ownership":
        """Hold the session's lock; writes nothing before `claim`. Raises Locked, saying who owns it, or DiskError.

        `steal` takes over from another machine, whose death cannot be seen from here, unless its heartbeat still moves.
        """
        fd = files.open_lock(root, LOCK)
        try:
            _take(root, fd)
            raw = _raw(root)
            before = _legible(raw)
            return cls(root, fd, raw, before, _refuse_living(root, before, steal))
        except BaseException:
            os.close(fd)
            raise

    def claim(self) -> None:
        """Become the owner: write the note of a new epoch. Raises Locked when another did so meanwhile."""
        with self._guard:
            if _raw(self._root) != self._raw:
                raise Locked(f"{self._root} was taken by {holder(legible_note(self._root))} just now.")
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
                    f"{self._root}: displaced by {holder(self._by)}; nothing was written. "
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
        os.close(self.descriptor)

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
        """Whether another took the session over. The note of a stopped owner that wakes, over ours, is put right."""
        if self._by is None and (raw := _raw(self._root)) != self._raw:
            found = _legible(raw)
            if found is not None and not 0 < epoch(found) < self._epoch:
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


@contextmanager
def holding(root: Path, *, steal: bool = False) -> Iterator[Ownership]:
    """The lock of a session, held while this lasts and let go without a word. Raises like `Ownership.acquire`."""
    owner = Ownership.acquire(root, steal=steal)
    try:
        yield owner
    finally:
        owner.let_go()


def is_held(root: Path) -> bool:
    """Whether a process on this machine holds the lock now; raises Damaged or DiskError."""
    try:
        with files.open_regular(root, LOCK) as fd:
            # Shared, and for an instant: an opener that meets it tries again.
            return not flock(fd, fcntl.LOCK_SH, probes=1)
    except FileNotFoundError:
        return False


def now() -> str:
    """The time as the store writes it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def flock(fd: int, kind: int = fcntl.LOCK_EX, probes: int = _PROBES) -> bool:
    """Lock an open file or folder; whether it is this process's now."""
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
    if not flock(fd):
        raise Locked(f"{root} is in use by {holder(legible_note(root))}. Stop it there first.")


def _refuse_living(root: Path, found: Json | None, steal: bool) -> bool:
    """With the flock in hand, refuse if the last owner lives; whether it may live all the same, unseen from here."""
    if found is None or is_closed(found):
        return False
    who = holder(found)
    if is_in_sight(found):
        if found["pid"] != os.getpid() and is_alive(found):
            raise Locked(f"{root} is in use by {who}, which is still running. Stop it first.")
        return False
    if is_elsewhere(found) and not steal:
        raise Locked(
            f"{root} is in use by {who}, on another machine. If that machine is dead, take it over: "
            f"`htfl-sim {layout.continues(root)} {layout.typed(root)} --steal`."
        )
    time.sleep(WATCH_SECONDS)
    if legible_note(root) != found:
        raise Locked(f"{root} is in use by {who}: its heartbeat still moves. Stop it there first.")
    return True
