"""Durable files: every byte the store writes or reads passes through these few functions. And the store's errors.

A file is written under `tmp/`, flushed, then renamed or linked to its name; callers collect the flushes of folders. A
flush that fails is never tried again: the kernel may have dropped the pages and would report a success that is none.

Names are paths inside the session. Each step of one is opened through the descriptor of the step before, without
following links: nothing here reaches out of the folder at `root`, whoever else writes there meanwhile.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from checkpoints.layout import TMP

FEW_INODES = 8
"""More than this process's threads return at once."""
MANY_BYTES = 1 << 20
"""With more free space than this, a small file was not refused for its bytes."""


class SessionUnreadable(Exception):
    """The session cannot be opened: damaged, locked, of another version, not there, its name taken."""

    exit_code = 4


class Damaged(SessionUnreadable):
    """Bytes on disk are not the bytes that were written."""


class Locked(SessionUnreadable):
    """Another process owns the session."""


class Displaced(Locked):
    """Another process took the session over from this one, which writes no more."""


class UnsupportedVersion(SessionUnreadable):
    """The session was written in a newer format than this program reads."""


class DiskError(Exception):
    """The disk refused: no space, read-only, no permission, or an I/O error."""

    exit_code = 5

    @classmethod
    def of(cls, error: OSError, path: Path, needed: int = 0) -> "DiskError":
        """The message for a failed system call at `path`; `needed` is the number of bytes it had to write."""
        match error.errno:
            case errno.ENOSPC if _lacks_inodes(path):
                what = "the file system can hold no more files: its inodes are used up"
                remedy = "Remove some files, then resume from the last checkpoint."
            case errno.ENOSPC | errno.EDQUOT:
                what = f"no space left: {needed:,} bytes were needed" if needed else "no space left"
                remedy = "Free some space, then resume from the last checkpoint."
            case errno.EROFS | errno.EACCES | errno.EPERM:
                what = "writing is not allowed"
                remedy = "Check the permissions or choose another sessions folder."
            case errno.ENOTDIR | errno.EEXIST:
                what = "a file is where a folder is needed"
                remedy = "Choose another sessions folder."
            case errno.EMFILE | errno.ENFILE:
                what = "no more files can be opened at once"
                remedy = "Raise the limit (`ulimit -n`), then resume from the last checkpoint."
            case _:
                what = f"input/output failed ({error.strerror or error})"
                remedy = "Check the disk, then run `htfl-sim verify SESSION` before resuming."
        return cls(f"{path}: {what}. {remedy}")


def _lacks_inodes(path: Path) -> bool:
    """Whether the file system lacks inodes, not bytes. Another thread may have given a few back since the failure."""
    for place in (path, *path.parents):
        try:
            found = os.statvfs(place)
        except OSError:
            continue
        has_room = found.f_bavail * found.f_frsize > MANY_BYTES
        return found.f_files > 0 and found.f_favail < FEW_INODES and has_room
    return False


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_INSIDE = _FOLDER | os.O_NOFOLLOW
_NO_LINK = (errno.EEXIST, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR)
_CHUNK = 1 << 20

Inode = tuple[int, int]


def make_folder(root: Path, name: str) -> None:
    """Make a folder inside the session if it is not there; raises Damaged where something else is."""
    with storage(root), _parent(root, name) as (parent, last):
        try:
            os.mkdir(last, dir_fd=parent)
        except FileExistsError:
            os.close(_open(parent, last, _INSIDE, name, root))


def make_folders(path: Path) -> None:
    """Make a folder, and its parents, where they are not there; each new name is durable when this returns."""
    missing = [path]
    with storage(path):
        while not missing[-1].exists() and missing[-1].parent != missing[-1]:
            missing.append(missing[-1].parent)
    for folder in reversed(missing[:-1]):
        with storage(folder), suppress(FileExistsError):
            os.mkdir(folder)  # noqa: PTH102 - all system calls here go through `os`
        sync_folder(folder.parent)


def new_folder(path: Path) -> None:
    with storage(path):
        os.mkdir(path)  # noqa: PTH102


def rename_folder(source: Path, target: Path) -> None:
    """Give a folder its name, durably; raises FileExistsError when something other than an empty folder has it."""
    with storage(target, let_pass=FileExistsError):
        try:
            os.rename(source, target)  # noqa: PTH104
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
            raise
    sync_folder(target.parent)


