"""Objects: files of named tensors, each named by the sha256 of its bytes, written once; nothing in them is trusted."""

import hashlib
import json
import math
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints import files, limits
from checkpoints.files import Damaged
from checkpoints.layout import OBJECTS, is_object_folder, object_parts, object_sha256
from checkpoints.schema import ObjectRef

if TYPE_CHECKING:
    from torch import Tensor


_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip
_BYTES = {"bool": 1, "bfloat16": 2}
"""Bytes of a value, where its dtype does not end in their number of bits."""


@dataclass(frozen=True)
class TensorSpec:
    """What a tensor must look like: its shape, and its dtype by torch's name ("float32")."""

    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, tensor: "Tensor") -> "TensorSpec":
        return cls(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def encode(tensors: Mapping[str, "Tensor"]) -> bytes:
    """The tensors as safetensors bytes: same names and values, same bytes, wherever the tensors live."""
    from safetensors.torch import save

    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        here = tensor.detach().to("cpu").contiguous()
        # safetensors refuses names that share memory, as tied weights do.
        if here.untyped_storage().data_ptr() in storages:
            here = here.clone()
        storages.add(here.untyped_storage().data_ptr())
        plain[name] = here
    data = bytes(save(plain))
    limits.check_count(len(plain), limits.TENSORS, "A state", "tensors")
    header = int.from_bytes(data[:8], "little")
    limits.check_count(header, limits.HEADER, "A state", "bytes of names and shapes")
    limits.check_count(len(data), limits.OBJECT, "A state", "bytes")
    return data


def largest(expected: Mapping[str, TensorSpec]) -> int:
    """The most bytes that a file of these tensors can have, header included."""

    def size(spec: TensorSpec) -> int:
        bits = spec.dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
        return math.prod(spec.shape) * (_BYTES.get(spec.dtype) or int(bits or 128) // 8)

    return 8 + limits.HEADER + sum(map(size, expected.values()))


def read_header(data: bytes, where: str) -> dict[str, TensorSpec]:
    """Names, shapes and dtypes from the header, within the caps; raises Damaged, naming `where`."""
    length = int.from_bytes(data[:8], "little")
    if length > limits.HEADER:
        raise Damaged(f"{where} claims a header of {length:,} bytes; at most {limits.HEADER:,} are read.")
    try:
        header: Any = json.loads(data[8 : 8 + length], object_pairs_hook=_unique)
        return _specs(header)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(f"{where} has an unreadable header: {error}.") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) != len(dict(pairs)):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _specs(header: Any) -> dict[str, TensorSpec]:
    if not isinstance(header, dict) or len(header) > limits.TENSORS:
        raise ValueError(f"more than {limits.TENSORS:,} tensors, or no table of them")
    shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}
    if not all(type(side) is int and side >= 0 for shape in shapes.values() for side in shape):
        raise ValueError("a shape is not a list of sizes")
    return {name: TensorSpec(shape, _DTYPES[header[name]["dtype"]]) for name, shape in shapes.items()}


def _difference(found: Mapping[str, TensorSpec], expected: Mapping[str, TensorSpec]) -> str:
    if missing := sorted(expected.keys() - found.keys()):
        return f"{missing[0]!r} is missing"
    if surplus := sorted(found.keys() - expected.keys()):
        return f"{surplus[0]!r} is not expected"
    name = next(name for name in sorted(expected) if found[name] != expected[name])
    got, want = found[name], expected[name]
    return f"{name!r} is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"


def check_size(root: Path, ref: ObjectRef) -> None:
    """That the object is there, a plain file of its size, without reading it; raises Damaged."""
    with _found(ref), files.open_regular(root, ref.name) as fd:
        _expect_size(ref, os.fstat(fd).st_size)


def check(
    root: Path, ref: ObjectRef, expected: Mapping[str, TensorSpec] | None = None
) -> dict[str, TensorSpec]:
    """Read the object in pieces and check size, hash, and what its header says; `expected` and errors as of `get`."""
    _refuse_larger(ref, expected)
    with _found(ref), files.open_regular(root, ref.name) as fd:
        _expect_size(ref, os.fstat(fd).st_size)
        digest, head = hashlib.sha256(), bytearray()
        with files.storage(root):
            for chunk in files.chunks(fd, ref.size):
                digest.update(chunk)
                if len(head) < 8 + limits.HEADER:
                    head += chunk
    _expect_hash(ref, digest.hexdigest())
    found = read_header(bytes(head), ref.name)
    _expect_tensors(ref, found, expected)
    return found


def get(root: Path, ref: ObjectRef, expected: Mapping[str, TensorSpec] | None = None) -> dict[str, "Tensor"]:
    """The object's tensors, on the CPU, in the order of their names; hashed before anything in it is parsed.

    With `expected`, exactly those names, shapes and dtypes, in its order; a larger one is not read. Raises Damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    _refuse_larger(ref, expected)
    data = _read(root, ref)
    _expect_tensors(ref, read_header(data, ref.name), expected)
    try:
        found = load(data)  # in an order that differs from process to process
    except SafetensorError as error:
        raise Damaged(f"{ref.name} is not valid safetensors: {error}.") from error
    return {name: found[name] for name in (sorted(found) if expected is None else expected)}


def present(root: Path) -> Iterator[ObjectRef]:
    """The objects in the directory by name and actual size, in order of name; what else is there is passed over."""
    for folder in sorted(filter(is_object_folder, files.names(root, OBJECTS))):
        for name in files.listed(
            root, f"{OBJECTS}/{folder}"
        ):  # behind a link, nothing belongs to this session
            if (sha256 := object_sha256(folder, name)) is not None:
                found = files.look(root, f"{OBJECTS}/{folder}/{name}")
                if found is not None and found.st_size <= limits.OBJECT:
                    yield ObjectRef(sha256, found.st_size)


def _read(root: Path, ref: ObjectRef) -> bytes:
    with _found(ref):
        data = files.read(root, ref.name, cap=ref.size)
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
        found = files.look(self._root, ref.name)
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != ref.size:
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


def _expect_tensors(
    ref: ObjectRef, found: Mapping[str, TensorSpec], expected: Mapping[str, TensorSpec] | None
) -> None:
    if expected is not None and found != expected:
        raise Damaged(f"{ref.name} does not hold the expected tensors: {_difference(found, expected)}.")
