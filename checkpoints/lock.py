"""One owner per session: a flock held by the living, and a note saying who that is and how far it got.

The kernel frees the flock when its holder dies, so on one machine it decides. The note (`owner.json`) is for
people, for watchers, and for a folder shared between machines, where a flock may not reach. A thread keeps its
heartbeat moving for as long as the owner lives, whatever the owner is busy with.
"""

import fcntl
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from checkpoints import files
from checkpoints.errors import Damaged, DiskError, Locked
from checkpoints.layout import LOCK, OWNER
from checkpoints.seal import Json, seal, unseal

OWNER_CAP = 1 << 20
BEAT_SECONDS = 0.5
"""Least time between two notes of mere progress."""
PULSE_SECONDS = 0.5
"""How often the thread looks whether a note is due."""
_PROBES, _PROBE_SECONDS = 5, 0.05
_STEAL_WATCH_SECONDS = 4.0
"""Several beats, since a shared folder may show them late."""


class Ownership:
    """Holds the session's lock until `release`, and writes the owner's note."""

    def __init__(self, root: Path, fd: int) -> None:
        self._root = root
        self._fd = fd
        self._beats = 0
        self._written = float("-inf")
        self._state = ""
        self._facts: Json = {}
        self._guard = threading.Lock()
        self._released = threading.Event()
        self._who: Json = {
            "host": socket.gethostname(),
            "boot_id": _boot_id(),
            "pid": os.getpid(),
            "start_time": _start_time(os.getpid()),
            "since": now(),
        }

    @classmethod
    def acquire(cls, root: Path, *, steal: bool = False) -> "Ownership":
        """Become the owner; raises Locked, saying who is, or DiskError.

        `steal` takes over from another machine, whose death cannot be seen from here, unless its heartbeat
        counter still moves.
        """
        with files.storage(root):
            fd = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            _take(root, fd)
            _refuse_living(root, steal)
        except BaseException:
            os.close(fd)
            raise
        return cls(root, fd)

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
        with self._guard:
            self._released.set()
            self._facts = facts
            try:
                self._write(state, closed=clean)
            finally:
                os.close(self._fd)

    def _pulse(self) -> None:
        while not self._released.wait(PULSE_SECONDS):
            with self._guard:
                if self._released.is_set():
                    return
                # A disk that refuses is found, and said, by the next commit.
                with suppress(DiskError):
                    if self._is_due():
                        self._write(self._state, closed=False)

    def _is_due(self) -> bool:
        return time.monotonic() - self._written >= BEAT_SECONDS

    def _is_displaced(self) -> bool:
        """Whether another owner took the session over (`steal`) while this machine slept."""
        try:
            note = _note(self._root)
        except DiskError:
            return False
        return note is not None and any(note.get(key) != value for key, value in self._who.items())

    def _write(self, state: str, *, closed: bool) -> None:
        if self._beats and self._is_displaced():
            return
        self._beats += 1
        note = self._who | self._facts | {"state": state, "closed": closed, "heartbeat": self._beats}
        files.replace(self._root, OWNER, seal(note), durable=False)
        self._state, self._written = state, time.monotonic()


def read_note(root: Path) -> Json | None:
    """What owner.json says, or None before there was an owner; raises Damaged."""
    try:
        return unseal(files.read(root, OWNER, cap=OWNER_CAP), OWNER)
    except FileNotFoundError:
        return None


def is_held(root: Path) -> bool:
    """Whether a process on this machine holds the lock now."""
    try:
        with files.open_regular(root, LOCK) as fd:
            # Shared, and for an instant: an opener that meets it tries again.
            return not _flock(fd, fcntl.LOCK_SH, probes=1)
    except FileNotFoundError:
        return False


def is_elsewhere(note: Json) -> bool:
    """Whether the note was written on another machine, whose flock may not be visible here."""
    return note.get("boot_id") != _boot_id() and note.get("host") != socket.gethostname()


def now() -> str:
    """The time as the store writes it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flock(fd: int, kind: int = fcntl.LOCK_EX, probes: int = _PROBES) -> bool:
    for left in reversed(range(probes)):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except OSError:
            if left:
                time.sleep(_PROBE_SECONDS)
        else:
            return True
    return False


def _take(root: Path, fd: int) -> None:
    if not _flock(fd):
        raise Locked(f"{root} is in use{_by(_note(root))}. Stop it there first.")


def _refuse_living(root: Path, steal: bool) -> None:
    """With the flock in hand, refuse if the last owner lives: elsewhere, or its lock file was removed."""
    note = _note(root)
    if note is None or note.get("closed") is True:
        return
    if is_elsewhere(note):
        if not steal:
            raise Locked(f"{root} is in use{_by(note)}, on another machine. If it is dead, use --steal.")
        time.sleep(_STEAL_WATCH_SECONDS)
        if _note(root) != note:
            raise Locked(f"{root} is in use{_by(note)}: its heartbeat still moves. Stop it there first.")
    elif note.get("boot_id") == _boot_id() and note.get("pid") != os.getpid() and _is_alive(note):
        raise Locked(f"{root} is in use{_by(note)}, which is still running. Stop it first.")


def _is_alive(note: Json) -> bool:
    """Whether the very process that wrote the note runs, not another that was given its number."""
    pid, started = note.get("pid"), note.get("start_time")
    if type(pid) is not int or not isinstance(started, float) or not 0 < pid < 1 << 31:
        return False
    # The clock that start times are told by may be set by a second meanwhile.
    return (since := _start_time(pid)) is not None and abs(since - started) < 2


def _note(root: Path) -> Json | None:
    """The note if it can be read: it is not flushed to disk, so a power cut may leave half of one."""
    try:
        return read_note(root)
    except Damaged:
        return None


def _by(note: Json | None) -> str:
    if note is None:
        return ""
    return f" by process {note.get('pid')} on {note.get('host')} since {note.get('since')}"


def _start_time(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))
