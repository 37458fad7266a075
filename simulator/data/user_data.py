"""A user's own data: images in class folders, such folders by domain, or an `.npz` of samples of any kind."""

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from simulator.base.errors import DataError
from simulator.data.images import Images, ImageSet, joined
from simulator.data.pictures import PIXELS, check_memory, opened
from simulator.data.samples import ArraySet, Indices, LabeledSet, Labels, SampleSet, UnfittedSet, Values
from simulator.data.specs import ImageSpec, InputSpec, SignalSpec, TableSpec, TokenSpec

GREY_MODES = ("1", "L", "LA")
DEEP_MODES = ("I", "F")
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
UNREADABLE_NPZ = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""The errors of numpy and zipfile. An encrypted file raises RuntimeError."""


class _Kept(NamedTuple):
    """The required form of an array of samples, and the dtype in which it is stored."""

    form: str
    dimensions: tuple[int, ...]
    dtype: type


_SAMPLES = {
    "images": _Kept("uint8 [n, h, w] or [n, h, w, c]", (3, 4), np.uint8),
    "tokens": _Kept("whole numbers [n, length]", (2,), np.int32),
    "signals": _Kept("numbers [n, channels, time]", (3,), np.float32),
    "features": _Kept("numbers [n, features]", (2,), np.float32),
}
"""The keys of sample arrays in an `.npz`, which has one of them."""


def load(path: Path) -> LabeledSet:
    """The samples at `path`: a folder with one folder of images per class, or an `.npz`.

    There may be one folder per domain around the class folders, each with the same classes. A folder may contain
    `train/` and `test/`, each with either layout. An `.npz` contains one array of samples and `labels` [n], and may
    contain a test set: docs/datasets.md has the keys. Raises DataError for missing, damaged, or unexpected contents.
    """
    try:
        return _load_folder(path) if path.is_dir() else _load_npz(path)
    except OSError as unreadable:
        raise _damaged(Path(unreadable.filename or path), unreadable) from unreadable


def _load_folder(folder: Path) -> UnfittedSet:
    has_pair = (folder / "train").is_dir() and (folder / "test").is_dir()
    train_folder, test_folder = (folder / "train", folder / "test") if has_pair else (folder, None)
    domains = _domain_names(train_folder)
    classes = _class_names(train_folder / domains[0] if domains else train_folder)
    train = [_image_files(place, classes) for place in _places(train_folder, domains)]
    for place, files in zip(_places(train_folder, domains), train, strict=True):
        if without := set(range(len(classes))) - {label for _, label in files}:
            where = " in every domain" if domains else ""
            raise DataError(
                f"{place / classes[min(without)]} has no images; add some or remove the folder{where}."
            )
    if test_folder and domains and (other := set(_folders(test_folder)) ^ set(domains)):
        raise DataError(
            f"{train_folder} and {test_folder} have different domains, such as {min(other)}; give both the same."
        )
    test = [_image_files(place, classes) for place in _places(test_folder, domains)] if test_folder else []
    everything = [entry for part in train + test for entry in part]
    labels = np.array([label for _, label in everything], dtype=np.int64)
    paths = np.empty(len(everything), dtype=object)
    paths[:] = [file for file, _ in everything]
    numbers = np.tile(np.arange(len(domains)), 2)[: len(train + test)]
    domain = np.repeat(numbers, [len(part) for part in train + test]) if domains else None
    count = sum(len(part) for part in train)
    gray = _gray(paths.tolist())
    return UnfittedSet(
        (paths, gray), _learned_channels, labels, classes, count, domains=domains, domain=domain
    )


def _learned_channels(samples: UnfittedSet, held: Indices | None) -> Callable[[UnfittedSet], SampleSet]:
    """The channels of images: one if most images at `held` are gray, in every domain.

    None: the rule of older sessions, by which all training images count.
    """
    chosen = np.arange(samples.test_from) if held is None else held
    _, gray = samples.columns
    domain = np.zeros(len(gray), dtype=np.int64) if samples.domain is None else samples.domain
    of_domains = [gray[chosen][domain[chosen] == each] for each in np.unique(domain[chosen])]
    becomes_gray = all(2 * each.sum() > len(each) for each in of_domains)

    def formed(each: UnfittedSet) -> SampleSet:
        found: SampleSet = ImageSet.of_unfitted(each, _decoded(each.columns[0].tolist(), becomes_gray))
        return found if held is not None else found.learned(None)(found)

    return formed


def _places(folder: Path, domains: tuple[str, ...]) -> list[Path]:
    """The folders that contain class folders."""
    return [folder / domain for domain in domains] or [folder]


def _domain_names(folder: Path) -> tuple[str, ...]:
    """The domain folders: those with folders instead of images. Empty if they are class folders."""
    names = _folders(folder)
    nested = [name for name in names if _folders(folder / name) and not _images(folder / name)]
    if not nested:
        return ()
    if flat := sorted(set(names) - set(nested)):
        raise DataError(
            f"{folder / flat[0]} has no class folders, as {folder / nested[0]} has; give every domain the same class "
            "folders, or put the images of each class into a folder of its own."
        )
    if len(nested) == 1:
        raise DataError(
            f"{folder} has a single domain, {nested[0]}; name {folder / nested[0]} itself, or add another domain."
        )
    classes = set(_folders(folder / nested[0]))
    for name in nested[1:]:
        if different := sorted(classes ^ set(_folders(folder / name))):
            lacks, has = (name, nested[0]) if different[0] in classes else (nested[0], name)
            raise DataError(
                f"{folder / lacks} has no class folder '{different[0]}', as {folder / has} has; give every domain the "
                "same classes."
            )
    return tuple(nested)


def _class_names(folder: Path) -> tuple[str, ...]:
    names = _folders(folder)
    if not names:
        raise DataError(
            f"{folder} has no class folders; put the images of each class into a folder of its own."
        )
    return tuple(names)


def _image_files(folder: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The image files with their labels, in the order of class and name."""
    if unknown := set(_class_names(folder)) - set(classes):
        raise DataError(
            f"{folder / min(unknown)} is a class that has no training images; add some or remove it."
        )
    return [
        (image, label)
        for label, name in enumerate(classes)
        if (folder / name).is_dir()
        for image in _images(folder / name)
    ]


