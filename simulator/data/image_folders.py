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
from simulator.data import pictures
from simulator.data.pictures import Oddities, check_memory
from simulator.data.samples import Images, ImageSet, Indices, Reading, SampleSet, UnfittedSet
from simulator.data.tables import spelled_alike

LARGEST = 1 << 26
"""The maximum number of bytes of a CSV file of labels."""
_SPLIT = re.compile(
    r"(train(ing)?|test(ing)?|val(id(ation)?)?|dev(el(opment)?)?|eval(uation)?)([ _-]?(set|data))?",
    re.IGNORECASE,
)
_HIDDEN = re.compile(r"\.|__MACOSX\Z")
_ROLES = {"tr": "train", "te": "test"}
"""The role of a split by the first two letters of its name. All others are for validation."""
_COLLECTIONS = ("images", "image", "imgs", "img", "jpegimages")
"""Names of folders that hold images of all classes."""
_FEDERATIONS = (("PFLlib", "train", "*.npz"), ("LEAF", "train", "*.json"), ("LEAF", "all_data", "*.json"))
"""Other tools, and the files that their folders have in place of class folders."""


class _File(NamedTuple):
    path: Path
    label: str
    domain: str = ""


class _Split(NamedTuple):
    """The training or test part: its place, and the folders in it by name."""

    place: Path
    folders: Mapping[str, Path]

    @classmethod
    def at(cls, place: Path) -> "_Split":
        return cls(place, {name: place / name for name in _names(place)})

    def classes(self, domains: bool) -> dict[str, Mapping[str, Path]]:
        """The class folders by domain. Without domains, their name is empty."""
        if not domains:
            return {"": self.folders}
        return {domain: _Split.at(place).folders for domain, place in self.folders.items()}


def load(folder: Path, config: DataConfig) -> UnfittedSet:
    """The images of a folder. Raises ConfigError for a wrong layout, DataError for other or damaged contents."""
    return _Folder(folder, config).load()


