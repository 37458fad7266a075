"""A session on its way to another machine: in parcels of bounded size, and under its name only when it is whole there.

What travels is what a session is: not its lock and its scratch files, and not the note of an owner that died, of which
nobody elsewhere could see that it did. `session.json` comes last.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from checkpoints import files, lock
from checkpoints.errors import Damaged
from checkpoints.layout import FOLDERS, LEDGER, LOCK, OWNER, SESSION, TMP
from checkpoints.schema import Json

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
    """The files of a session in pieces, so many bytes at most in each parcel.

    It is held meanwhile, so that nobody runs it: raises Locked where somebody does, on whatever machine, unless it may
    be `live` and is to be read alone. Raises Damaged or DiskError.
    """
    owner = None if live else lock.Ownership.acquire(folder, steal=True)
    try:
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
    finally:
        if owner is not None:
            owner.let_go()


class Arrival:
    """A session that arrives in a group, piece by piece. The group's owner alone may receive one."""

    def __init__(self, group: Path, name: str) -> None:
        """Raises DiskError."""
        self.place = group / name
        self._private, self._before = _private(group, name, _ARRIVING), _private(group, name, _BEFORE)
        shutil.rmtree(self._private, ignore_errors=True)
        files.make_folders(self._private)
        for folder in FOLDERS:
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
        """Give it its name, in place of what it was when it left, durably.

        What has got further here meanwhile stays instead. Raises Locked where a process runs it here, Damaged where its
        ledger here is a link or no file, and DiskError.
        """
        with files.storage(self.place):
            if files.look(self._private, SESSION) is None or _rounds(self.place) > _rounds(self._private):
                self.discard()
                return
            os.close(files.open_lock(self._private, LOCK))
            for folder, _, names in os.walk(self._private):
                for name in names:
                    files.sync(Path(folder), name)
                files.sync_folder(Path(folder))
            if not os.path.lexists(self.place):
                files.rename_folder(self._private, self.place)
                return
            owner = lock.Ownership.acquire(self.place)
            try:
                files.rename_folder(self.place, self._before)
                files.rename_folder(self._private, self.place)
            finally:
                owner.let_go()
            shutil.rmtree(self._before)

    def discard(self) -> None:
        """Let go of what has arrived."""
        shutil.rmtree(self._private, ignore_errors=True)


def recover(group: Path) -> None:
    """Put right what a crash left of arrivals: who had to make way gets its successor, the rest is removed.

    For the group's owner, before it does anything else. Raises DiskError.
    """
    with files.storage(group):
        for path in (group / TMP).iterdir():
            name, _, kind = path.name.rpartition(".")
            if kind == _BEFORE and not os.path.lexists(group / name):
                arrived = _private(group, name, _ARRIVING)  # whole: it was synchronised before that made way
                files.rename_folder(arrived if arrived.is_dir() else path, group / name)
        for path in (group / TMP).iterdir():
            if path.name.endswith((f".{_ARRIVING}", f".{_BEFORE}")):
                shutil.rmtree(path)


def _private(group: Path, name: str, kind: str) -> Path:
    return group / TMP / f"{name}.{kind}"


def _travelling(folder: Path, owner: Json | None) -> list[str]:
    """The paths of a session's files, those first that others name."""
    found = []
    with files.storage(folder):
        for place, folders, names in os.walk(folder):
            inside = Path(place).relative_to(folder)
            if inside == Path():
                folders[:] = [name for name in folders if name != TMP]
                names = [name for name in names if name not in (LOCK, SESSION, OWNER)]
            found += [(inside / name).as_posix() for name in sorted(names)]
    return [*sorted(found), *([OWNER] if lock.is_closed(owner) else []), SESSION]


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
    if not (folder / SESSION).is_file():
        return -1
    return sum(piece.data.count(b"\n") for piece in _pieces(folder, LEDGER, PARCEL))
