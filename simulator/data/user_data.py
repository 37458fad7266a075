"""A user's own `.npz` of samples of any kind."""

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import DataError
from simulator.data.image_folders import damaged
from simulator.data.pictures import PIXELS, check_memory
from simulator.data.samples import (
    CHUNK,
    ArraySet,
    Images,
    Indices,
    LabeledSet,
    Reading,
    SampleSet,
    UnfittedSet,
    Values,
    joined,
)
from simulator.data.specs import ImageSpec, InputSpec, SignalSpec, TableSpec, TokenSpec

UNREADABLE_NPZ = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""The errors of numpy and zipfile. An encrypted file raises RuntimeError."""


class _Kept(NamedTuple):
    """The required form of an array of samples, its kinds of dtype in numpy's letters, and its orders of axes."""

    form: str
    dtypes: str
    orders: Mapping[int, Sequence[str]]
    """By the number of dimensions, the order in which samples are kept first."""


_SAMPLES = {
    "images": _Kept(
        "numbers from 0 to 255 or from 0 to 1, [n, h, w] or [n, h, w, c]",
        "buif",
        {3: ("nhw",), 4: ("nhwc", "nchw")},
    ),
    "tokens": _Kept("whole numbers [n, length]", "ui", {2: ("nl",)}),
    "signals": _Kept("numbers [n, channels, time]", "uif", {3: ("nct", "ntc")}),
    "features": _Kept("numbers [n, features]", "uif", {2: ("nf",)}),
}
"""The keys of sample arrays in an `.npz`, which has one of them."""
_FORMS: dict[str, Callable[[tuple[int, ...]], InputSpec]] = {
    "images": lambda shape: ImageSpec(shape[3] if len(shape) == 4 else 1, shape[1], shape[2]),
    "signals": lambda shape: SignalSpec(shape[1], shape[2]),
    "features": lambda shape: TableSpec(shape[1]),
}
"""The form of samples of a stored shape. That of tokens also follows from their vocabulary."""
_PARTS = ("train", "test", "val", "valid")
_FACTS = ("vocabulary", "padding", "axes")


class _Keys(NamedTuple):
    kind: str
    stored: Mapping[str, str]
    """The key in the file of each array: the samples, `labels`, the same with `test_` before it, and facts."""
    reading: Reading


def load(file: Path, old: bool) -> LabeledSet:
    """The samples of an `.npz`: docs/datasets.md has its keys. `old`: as older sessions. Raises DataError."""
    keys, arrays = _read_npz(file)
    name, stored = keys.kind, keys.stored
    if "labels" not in arrays:
        raise DataError(
            f"{file} has no array '{stored['labels']}'; it needs '{stored[name]}' and '{stored['labels']}'."
        )
    if (f"test_{name}" in arrays) != ("test_labels" in arrays):
        pair = f"'{stored[f'test_{name}']}' and '{stored['test_labels']}'"
        raise DataError(f"{file} has only one of {pair}; it needs both or neither.")
    parts = [part for part in ("", "test_") if f"{part}{name}" in arrays]
    samples, notes = _samples(file, keys, arrays, parts, old)
    labels = [
        _labels(file, stored[f"{part}labels"], arrays[f"{part}labels"], len(each))
        for part, each in zip(parts, samples, strict=True)
    ]
    noun = "images" if name == "images" else "samples"
    values = np.unique(labels[0])
    for other in labels[1:]:
        if (other.dtype.kind == "U") != (values.dtype.kind == "U"):
            raise DataError(
                f"{file}: only one of '{stored['labels']}' and '{stored['test_labels']}' has texts. Save both alike."
            )
        if unknown := np.setdiff1d(other, values).tolist():
            raise DataError(
                f"{file}: class {unknown[0]} of '{stored['test_labels']}' has no training {noun}."
            )
    pairs = [
        (each, np.searchsorted(values, own).astype(np.int64))
        for each, own in zip(samples, labels, strict=True)
    ]
    train, test = pairs[0], pairs[1] if len(pairs) > 1 else None
    classes = tuple(str(value) for value in values.tolist())
    reading = replace(keys.reading, notes=(*keys.reading.notes, *notes))
    if name == "images":
        return replace(joined(train, test, classes), reading=reading)
    if name == "tokens" and "vocabulary" not in arrays:
        tokens = np.concatenate(samples)
        own = np.concatenate([numbers for _, numbers in pairs])
        learn = partial(_learned_vocabulary, file, _number(file, arrays, "padding", 0))
        facts: dict[str, Any] = {"classes": classes, "test_from": len(samples[0]), "reading": reading}
        return UnfittedSet((tokens,), learn, ("tokens",), labels=own, **facts)
    if name == "tokens":
        vocabulary, padding = (_number(file, arrays, key, 0) for key in ("vocabulary", "padding"))
        spec: InputSpec = _token_spec(file, samples[0].shape[1], vocabulary, padding)
    else:
        spec = _FORMS[name](samples[0].shape)
    try:
        return replace(ArraySet.of(spec, train, test, classes), reading=reading)
    except DataError as odd:
        raise DataError(f"{file}: {odd}") from odd