def _folders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != ".")


def _images(folder: Path) -> list[Path]:
    suffixes = Image.registered_extensions()
    entries = sorted(folder.iterdir())
    return [entry for entry in entries if entry.suffix.lower() in suffixes and entry.name[0] != "."]


def _gray(files: Sequence[Path]) -> NDArray[np.bool_]:
    """Whether each image is grayscale. All must have one size."""
    headers = [_header(file) for file in files]
    size, _ = Counter(size for _, size in headers).most_common(1)[0]
    for file, (_, own_size) in zip(files, headers, strict=True):
        if own_size != size:
            raise DataError(
                f"{file} is {own_size[0]}×{own_size[1]} pixels where most images are {size[0]}×{size[1]}; "
                f"bring all images to one size."
            )
    return np.array([gray for gray, _ in headers])


def _decoded(files: Sequence[Path], grey: bool) -> Images:
    """Images [n, h, w, c] of one size, all grayscale or all RGB."""
    width, height = _header(files[0])[1]
    channels = 1 if grey else 3
    check_memory(files[0].parent.parent, len(files) * width * height * channels)
    images = np.empty((len(files), height, width, channels), dtype=np.uint8)
    for row, file in zip(images, files, strict=True):
        try:
            with opened(file) as image:
                row[:] = np.asarray(image.convert("L" if grey else "RGB")).reshape(row.shape)
        except UNREADABLE as unreadable:
            raise _damaged(file, unreadable) from unreadable
    return images


def _header(file: Path) -> tuple[bool, tuple[int, int]]:
    """Whether the image is grayscale, and its width and height, without decoding it."""
    try:
        with opened(file) as image:
            mode, size = image.mode, image.size
    except UNREADABLE as unreadable:
        raise _damaged(file, unreadable) from unreadable
    if mode.startswith(DEEP_MODES):
        raise DataError(f"{file} has more than 8 bits per channel; save it with 8.")
    return mode in GREY_MODES, size


