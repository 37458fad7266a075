"""A user's own folder of images: which file is of which class, domain, and split.

Classes are the folders in a split, or a column of a CSV file beside the images. Images are found at any depth. A folder
that can be read in two ways is refused, and the message has both.
"""

import csv
import io
import itertools
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError, nearest
from simulator.base.reading import read_bytes
from simulator.data.pictures import (
    DEEP_MODES,
    GREY_MODES,
    UNREADABLE,
    Oddities,
    check_memory,
    converted,
    opened,
    size_of,
    upright,
)
from simulator.data.samples import Images, ImageSet, Indices, Reading, SampleSet, UnfittedSet
from simulator.data.tables import spelled_alike

LARGEST = 1 << 26
"""The maximum number of bytes of a CSV file of labels."""
_SPLIT = re.compile(
    r"(train(ing)?|test(ing)?|val(id(ation)?)?|dev(el(opment)?)?|eval(uation)?)([ _-]?(set|data))?",
    re.IGNORECASE,
)
_ROLES = {"tr": "train", "te": "test"}
"""The role of a split by the first two letters of its name. All others are for validation."""
_COLLECTIONS = ("images", "image", "imgs", "img", "jpegimages")
"""Names of folders that hold images of all classes."""


class _File(NamedTuple):
    """An image."""

    path: Path
    label: str
    domain: str = ""


class _Split(NamedTuple):
    """The training or test part: its place, and the folders in it by name."""

    place: Path
    folders: Mapping[str, Path]