class _Folder:
    """A folder of images as it is read, with what is left out and what is said of it."""

    def __init__(self, root: Path, config: DataConfig) -> None:
        self.root, self.config, self.old = root, config, config.finds_domains
        self.others: dict[str, dict[Path, None]] = {}
        """Files that are left out, by the reason."""
        self.left_out: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def leave(self, files: Iterable[Path], why: str) -> None:
        if left := dict.fromkeys(files):
            self.others.setdefault(why, {}).update(left)

    def load(self) -> UnfittedSet:
        folder, old = self.root, self.old
        for tool, part, files in _FEDERATIONS:
            if not old and any((folder / part).glob(files)) and not _names(folder / part):
                command = shlex.join(["htfl-sim", "data", "import", str(folder), f"{folder.name}-imported"])
                raise DataError(
                    f"{folder} is a federation of {tool}. Turn it into files to run with `{command}`."
                )
        if self.config.labels is None or old:
            train, test = self.of_folders()
        else:
            train, test = self.of_labels(self.config.labels)
        everything = [*train, *test]
        classes, domains = (
            {name: number for number, name in enumerate(sorted(names))}
            for names in ({each.label for each in train}, {each.domain for each in train} - {""})
        )
        paths = np.empty(len(everything), dtype=object)
        paths[:] = [each.path for each in everything]
        if not old:
            self.warnings += spelled_alike("The data set", classes)
        oddities = Oddities()
        gray, size = self.headers(paths.tolist(), oddities)
        left = [(_counted(list(map(self.name, each))), why) for why, each in self.others.items()]
        said = Reading((*self.left_out, *left), tuple(self.warnings), tuple(self.notes))
        domain = [domains[each.domain] for each in everything] if domains else None
        return UnfittedSet(
            (paths, gray),
            partial(_learned, size=size, old=old),
            labels=np.array([classes[each.label] for each in everything], dtype=np.int64),
            classes=tuple(classes),
            test_from=len(train),
            domains=tuple(domains),
            domain=None if domain is None else np.array(domain, dtype=np.int64),
            reading=oddities.told(said),
        )

    def headers(self, files: Sequence[Path], oddities: Oddities) -> tuple[NDArray[np.bool_], tuple[int, int]]:
        """Whether each image is grayscale, and the width and height of all. None is decoded."""
        found = []
        for file in files:
            try:
                with pictures.opened(file) as image:
                    found.append((image.mode, pictures.size_of(image, self.old)))
                    oddities.note(self.name(file), image)
            except pictures.UNREADABLE as unreadable:
                raise damaged(file, unreadable) from unreadable
            if found[-1][0].startswith(pictures.DEEP_MODES):
                raise DataError(f"{file} has more than 8 bits per channel; save it with 8.")
        size, _ = Counter(size for _, size in found).most_common(1)[0]
        for file, (_, own_size) in zip(files, found, strict=True):
            if own_size != size:
                raise DataError(
                    f"{file} is {own_size[0]}×{own_size[1]} pixels where most images are {size[0]}×{size[1]}; "
                    f"bring all images to one size."
                )
        return np.array([mode in pictures.GREY_MODES for mode, _ in found]), size

    def of_folders(self) -> tuple[list[_File], list[_File]]:
        """The images for training and for test, in the order of domain, class, and path."""
        root, given = self.root, self.config.domains
        if not self.old:
            train, test = self.splits()
        elif (root / "train").is_dir() and (root / "test").is_dir():
            train, test = _Split.at(root / "train"), _Split.at(root / "test")
        else:
            train, test = _Split.at(root), None
        if not train.folders:
            raise DataError(
                f"{train.place} has no class folders; put the images of each class into a folder of its own"
                f"{self.or_labels(train.place)}."
            )
        domains = given is True or (self.old and any(map(_is_nested, train.folders.values())))
        if domains:
            _check_domains(train)
        elif given is None:
            self.refuse_two_readings(train)
        if test and domains and (other := {*test.folders} ^ {*train.folders}):
            raise DataError(
                f"{train.place} and {test.place} have different domains, such as {min(other)}; give both the same."
            )
        found = self.files(train, domains)
        classes = {each.label for each in found}
        if len(classes) == 1 and not self.old:
            raise self.single_class(train, domains)
        held = {(each.domain, each.label) for each in found}
        for domain, folders in train.classes(domains).items():
            for name, place in folders.items():
                if (domain, name) not in held:
                    where = " in every domain" if domains else ""
                    raise DataError(f"{place} has no images; add some or remove the folder{where}.")
        tested = self.files(test, domains) if test else []
        for each in tested:
            if each.label not in classes:
                place = test.classes(domains)[each.domain][each.label] if test else each.path
                raise DataError(f"{place} is a class that has no training images; add some or remove it.")
        return found, tested

    def splits(self) -> tuple[_Split, _Split | None]:
        """The training part and the own test set. Splits are folders around the class folders, or in each of them."""
        root, names = self.root, _names(self.root)
        splits = [name for name in names if split_role(name)]
        nested = [name for name in splits if _nested(root / name)]
        others = [name for name in names if name not in splits and _has_images(root / name)]
        if others and nested and (len(nested) == 1 or "train" not in map(split_role, nested)):
            raise DataError(
                f"{root} can be read in two ways: '{nested[0]}' is a split with the classes "
                f"{_listed(_nested(root / nested[0]))}, or a class beside {_listed(others)}. Rename it, or put the "
                "other folders into a folder 'train'."
            )
        if splits and (nested or not others):
            for name in sorted({*names} - {*splits}):
                self.left_out.append((name, "it is beside the folders of splits"))
            self.leave_loose(root)
            return self.chosen({name: _Split.at(root / name) for name in splits})
        inner = []
        for name in others:
            roles = [split_role(each) for each in _nested(root / name)]
            if None not in roles and "train" in roles and not _direct(root / name):
                inner.append(name)
        if not inner:
            return _Split.at(root), None
        if lacks := sorted({*others} - {*inner}):
            raise DataError(
                f"{root} can be read in two ways: {inner[0]} has folders of splits, and {lacks[0]} has none. Give "
                "every class folder the same splits, or put the class folders into the splits."
            )
        self.left_out += [(name, "it has no images") for name in names if name not in others]
        parts: dict[str, dict[str, Path]] = {}
        for name in inner:
            for each in _nested(root / name):
                parts.setdefault(each, {})[name] = root / name / each
        return self.chosen({each: _Split(root, folders) for each, folders in parts.items()})

    def chosen(self, splits: Mapping[str, _Split]) -> tuple[_Split, _Split | None]:
        """The split to train on, and the one that is the own test set: a validation split only without a test split."""
        by_role: dict[str, str] = {}
        for name in splits:
            if (same := by_role.setdefault(str(split_role(name)), name)) != name:
                raise DataError(
                    f"{self.root} has two folders of one split, {same} and {name}. Join them, or remove one."
                )
        if "train" not in by_role:
            first = next(iter(splits))
            raise DataError(
                f"{self.root} has the split {first}, and no split 'train'. Rename the one to train on, or name "
                f"{self.root / first} itself."
            )
        train = splits[by_role["train"]]
        test: str | None = None
        for role in [each for each in ("test", "val") if each in by_role]:
            name = by_role[role]
            # A single folder such as `images` is no class folder.
            with_images = [key for key, place in splits[name].folders.items() if _has_images(place)]
            if test is not None:
                self.left_out.append((name, f"{test} is the own test set, and no other split is used"))
            elif any(key in train.folders or key.lower() not in _COLLECTIONS for key in with_images):
                test = name
                if role == "val":
                    self.notes.append(
                        f"{name} is the own test set, because no split 'test' has class folders."
                    )
            else:
                self.left_out.append((name, "it has no class folders with images"))
        return train, splits[test] if test else None

    def refuse_two_readings(self, train: _Split) -> None:
        """Raise DataError if class folders may be domains, or a CSV file may have the classes."""
        inside = Counter(
            name for place in train.folders.values() if not _direct(place) for name in _nested(place)
        )
        both = f"{train.place} can be read in two ways: with the classes {_listed([*train.folders])}, or with"
        if len(inside) > 1 and max(inside.values()) > 1:
            raise DataError(
                f"{both} these as domains and the classes {_listed(sorted(inside))}. Use `data.domains=false` for the "
                "first, and `data.domains=true` for the second."
            )
        collections = [name for name in train.folders if name.lower() in _COLLECTIONS]
        if collections and len(train.folders) > 1 and (csvs := self.tables(train.place)):
            raise DataError(
                f"{both} the classes in {csvs[0]}. Rename '{collections[0]}' for the first, and use "
                f"`data.labels={csvs[0]}` for the second."
            )

    def single_class(self, train: _Split, domains: bool) -> DataError:
        folders = next(iter(train.classes(domains).values()))
        ((name, place),) = [each for each in folders.items() if _has_images(each[1])]
        found = f"{train.place} has a single class, '{name}'"
        inside = [] if _direct(place) else _nested(place)
        if len(inside) > 1 and not domains:
            return DataError(
                f"{found}. If {_listed(inside)} are the classes, name {train.place / name} itself."
            )
        return DataError(
            f"{found}; put the images of each class into a folder of its own{self.or_labels(train.place)}."
        )

    def or_labels(self, place: Path) -> str:
        csvs = self.tables(place)
        return f", or use `data.labels={csvs[0]}` if this file has the classes" if csvs else ""

    def tables(self, place: Path) -> list[str]:
        files = [each for where in dict.fromkeys((self.root, place)) for each in sorted(where.iterdir())]
        return [self.name(each) for each in files if each.suffix.lower() == ".csv" and each.is_file()]

    def leave_loose(self, place: Path) -> None:
        loose = list(_walk(place, deep=False))
        self.leave(filter(_is_image, loose), "they are in no class folder")
        self.leave(itertools.filterfalse(_is_image, loose), "no images")

    def files(self, split: _Split, domains: bool) -> list[_File]:
        """The images of a split, in the order of domain, class, and path."""
        found: list[_File] = []
        deeper: list[str] = []
        for place in [split.place, *(split.folders.values() if domains else ())]:
            self.leave_loose(place)
        for domain, classes in sorted(split.classes(domains).items()):
            for name, place in sorted(classes.items()):
                every = sorted(_walk(place, deep=not self.old))
                images = [each for each in every if _is_image(each)]
                found += [_File(each, name, domain) for each in images]
                self.leave(itertools.filterfalse(_is_image, every), "no images")
                deeper += [self.name(each) for each in images if each.parent != place]
        if deeper:
            self.warnings.append(
                f"Images in deeper folders have the class of the folder around: {_counted(deeper)}."
            )
        return found

    def of_labels(self, labels: str) -> tuple[list[_File], list[_File]]:
        """The images that a CSV file gives a class, for training and for test, in the order of class and path."""
        if self.config.domains is True:
            raise ConfigError(
                "data.domains reads domains from folders, and data.labels needs none. Leave one out."
            )
        file = self.root / labels
        names, rows = _rows(file)
        every = list(_walk(self.root))
        images = {self.name(each): each for each in every if _is_image(each)}
        column, target, known = _columns(file, names, rows, images, self.config.target)
        given: dict[Path, str] = {}
        for line, row in rows:
            path, label, where = known.get(_path_in(row[column])), row[target].strip(), f"{file}, line {line}"
            if path is None:
                raise DataError(
                    f"{where}: '{row[column]}' names no image in {self.root}, or several. Write its path in this "
                    "folder, or remove the line."
                )
            if not label:
                raise DataError(
                    f"{where}: column '{names[target]}' is empty. Fill it in, or remove the line."
                )
            if path in given:
                raise DataError(f"{where}: {self.name(path)} has two lines. Remove one.")
            given[path] = label
        self.leave(sorted({*images.values()} - {*given}), f"{labels} has no line for them")
        self.leave(sorted(each for each in every if not _is_image(each) and each != file), "no images")
        by_role: dict[str | None, list[_File]] = {}
        for path, label in sorted(given.items(), key=lambda each: (each[1], each[0])):
            role = split_role(path.relative_to(self.root).parts[0])
            by_role.setdefault(role, []).append(_File(path, label))
        if "train" not in by_role:
            by_role = {"train": list(itertools.chain(*by_role.values()))}
        tested = by_role.get("test", by_role.get("val", []))
        if "val" in by_role:
            if "test" in by_role:
                self.leave((each.path for each in by_role["val"]), "the split test is the own test set")
            else:
                self.notes.append(
                    "The validation split is the own test set, because there is no split 'test'."
                )
        self.leave((each.path for each in by_role.get(None, [])), "they are beside the folders of splits")
        train = by_role["train"]
        if len({each.label for each in train}) == 1:
            raise DataError(
                f"{file}: column '{names[target]}' has a single class, '{train[0].label}'. Name another column with "
                f"data.target: {_listed(names)}."
            )
        return train, tested