def _learned_vocabulary(
    file: Path, padding: int, samples: UnfittedSet, held: Indices | None
) -> Callable[[UnfittedSet], SampleSet]:
    """The vocabulary of tokens: up to the largest at `held`, and padding, which larger ones become. None: of all."""
    (tokens,) = samples.columns
    largest = int(tokens.max()) if held is None else max(int(tokens[held].max()), padding)
    spec = _token_spec(file, tokens.shape[1], max(largest, 0) + 1, padding)

    def formed(each: UnfittedSet) -> SampleSet:
        (tokens,) = each.columns
        above = tokens >= spec.vocabulary
        others = Counter(
            token for row, odd in zip(tokens, above, strict=True) for token in {*row[odd].tolist()}
        )
        unknown = [(f"token {token}", count) for token, count in sorted(others.items())]
        try:
            return each.formed(np.where(above, padding, tokens), spec, unknown=unknown)
        except DataError as odd:
            raise DataError(f"{file}: {odd}") from odd

    return formed


def _keys(file: Path, names: Collection[str]) -> _Keys:
    """Which array is what. The keys are those of htfl-sim, of MedMNIST (`train_images`), or of Keras (`x_train`)."""
    lower = {name.lower(): name for name in names}
    found = {name: kind for kind in _SAMPLES for name in (kind, f"train_{kind}") if name in names}
    if "x_train" in lower:
        found[lower["x_train"]] = _kind_of(file, lower["x_train"])
    if len(found) != 1:
        known = ", ".join(f"'{name}'" for name in _SAMPLES)
        has = " and ".join(f"'{name}'" for name in [*found][:2])
        has = f"has both {has}" if found else f"has no array of samples among {sorted(names)[:5]}"
        raise DataError(f"{file} {has}; it needs 'labels' and one of {known}.")
    ((first, kind),) = found.items()
    pairs = {part: (f"{part}_{kind}", f"{part}_labels") for part in _PARTS}
    if first == kind:
        pairs = {"train": (kind, "labels"), "test": pairs["test"]}
    elif first != f"train_{kind}":
        pairs = {
            part: (lower.get(f"x_{part}", f"x_{part}"), lower.get(f"y_{part}", f"y_{part}"))
            for part in _PARTS
        }
    held = [part for part, pair in pairs.items() if {*pair} & {*names} and part != "train"]
    test = held[0] if held else "test"
    notes = []
    if test != "test":
        notes.append(f"'{pairs[test][0]}' is the own test set, because there is no '{pairs['test'][0]}'.")
    stored = dict(
        zip((kind, "labels", f"test_{kind}", "test_labels"), pairs["train"] + pairs[test], strict=True)
    )
    left_out = [
        (f"array '{name}'", f"'{pairs[test][0]}' is the own test set, and no other split is used")
        for part in held[1:]
        for name in pairs[part]
        if name in names
    ]
    meant = {*stored.values(), *_FACTS, *(name for part in held for name in pairs[part])}
    left_out += [(f"array '{name}'", "its key has no meaning") for name in sorted({*names} - meant)]
    return _Keys(kind, stored | {fact: fact for fact in _FACTS}, Reading(tuple(left_out), notes=tuple(notes)))


