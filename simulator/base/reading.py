"""Open the files that users and sessions name: regular ones, up to a size. A pipe or a device may never end."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from checkpoints import limits
from simulator.base.errors import ConfigError, HtflError
from simulator.base.units import size

MOST = 4 << 20
"""Bytes of a file of settings or code."""
TABLE = 32 << 20
"""Bytes of a table of clients. 10,000 clients with 100 intervals each take 16 MB."""
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def read_bytes(path: Path, name: str = "", most: int = MOST, error: type[HtflError] = ConfigError) -> bytes:
    """The contents of a regular file of at most `most` bytes. `name` says in errors what it is. Raises `error`."""
    with _opened(path, name or str(path), most, error) as file:
        content = file.read(most + 1)
    if len(content) > most:  # it grew, or the system does not say its size
        raise _too_large(name or str(path), most, error)
    return content


def sha256_of(path: Path, name: str = "", error: type[HtflError] = ConfigError) -> str:
    """The SHA-256 (hex) of a regular file of at most 8 GiB. Raises `error`."""
    with _opened(path, name or str(path), limits.OBJECT, error) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_irregular(path: Path, name: str = "", error: type[HtflError] = ConfigError) -> None:
    """Raise `error` unless a library may open this file: a regular one of at most 8 GiB."""
    with _opened(path, name or str(path), limits.OBJECT, error):
        return


@contextmanager
def _opened(path: Path, name: str, most: int, error: type[HtflError]) -> Iterator[BufferedReader]:
    try:
        _refuse(path.stat(), name, most, error)  # opening a device may already have an effect
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123
            _refuse(os.fstat(descriptor), name, most, error)
            yield file
    except (OSError, ValueError) as unreadable:  # ValueError: a null character in the path
        raise error(f"cannot read {name}: {getattr(unreadable, 'strerror', unreadable)}.") from unreadable


def _refuse(facts: os.stat_result, name: str, most: int, error: type[HtflError]) -> None:
    if kind := _KINDS.get(stat.S_IFMT(facts.st_mode)):
        raise error(f"cannot read {name}: it is {kind}. Name a regular file.")
    if stat.S_ISREG(facts.st_mode) and facts.st_size > most:
        raise _too_large(name, most, error)


def _too_large(name: str, most: int, error: type[HtflError]) -> HtflError:
    return error(f"{name} is larger than {size(most)}, the most that is read. Name a smaller file.")
