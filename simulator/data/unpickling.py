"""A program that reads the pickled arrays of PFLlib's files without running anything that they name.

It needs the standard library alone. From stdin, it takes the bytes of `.npz` files, each after its length (8 bytes,
little-endian). Of each, it writes a line of JSON to stdout, {"error": …} or {"arrays": …, "left_out": …}, and then the
arrays' bytes. Arrays are built from their bytes here, because a pickle can make numpy's own functions read any memory.
"""

import array
import ast
import encodings.cp437  # noqa: F401  # zipfile imports it with the first file, and none can be opened then
import io
import json
import math
import pickle
import re
import resource
import struct
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

MEMORY = 2 << 30
"""Bytes of this process."""
SECONDS = 60
"""Seconds of computation for each file."""
MEMBER = "data.npy"
_NUMBERS = re.compile(r"[iu][1248]|f[248]")
_ORDERS = {"<": "<", "=": "<", "|": "|", ">": ">"}
_HEADER = 10_000
_SIDES, _LONGEST = 8, 1 << 40


class Refused(Exception):
    """A file has something other than numbers in arrays, lists, and dictionaries."""


class Plain(NamedTuple):
    """An array as its bytes, in rows ('C') or columns ('F')."""

    dtype: str
    shape: tuple[int, ...]
    order: str
    data: bytes


class _Type:
    """In place of numpy.dtype: numbers or objects."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not (_NUMBERS.fullmatch(code) or code in ("O", "O4", "O8")):
            raise Refused(f"an array of the type {code!r}")
        self.code, self.order = code, "<"

    def __setstate__(self, state: Any) -> None:
        _, order, *parts = state[:5]
        if parts != [None, None, None]:
            raise Refused("an array of records")
        self.order = _ORDERS[order]

    @property
    def size(self) -> int:
        return int(self.code[1])

    @property
    def name(self) -> str:
        return f"{self.order}{self.code}"


class _Array:
    """In place of numpy.ndarray. `values` are the bytes of numbers, or a list of objects."""

    def __init__(self, *_: object) -> None:
        self.type, self.order = _Type("O"), "C"
        self.shape: tuple[int, ...] = (0,)
        self.values: list[Any] | bytes = []

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, is_fortran, values = state
        if not isinstance(kind, _Type) or not isinstance(shape, tuple):
            raise Refused("an array without type or shape")
        fits = len(shape) <= _SIDES and all(type(side) is int and 0 <= side < _LONGEST for side in shape)
        count = math.prod(shape) if fits else -1
        held = isinstance(values, list) if kind.code[0] == "O" else isinstance(values, bytes)
        if not held or len(values) != count * (1 if isinstance(values, list) else kind.size):
            raise Refused("an array whose shape is not that of its values")
        self.type, self.shape, self.order, self.values = kind, shape, "F" if is_fortran else "C", values


def _scalar(kind: _Type, value: bytes) -> int | float:
    """In place of numpy's function for a single number."""
    letter = {"i": "bhiq", "u": "BHIQ", "f": " efd"}[kind.code[0]]["1248".index(kind.code[1])]
    found: int | float = struct.unpack(kind.order.replace("|", "<") + letter, value)[0]
    return found


