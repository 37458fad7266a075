"""Hidden folders beside the sessions, in which a session is made or from which it is removed.

Whoever uses one holds a lock on the folder itself, which the kernel frees when the process dies. A process that is
killed leaves its folder behind: a leftover, which no process needs.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from checkpoints import files, lock, reader
from checkpoints.errors import Damaged, DiskError, Locked
from checkpoints.layout import is_private, private_name


@dataclass(frozen=True)
class Leftover:
    """A hidden folder. It is `in_use` while the process that makes or removes a session in it may live."""

    path: Path
    in_use: bool


def leftovers(folder: Path, *, steal: bool = False) -> list[Leftover]:
    """The hidden folders in a sessions folder and in its groups, by path. Raises DiskError.

    `steal`: other machines that used them are dead.
    """
    with files.storage(folder):
        hidden = sorted(
            path for path in reader.entries(folder) if is_private(path.name) and _is_own_folder(path)
        )
        return [Leftover(path, _in_use(path, steal)) for path in hidden]


def remove_leftover(leftover: Leftover, *, steal: bool = False) -> None:
    """Remove a hidden folder that no living process uses. Raises Locked for one in use, and DiskError."""
    with files.storage(leftover.path), suppress(FileNotFoundError):
        descriptor = _open(leftover.path)
        try:
            if not _hold(descriptor) or _has_owner(leftover.path, steal):
                raise Locked(
                    f"{leftover.path} is in use by {lock.holder(lock.legible_note(leftover.path))}. Wait until that "
                    "process ends. If its machine is dead, add `steal=True`."
                )
            shutil.rmtree(leftover.path)
        finally:
            os.close(descriptor)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder while this lasts, also when it gets another name."""
    descriptor = _open(folder)
    try:
        _hold(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def new_private(place: Path) -> Iterator[Path]:
    """A new hidden folder beside `place`, held while this lasts. Raises DiskError."""
    descriptor = None
    while descriptor is None:
        private = beside(place)
        try:
            files.new_folder(private)
        except DiskError as error:  # nobody knows the hidden name
            raise DiskError(str(error).replace(str(private), str(place))) from error
        with suppress(FileNotFoundError):  # a removal of leftovers may come before the lock
            descriptor = _open(private)
            if not _hold(descriptor) or not private.exists():
                os.close(descriptor)
                descriptor = None
    try:
        yield private
    finally:
        os.close(descriptor)


def beside(place: Path) -> Path:
    """A name for a hidden folder beside `place` that no other folder has."""
    return place.parent / private_name(place.name, secrets.token_hex(8))


def _in_use(path: Path, steal: bool) -> bool:
    descriptor = _open(path)
    try:
        return not _hold(descriptor) or _has_owner(path, steal)
    finally:
        os.close(descriptor)


def _has_owner(path: Path, steal: bool) -> bool:
    """Whether a process owns the session in a hidden folder, or may do so on a machine that cannot be seen."""
    with suppress(Damaged):
        if lock.is_held(path):
            return True
    owner = lock.legible_note(path)
    if owner is None or steal:
        return False
    here = lock.is_in_sight(owner) and lock.is_alive(owner) and not lock.is_closed(owner)
    return here or lock.is_elsewhere(owner)


def _hold(descriptor: int) -> bool:
    """Lock an open folder; whether it is this process's now. A file system without such locks refuses nobody."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