def _kind_of(file: Path, name: str) -> str:
    shape, dtype = _header_of(file, name)
    if len(shape) == 4 or (len(shape) == 3 and dtype == np.uint8):
        return "images"
    if len(shape) == 2 and dtype.kind == "f":
        return "features"
    fits = {kind: len(shape) in kept.orders and dtype.kind in kept.dtypes for kind, kept in _SAMPLES.items()}
    kinds = [*filter(fits.get, fits)]
    if not kinds:
        raise DataError(f"{file}: '{name}' is {dtype} {list(shape)}, and no kind of samples has this form.")
    raise DataError(
        f"{file}: '{name}' {dtype} {list(shape)} can be read in two ways: as {' or as '.join(kinds)}. Save it as "
        f"'{kinds[0]}' or '{kinds[1]}', and its labels as 'labels'."
    )


def _token_spec(file: Path, length: int, vocabulary: int, padding: int) -> TokenSpec:
    if padding >= vocabulary:
        raise DataError(f"{file}: 'padding' {padding} is outside the vocabulary of {vocabulary}.")
    return TokenSpec(length, vocabulary, padding)


def _number(file: Path, arrays: Mapping[str, Values], name: str, default: int) -> int:
    if (value := arrays.get(name)) is None:
        return default
    if value.size != 1 or not np.issubdtype(value.dtype, np.integer) or int(value.item()) < 0:
        raise DataError(
            f"{file}: '{name}' must be one whole number ≥ 0, not {value.dtype} {list(value.shape)}."
        )
    number: int = value.item()
    return number


