"""Files that grow line by line: written by one process that knows each byte of them, read without limit of length."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from checkpoints import files
from checkpoints.errors import Damaged
from checkpoints.schema import Prefix


class LineWriter:
    """Adds lines to a file that nobody else writes, and keeps the hash of all its bytes.

    What another program did to the file shows in its size: nothing is added then.
    """

    def __init__(self, root: Path, name: str) -> None:
        """Reads the file once; raises FileNotFoundError, Damaged or DiskError."""
        self._name = name
        self._root = root
        self._hash = hashlib.sha256()
        self._unsynced = False
        with files.open_regular(root, name) as fd, files.storage(root):
            for chunk in files.chunks(fd, os.fstat(fd).st_size):
                self._hash.update(chunk)
            self._size = os.fstat(fd).st_size

    @property
    def prefix(self) -> Prefix:
        """The whole file."""
        return Prefix(self._size, self._hash.hexdigest())

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._size

    def check(self) -> None:
        """Raise SessionUnreadable when another program changed the file."""
        files.append(self._root, self._name, b"", at=self._size, durable=False)

    def append(self, line: bytes, *, durable: bool) -> None:
        files.append(self._root, self._name, line, at=self._size, durable=durable)
        self._unsynced = not durable
        self._size += len(line)
        self._hash.update(line)

    def sync(self) -> None:
        """Flush what was added."""
        if self._unsynced:
            files.sync(self._root, self._name)
            self._unsynced = False


def split_lines(chunks: Iterable[bytes], cap: int, where: str) -> Iterator[bytes]:
    """The lines in these chunks, each with its end, the last one perhaps without; raises Damaged for one over `cap`."""
    rest = bytearray()
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for line in whole:
            rest += line + b"\n"
            if len(rest) > cap:
                break
            yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > cap:
            raise Damaged(f"{where} has a line of more than the {cap:,} bytes it may have.")
    if rest:
        yield bytes(rest)