def _check_domains(split: _Split) -> None:
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


def _lookups(images: Mapping[str, Path]) -> Iterator[dict[str, Path | None]]:
    """Images by path, then also by name, then also by name without ending. None stands for several."""
    known: dict[str, Path | None] = {}
    files = images.values()
    for keys in (list(images), [image.name for image in files], [image.stem for image in files]):
        counts, pairs = Counter(keys), zip(keys, files, strict=True)
        known = {key: None if counts[key] > 1 else image for key, image in pairs} | known
        yield known


def _path_in(cell: str) -> str:
    return cell.strip().replace("\\", "/").removeprefix("./")


def _columns(
    file: Path,
    names: Sequence[str],
    rows: Sequence[tuple[int, list[str]]],
    images: Mapping[str, Path],
    target: str | None,
) -> tuple[int, int, dict[str, Path | None]]:
    """The columns of image files and of classes, and the images by the cells of the first. `images`: by path."""
    if target is not None and target not in names:
        raise ConfigError(
            f"data.target is '{target}', and {file} has no such column.{nearest(target, names)} It has "
            f"{_listed(names)}."
        )
    others = [number for number, name in enumerate(names) if name and name != target]
    for known in _lookups(images):
        hits = [sum(known.get(_path_in(row[number])) is not None for _, row in rows) for number in others]
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
    if known.get(_path_in(names[best[0]])) is not None:
        raise DataError(
            f"{file} has no line of column names: its first line has {names[best[0]]}. Add one, such as 'file,label'."
        )
    other = next(number for number in [*others, -1] if number != best[0])
    return best[0], names.index(target) if target is not None else other, known