_KNOWN: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}
for _core in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _KNOWN |= {(_core, "_reconstruct"): _Array, (_core, "scalar"): _scalar}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise Refused(f"{module}.{name}")
        return _KNOWN[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise Refused("an object of another file")


def read(content: bytes) -> tuple[dict[str, Plain], list[str]]:
    """The arrays x, y, and the `lengths` of texts in a file, and the names of everything else in it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        if MEMBER not in names:
            raise Refused("no array 'data'")
        with archive.open(MEMBER) as member:
            data = _objects(member)
    if not isinstance(data, dict) or not {"x", "y"} <= data.keys():
        raise Refused("data other than a dictionary of 'x' and 'y'")
    left_out = [str(key) for key in data if key not in ("x", "y")]
    left_out += [name.removesuffix(".npy") for name in names if name != MEMBER]
    return _samples(data["x"]) | {"y": _labels(data["y"])}, [name[:100] for name in left_out[:100]]


def _objects(member: Any) -> object:
    magic = member.read(8)
    if magic[:6] != b"\x93NUMPY":
        raise Refused("an array without numpy's header")
    header = member.read(int.from_bytes(member.read(2 if magic[6] == 1 else 4), "little"))
    if len(header) > _HEADER or "O" not in ast.literal_eval(header.decode("latin-1").strip())["descr"]:
        raise Refused("an array 'data' without a dictionary")
    found = _Unpickler(member).load()
    return found.values[0] if isinstance(found, _Array) and found.shape == () else found


def _samples(x: object) -> dict[str, Plain]:
    if isinstance(x, list) and x and all(isinstance(each, _Array) for each in x):
        forms = {(each.type.name, each.shape, each.order) for each in x}
        if len(forms) == 1 and not isinstance(x[0].values, list):
            ((name, shape, order),) = forms
            if order == "C" and 0 not in shape:
                return {"x": Plain(name, (len(x), *shape), order, b"".join(each.values for each in x))}
    if not isinstance(x, _Array):
        raise Refused(f"'x' of the type {_named(x)}")
    if not isinstance(x.values, list):
        return {"x": _plain(x)}
    if len(x.shape) != 2 or x.shape[1] != 2 or x.order != "C":
        raise Refused("'x' as an array of Python objects other than texts with their lengths")
    texts, lengths = x.values[::2], x.values[1::2]
    sizes = {len(text) if isinstance(text, list) else -1 for text in texts}
    if len(sizes) > 1 or sizes & {0, -1}:
        raise Refused("texts in 'x' that are no lists of one length")
    tokens = array.array("q")
    for text in texts:
        tokens.extend(_whole(text, "x"))
    shape = len(texts), *sizes
    return {"x": _of(tokens, shape), "lengths": _of(_whole(lengths, "x"), (len(lengths),))}


def _labels(y: object) -> Plain:
    if isinstance(y, _Array) and not isinstance(y.values, list):
        return _plain(y)
    values = y.values if isinstance(y, _Array) else y
    if not isinstance(values, list):
        raise Refused(f"'y' of the type {_named(y)}")
    return _of(_whole(values, "y"), (len(values),))


def _whole(values: list[Any], key: str) -> "array.array[int]":
    if odd := [value for value in values if type(value) is not int]:
        raise Refused(f"'{key}' with the type {_named(odd[0])} among whole numbers")
    return array.array("q", values)


def _of(values: "array.array[int]", shape: tuple[int, ...]) -> Plain:
    native = "<i8" if sys.byteorder == "little" else ">i8"
    return Plain(native, shape, "C", values.tobytes())


def _plain(found: _Array) -> Plain:
    assert isinstance(found.values, bytes)  # the type is one of numbers
    if not found.shape or 0 in found.shape[1:]:
        raise Refused("an array without samples")
    return Plain(found.type.name, found.shape, found.order, found.values)


def _named(value: object) -> str:
    return type(value).__name__.strip("_").lower()


def main(source: BinaryIO, target: BinaryIO) -> None:
    with suppress(ValueError, OSError):  # macOS knows no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        resource.setrlimit(limit, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    while size := source.read(8):
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime) + SECONDS, hard))
        arrays: dict[str, Plain] = {}
        try:
            arrays, left_out = read(source.read(int.from_bytes(size, "little")))
            forms = {name: each[:3] for name, each in arrays.items()}
            said: dict[str, Any] = {"arrays": forms, "left_out": left_out}
        except Refused as refused:
            said = {"error": f"has {refused}"}
        except MemoryError:
            said = {"error": f"needs more than {MEMORY >> 30} GiB of memory"}
        except Exception as damaged:  # pickle's and zipfile's have no common class
            said = {"error": f"is damaged: {type(damaged).__name__}: {damaged}"[:1000]}
        target.write(json.dumps(said).encode() + b"\n")
        for each in arrays.values():
            target.write(each.data)
        target.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
