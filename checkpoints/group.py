"""Sessions that lie together in a folder beside the others: a group, which has one owner at a time.

The processes that run its sessions hold on to the group's lock too, so that nobody begins to run a group while those of
a dead owner still write in it. A session travels to another machine in parcels: without its lock, its scratch files,
and the note of an owner that died, of which nobody elsewhere could see that it did. `session.json` comes last.
"""

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

from checkpoints import files, layout, limits, lock
from checkpoints.files import Damaged, DiskError, Locked, SessionUnreadable
from checkpoints.mailbox import Command, Inbox, Outcome, reply
from checkpoints.schema import Json

WAIT_SECONDS = 0.1
_OWN = {layout.LOCK, layout.OWNER, layout.TMP, layout.CONTROL}
"""What a group has besides its documents and its sessions."""
_SHOWN = "shown."


class GroupReader:
    """A group, to look at; in what commands ask of it, it is like a session."""

    def __init__(self, folder: Path) -> None:
        """Raises SessionUnreadable when the folder is no group."""
        if not layout.is_group(folder):
            raise SessionUnreadable(f"{folder} holds no group of sessions: it has no {layout.POINTS}.")
        self.folder = folder

    def document(self, name: str) -> bytes:
        """The bytes of one of its documents. Raises FileNotFoundError, Damaged or DiskError."""
        return files.read(self.folder, name, cap=limits.STUDY_FILE)

    def owner(self) -> Json | None:
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
        """Own a group, made where there is none, with these documents written.

        While processes of a dead owner still run, `waiting` is asked whether to wait; by default nobody does. `steal`:
        its machine is dead. Raises Locked, SessionUnreadable where something else has its name, DiskError.
        """
        _refuse_strangers(folder, documents)
        files.make_folders(folder)
        for name in (layout.TMP, layout.CONTROL, layout.INBOX, layout.DONE):
            files.make_folder(folder, name)
        while True:
            try:
                owner = lock.Ownership.acquire(folder, steal=steal)
                break
            except Locked:
                if waiting is None or not _is_orphaned(folder) or not waiting():
                    raise
            time.sleep(WAIT_SECONDS)
        try:
            owner.claim()
            recover_arrivals(folder)
            for name in files.names(folder, layout.TMP):
                if name.startswith(_SHOWN):
                    files.remove(folder, f"{layout.TMP}/{name}")
            group = cls(folder, owner)
            group._inbox.settle((), 0)
            group.write({name: data for name, data in documents.items() if name != layout.POINTS})
            group.write({name: data for name, data in documents.items() if name == layout.POINTS})
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
        """The path in the group of a file that is there meanwhile: who finds it, anywhere, sees this very folder."""
        name = f"{layout.TMP}/{_SHOWN}{secrets.token_hex(16)}"
        files.replace(self.folder, name, b"")
        try:
            yield name
        finally:
            files.remove(self.folder, name)

    def commands(self) -> list[Command]:
        return self._inbox.new()

    def answer(self, command: Command, outcome: Outcome, message: str) -> None:
        self._inbox.answer(reply(command, outcome, message, None))

    def note(self, state: str, **progress: int) -> None:
        """Tell watchers what it is doing; written when that is new, and at least once a second."""
        if (state, progress) != (self._state, self._progress):
            self._state, self._progress = state, progress
            self._owner.beat(state, progress=progress)

    def close(self, state: str) -> None:
        if not self._closed:
            self._closed = True
            self._owner.release(state, clean=True, progress=self._progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(*(() if kind is None else (DiskError, Damaged))):
            self.close("stopped" if kind is None else "failed")


def _is_orphaned(folder: Path) -> bool:
    """Whether those who hold the lock are left over from an owner that is gone."""
    found = lock.legible_note(folder)
    return found is not None and lock.is_in_sight(found) and not lock.is_alive(found)


def _refuse_strangers(folder: Path, documents: Mapping[str, Any]) -> None:
    """Raise SessionUnreadable where a folder of this name is something other than a group, whole or half made."""
    with files.storage(folder):
        if not os.path.lexists(folder) or layout.is_group(folder):
            return
        if not folder.is_dir():
            raise SessionUnreadable(f"{folder} is there already and is no folder. Choose another name.")
        names = {path.name for path in folder.iterdir()}
    if layout.SESSION in names:
        raise SessionUnreadable(f"{folder} is a session. Choose another name.")
    if strange := sorted(names - _OWN - set(documents)):
        raise SessionUnreadable(
            f"{folder} is there already, with {strange[0]} in it, and holds no group of sessions. "
            "Choose another name."
        )


# On the way to another machine

PARCEL = 8 << 20
"""Bytes that are under way at once."""
_ARRIVING, _BEFORE = "arriving", "before"


class Piece(NamedTuple):
    """Bytes of a file of a session, from a place in it on; `path` is from the session's folder."""

    path: str
    at: int
    data: bytes


Parcel = list[Piece]


def pack(folder: Path, most: int = PARCEL, *, live: bool = False) -> Iterator[Parcel]:
    """The files of a session in pieces, `most` bytes at most in each parcel; it is held meanwhile, unless it may be
    `live`.

    Raises Locked where somebody runs it, on whatever machine, Damaged or DiskError.
    """
    with nullcontext() if live else lock.holding(folder, steal=True) as owner:
        parcel: Parcel = []
        room = most
        for path in _travelling(folder, None if owner is None else owner.before):
            for piece in _pieces(folder, path, most):
                if len(piece.data) > room and parcel:
                    yield parcel
                    parcel, room = [], most
                parcel.append(piece)
                room -= len(piece.data)
        yield parcel


class Arrival:
    """A session that arrives in a group, piece by piece. The group's owner alone may receive one."""

    def __init__(self, group: Path, name: str) -> None:
        self.place = group / name
        self._private, self._before = _private(group, name, _ARRIVING), _private(group, name, _BEFORE)
        shutil.rmtree(self._private, ignore_errors=True)
        files.make_folders(self._private)
        for folder in layout.FOLDERS:
            files.make_folder(self._private, folder)

    def take(self, parcel: Parcel) -> None:
        """Write pieces, which come in order. Raises Damaged for one that has no place in a session, and DiskError."""
        for piece in parcel:
            inner = PurePosixPath(piece.path)
            if inner.is_absolute() or not inner.parts or ".." in inner.parts:
                raise Damaged(f"'{piece.path}' has no place in a session.")
            with files.storage(self.place, len(piece.data)):
                target = self._private / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("r+b" if piece.at else "wb") as file:
                    file.seek(piece.at)
                    file.write(piece.data)

    def settle(self) -> None:
        """Give it its name, durably, unless what is here has got further.

        Raises Locked where a process runs it here, Damaged where its ledger here is a link or no file, and DiskError.
        """
        with files.storage(self.place):
            if files.look(self._private, layout.SESSION) is None or _rounds(self.place) > _rounds(
                self._private
            ):
                self.discard()
                return
            os.close(files.open_lock(self._private, layout.LOCK))
            for folder, _, names in os.walk(self._private):
                for name in names:
                    files.sync(Path(folder), name)
                files.sync_folder(Path(folder))
            if not os.path.lexists(self.place):
                files.rename_folder(self._private, self.place)
                return
            with lock.holding(self.place):
                files.rename_folder(self.place, self._before)
                files.rename_folder(self._private, self.place)
            shutil.rmtree(self._before)

    def discard(self) -> None:
        shutil.rmtree(self._private, ignore_errors=True)


def recover_arrivals(group: Path) -> None:
    """Put right what a crash left of arrivals: who had to make way gets its successor, the rest is removed."""
    with files.storage(group):
        for path in (group / layout.TMP).iterdir():
            name, _, kind = path.name.rpartition(".")
            if kind == _BEFORE and not os.path.lexists(group / name):
                arrived = _private(group, name, _ARRIVING)  # whole: it was synchronised before that made way
                files.rename_folder(arrived if arrived.is_dir() else path, group / name)
        for path in (group / layout.TMP).iterdir():
            if path.name.endswith((f".{_ARRIVING}", f".{_BEFORE}")):
                shutil.rmtree(path)


def _private(group: Path, name: str, kind: str) -> Path:
    return group / layout.TMP / f"{name}.{kind}"


def _travelling(folder: Path, owner: Json | None) -> list[str]:
    """The paths of a session's files, those first that others name."""
    found = []
    with files.storage(folder):
        for place, folders, names in os.walk(folder):
            inside = Path(place).relative_to(folder)
            if inside == Path():
                folders[:] = [name for name in folders if name != layout.TMP]
                names = [name for name in names if name not in (layout.LOCK, layout.SESSION, layout.OWNER)]
            found += [(inside / name).as_posix() for name in sorted(names)]
    return [*sorted(found), *([layout.OWNER] if lock.is_closed(owner) else []), layout.SESSION]


def _pieces(folder: Path, path: str, most: int) -> Iterator[Piece]:
    """A file in pieces; nothing of one that is gone by now."""
    with suppress(FileNotFoundError), files.open_regular(folder, path) as fd:
        at = 0
        while True:
            data = os.pread(fd, most, at)
            if data or not at:
                yield Piece(path, at, data)
            at += len(data)
            if len(data) < most:
                return


def _rounds(folder: Path) -> int:
    """How many lines a session's ledger has; −1 where there is no session."""
    if not (folder / layout.SESSION).is_file():
        return -1
    return sum(piece.data.count(b"\n") for piece in _pieces(folder, layout.LEDGER, PARCEL))
