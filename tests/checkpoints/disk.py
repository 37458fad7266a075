"""Stand-ins for the `os` that `checkpoints.files` writes through: one that fails, one that loses power."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Failing:
    """`os`, except that the n-th call of one of `names` (from 0) raises the error instead."""

    def __init__(self, names: set[str], nth: int, code: int) -> None:
        self._names, self._left, self._code = names, nth, code
        self.struck = False

    @property
    def left(self) -> int:
        """How many more of the calls there are before the one that fails."""
        return self._left

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(real) if name in self._names else real

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == -1:
                self.struck = True
                raise OSError(self._code, os.strerror(self._code))
            return real(*args, **options)

        return call


class PowerCut(BaseException):
    """The machine is gone: nothing of the program runs on."""


class Recording:
    """`os`, writing down which bytes and names were flushed, and cutting the power before the n-th change.

    `crash_into` then lays out a disk on which everything flushed is there and of everything else `choose`
    decides, name by name and file by file: the strictest disk that keeps its promises.
    """

    def __init__(self, root: Path, nth: int) -> None:
        self._root, self._left = root, nth
        self._fds: dict[int, tuple[int, str]] = {}
        self._inodes: dict[int, int] = {}
        self._flushed: dict[int, bytes] = {}
        self._written: dict[int, bytes] = {}
        self._names: dict[str, dict[str, int | None]] = {}
        self._kept_names: dict[str, dict[str, int | None]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise PowerCut

    def _at(self, path: Any) -> tuple[str, str]:
        return str(Path(path).parent), Path(path).name

    def _name(self, path: Any, inode: int | None) -> None:
        folder, name = self._at(path)
        self._names.setdefault(folder, {})[name] = inode

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not flags & (os.O_WRONLY | os.O_DIRECTORY) or dir_fd is not None:
            return os.open(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            self._change()
        fd = os.open(path, flags, mode)
        number = os.fstat(fd).st_ino
        if flags & os.O_CREAT:
            # Not the inode's number: that is given again once its file is gone.
            inode = self._inodes[number] = len(self._written)
            self._name(path, inode)
            self._written[inode] = self._flushed[inode] = b""
        self._fds[fd] = -1 if flags & os.O_DIRECTORY else self._inodes[number], str(path)
        return fd

    def close(self, fd: int) -> None:
        self._fds.pop(fd, None)
        os.close(fd)

    def write(self, fd: int, data: Any) -> int:
        self._change()
        count = os.write(fd, data)
        self._written[self._fds[fd][0]] += bytes(data[:count])
        return count

    def fsync(self, fd: int) -> None:
        self._change()
        os.fsync(fd)
        inode, path = self._fds[fd]
        if inode in self._written:
            self._flushed[inode] = self._written[inode]
        else:
            self._kept_names[path] = dict(self._names.get(path, {}))

    def mkdir(self, path: Any) -> None:
        existed = Path(path).exists()
        self._change()
        os.mkdir(path)  # noqa: PTH102
        if not existed:
            self._name(path, None)

    def replace(self, source: Any, target: Any) -> None:
        self._change()
        os.replace(source, target)  # noqa: PTH105
        folder, name = self._at(source)
        self._name(target, self._names[folder].pop(name))

    def link(self, source: Any, target: Any, **options: Any) -> None:
        self._change()
        os.link(source, target, **options)
        folder, name = self._at(source)
        inode = self._names.get(folder, {}).get(name)
        if inode is None:  # a file from before, elsewhere: all of it is on the disk
            inode = len(self._written)
            self._written[inode] = self._flushed[inode] = Path(source).read_bytes()
        self._name(target, inode)

    def unlink(self, path: Any) -> None:
        self._change()
        os.unlink(path)  # noqa: PTH108
        folder, name = self._at(path)
        self._names.get(folder, {}).pop(name, None)

    @property
    def left(self) -> int:
        """How many more changes there are before the power is cut."""
        return self._left

    def crash_into(self, target: Path, choose: Callable[[str], int], folder: Path | None = None) -> None:
        """Lay out what the disk holds of a folder, by default the whole root.

        `choose(what)` answers 0 (lost), 1 (there) or 2 (garbled, for bytes).
        """
        self._lay_out(str(folder or self._root), target, choose)

    def _lay_out(self, folder: str, target: Path, choose: Callable[[str], int]) -> None:
        target.mkdir()
        now, kept = self._names.get(folder, {}), self._kept_names.get(folder, {})
        for name in sorted({*now, *kept}):
            # A name changed and not flushed is as it was or as it is.
            side = (kept, now)[choose(f"name {name}") % 2]
            if name not in side:
                continue
            inode = side[name]
            if inode is None:
                self._lay_out(f"{folder}/{name}", target / name, choose)
            else:
                (target / name).write_bytes(self._bytes(inode, name, choose))

    def _bytes(self, inode: int, name: str, choose: Callable[[str], int]) -> bytes:
        flushed, written = self._flushed[inode], self._written[inode]
        rest = written[len(flushed) :]
        match choose(f"bytes {name}") if rest else 0:
            case 0:
                return flushed
            case 1:
                return written
            case _:
                return flushed + rest[: len(rest) // 2] + b"\0" * (len(rest) % 7)