def replace(
    root: Path, name: str, data: bytes, *, durable: bool = True, scratch_name: str | None = None
) -> None:
    """Put `data` at `name` in one step, written first at `scratch_name`; by default under the owner's `tmp/`."""
    with (
        storage(root, len(data)),
        _parent(root, name) as (parent, last),
        _scratch(root, data, durable, scratch_name) as (folder, draft, inode),
    ):
        try:
            os.replace(draft, last, src_dir_fd=folder, dst_dir_fd=parent)
        except FileNotFoundError:
            # NFS may have done it, lost its answer, and tried again.
            if _inode(parent, last) != inode:
                raise
        except IsADirectoryError as error:
            raise Damaged(f"{name} is not a plain file; links are not followed.") from error


def link_new(root: Path, name: str, data: bytes, may: Callable[[], None] = lambda: None) -> None:
    """Put `data` at `name`, which must not exist; raises FileExistsError when it does.

    `may` is asked right before and right after: if it raises, the name is not given, or taken back.
    """
    with storage(root, len(data), let_pass=FileExistsError), _scratch(root, data) as (folder, draft, inode):
        try:
            with _parent(root, name) as (parent, last):
                may()
                try:
                    os.link(draft, last, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
                except FileExistsError:
                    # NFS may have done it, lost its answer, and tried again.
                    if _inode(parent, last) != inode:
                        raise
                try:
                    may()
                except BaseException:
                    with suppress(OSError):
                        if _inode(parent, last) == inode:
                            os.unlink(last, dir_fd=parent)
                    raise
        finally:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)


