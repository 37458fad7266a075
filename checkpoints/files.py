"""Durable files: every byte the store writes or reads passes through these few functions.

A file is written under `tmp/`, flushed to disk, then renamed or linked to its name; its folder is flushed by
`sync_folder`, which callers collect. A flush that fails is never tried again: the kernel may have dropped the
pages and would report a success that is none. Nothing here follows a link inside the session.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from checkpoints.errors import Damaged, DiskError
from checkpoints.layout import TMP

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINK = (errno.EEXIST, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def make_folder(path: Path) -> None:
    """Make a folder if it is not there; its parent must exist."""
    with storage(path), suppress(FileExistsError):
        os.mkdir(path)  # noqa: PTH102 - all system calls here go through `os`


def make_folders(path: Path) -> None:
    """Make a folder, and its parents, where they are not there."""
    with storage(path):
        os.makedirs(path, exist_ok=True)  # noqa: PTH103


def replace(
    root: Path, name: str, data: bytes, *, durable: bool = True, scratch_name: str | None = None
) -> None:
    """Put `data` at `root/name` in one step: a reader sees the old file or the new one, never a part.

    It is first written at `root/scratch_name`, by default under `tmp/`, which only the owner may use.
    """
    scratch = _write_scratch(root, data, durable, scratch_name)
    with storage(root, len(data)), _removed_on_failure(scratch):
        os.replace(scratch, root / name)  # noqa: PTH105


def link_new(root: Path, name: str, data: bytes) -> None:
    """Put `data` at `root/name`, which must not exist; raises FileExistsError when it does."""
    scratch = _write_scratch(root, data, durable=True)
    try:
        with storage(root, len(data), let_pass=FileExistsError):
            os.link(scratch, root / name)
    finally:
        with suppress(OSError):
            os.unlink(scratch)  # noqa: PTH108


def share(source: Path, target: Path) -> bool:
    """Give a file a second name, a hard link; False where the system or the target's presence forbids it."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise DiskError.of(error, target.parent) from error
    return True


def append(path: Path, data: bytes, *, durable: bool) -> None:
    """Add `data` to the end of an existing file."""
    with storage(path.parent, len(data)), _opened(path, _APPEND) as fd:
        _write_all(fd, data)
        if durable:
            os.fsync(fd)


def sync(path: Path) -> None:
    """Flush a file's earlier appends to disk."""
    with storage(path.parent), _opened(path, _APPEND) as fd:
        os.fsync(fd)


def sync_folder(path: Path) -> None:
    """Make the folder's names durable: what was created, renamed, linked or removed in it."""
    with storage(path), _opened(path, _FOLDER) as fd:
        os.fsync(fd)


def remove(path: Path) -> None:
    """Remove a file (or a link, not what it points to); nothing to do when it is gone already."""
    with storage(path.parent), suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def read(root: Path, *parts: str, cap: int) -> bytes:
    """The bytes of a regular file of at most `cap` bytes at `root/parts…`, reached without following a link.

    Raises FileNotFoundError, Damaged (a link, not a file, over the cap) or DiskError.
    """
    with open_regular(root, *parts) as fd:
        size = os.fstat(fd).st_size
        if size > cap:
            raise Damaged(f"{'/'.join(parts)} is {size:,} bytes, more than the {cap:,} it may have.")
        with storage(root), os.fdopen(os.dup(fd), "rb", buffering=0) as file:
            data = file.readall()
    if len(data) > cap:
        raise Damaged(f"{'/'.join(parts)} grew past the {cap:,} bytes it may have.")
    return data


@contextmanager
def open_regular(root: Path, *parts: str) -> Iterator[int]:
    """A descriptor to read `root/parts…`, every step of it opened without following links."""
    fd = _open_inside(root, parts, _READ)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Damaged(f"{'/'.join(parts)} is not a plain file; links are not followed.")
        yield fd
    finally:
        os.close(fd)


def names(root: Path, folder: str) -> list[str]:
    """What is in `root/folder`, in no order, reached without following a link.

    Raises FileNotFoundError, Damaged (a link, not a folder) or DiskError.
    """
    fd = _open_inside(root, folder.split("/"), _FOLDER | os.O_NOFOLLOW)
    try:
        with storage(root):
            return os.listdir(fd)  # noqa: PTH208
    finally:
        os.close(fd)


@contextmanager
def storage(path: Path, needed: int = 0, let_pass: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn a refused system call into a DiskError that names `path` and the bytes needed."""
    try:
        yield
    except OSError as error:
        if isinstance(error, let_pass):
            raise
        raise DiskError.of(error, path, needed) from error


def _open_inside(root: Path, parts: Sequence[str], flags: int) -> int:
    try:
        folder = os.open(root, _FOLDER)
        try:
            for part in parts[:-1]:
                parent, folder = folder, os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(parent)
            return os.open(parts[-1], flags, dir_fd=folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            kind = "folder" if flags & os.O_DIRECTORY else "file"
            raise Damaged(f"{'/'.join(parts)} is not a plain {kind}; links are not followed.") from error
        raise DiskError.of(error, root) from error


def _write_scratch(root: Path, data: bytes, durable: bool, name: str | None = None) -> Path:
    scratch = root / (name or f"{TMP}/{secrets.token_hex(8)}")
    with storage(root, len(data)), _removed_on_failure(scratch), _opened(scratch, _NEW) as fd:
        _write_all(fd, data)
        if durable:
            os.fsync(fd)
    return scratch


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        raise
