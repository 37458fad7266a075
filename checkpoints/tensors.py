"""Named tensors to safetensors bytes and back, with nothing in the bytes taken on trust."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkpoints import limits
from checkpoints.errors import Damaged

if TYPE_CHECKING:
    from torch import Tensor

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}
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


def decode(data: bytes, expected: Mapping[str, TensorSpec] | None, where: str) -> dict[str, "Tensor"]:
    """The tensors in `data`, in the order of their names; with `expected`, exactly those, in its order.

    Raises Damaged, naming `where`, before any tensor is made.
    """
    compare(read_header(data, where), expected, where)

    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = load(data)  # in an order that differs from process to process
    except SafetensorError as error:
        raise Damaged(f"{where} is not valid safetensors: {error}.") from error
    return {name: found[name] for name in (sorted(found) if expected is None else expected)}


def compare(found: Mapping[str, TensorSpec], expected: Mapping[str, TensorSpec] | None, where: str) -> None:
    """Raise Damaged, naming `where`, unless a header says what is expected, if anything is."""
    if expected is not None and found != expected:
        raise Damaged(f"{where} does not hold the expected tensors: {_difference(found, expected)}.")


def largest(expected: Mapping[str, TensorSpec]) -> int:
    """The most bytes that a file of these tensors can have, header included."""
    return 8 + limits.HEADER + sum(_size(spec) for spec in expected.values())


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


def _size(spec: TensorSpec) -> int:
    bits = spec.dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return math.prod(spec.shape) * (_BYTES.get(spec.dtype) or int(bits or 128) // 8)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) != len(dict(pairs)):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _specs(header: Any) -> dict[str, TensorSpec]:
    if not isinstance(header, dict) or len(header) > limits.TENSORS:
        raise ValueError(f"more than {limits.TENSORS:,} tensors, or no table of them")
    return {name: _spec(entry) for name, entry in header.items()}


def _spec(entry: Any) -> TensorSpec:
    shape = entry["shape"]
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError("a shape is not a list of sizes")
    return TensorSpec(tuple(shape), _DTYPES[entry["dtype"]])


def _difference(found: Mapping[str, TensorSpec], expected: Mapping[str, TensorSpec]) -> str:
    if missing := sorted(expected.keys() - found.keys()):
        return f"{missing[0]!r} is missing"
    if surplus := sorted(found.keys() - expected.keys()):
        return f"{surplus[0]!r} is not expected"
    name = next(name for name in sorted(expected) if found[name] != expected[name])
    got, want = found[name], expected[name]
    return f"{name!r} is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