def declared(file: Path) -> InputSpec | None:
    """The form of an `.npz`'s samples, without reading them. None if it cannot be determined."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
        keys = _keys(file, names)
        stored = keys.stored[keys.kind]
        shape, dtype = _header_of(file, stored)
        with np.load(file, allow_pickle=False) as archive:
            facts: dict[str, Values] = {each: archive[each] for each in _FACTS if each in names}
            order = _order(file, stored, keys.kind, shape, facts, old=False)
            shape = tuple(shape[order.index(axis)] for axis in _SAMPLES[keys.kind].orders[len(shape)][0])
            if keys.kind in _FORMS:
                return _FORMS[keys.kind](shape)
            check_memory(file, 0 if "vocabulary" in names else math.prod(shape) * dtype.itemsize)
            largest = -1 if "vocabulary" in names else int(archive[stored].max())
        vocabulary = _number(file, facts, "vocabulary", largest + 1)
        return TokenSpec(shape[1], vocabulary, _number(file, facts, "padding", 0))
    except (*UNREADABLE_NPZ, DataError, IndexError, TypeError):
        return None


def _read_npz(file: Path) -> tuple[_Keys, dict[str, Values]]:
    """The arrays by the names of htfl-sim. Their sizes are checked before any is read."""
    try:
        with file.open("rb") as stream:
            if stream.read(2) not in (b"PK", np.lib.format.MAGIC_PREFIX[:2]):
                raise DataError(f"{file} is no .npz file. Write it with numpy.savez.")
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(
                f"{file} is a single array; save the samples (such as 'images') and 'labels' with numpy.savez."
            )
        with archive:
            keys = _keys(file, archive.files)
            wanted = {name: stored for name, stored in keys.stored.items() if stored in archive.files}
            headers = {stored: _header_of(file, stored) for stored in wanted.values()}
            if objects := [stored for stored, (_, dtype) in headers.items() if dtype.hasobject]:
                raise DataError(
                    f"{file} cannot be read: '{objects[0]}' holds Python objects, and nothing is unpickled. Save it as "
                    "numbers, or texts as `labels.astype(str)`."
                )
            check_memory(file, sum(math.prod(shape) * dtype.itemsize for shape, dtype in headers.values()))
            return keys, {name: archive[stored] for name, stored in wanted.items()}
    except UNREADABLE_NPZ as unreadable:
        raise damaged(file, unreadable) from unreadable


def _header_of(file: Path, name: str) -> tuple[tuple[int, ...], "np.dtype[Any]"]:
    form = np.lib.format
    with zipfile.ZipFile(file) as archive, archive.open(f"{name}.npy") as member:
        is_first = form.read_magic(member) == (1, 0)
        shape, _, dtype = (form.read_array_header_1_0 if is_first else form.read_array_header_2_0)(member)
    return shape, dtype


def _samples(
    file: Path, keys: _Keys, arrays: Mapping[str, Values], parts: Sequence[str], old: bool
) -> tuple[list[Any], list[str]]:
    """The samples of each part as they are stored, and what was changed. Checks the rules for an `.npz`."""
    name, kept = keys.kind, _SAMPLES[keys.kind]
    found: dict[str, Values] = {}
    notes: list[str] = []
    for part in parts:
        samples, stored = arrays[f"{part}{name}"], keys.stored[f"{part}{name}"]
        if samples.ndim not in kept.orders or samples.size == 0 or samples.dtype.kind not in kept.dtypes:
            raise DataError(
                f"{file}: '{stored}' must be {kept.form}, not {samples.dtype} {list(samples.shape)}."
            )
        order, usual = _order(file, stored, name, samples.shape, arrays, old), kept.orders[samples.ndim][0]
        if order != usual:
            samples = np.ascontiguousarray(samples.transpose([order.index(axis) for axis in usual]))
            notes.append(f"'{stored}' has the axes [{_spelled(order)}], as 'axes' says.")
        if name == "images" and math.prod(samples.shape[1:3]) > PIXELS:
            raise DataError(
                f"{file}: '{stored}' has more than {PIXELS:,} pixels an image; make them smaller."
            )
        if name == "tokens" and samples.max() > np.iinfo(np.int32).max:
            raise DataError(
                f"{file}: '{stored}' has a token above {np.iinfo(np.int32).max:,}; number tokens from 0."
            )
        found[stored] = samples[..., None] if name == "images" and samples.ndim == 3 else samples
    first, *others = found
    for other in others:
        if found[other].shape[1:] != found[first].shape[1:]:
            differ = "size or channels" if name == "images" else "shape"
            raise DataError(f"{file}: '{other}' differ from '{first}' in {differ}.")
    if name == "images":
        notes += _make_bytes(file, found)
    return list(found.values()), notes


def _order(
    file: Path, stored: str, kind: str, shape: tuple[int, ...], facts: Mapping[str, Values], old: bool
) -> str:
    """The order of the axes, a letter for each. Raises DataError for two. `old`: older sessions took the first."""
    orders = _SAMPLES[kind].orders[len(shape)]
    if "axes" in facts:
        given = str(facts["axes"]).lower()
        if given not in orders:
            raise DataError(
                f"{file}: 'axes' is '{given}', and '{stored}' {list(shape)} takes {' or '.join(orders)}."
            )
        return given
    if old or not _is_ambiguous(kind, shape[1:]):
        return orders[0]
    sizes = ", ".join(map(str, shape[1:]))
    if len(orders) == 1:
        high, wide = shape[1:]
        raise DataError(
            f"{file}: '{stored}' [n, {sizes}] can be read in two ways: as gray images of {high}×{wide} pixels "
            f'([n, h, w]), or with channels and without another axis. Add `axes="nhw"` to the file for the first, or '
            "save it as [n, h, w, c]."
        )
    ways = []
    for order in orders:
        size = dict(zip(order, shape, strict=True))
        what = f"{size['h']}×{size['w']} pixels" if "h" in size else f"{size['t']} values"
        ways.append(f"[{_spelled(order)}] with {what} and {size['c']} channels")
    raise DataError(
        f"{file}: '{stored}' [n, {sizes}] can be read in two ways: {' or '.join(ways)}. Say which with an array "
        f"'axes' in the file: "
        f'`numpy.savez(file, **numpy.load(file), axes="{orders[0]}")`, or "{orders[1]}".'
    )


def _is_ambiguous(kind: str, sizes: tuple[int, ...]) -> bool:
    """Whether axes of these sizes can be meant in another order than the usual one.

    Images usually have 1 or 3 channels, and sometimes 2 or 4. Signals are usually longer than they have channels.
    """
    if kind == "signals":
        return sizes[0] >= sizes[1]
    if kind != "images":
        return False
    if len(sizes) == 2:
        return bool({1, 3} & {*sizes})
    first, last = sizes[0], sizes[2]
    return first in (1, 3) or not (last in (1, 3) or (last in (2, 4) and first > 4))


def _spelled(order: str) -> str:
    return ", ".join({"c": "channels", "t": "time"}.get(axis, axis) for axis in order)


def _make_bytes(file: Path, found: dict[str, Values]) -> list[str]:
    """Make images uint8 by the range of all parts, and say how. Raises DataError if it is unclear what is white."""
    if all(images.dtype == np.uint8 for images in found.values()):
        return []
    names = " and ".join(f"'{name}'" for name in found)
    if len({images.dtype.kind for images in found.values()}) > 1:
        raise DataError(f"{file}: {names} have different types. Save both as uint8.")
    floats = any(images.dtype.kind == "f" for images in found.values())
    highs = [float(images.max()) for images in found.values()]
    low, high = min(float(images.min()) for images in found.values()), max(highs)
    whole = not floats or all(
        np.array_equal(chunk, np.floor(chunk)) for images in found.values() for chunk in _chunks(images)
    )
    unit = floats and high <= 1
    if not (
        low >= 0 and (unit or (high <= 255 and (whole or high >= 128) and not (floats and min(highs) <= 1)))
    ):
        raise DataError(
            f"{file}: {names} have {'whole numbers' if whole else 'fractions'} from {low:g} to {high:g}, and images "
            "are read from 0 to 1 or from 0 to 255. Save them as uint8."
        )
    factor = 255 if unit else 1
    for name, images in found.items():
        made: Images = np.empty(images.shape, dtype=np.uint8)
        for target, chunk in zip(_chunks(made), _chunks(images), strict=True):
            target[...] = np.rint(chunk.astype(np.float64) * factor) if floats else chunk
        found[name] = made
    if unit:
        return [f"{names} have numbers from {low:g} to {high:g}. They are multiplied by 255 and rounded."]
    if floats:
        how = "as they are" if whole else "rounded to whole numbers"
        return [f"{names} have numbers from {low:g} to {high:g}. They are read from 0 to 255, {how}."]
    return []


def _chunks(images: Values) -> list[Values]:
    return [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]


def _labels(file: Path, stored: str, labels: Values, count: int) -> NDArray[Any]:
    """Labels int64 or texts [n]. They may be stored as [n, 1]."""
    if labels.shape == (count, 1):
        labels = labels[:, 0]
    if labels.ndim == 2 and len(labels) == count:
        raise DataError(
            f"{file}: '{stored}' has {labels.shape[1]} values for each sample, and a sample has one class. Of rows "
            "with a single one, save `labels.argmax(1)`."
        )
    if labels.dtype.kind not in "uiUS" or labels.shape != (count,):
        raise DataError(
            f"{file}: '{stored}' must be {count} whole numbers or texts, not {labels.dtype} {list(labels.shape)}. "
            "Of others, save `labels.astype(int)`."
        )
    if labels.dtype.kind == "S":
        try:
            labels = np.array([each.decode("utf-8") for each in labels.tolist()])
        except UnicodeDecodeError as wrong:
            raise DataError(
                f"{file}: '{stored}' has bytes that are not UTF-8 text. Save them as texts."
            ) from wrong
    return labels if labels.dtype.kind == "U" else labels.astype(np.int64)
