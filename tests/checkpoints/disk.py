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
        self._open: dict[int, int] = {}
        """Which file or folder a descriptor is of, by the real inode's number."""
        self._files: dict[int, int] = {}
        """Number → file; not the number itself, which is given again once its file is gone."""
        self._flushed: dict[int, bytes] = {}
        self._written: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        """Folder → name → file, or folder as its number with a minus."""
        self._kept_names: dict[int, dict[str, int]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise PowerCut

    def _place(self, path: Any, dir_fd: int | None) -> tuple[int, str]:
        """The folder that a path is in, and its name there."""
        if dir_fd is not None:
            return self._open[dir_fd], str(path)
        return Path(path).parent.stat().st_ino, Path(path).name

    def _name(self, folder: int, name: str, what: int) -> None:
        self._names.setdefault(folder, {})[name] = what

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        is_new = flags & os.O_CREAT and not _exists(path, dir_fd)
        if is_new:
            self._change()
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
        self._open[fd] = number = os.fstat(fd).st_ino
        if is_new:
            file = self._files[number] = len(self._written)
            self._name(*self._place(path, dir_fd), file)
            self._written[file] = self._flushed[file] = b""
        return fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        os.close(fd)

    def write(self, fd: int, data: Any) -> int:
        self._change()
        count = os.write(fd, data)
        self._written[self._files[self._open[fd]]] += bytes(data[:count])
        return count

    def ftruncate(self, fd: int, size: int) -> None:
        self._change()
        os.ftruncate(fd, size)
        file = self._files[self._open[fd]]
        self._written[file] = self._written[file][:size]

    def fsync(self, fd: int) -> None:
        self._change()
        os.fsync(fd)
        number = self._open[fd]
        if number in self._names or number not in self._files:
            self._kept_names[number] = dict(self._names.get(number, {}))
        else:
            self._flushed[self._files[number]] = self._written[self._files[number]]

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        is_new = not _exists(path, dir_fd)
        if is_new:
            self._change()
        os.mkdir(path, mode, dir_fd=dir_fd)
        number = os.stat(path, dir_fd=dir_fd).st_ino
        self._names[number], self._kept_names[number] = {}, {}
        self._files.pop(number, None)
        self._name(*self._place(path, dir_fd), -number)

    def rename(self, source: Any, target: Any) -> None:
        self._change()
        folder, name = self._place(source, None)
        place = self._place(target, None)
        os.rename(source, target)  # noqa: PTH104
        self._name(*place, self._names[folder].pop(name))

    def replace(self, source: Any, target: Any, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self._change()
        os.replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._name(self._open[dst_dir_fd], target, self._names[self._open[src_dir_fd]].pop(source))

    def link(self, source: Any, target: Any, *, src_dir_fd: int, dst_dir_fd: int, **options: Any) -> None:
        self._change()
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **options)
        file = self._names.get(self._open[src_dir_fd], {}).get(source)
        if file is None:  # a file from before, elsewhere: all of it is on the disk
            file = len(self._written)
            with os.fdopen(os.open(target, os.O_RDONLY, dir_fd=dst_dir_fd), "rb") as before:
                self._written[file] = self._flushed[file] = before.read()
        self._name(self._open[dst_dir_fd], target, file)

    def unlink(self, path: Any, *, dir_fd: int) -> None:
        self._change()
        os.unlink(path, dir_fd=dir_fd)
        self._names.get(self._open[dir_fd], {}).pop(path, None)

    @property
    def left(self) -> int:
        """How many more changes there are before the power is cut."""
        return self._left

    def holds(self, folder: Path) -> bool:
        """Whether the folder had come to be when the power was cut; whether it is on the disk is another matter."""
        try:
            return self._number(folder) != 0
        except (KeyError, FileNotFoundError):
            return False

    def crash_into(self, target: Path, choose: Callable[[str], int], folder: Path | None = None) -> None:
        """Lay out what the disk holds of a folder, by default the whole root.

        `choose(what)` answers 0 (lost), 1 (there) or 2 (garbled, for bytes).
        """
        if self.holds(folder or self._root):
            self._lay_out(self._number(folder or self._root), target, choose)
        else:
            target.mkdir()

    def _number(self, folder: Path) -> int:
        """The number of a folder in or above the root, by the names that were given."""
        if folder not in (self._root, *self._root.parents):
            return -self._names[self._number(folder.parent)][folder.name]
        if folder == self._root and (
            made := self._names.get(folder.parent.stat().st_ino, {}).get(folder.name)
        ):
            return -made
        return folder.stat().st_ino

    def _lay_out(self, folder: int, target: Path, choose: Callable[[str], int]) -> None:
        target.mkdir()
        now, kept = self._names.get(folder, {}), self._kept_names.get(folder, {})
        for name in sorted({*now, *kept}):
            # A name changed and not flushed is as it was or as it is.
            side = (kept, now)[choose(f"name {name}") % 2]
            if name not in side:
                continue
            what = side[name]
            if what < 0:
                self._lay_out(-what, target / name, choose)
            else:
                (target / name).write_bytes(self._bytes(what, name, choose))

    def _bytes(self, file: int, name: str, choose: Callable[[str], int]) -> bytes:
        flushed, written = self._flushed[file], self._written[file]
        if not written.startswith(flushed):  # it was made shorter
            return (flushed, written)[choose(f"bytes {name}") % 2]
        rest = written[len(flushed) :]
        match choose(f"bytes {name}") if rest else 0:
            case 0:
                return flushed
            case 1:
                return written
            case _:
                return flushed + rest[: len(rest) // 2] + b"\0" * (len(rest) % 7)


def _exists(path: Any, dir_fd: int | None) -> bool:
    try:
        os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
