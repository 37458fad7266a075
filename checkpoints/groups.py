"""Sessions that lie together in a folder beside the others: a group, known by the list of what belongs in it.

Such a folder has one owner at a time, who runs its sessions by other processes. Those hold on to the group's lock for
as long as they live, so that nobody begins to run a group while processes of an owner that died still write in it.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from checkpoints import files, limits, lock, travel
from checkpoints.errors import Damaged, DiskError, Locked, SessionUnreadable
from checkpoints.layout import CONTROL, DONE, INBOX, LOCK, OWNER, POINTS, SESSION, TMP, is_group
from checkpoints.mailbox import Command, Inbox, Outcome, reply
from checkpoints.schema import Json

WAIT_SECONDS = 0.1
_OWN = {LOCK, OWNER, TMP, CONTROL}
"""What a group has besides its documents and its sessions."""
_SHOWN = "shown."


class GroupReader:
    """A group, to look at; in what commands ask of it, it is like a session."""

    def __init__(self, folder: Path) -> None:
        """Raises SessionUnreadable when the folder is no group."""
        if not is_group(folder):
            raise SessionUnreadable(f"{folder} holds no group of sessions: it has no {POINTS}.")
        self.folder = folder

    def document(self, name: str) -> bytes:
        """The bytes of one of its documents. Raises FileNotFoundError, Damaged or DiskError."""
        return files.read(self.folder, name, cap=limits.STUDY_FILE)

    def owner(self) -> Json | None:
        """What the present or last owner noted, or None; raises Damaged."""
        return lock.read_note(self.folder)

    def alive(self) -> bool:
        """Whether an owner lives; processes that a dead one left behind are none."""
        found = lock.legible_note(self.folder)
        if found is None or lock.is_closed(found):
            return False
        if lock.is_elsewhere(found):
            return True
        return lock.is_held(self.folder) and lock.is_alive(found)


class Group:
    """The one owner of a group. Not thread-safe but for the lock's own heartbeat."""

    def __init__(self, folder: Path, owner: lock.Ownership) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        self._owner = owner
        self._inbox = Inbox(folder, self.warnings.append, owner.check)
        self._state = "running"
        self._progress: dict[str, int] = {}
        self._closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        documents: Mapping[str, bytes] = {},
        *,
        waiting: Callable[[], bool] | None = None,
        steal: bool = False,
    ) -> "Group":
        """Own a group, making it where there is none, with these documents written.

        While processes of an owner that died still run, `waiting` is asked now and then whether to wait for them; by
        default nobody waits. `steal` takes it over from a machine that is known to be dead. Raises Locked when
        another owns it, SessionUnreadable when something else has its name,
        DiskError.
        """
        _refuse_strangers(folder, documents)
        files.make_folders(folder)
        for name in (TMP, CONTROL, INBOX, DONE):
            files.make_folder(folder, name)
        owner = _acquired(folder, waiting or (lambda: False), steal)
        try:
            owner.claim()
            travel.recover(folder)
            for name in files.names(folder, TMP):
                if name.startswith(_SHOWN):
                    files.remove(folder, f"{TMP}/{name}")
            group = cls(folder, owner)
            group._inbox.settle((), 0)
            group.write({name: data for name, data in documents.items() if name != POINTS})
            group.write({name: data for name, data in documents.items() if name == POINTS})
            for command in group.commands():
                group.answer(command, "refused", "the run it was meant for had ended")
        except BaseException:
            owner.let_go()
            raise
        owner.keep_beating()
        return group

    @property
    def descriptor(self) -> int:
        """The lock's file descriptor, which the processes that run its sessions inherit."""
        return self._owner.descriptor

    def write(self, documents: Mapping[str, bytes]) -> None:
        """Put documents in place, each in one step, durably."""
        for name, data in documents.items():
            limits.check_count(len(data), limits.STUDY_FILE, f"{self.folder.name}/{name}", "bytes")
            self._owner.check()
            files.replace(self.folder, name, data)
        files.sync_folder(self.folder)

    @contextmanager
    def shown(self) -> Iterator[str]:
        """The path in the group of a file that is there while this lasts, under a name that no other folder has.

        Who finds it, on whatever machine, sees this very folder.
        """
        name = f"{TMP}/{_SHOWN}{secrets.token_hex(16)}"
        files.replace(self.folder, name, b"")
        try:
            yield name
        finally:
            files.remove(self.folder, name)

    def commands(self) -> list[Command]:
        """The commands that came since the last call."""
        return self._inbox.new()

    def answer(self, command: Command, outcome: Outcome, message: str) -> None:
        """Say durably what became of a command."""
        self._inbox.answer(reply(command, outcome, message, None))

    def note(self, state: str, **progress: int) -> None:
        """Tell watchers what it is doing; written when that is new, and at least once a second."""
        if (state, progress) != (self._state, self._progress):
            self._state, self._progress = state, progress
            self._owner.beat(state, progress=progress)

    def close(self, state: str) -> None:
        """Let go of the group."""
        if not self._closed:
            self._closed = True
            self._owner.release(state, clean=True, progress=self._progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(*(() if kind is None else (DiskError, Damaged))):
            self.close("stopped" if kind is None else "failed")


def _acquired(folder: Path, waiting: Callable[[], bool], steal: bool) -> lock.Ownership:
    while True:
        try:
            return lock.Ownership.acquire(folder, steal=steal)
        except Locked:
            if not _is_orphaned(folder) or not waiting():
                raise
        time.sleep(WAIT_SECONDS)


def _is_orphaned(folder: Path) -> bool:
    """Whether those who hold the lock are left over from an owner that is gone."""
    found = lock.legible_note(folder)
    return found is not None and lock.is_in_sight(found) and not lock.is_alive(found)


def _refuse_strangers(folder: Path, documents: Mapping[str, Any]) -> None:
    """Raise SessionUnreadable where a folder of this name is something other than a group, whole or half made."""
    with files.storage(folder):
        if not os.path.lexists(folder) or is_group(folder):
            return
        if not folder.is_dir():
            raise SessionUnreadable(f"{folder} is there already and is no folder. Choose another name.")
        names = {path.name for path in folder.iterdir()}
    if SESSION in names:
        raise SessionUnreadable(f"{folder} is a session. Choose another name.")
    if strange := sorted(names - _OWN - set(documents)):
        raise SessionUnreadable(
            f"{folder} is there already, with {strange[0]} in it, and holds no group of sessions. "
            "Choose another name."
        )