def _load_npz(file: Path) -> LabeledSet:
    arrays = _read_npz(file)
    name = _kind_of(file, arrays)
    if "labels" not in arrays:
        raise DataError(f"{file} has no array 'labels'; it needs '{name}' and 'labels'.")
    if (f"test_{name}" in arrays) != ("test_labels" in arrays):
        raise DataError(f"{file} has only one of 'test_{name}' and 'test_labels'; it needs both or neither.")
    samples, labels = _checked_pair(file, arrays, name, "")
    noun = "images" if name == "images" else "samples"
    values = np.unique(labels)
    parts = [(samples, np.searchsorted(values, labels))]
    if "test_labels" in arrays:
        test, test_labels = _checked_pair(file, arrays, name, "test_")
        if test.shape[1:] != samples.shape[1:]:
            differ = "size or channels" if name == "images" else "shape"
            raise DataError(f"{file}: 'test_{name}' differ from '{name}' in {differ}.")
        if unknown := np.setdiff1d(test_labels, values).tolist():
            raise DataError(f"{file}: class {unknown[0]} of 'test_labels' has no training {noun}.")
        parts.append((test, np.searchsorted(values, test_labels)))
    classes = tuple(str(value) for value in values.tolist())
    if name == "images":
        return joined(parts[0], parts[1] if len(parts) > 1 else None, classes)
    if name == "tokens" and "vocabulary" not in arrays:
        tokens = np.concatenate([part for part, _ in parts])
        own = np.concatenate([labels for _, labels in parts])
        learn = partial(_learned_vocabulary, file, _number(file, arrays, "padding", 0))
        return UnfittedSet((tokens,), learn, own, classes, len(parts[0][1]), titles=("tokens",))
    spec = _spec(file, name, samples.shape, arrays)
    try:
        return ArraySet.of(spec, parts[0], parts[1] if len(parts) > 1 else None, classes)
    except DataError as odd:
        raise DataError(f"{file}: {odd}") from odd


def _learned_vocabulary(
    file: Path, padding: int, samples: UnfittedSet, held: Indices | None
) -> Callable[[UnfittedSet], SampleSet]:
    """The vocabulary of tokens: up to the largest token of the samples at `held`. A larger one becomes padding.

    None: the rule of older sessions, by which all samples count.
    """
    (tokens,) = samples.columns
    largest = int((tokens if held is None else tokens[held]).max())
    spec = _token_spec(file, tokens.shape[1], max(largest, 0) + 1, padding)

    def formed(each: UnfittedSet) -> SampleSet:
        (tokens,) = each.columns
        above = tokens >= spec.vocabulary
        others, counts = np.unique(tokens[above], return_counts=True)
        unknown = [
            (f"token {token}", int(count))
            for token, count in zip(others.tolist(), counts.tolist(), strict=True)
        ]
        try:
            return each.formed(np.where(above, padding, tokens), spec, unknown=unknown)
        except DataError as odd:
            raise DataError(f"{file}: {odd}") from odd

    return formed


def _kind_of(file: Path, arrays: Iterable[str]) -> str:
    """The name of the one array of samples."""
    found = [name for name in _SAMPLES if name in arrays]
    if len(found) != 1:
        known = ", ".join(f"'{name}'" for name in _SAMPLES)
        has = f"has both '{found[0]}' and '{found[1]}'" if found else "has no array of samples"
        raise DataError(f"{file} {has}; it needs 'labels' and one of {known}.")
    return found[0]


def _spec(file: Path, name: str, shape: tuple[int, ...], arrays: Mapping[str, Values]) -> InputSpec:
    """The form of samples other than images. Tokens have a vocabulary in `arrays`."""
    if name == "signals":
        return SignalSpec(shape[1], shape[2])
    if name == "features":
        return TableSpec(shape[1])
    vocabulary, padding = (_number(file, arrays, key, 0) for key in ("vocabulary", "padding"))
    return _token_spec(file, shape[1], vocabulary, padding)


def _token_spec(file: Path, length: int, vocabulary: int, padding: int) -> TokenSpec:
    if padding >= vocabulary:
        raise DataError(f"{file}: 'padding' {padding} is outside the vocabulary of {vocabulary}.")
    return TokenSpec(length, vocabulary, padding)


