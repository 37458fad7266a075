"""Objects: files of tensors named by the sha256 of their bytes, written once and never rewritten."""

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints import files, limits
from checkpoints.errors import Damaged
from checkpoints.layout import OBJECTS, SHA256, is_object_folder, object_parts, object_sha256
from checkpoints.tensors import TensorSpec, compare, decode, encode, largest, read_header

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ObjectRef:
    """An object's sha256 (64 hex digits) and size in bytes: all that a manifest says about it."""

    sha256: str
    size: int

    def __post_init__(self) -> None:
        if not SHA256.fullmatch(self.sha256) or not 0 <= self.size <= limits.OBJECT:
            raise ValueError(f"not an object reference: {self.sha256!r}, {self.size!r} bytes")

    def to_json(self) -> dict[str, Any]:
        return {"sha256": self.sha256, "size": self.size}

    @property
    def name(self) -> str:
        """Its path inside the session directory."""
        return "/".join(object_parts(self.sha256))


def check_size(root: Path, ref: ObjectRef) -> None:
    """That the object is there, a plain file of its size, without reading it; raises Damaged."""
    with _found(ref), files.open_regular(root, *object_parts(ref.sha256)) as fd:
        _expect_size(ref, os.fstat(fd).st_size)


def check(
    root: Path, ref: ObjectRef, expected: Mapping[str, TensorSpec] | None = None
) -> dict[str, TensorSpec]:
    """Read the object piece by piece, size and hash checked, and then what its header says; raises Damaged.

    `expected` is as of `get`.
    """
    _refuse_larger(ref, expected)
    with _found(ref), files.open_regular(root, *object_parts(ref.sha256)) as fd:
        _expect_size(ref, os.fstat(fd).st_size)
        digest, head = hashlib.sha256(), bytearray()
        with files.storage(root):
            for chunk in files.chunks(fd, ref.size):
                digest.update(chunk)
                if len(head) < 8 + limits.HEADER:
                    head += chunk
    _expect_hash(ref, digest.hexdigest())
    found = read_header(bytes(head), ref.name)
    compare(found, expected, ref.name)
    return found


def get(root: Path, ref: ObjectRef, expected: Mapping[str, TensorSpec] | None = None) -> dict[str, "Tensor"]:
    """The object's tensors, on the CPU; hashed before anything in it is parsed; raises Damaged.

    With `expected`, exactly those names, shapes and dtypes; one that is larger than they can be is not read.
    """
    _refuse_larger(ref, expected)
    return decode(_read(root, ref), expected, ref.name)


def present(root: Path) -> Iterator[ObjectRef]:
    """The objects in the directory by name and actual size, in order of name; what else is there is passed over."""
    for folder in sorted(filter(is_object_folder, files.names(root, OBJECTS))):
        try:
            names = files.names(root, f"{OBJECTS}/{folder}")
        except (FileNotFoundError, Damaged):
            continue  # a link, or no folder: nothing behind it belongs to this session
        for name in sorted(names):
            if (sha256 := object_sha256(folder, name)) is not None:
                found = files.look(root, f"{OBJECTS}/{folder}/{name}")
                if found is not None and found.st_size <= limits.OBJECT:
                    yield ObjectRef(sha256, found.st_size)


def _read(root: Path, ref: ObjectRef) -> bytes:
    """The object's bytes, read once, size and hash checked; raises Damaged."""
    with _found(ref):
        data = files.read(root, *object_parts(ref.sha256), cap=ref.size)
    _expect_size(ref, len(data))
    _expect_hash(ref, hashlib.sha256(data).hexdigest())
    return data


class ObjectWriter:
    """Puts objects, from any thread, and remembers which of them no commit refers to yet."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._guard = threading.Lock()
        self._pending: set[str] = set()
        self._unsynced: set[str] = set()

    def put(self, tensors: Mapping[str, "Tensor"]) -> ObjectRef:
        """Write the tensors as an object, durable but for its folder's entry; raises DiskError."""
        data = encode(tensors)
        ref = ObjectRef(hashlib.sha256(data).hexdigest(), len(data))
        self._place(ref, lambda: files.replace(self._root, ref.name, data))
        return ref

    def take(self, source: Path, ref: ObjectRef) -> None:
        """Share another session's object, or copy it where files cannot have two names; like `put`."""

        def share() -> None:
            if not files.share(source, self._root, ref.name):
                files.replace(self._root, ref.name, _read(source, ref))

        self._place(ref, share)

    def _place(self, ref: ObjectRef, write: Callable[[], None]) -> None:
        # Pending first, looked for second: `discard` can then not remove it in between.
        with self._guard:
            self._pending.add(ref.sha256)
        folder = "/".join(object_parts(ref.sha256)[:2])
        if _size(self._root, ref) != ref.size:
            files.make_folder(self._root, folder)
            write()
        # Also when it was there: another thread may have put it a moment ago.
        with self._guard:
            self._unsynced |= {folder, OBJECTS}

    def sync(self) -> None:
        """Make the names of all objects put so far durable: the first step of a commit."""
        with self._guard:
            folders, self._unsynced = self._unsynced, set()
        for folder in sorted(folders):
            files.sync_folder(self._root, folder)

    def is_pending(self, ref: ObjectRef) -> bool:
        with self._guard:
            return ref.sha256 in self._pending

    def committed(self, refs: Iterable[ObjectRef]) -> None:
        with self._guard:
            self._pending.difference_update(ref.sha256 for ref in refs)

    def discard(self, refs: Iterable[ObjectRef], may: Callable[[], None]) -> None:
        """Remove objects that no manifest refers to, except those a coming commit may; `may` is asked before each."""
        for ref in refs:
            with self._guard:
                if ref.sha256 not in self._pending:
                    may()
                    files.remove(self._root, ref.name)


@contextmanager
def _found(ref: ObjectRef) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Damaged(f"{ref.name} is missing.") from None


def _refuse_larger(ref: ObjectRef, expected: Mapping[str, TensorSpec] | None) -> None:
    if expected is not None and ref.size > largest(expected):
        raise Damaged(f"{ref.name} is {ref.size:,} bytes, more than the {largest(expected):,} it may have.")


def _expect_size(ref: ObjectRef, size: int) -> None:
    if size != ref.size:
        what = "it was cut short" if size < ref.size else "something was added"
        raise Damaged(f"{ref.name} is {size:,} bytes, not {ref.size:,}: {what}.")


def _expect_hash(ref: ObjectRef, sha256: str) -> None:
    if sha256 != ref.sha256:
        raise Damaged(f"{ref.name} is damaged: its bytes do not match its name.")


def _size(root: Path, ref: ObjectRef) -> int | None:
    """The size of what bears the object's name, if that is a plain file."""
    found = files.look(root, ref.name)
    return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None