def share(source: Path, target: Path, name: str) -> bool:
    """Give the file `name` of a session a second name in another; False where that is taken or not supported."""
    with storage(target), _parent(source, name) as (here, last), _parent(target, name) as (there, _):
        try:
            os.link(last, last, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise
    return True


def append(root: Path, name: str, data: bytes, *, at: int, durable: bool) -> None:
    """Add `data` to the end of an existing file of `at` bytes; raises SessionUnreadable when it has other bytes."""
    with storage(root, len(data)), open_regular(root, name, _APPEND) as fd:
        if (size := os.fstat(fd).st_size) != at:
            raise SessionUnreadable(
                f"{root}: {name} has {size:,} bytes, not the {at:,} written here: another program changed it. "
                "Stop that, then resume."
            )
        _write_all(fd, data)
        if durable:
            os.fsync(fd)


def cut(root: Path, name: str, count: int) -> None:
    """Take the last `count` bytes off a file, durably."""
    with storage(root), open_regular(root, name, _APPEND) as fd:
        os.ftruncate(fd, os.fstat(fd).st_size - count)
        os.fsync(fd)


def sync(root: Path, name: str) -> None:
    """Flush a file's earlier appends to disk."""
    with storage(root), open_regular(root, name, _APPEND) as fd:
        os.fsync(fd)


def sync_folder(root: Path, name: str = "") -> None:
    """Make a folder's names durable: what was created, renamed, linked or removed in it."""
    with storage(root), _folder(root, name) as fd:
        os.fsync(fd)


def remove(root: Path, name: str) -> None:
    """Remove a file (or a link, not what it points to); nothing to do when it is gone already."""
    with storage(root), suppress(FileNotFoundError), _parent(root, name) as (parent, last):
        os.unlink(last, dir_fd=parent)


def read(root: Path, name: str, *, cap: int) -> bytes:
    """The bytes of a regular file. Raises FileNotFoundError, Damaged (link, no file, over `cap` bytes) or DiskError."""
    with open_regular(root, name) as fd:
        size = os.fstat(fd).st_size
        if size > cap:
            raise Damaged(f"{name} is {size:,} bytes, more than the {cap:,} it may have.")
        with storage(root), os.fdopen(os.dup(fd), "rb") as file:
            data = file.read(size + 1)
    if len(data) > cap:
        raise Damaged(f"{name} grew past the {cap:,} bytes it may have.")
    return data


def read_start(root: Path, name: str, most: int) -> tuple[bytes, int]:
    """At most so many bytes of a regular file, from its beginning, and how many it has; raises like `read`."""
    with open_regular(root, name) as fd, storage(root), os.fdopen(os.dup(fd), "rb") as file:
        size = os.fstat(fd).st_size
        return file.read(min(size, most)), size


def chunks(fd: int, size: int, offset: int = 0) -> Iterator[bytes]:
    """At most `size` bytes of an open file from `offset` on, a mebibyte at a time."""
    end = offset + size
    while offset < end and (chunk := os.pread(fd, min(_CHUNK, end - offset), offset)):
        offset += len(chunk)
        yield chunk


@contextmanager
def open_regular(root: Path, name: str, flags: int = _READ) -> Iterator[int]:
    """A descriptor of a file, by default to read. Raises FileNotFoundError, Damaged (a link, no file), DiskError."""
    with _parent(root, name) as (parent, last):
        fd = _open(parent, last, flags, name, root)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Damaged(f"{name} is not a plain file; links are not followed.")
        yield fd
    finally:
        os.close(fd)


def open_lock(root: Path, name: str) -> int:
    """A descriptor of a file to lock, made if it is not there; raises Damaged or DiskError."""
    with storage(root), open_regular(root, name, _LOCK) as fd:
        return os.dup(fd)


def names(root: Path, folder: str) -> list[str]:
    """What is in a folder, in no order. Raises FileNotFoundError, Damaged (a link, not a folder) or DiskError."""
    with _folder(root, folder) as fd, storage(root):
        return os.listdir(fd)  # noqa: PTH208


def listed(root: Path, folder: str) -> list[str]:
    """The same, in order; nothing where there is no folder, or a link in its place."""
    try:
        return sorted(names(root, folder))
    except (FileNotFoundError, Damaged):
        return []


def look(root: Path, name: str) -> os.stat_result | None:
    """What is at `name` itself, a link being a link; None when nothing is. Raises Damaged or DiskError."""
    try:
        with _parent(root, name) as (parent, last), storage(root, let_pass=FileNotFoundError):
            return os.stat(last, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_folder(found: os.stat_result | None) -> bool:
    """Whether `look` found a folder, and no link to one."""
    return found is not None and stat.S_ISDIR(found.st_mode)


@contextmanager
def storage(path: Path, needed: int = 0, let_pass: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn a refused system call into a DiskError that names `path` and the bytes needed."""
    try:
        yield
    except OSError as error:
        if isinstance(error, let_pass):
            raise
        raise DiskError.of(error, path, needed) from error


@contextmanager
def _folder(root: Path, name: str) -> Iterator[int]:
    """The descriptor of a folder inside the session; of the session itself for an empty name."""
    with storage(root, let_pass=FileNotFoundError):
        try:
            fd = os.open(root, _FOLDER)
        except NotADirectoryError as error:
            raise Damaged(f"{root} is not a folder.") from error
    try:
        for part in name.split("/") if name else ():
            before, fd = fd, _open(fd, part, _INSIDE, name, root)
            os.close(before)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _parent(root: Path, name: str) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder that `name` is in, and the name it has there."""
    folder, _, last = name.rpartition("/")
    with _folder(root, folder) as fd:
        yield fd, last


def _open(parent: int, part: str, flags: int, name: str, root: Path) -> int:
    """Open one step of `name`. Raises FileNotFoundError, Damaged for a link and what is not of its kind, DiskError."""
    with storage(root, let_pass=FileNotFoundError):
        try:
            return os.open(part, flags, 0o644, dir_fd=parent)
        except OSError as error:
            if error.errno not in _NOT_PLAIN:
                raise
            kind = "folder" if flags & os.O_DIRECTORY else "file"
            raise Damaged(f"{name} is not a plain {kind}; links are not followed.") from error


@contextmanager
def _scratch(
    root: Path, data: bytes, durable: bool = True, name: str | None = None
) -> Iterator[tuple[int, str, Inode]]:
    """A file of `data` on its way to its name: its folder's descriptor, its name there, its inode."""
    with _parent(root, name or f"{TMP}/{secrets.token_hex(8)}") as (folder, draft):
        try:
            fd = os.open(draft, _NEW, 0o644, dir_fd=folder)
            try:
                _write_all(fd, data)
                if durable:
                    os.fsync(fd)
                found = os.fstat(fd)
            finally:
                os.close(fd)
            yield folder, draft, (found.st_dev, found.st_ino)
        except (OSError, SessionUnreadable):
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise


def _inode(parent: int, name: str) -> Inode | None:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