def _number(file: Path, arrays: Mapping[str, Values], name: str, default: int) -> int:
    value = arrays.get(name)
    if value is None:
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
        name = _kind_of(file, names)
        shape, _ = _header_of(file, name)
        if name == "images":
            return ImageSpec(shape[3] if len(shape) == 4 else 1, shape[1], shape[2])
        if name == "signals":
            return SignalSpec(shape[1], shape[2])
        if name == "features":
            return TableSpec(shape[1])
        check_memory(file, 0 if "vocabulary" in names else _declared_bytes(file, name))
        with np.load(file, allow_pickle=False) as archive:
            numbers: dict[str, Values] = {
                each: archive[each] for each in ("vocabulary", "padding") if each in names
            }
            largest = -1 if "vocabulary" in names else int(archive[name].max())
        vocabulary = _number(file, numbers, "vocabulary", largest + 1)
        return TokenSpec(shape[1], vocabulary, _number(file, numbers, "padding", 0))
    except (*UNREADABLE_NPZ, DataError, IndexError, TypeError):
        return None


def _read_npz(file: Path) -> dict[str, Values]:
    """The arrays with these names. Their sizes are checked before any is read."""
    wanted = {f"{prefix}{name}" for name in (*_SAMPLES, "labels") for prefix in ("", "test_")}
    wanted |= {"vocabulary", "padding"}
    try:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(
                f"{file} is a single array; save the samples (such as 'images') and 'labels' with numpy.savez."
            )
        with archive:
            names = [name for name in archive.files if name in wanted]
            check_memory(file, sum(_declared_bytes(file, name) for name in names))
            return {name: archive[name] for name in names}
    except UNREADABLE_NPZ as unreadable:
        raise _damaged(file, unreadable) from unreadable


def _declared_bytes(file: Path, name: str) -> int:
    """The size in bytes that the header of an array in an `.npz` gives."""
    shape, dtype = _header_of(file, name)
    return math.prod(shape) * dtype.itemsize


def _header_of(file: Path, name: str) -> tuple[tuple[int, ...], "np.dtype[Any]"]:
    """The shape and dtype of an array in an `.npz`."""
    with zipfile.ZipFile(file) as archive, archive.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(member)
    return shape, dtype


def _checked_pair(file: Path, arrays: Mapping[str, Values], name: str, prefix: str) -> tuple[Any, Labels]:
    """Samples as they are stored, and their labels [n]. Checks that they meet the rules for an `.npz`."""
    samples, labels = arrays[f"{prefix}{name}"], arrays[f"{prefix}labels"]
    whose = f"{file}: '{prefix}{name}'"
    kept = _SAMPLES[name]
    if samples.ndim not in kept.dimensions or samples.size == 0 or not _is(samples, kept.dtype):
        raise DataError(f"{whose} must be {kept.form}, not {samples.dtype} {list(samples.shape)}.")
    if name == "images" and math.prod(samples.shape[1:3]) > PIXELS:
        raise DataError(f"{whose} has more than {PIXELS:,} pixels an image; make them smaller.")
    if name == "tokens" and samples.max() > np.iinfo(np.int32).max:
        raise DataError(f"{whose} has a token above {np.iinfo(np.int32).max:,}; number tokens from 0.")
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape != samples.shape[:1]:
        raise DataError(
            f"{file}: '{prefix}labels' must be {len(samples)} whole numbers, "
            f"not {labels.dtype} {list(labels.shape)}."
        )
    if name == "images":
        samples = samples.astype(np.uint8, copy=False)
        samples = samples[..., None] if samples.ndim == 3 else samples
    return samples, labels.astype(np.int64)


def _is(samples: Values, dtype: type) -> bool:
    """Whether values of this dtype can be stored as that one: any whole numbers as tokens, any numbers as float32."""
    if dtype is np.uint8:
        return samples.dtype == np.uint8
    kinds = (np.integer,) if dtype is np.int32 else (np.integer, np.floating)
    return any(np.issubdtype(samples.dtype, kind) for kind in kinds)


def _damaged(file: Path, why: Exception) -> DataError:
    reason = " ".join(str(why).split()) or type(why).__name__
    return DataError(f"{file} cannot be read ({reason}); replace or remove it.")