class _Notes:
    """What a reading leaves out, and what to say of it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._others: dict[str, dict[Path, None]] = {}
        self.left_out: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def name(self, path: Path) -> str:
        """The path inside the folder."""
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else str(path)

    def others(self, files: Iterable[Path], why: str) -> None:
        """Leave files out for the same reason."""
        if left := dict.fromkeys(files):
            self._others.setdefault(why, {}).update(left)

    def reading(self, oddities: Oddities) -> Reading:
        files = [(_counted(list(map(self.name, left))), why) for why, left in self._others.items()]
        return oddities.told(Reading((*self.left_out, *files), tuple(self.warnings), tuple(self.notes)))


_FEDERATIONS = (("PFLlib", "train", "*.npz"), ("LEAF", "train", "*.json"), ("LEAF", "all_data", "*.json"))
"""Other tools, and the files that their folders have in place of class folders."""


def load(folder: Path, config: DataConfig) -> UnfittedSet:
    """The images of a folder. Raises ConfigError for a wrong layout, DataError for other or damaged contents."""
    notes = _Notes(folder)
    for tool, part, files in _FEDERATIONS:
        if not config.finds_domains and any((folder / part).glob(files)) and not _names(folder / part):
            command = shlex.join(["htfl-sim", "data", "import", str(folder), f"{folder.name}-imported"])
            raise DataError(
                f"{folder} is a federation of {tool}. Turn it into files to run with `{command}`."
            )
    if config.labels is None or config.finds_domains:
        train, test = _of_folders(folder, config, notes)
    else:
        train, test = _of_labels(folder, config.labels, config, notes)
    everything = [*train, *test]
    classes, domains = (
        {name: number for number, name in enumerate(sorted(names))}
        for names in ({each.label for each in train}, {each.domain for each in train} - {""})
    )
    paths = np.empty(len(everything), dtype=object)
    paths[:] = [each.path for each in everything]
    if not config.finds_domains:
        notes.warnings += spelled_alike("The data set", classes)
    oddities = Oddities()
    gray = _gray(paths.tolist(), config.finds_domains, notes, oddities)
    return UnfittedSet(
        (paths, gray),
        partial(_learned, old=config.finds_domains),
        labels=np.array([classes[each.label] for each in everything], dtype=np.int64),
        classes=tuple(classes),
        test_from=len(train),
        domains=tuple(domains),
        domain=np.array([domains[each.domain] for each in everything], dtype=np.int64) if domains else None,
        reading=notes.reading(oddities),
    )


def _of_folders(folder: Path, config: DataConfig, notes: _Notes) -> tuple[list[_File], list[_File]]:
    """The images for training and for test, in the order of domain, class, and path."""
    train, test = _old_splits(folder) if config.finds_domains else _splits(folder, notes)
    if not train.folders:
        raise DataError(
            f"{train.place} has no class folders; put the images of each class into a folder of its own"
            f"{_or_labels(folder, train.place, notes)}."
        )
    domains = config.domains is True or (
        config.finds_domains and any(map(_is_nested, train.folders.values()))
    )
    if domains:
        _check_domains(train)
    elif config.domains is None:
        _refuse_two_readings(folder, train, notes)
    if test and domains and (other := {*test.folders} ^ {*train.folders}):
        raise DataError(
            f"{train.place} and {test.place} have different domains, such as {min(other)}; give both the same."
        )
    found = _files(train, domains, config.finds_domains, notes)
    classes = {each.label for each in found}
    if len(classes) == 1 and not config.finds_domains:
        raise DataError(_single_class(folder, train, domains, notes))
    _refuse_empty(train, domains, found)
    tested = _files(test, domains, config.finds_domains, notes) if test else []
    for each in tested:
        if each.label not in classes:
            place = _classes(test, domains)[each.domain][each.label] if test else each.path
            raise DataError(f"{place} is a class that has no training images; add some or remove it.")
    return found, tested


def _old_splits(folder: Path) -> tuple[_Split, _Split | None]:
    if not ((folder / "train").is_dir() and (folder / "test").is_dir()):
        return _split_at(folder), None
    return _split_at(folder / "train"), _split_at(folder / "test")


def _splits(folder: Path, notes: _Notes) -> tuple[_Split, _Split | None]:
    """The training part and the own test set, if there is one.

    Splits are folders around the class folders, or in each of them. Without splits, everything is for training.
    """
    names = _names(folder)
    splits = [name for name in names if split_role(name)]
    nested = [name for name in splits if _nested(folder / name)]
    others = [name for name in names if name not in splits and _has_images(folder / name)]
    if others and nested and (len(nested) == 1 or "train" not in map(split_role, nested)):
        raise DataError(
            f"{folder} can be read in two ways: '{nested[0]}' is a split with the classes "
            f"{_listed(_nested(folder / nested[0]))}, or a class beside {_listed(others)}. Rename it, or put the other "
            "folders into a folder 'train'."
        )
    if splits and (nested or not others):
        for name in sorted({*names} - {*splits}):
            notes.left_out.append((name, "it is beside the folders of splits"))
        _leave_loose(folder, notes)
        return _chosen(folder, {name: _split_at(folder / name) for name in splits}, notes)
    inner = [name for name in others if _has_splits(folder / name)]
    if not inner:
        return _split_at(folder), None
    if lacks := sorted({*others} - {*inner}):
        raise DataError(
            f"{folder} can be read in two ways: {inner[0]} has folders of splits, and {lacks[0]} has none. Give every "
            "class folder the same splits, or put the class folders into the splits."
        )
    notes.left_out += [(name, "it has no images") for name in names if name not in others]
    parts: dict[str, dict[str, Path]] = {}
    for name in inner:
        for each in _nested(folder / name):
            parts.setdefault(each, {})[name] = folder / name / each
    return _chosen(folder, {each: _Split(folder, folders) for each, folders in parts.items()}, notes)


def _chosen(folder: Path, splits: Mapping[str, _Split], notes: _Notes) -> tuple[_Split, _Split | None]:
    """The split to train on, and the one that is the own test set: a validation split only without a test split."""
    by_role: dict[str, str] = {}
    for name in splits:
        if (same := by_role.setdefault(str(split_role(name)), name)) != name:
            raise DataError(
                f"{folder} has two folders of one split, {same} and {name}. Join them, or remove one."
            )
    if "train" not in by_role:
        first = next(iter(splits))
        raise DataError(
            f"{folder} has the split {first}, and no split 'train'. Rename the one to train on, or name "
            f"{folder / first} itself."
        )
    train = splits[by_role["train"]]
    test: str | None = None
    for role in [each for each in ("test", "val") if each in by_role]:
        name = by_role[role]
        if test is not None:
            notes.left_out.append((name, f"{test} is the own test set, and no other split is used"))
        elif _has_classes(splits[name], train):
            test = name
            if role == "val":
                notes.notes.append(f"{name} is the own test set, because no split 'test' has class folders.")
        else:
            notes.left_out.append((name, "it has no class folders with images"))
    return train, splits[test] if test else None


def _has_classes(split: _Split, train: _Split) -> bool:
    """Whether the images of a split are in class folders. A single folder such as `images` is none."""
    names = [name for name, place in split.folders.items() if _has_images(place)]
    return any(name in train.folders or name.lower() not in _COLLECTIONS for name in names)


def split_role(name: str) -> str | None:
    """The role of a folder with the name of a split: train, test, or val."""
    return _ROLES.get(name[:2].lower(), "val") if _SPLIT.fullmatch(name) else None


def _has_splits(folder: Path) -> bool:
    """Whether all images of a folder are in folders of splits, one of them for training."""
    roles = [split_role(name) for name in _nested(folder)]
    return None not in roles and "train" in roles and not _direct(folder)


def _refuse_two_readings(folder: Path, train: _Split, notes: _Notes) -> None:
    """Raise DataError if class folders may be domains, or a CSV file may have the classes."""
    inside = Counter(
        name for place in train.folders.values() if not _direct(place) for name in _nested(place)
    )
    if len(inside) > 1 and max(inside.values()) > 1:
        raise DataError(
            f"{train.place} can be read in two ways: with the classes {_listed([*train.folders])}, or with these as "
            f"domains and the classes {_listed(sorted(inside))}. Use `data.domains=false` for the first, and "
            "`data.domains=true` for the second."
        )
    collections = [name for name in train.folders if name.lower() in _COLLECTIONS]
    if collections and len(train.folders) > 1 and (csvs := _tables(folder, train.place, notes)):
        raise DataError(
            f"{train.place} can be read in two ways: with the classes {_listed([*train.folders])}, or with the classes "
            f"in {csvs[0]}. Rename '{collections[0]}' for the first, and use `data.labels={csvs[0]}` for the second."
        )


def _single_class(folder: Path, train: _Split, domains: bool, notes: _Notes) -> str:
    """That there is only one class, and what may be meant."""
    ((name, place),) = [
        each for each in (next(iter(_classes(train, domains).values())).items()) if _has_images(each[1])
    ]
    found = f"{train.place} has a single class, '{name}'"
    inside = [] if _direct(place) else _nested(place)
    if len(inside) > 1 and not domains:
        return f"{found}. If {_listed(inside)} are the classes, name {train.place / name} itself."
    return (
        f"{found}; put the images of each class into a folder of its own"
        f"{_or_labels(folder, train.place, notes)}."
    )


def _or_labels(folder: Path, place: Path, notes: _Notes) -> str:
    """The remedy for images beside a CSV file, if there is one."""
    csvs = _tables(folder, place, notes)
    return f", or use `data.labels={csvs[0]}` if this file has the classes" if csvs else ""


def _tables(folder: Path, place: Path, notes: _Notes) -> list[str]:
    """The CSV files beside the images."""
    files = [each for where in dict.fromkeys((folder, place)) for each in sorted(where.iterdir())]
    return [notes.name(each) for each in files if each.suffix.lower() == ".csv" and each.is_file()]


def _check_domains(split: _Split) -> None:
    """Raise DataError unless every domain has the same class folders."""
    nested = {name: _names(place) for name, place in split.folders.items() if _is_nested(place)}
    if not nested:
        raise DataError(
            f"{split.place} has no domains: its folders {_listed([*split.folders])} have no class folders. Leave out "
            "data.domains, or put class folders into each."
        )
    first = next(iter(nested))
    if flat := sorted({*split.folders} - {*nested}):
        raise DataError(
            f"{split.folders[flat[0]]} has no class folders, as {split.folders[first]} has; give every domain the same "
            "class folders, or put the images of each class into a folder of its own."
        )
    if len(nested) == 1:
        place = split.folders[first]
        raise DataError(
            f"{split.place} has a single domain, {first}; name {place} itself, or add another domain."
        )
    for name, classes in nested.items():
        if different := sorted({*classes} ^ {*nested[first]}):
            lacks, has = (name, first) if different[0] in nested[first] else (first, name)
            raise DataError(
                f"{split.folders[lacks]} has no class folder '{different[0]}', as {split.folders[has]} has; give every "
                "domain the same classes."
            )


def _refuse_empty(split: _Split, domains: bool, found: Sequence[_File]) -> None:
    """Raise DataError for a class folder without images."""
    held = {(each.domain, each.label) for each in found}
    for domain, classes in _classes(split, domains).items():
        for name, place in classes.items():
            if (domain, name) not in held:
                where = " in every domain" if domains else ""
                raise DataError(f"{place} has no images; add some or remove the folder{where}.")


def _classes(split: _Split, domains: bool) -> dict[str, Mapping[str, Path]]:
    """The class folders by domain. Without domains, their name is empty."""
    if not domains:
        return {"": split.folders}
    return {domain: _split_at(place).folders for domain, place in split.folders.items()}


def _leave_loose(place: Path, notes: _Notes) -> None:
    """Leave out the files beside class folders, domains, or splits."""
    loose = list(_walk(place, deep=False))
    notes.others(filter(_is_image, loose), "they are in no class folder")
    notes.others((each for each in loose if not _is_image(each)), "no images")


def _files(split: _Split, domains: bool, old: bool, notes: _Notes) -> list[_File]:
    """The images of a split, in the order of domain, class, and path."""
    found: list[_File] = []
    deeper: list[Path] = []
    for place in [split.place, *(split.folders.values() if domains else ())]:
        _leave_loose(place, notes)
    for domain, classes in sorted(_classes(split, domains).items()):
        for name, place in sorted(classes.items()):
            every = sorted(_walk(place, deep=not old))
            images = [each for each in every if _is_image(each)]
            found += [_File(each, name, domain) for each in images]
            notes.others((each for each in every if not _is_image(each)), "no images")
            deeper += [each for each in images if each.parent != place]
    if deeper:
        names = [notes.name(each) for each in deeper]
        notes.warnings.append(
            f"Images in deeper folders have the class of the folder around: {_counted(names)}."
        )
    return found


def _of_labels(
    folder: Path, labels: str, config: DataConfig, notes: _Notes
) -> tuple[list[_File], list[_File]]:
    """The images that a CSV file gives a class, for training and for test, in the order of class and path."""
    if config.domains is True:
        raise ConfigError(
            "data.domains reads domains from folders, and data.labels needs none. Leave one out."
        )
    file = folder / labels
    names, rows = _rows(file)
    images = [each for each in _walk(folder) if _is_image(each)]
    known = {notes.name(each): each for each in images}
    column, target, found = _columns(file, names, rows, known, config.target)
    given: dict[Path, str] = {}
    for line, row in rows:
        path, label = found(row[column]), row[target].strip()
        if path is None:
            raise DataError(
                f"{file}, line {line}: '{row[column]}' names no image in {folder}, or several. Write its path in this "
                "folder, or remove the line."
            )
        if not label:
            raise DataError(
                f"{file}, line {line}: column '{names[target]}' is empty. Fill it in, or remove the line."
            )
        if path in given:
            raise DataError(f"{file}, line {line}: {notes.name(path)} has two lines. Remove one.")
        given[path] = label
    notes.others(sorted({*images} - {*given}), f"{labels} has no line for them")
    notes.others(sorted(each for each in _walk(folder) if not _is_image(each) and each != file), "no images")
    by_role: dict[str | None, list[_File]] = {}
    for path, label in sorted(given.items(), key=lambda each: (each[1], each[0])):
        first = path.relative_to(folder).parts[0]
        by_role.setdefault(split_role(first), []).append(_File(path, label))
    if "train" not in by_role:
        by_role = {"train": list(itertools.chain(*by_role.values()))}
    tested = by_role.get("test", by_role.get("val", []))
    if "val" in by_role:
        if "test" in by_role:
            notes.others((each.path for each in by_role["val"]), "the split test is the own test set")
        else:
            notes.notes.append("The validation split is the own test set, because there is no split 'test'.")
    notes.others((each.path for each in by_role.get(None, [])), "they are beside the folders of splits")
    train = by_role["train"]
    if len({each.label for each in train}) == 1:
        raise DataError(
            f"{file}: column '{names[target]}' has a single class, '{train[0].label}'. Name another column with "
            f"data.target: {_listed(names)}."
        )
    return train, tested


def _rows(file: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The column names of a CSV file, and its rows as texts with the numbers of their lines."""
    try:
        if not file.exists():
            others = [each.name for each in sorted(file.parent.glob("*.csv"))] if file.parent.is_dir() else []
            raise ConfigError(
                f"data.labels is {file}, and there is no such file.{nearest(file.name, others)} Name a CSV file by its "
                "path in the folder of the images."
            )
        text = read_bytes(file, f"data.labels {file}", LARGEST, DataError).decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""))
        names = [each.strip() for each in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as unreadable:
        raise DataError(
            f"{file} cannot be read as CSV in UTF-8 ({unreadable}). Save it again."
        ) from unreadable
    if len(names) < 2 or not rows:
        raise DataError(
            f"{file} needs a line of column names with commas between them, a column of image files, a column of "
            f"classes, and rows. Its first line is '{', '.join(names)[:100]}'."
        )
    if odd := next(((line, row) for line, row in rows if len(row) != len(names)), None):
        raise DataError(
            f"{file}, line {odd[0]}: {len(odd[1])} values for {len(names)} columns. Correct this line."
        )
    return names, rows


Finder = Callable[[str], Path | None]
"""Finds the image that a cell names."""


def _finders(images: Mapping[str, Path]) -> Iterator[Finder]:
    """By path, then also by name, then also by name without ending. One that several images have finds none."""
    known: dict[str, Path | None] = {}
    files = images.values()
    for keys in (list(images), [image.name for image in files], [image.stem for image in files]):
        added: dict[str, Path | None] = {}
        for key, image in zip(keys, files, strict=True):
            added[key] = None if key in added else image
        known = added | known
        yield partial(_find, known)


def _find(known: Mapping[str, Path | None], cell: str) -> Path | None:
    return known.get(cell.strip().replace("\\", "/").removeprefix("./"))


def _columns(
    file: Path,
    names: Sequence[str],
    rows: Sequence[tuple[int, list[str]]],
    images: Mapping[str, Path],
    target: str | None,
) -> tuple[int, int, Finder]:
    """The columns of image files and of classes, and what finds a cell of the first. `images` are those by path."""
    if target is not None and target not in names:
        raise ConfigError(
            f"data.target is '{target}', and {file} has no such column.{nearest(target, names)} It has "
            f"{_listed(names)}."
        )
    others = [number for number, name in enumerate(names) if name and name != target]
    for found in _finders(images):
        hits = [sum(found(row[number]) is not None for _, row in rows) for number in others]
        if any(hits):
            break
    best = [number for number, count in zip(others, hits, strict=True) if count == max(hits)]
    if not any(hits):
        raise DataError(
            f"{file} has no column that names the images. Its first row is '{', '.join(rows[0][1])[:100]}'. Write "
            f"their paths in {file.parent} into a column."
        )
    if target is None and (len(others) != 2 or len(best) > 1):
        rest = [names[each] for each in others if [each] != best]
        raise ConfigError(
            f"Nothing says which column of {file} has the classes. Set data.target to one of {_listed(rest)}."
        )
    if len(best) > 1:
        raise DataError(
            f"{file} has several columns that name images: {_listed([names[each] for each in best])}. Keep one."
        )
    if found(names[best[0]]) is not None:
        raise DataError(
            f"{file} has no line of column names: its first line has {names[best[0]]}. Add one, such as 'file,label'."
        )
    other = next(number for number in [*others, -1] if number != best[0])
    return best[0], names.index(target) if target is not None else other, found


def _learned(samples: UnfittedSet, held: Indices | None, old: bool) -> Callable[[UnfittedSet], SampleSet]:
    """The channels of images: one if most images at `held` are gray, in every domain.

    None: the rule of older sessions, by which all training images count.
    """
    chosen = np.arange(samples.test_from) if held is None else held
    _, gray = samples.columns
    domain = np.zeros(len(gray), dtype=np.int64) if samples.domain is None else samples.domain
    of_domains = [gray[chosen][domain[chosen] == each] for each in np.unique(domain[chosen])]
    becomes_gray = all(2 * each.sum() > len(each) for each in of_domains)

    def formed(each: UnfittedSet) -> SampleSet:
        found = ImageSet(_decoded(each.columns[0].tolist(), becomes_gray, old), **each.common)
        return found if held is not None else found.learned(None)(found)

    return formed


def _gray(files: Sequence[Path], old: bool, notes: _Notes, oddities: Oddities) -> NDArray[np.bool_]:
    """Whether each image is grayscale. All must have one size."""
    headers = [_header(file, old, notes, oddities) for file in files]
    size, _ = Counter(size for _, size in headers).most_common(1)[0]
    for file, (_, own_size) in zip(files, headers, strict=True):
        if own_size != size:
            raise DataError(
                f"{file} is {own_size[0]}×{own_size[1]} pixels where most images are {size[0]}×{size[1]}; "
                f"bring all images to one size."
            )
    return np.array([gray for gray, _ in headers])


def _decoded(files: Sequence[Path], grey: bool, old: bool) -> Images:
    """Images [n, h, w, c] of one size, all grayscale or all RGB."""
    width, height = _header(files[0], old)[1]
    channels = 1 if grey else 3
    check_memory(files[0].parent.parent, len(files) * width * height * channels)
    images = np.empty((len(files), height, width, channels), dtype=np.uint8)
    for row, file in zip(images, files, strict=True):
        try:
            with opened(file) as image:
                turned = image if old else upright(image)
                row[:] = converted(turned, "L" if grey else "RGB").reshape(row.shape)
        except UNREADABLE as unreadable:
            raise damaged(file, unreadable) from unreadable
    return images


def _header(
    file: Path, old: bool, notes: _Notes | None = None, oddities: Oddities | None = None
) -> tuple[bool, tuple[int, int]]:
    """Whether the image is grayscale, and its width and height, without decoding it."""
    try:
        with opened(file) as image:
            mode, size = image.mode, size_of(image, old)
            if notes is not None and oddities is not None:
                oddities.note(notes.name(file), image)
    except UNREADABLE as unreadable:
        raise damaged(file, unreadable) from unreadable
    if mode.startswith(DEEP_MODES):
        raise DataError(f"{file} has more than 8 bits per channel; save it with 8.")
    return mode in GREY_MODES, size


def damaged(file: Path, why: Exception) -> DataError:
    """That a file cannot be read."""
    reason = " ".join(str(why).split()) or type(why).__name__
    return DataError(f"{file} cannot be read ({reason}); replace or remove it.")


def _split_at(place: Path) -> _Split:
    return _Split(place, {name: place / name for name in _names(place)})


def _names(folder: Path) -> list[str]:
    """The folders in a folder, without hidden ones."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not _is_hidden(entry.name))


def _nested(folder: Path) -> list[str]:
    """The folders in a folder that have images at any depth."""
    return [name for name in _names(folder) if _has_images(folder / name)]


def _is_nested(folder: Path) -> bool:
    """Whether a folder has only folders, and no images beside them."""
    return bool(_names(folder)) and not _direct(folder)


def _direct(folder: Path) -> bool:
    return any(map(_is_image, _walk(folder, deep=False)))


def _has_images(folder: Path) -> bool:
    return any(map(_is_image, _walk(folder)))


def _walk(folder: Path, deep: bool = True) -> Iterator[Path]:
    """The files of a folder, at any depth, without hidden ones. A folder is read once, so no link leads in circles."""
    waiting, known = [folder], {os.path.realpath(folder)}
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if _is_hidden(entry.name):
                continue
            if not entry.is_dir():
                yield Path(entry.path)
            elif deep and (real := os.path.realpath(entry.path)) not in known:
                known.add(real)
                waiting.append(Path(entry.path))


def _is_hidden(name: str) -> bool:
    return name[0] == "." or name == "__MACOSX"


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in Image.registered_extensions()


def _listed(names: Collection[str], most: int = 5) -> str:
    return ", ".join([*names][:most]) + (", …" if len(names) > most else "")


def _counted(names: Sequence[str]) -> str:
    """The number of files, and the first of them."""
    return names[0] if len(names) == 1 else f"{len(names):,} files, such as {min(names)}"