def _learned(
    samples: UnfittedSet, held: Indices | None, size: tuple[int, int], old: bool
) -> Callable[[UnfittedSet], SampleSet]:
    """The channels of images: one if most at `held` are gray, in every domain. None: of all training images."""
    chosen = np.arange(samples.test_from) if held is None else held
    _, gray = samples.columns
    domain = np.zeros(len(gray), dtype=np.int64) if samples.domain is None else samples.domain
    of_domains = [gray[chosen][domain[chosen] == each] for each in np.unique(domain[chosen])]
    becomes_gray = all(2 * each.sum() > len(each) for each in of_domains)

    def formed(each: UnfittedSet) -> SampleSet:
        found = ImageSet(_decoded(each.columns[0].tolist(), size, becomes_gray, old), **each.common)
        return found if held is not None else found.learned(None)(found)

    return formed


def _decoded(files: Sequence[Path], size: tuple[int, int], grey: bool, old: bool) -> Images:
    """Images [n, h, w, c] of one size, all grayscale or all RGB."""
    (width, height), channels = size, 1 if grey else 3
    check_memory(files[0].parent.parent, len(files) * width * height * channels)
    images = np.empty((len(files), height, width, channels), dtype=np.uint8)
    for row, file in zip(images, files, strict=True):
        try:
            with pictures.opened(file) as image:
                turned = image if old else pictures.upright(image)
                row[:] = pictures.converted(turned, "L" if grey else "RGB").reshape(row.shape)
        except pictures.UNREADABLE as unreadable:
            raise damaged(file, unreadable) from unreadable
    return images


def damaged(file: Path, why: Exception) -> DataError:
    reason = " ".join(str(why).split()) or type(why).__name__
    return DataError(f"{file} cannot be read ({reason}); replace or remove it.")


def split_role(name: str) -> str | None:
    """The role of a folder with the name of a split: train, test, or val."""
    return _ROLES.get(name[:2].lower(), "val") if _SPLIT.fullmatch(name) else None


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in os.scandir(folder) if each.is_dir() and not _HIDDEN.match(each.name))


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
            if _HIDDEN.match(entry.name):
                continue
            if not entry.is_dir():
                yield Path(entry.path)
            elif deep and (real := os.path.realpath(entry.path)) not in known:
                known.add(real)
                waiting.append(Path(entry.path))


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in Image.registered_extensions()


def _listed(names: Collection[str], most: int = 5) -> str:
    return ", ".join([*names][:most]) + (", …" if len(names) > most else "")


def _counted(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names):,} files, such as {min(names)}"
