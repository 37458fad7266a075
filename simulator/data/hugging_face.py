"""Data sets of the Hugging Face Hub (`hf:OWNER/NAME`, or `hf:OWNER/NAME@CONFIG`), or of a folder (`hf:./FOLDER`). They
are read as data and run no code.

The samples are the images of a data set with one column of images, the texts of a column, or the rows of a table. All
is Arrow, with the features that the package `datasets` declares. Its `save_to_disk` writes a folder: a data set
(state.json), or one for each split. Or each of its folders is such a folder, and holds what one client has, as Flower
writes partitions (adap/flower@202ab5e, datasets/flwr_datasets/cli/create.py). Only the JSON and Arrow files of a folder
are read. Paths in them are not opened.
"""

import io
import itertools
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from simulator.base import extras
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.base.extras import install_command, library
from simulator.base.reading import read_bytes, refuse_irregular
from simulator.data import pictures, tables
from simulator.data.image_folders import split_role
from simulator.data.pictures import Oddities, check_memory
from simulator.data.samples import Images, ImageSet, Indices, LabeledSet, Reading, SampleSet, UnfittedSet
from simulator.data.specs import Kind
from simulator.data.tables import Column, OwnParts

PREFIX = "hf:"
OLDEST = 4
"""The first major version of the package `datasets` that runs no code of a data set."""
_WITHOUT = "Remove this row, or choose another data set."
_NAME = re.compile(r"(?P<path>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<config>[\w.+-]+))?", re.ASCII)
STATE, SPLITS = "state.json", "dataset_dict.json"
_COMMON = re.compile(
    r"(?<![a-z])(server|central(ized)?|global|all|test(set)?|val(idation)?|eval)(?![a-z])", re.IGNORECASE
)
"""Names of folders whose samples are probably those of no client."""
LeftOut = tuple[tuple[str, str], ...]
"""Splits, files, and columns that are not read, with the reasons."""


class Feature(NamedTuple):
    kind: str
    """image, text, value, or other."""
    classes: tuple[str, ...] | None = None
    """The names of classes, by number."""


class Split(NamedTuple):
    """The samples of a split. `paths`: whether its images may be files elsewhere, as in the cache of `datasets`."""

    features: Mapping[str, Feature]
    table: Any
    paths: bool = False

    @classmethod
    def of(cls, declared: Mapping[str, Any], table: Any, paths: bool = False) -> "Split":
        kinds = zip(table.schema.names, table.schema.types, strict=True)
        return cls({name: _feature(declared.get(name), kind) for name, kind in kinds}, table, paths)

    def frame(self, names: Sequence[str]) -> Any:
        return self.table.select(list(names)).to_pandas(ignore_metadata=True)

    def cells(self, column: str) -> Iterator[Any]:
        """The encoded images of a column: {"bytes", "path"}, or None for a sample without."""
        for batch in self.table.select([column]).to_batches(max_chunksize=256):
            for cell in batch.column(0).to_pylist():
                yield cell if cell and (cell["bytes"] is not None or self.paths) else None


class Users(NamedTuple):
    """The users of a data set."""

    counts: Sequence[int] = ()
    """Samples of each, in the order of first samples."""
    are_clients: bool = False
    """Whether the data set is divided among clients already."""
    are_tested: bool = False
    """Whether it says on which samples each client is tested."""


class _Opened(NamedTuple):
    """A data set whose values are on disk."""

    name: str
    train: Split
    test: Split | None
    columns: DataConfig
    """What the configuration says, and the column of clients in a folder of clients."""
    left_out: LeftOut
    clients: int
    """The folders of clients."""
    target: str
    """The column of classes."""


def is_name(dataset: str) -> bool:
    """Whether this names a data set of Hugging Face, or a folder that its package wrote."""
    return dataset.startswith(PREFIX)


def folder_of(dataset: str) -> Path | None:
    """The folder that this names; None for a data set of the Hub."""
    path = dataset.removeprefix(PREFIX)
    return Path(path).expanduser() if is_name(dataset) and path.startswith((".", "/", "~")) else None


def load(name: str, columns: DataConfig) -> LabeledSet:
    """All samples, those of the split `test` as the own test set. Raises ConfigError or DataError."""
    found = _open(name, columns)
    columns, features, target = found.columns, found.train.features, found.target
    kind, column = _form(found)
    named = [each for each in (target, columns.client, column or None) if each is not None]
    if kind == "image":
        table, own = _table(found, named[:-1])
        cells = itertools.chain.from_iterable(
            part.cells(column) for part in (found.train, found.test) if part is not None
        )
        samples: LabeledSet = _of_images(f"'{name}'", cells, table, columns, own, features, column)
    else:
        reason = "the texts are in another column"
        if kind == "tokens":
            columns = columns.model_copy(update={"ignore": (), "text": column})
        else:
            reason, named = "data.ignore names it", [key for key in features if key not in columns.ignore]
            if odd := [key for key in named if features[key].kind not in ("text", "value")]:
                raise DataError(
                    f"'{name}': column '{odd[0]}' is neither numbers nor texts. Leave it out: "
                    f'`data.ignore=["{odd[0]}"]`.'
                )
            columns = columns.model_copy(update={"ignore": ()})
        table, own = _table(found, named)
        samples = tables.samples(name, table, columns, own)
        left_out = tuple((each, reason) for each in features if each not in named)
        samples = replace(samples, reading=replace(samples.reading, left_out=left_out))
    hidden = found.test is not None and not samples.has_test_set
    notes = [f"each of {found.clients} folders has the samples of a client"] if found.clients else []
    said = [*found.left_out, *([("split test", "its labels are hidden")] if hidden else [])]
    return replace(samples, reading=samples.reading.plus(said, notes=notes))


def load_parquet(file: Path, column: str, columns: DataConfig) -> LabeledSet:
    """The images in a column of a Parquet file. Raises as `tables.load` does."""
    parquet = library("pyarrow.parquet", "parquet")
    with parquet.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        tables.target_of(file, names, columns)
        named = [each for each in (columns.target, columns.client) if each is not None]
        table = tables.read_parquet(file, columns, named)
        cells = (
            None if cell is None or cell["bytes"] is None else {"bytes": cell["bytes"], "path": None}
            for batch in opened.iter_batches(256, columns=[column])
            for cell in batch.column(0).to_pylist()
        )
        return _of_images(str(file), cells, table, columns, OwnParts(), names, column)


def _of_images(
    where: str,
    cells: Iterable[Any],
    table: Any,
    columns: DataConfig,
    own: OwnParts,
    names: Iterable[str],
    column: str,
) -> LabeledSet:
    """Encoded images with the classes and users of a data frame. Columns with other `names` are left out."""
    assert columns.target is not None  # `tables.target_of` has checked it
    labels, classes = Column(where, columns.target, table[columns.target], columns).labels(own)
    left_out = [
        (each, f"the samples are the images of '{column}'")
        for each in names
        if each not in (columns.target, columns.client, column)
    ]
    oddities, count = Oddities(), len(labels)
    stored: Images | None = None
    gray = np.zeros(count, dtype=bool)
    for number, cell in enumerate(itertools.islice(cells, count)):
        mode, pixels = _decoded(where, number, cell, columns.finds_domains, oddities)
        if stored is None:
            check_memory(where, count * pixels.size)
            stored = np.empty((count, *pixels.shape), dtype=np.uint8)
        if pixels.shape != stored.shape[1:]:
            sides = [f"{shape[1]}×{shape[0]}" for shape in (pixels.shape, stored.shape[1:])]
            raise DataError(
                f"{where}: image {number + 1:,} is {sides[0]} pixels, and the first is {sides[1]}. Use images of one "
                "size."
            )
        stored[number] = pixels
        gray[number] = mode in pictures.GREY_MODES
    assert stored is not None  # labels were counted
    samples = UnfittedSet(
        (stored, gray),
        _learned,
        labels=labels,
        classes=classes,
        test_from=own.test_from or count,
        reading=oddities.told(Reading(tuple(left_out), notes=(f"images in column '{column}'",))),
    )
    if columns.client is None:
        return samples
    return samples.of_users(Column(where, columns.client, table[columns.client], columns).users())


def kind_of(name: str, columns: DataConfig) -> Kind:
    return _form(_open(name, columns))[0]


def users(name: str, columns: DataConfig) -> Users:
    """The users that a column names, or the clients of a folder of clients. Raises as `load` does."""
    if columns.client is None and folder_of(name) is None:
        return Users()
    found = _open(name, columns)
    if (client := found.columns.client) is None:
        return Users()
    table, own = _table(found, [found.target, client])
    counts = table[client].value_counts(sort=False, dropna=False).tolist()
    return Users(counts, found.clients > 0, found.clients > 0 and own.test_from != len(table))


def _open(name: str, columns: DataConfig) -> _Opened:
    """The data set: of its folder, or downloaded unless the package's own cache has it."""
    clients: dict[str, list[str]] = {}
    left_out: LeftOut = ()
    if (folder := folder_of(name)) is not None:
        try:
            parts, clients, left_out = _of_folder(folder)
        except OSError as unreadable:
            raise DataError(f"{folder} cannot be read ({unreadable}). Name another folder.") from unreadable
    else:
        parts = _of_hub(name, columns)
    if "train" not in parts and len(parts) != 1:
        raise DataError(f"'{name}' has no split 'train'. It has {', '.join(parts)}. Choose another data set.")
    first = "train" if "train" in parts else next(iter(parts))
    if columns.client is None and clients:
        column = "client"
        while column in parts[first].features:
            column += "_"
        columns = columns.model_copy(update={"client": column})
        for key, part in parts.items():
            features = {**part.features, column: Feature("text")}
            table = part.table.append_column(column, [list(clients[key])])
            parts[key] = part._replace(features=features, table=table)
    left_out += tuple(
        (f"split {each}", "only train and test are read") for each in parts if each not in (first, "test")
    )
    test = parts["test"] if {"train", "test"} <= {*parts} else None
    held = len({*clients.get(first, ())}) if columns.client is not None else 0
    target = tables.target_of(name, list(parts[first].features), columns)
    return _Opened(name, parts[first], test, columns, left_out, held, target)


def _of_hub(name: str, columns: DataConfig) -> dict[str, Split]:
    given = name.removeprefix(PREFIX)
    read = _NAME.fullmatch(given)
    path = given if read is None else read["path"]
    if path and Path(path).exists():
        raise ConfigError(
            f"'{name}' may be a data set of Hugging Face, or the file or folder {path} here. Use "
            f"{shlex.quote(f'hf:./{path}')} for the folder, or run in another folder."
        )
    if read is None:
        raise ConfigError(
            f"'{name}' is no name of a Hugging Face data set. Use hf:OWNER/NAME or hf:OWNER/NAME@CONFIG, or "
            "hf:./FOLDER for a folder."
        )
    hub = library("datasets", "hf")
    if int(hub.__version__.partition(".")[0]) < OLDEST:
        raise ConfigError(
            f"datasets {hub.__version__} can run code of a data set. Install a newer one: "
            f"`{install_command('hf', f'datasets>={OLDEST}')}`."
        )
    offline = hub.config.HF_HUB_OFFLINE
    try:
        hub.config.HF_HUB_OFFLINE = offline or not extras.allowed()  # then it reads its cache alone
        parts = hub.load_dataset(path, read["config"])
    except Exception as failed:  # its errors have no common class
        if not extras.allowed():
            target = None if columns.target is None else f"data.target={columns.target}"
            what = f"{name} is not on this machine"
            raise extras.not_downloaded(what, "htfl-sim", "datasets", name, set=target) from failed
        reason = (str(failed).strip() or type(failed).__name__).splitlines()[0].rstrip(".")
        raise DataError(
            f"'{name}' cannot be loaded ({reason}). Check its name at Hugging Face, and the network."
        ) from failed
    finally:
        hub.config.HF_HUB_OFFLINE = offline
    return {
        key: Split.of(part.features.to_dict(), part.with_format("arrow")[:], paths=True)
        for key, part in parts.items()
    }


def _form(found: _Opened) -> tuple[Kind, str]:
    """The kind of the samples, and their column unless they are rows of a table."""
    columns = found.columns
    if columns.text is not None:
        return "tokens", columns.text
    left_out = {columns.target, columns.client, *columns.ignore}
    held = {key: each.kind for key, each in found.train.features.items() if key not in left_out}
    images = [key for key, kind in held.items() if kind == "image"]
    if len(images) == 1:
        return "image", images[0]
    if images:
        raise ConfigError(
            f"'{found.name}' has several columns of images: {', '.join(images)}. Leave all but one out "
            "with data.ignore."
        )
    if [*held.values()] == ["text"]:
        return "tokens", next(iter(held))
    return "table", ""


def _table(found: _Opened, names: Sequence[str]) -> tuple[Any, OwnParts]:
    """Columns of all samples as a data frame, and what is fixed. A test split without labels is left out."""
    import pandas as pd

    features, parts, target = found.train.features, [found.train.frame(names)], found.target
    fixed = features[target].classes
    if found.test is not None:
        if missing := [each for each in names if each not in found.test.features]:
            raise DataError(
                f"'{found.name}': its split 'test' has no column '{missing[0]}', as 'train' has. Choose another "
                "data set."
            )
        if found.test.features[target].classes != fixed:
            raise DataError(
                f"'{found.name}': column '{target}' has other classes in 'test' than in 'train'. Choose another data "
                "set."
            )
        test = found.test.frame(names)
        if fixed is None or not (test[target] == -1).all():
            parts.append(test)
    table = pd.concat(parts, ignore_index=True)
    for key in names:
        classes = features[key].classes
        if key != target and classes is not None:
            table[key] = table[key].map(dict(enumerate(classes)))
    return table, OwnParts(len(parts[0]), fixed)


def _learned(samples: UnfittedSet, held: Indices | None) -> Callable[[UnfittedSet], SampleSet]:
    """The channels of images: one if all images at `held` are gray. None: the rule of older sessions, all images."""
    _, gray = samples.columns
    becomes_gray = bool(gray.all() if held is None else gray[held].all())

    def formed(each: UnfittedSet) -> SampleSet:
        stored, gray = each.columns
        images = stored
        if becomes_gray:
            images = np.ascontiguousarray(stored[..., :1])
            for number in np.flatnonzero(~gray):
                images[number, ..., 0] = np.asarray(Image.fromarray(stored[number]).convert("L"))
        found: SampleSet = ImageSet(images, **each.common)
        return found if held is not None else found.learned(None)(found)

    return formed


def _decoded(where: str, number: int, cell: Any, old: bool, oddities: Oddities) -> tuple[str, Images]:
    """An image's mode and its pixels as RGB [h, w, 3]. `cell` has its bytes, or the path of a file."""
    if cell is None:
        raise DataError(f"{where}: sample {number + 1:,} has no image. {_WITHOUT}")
    source = Path(cell["path"]) if cell["bytes"] is None else io.BytesIO(cell["bytes"])
    try:
        with pictures.opened(source) as image:
            if image.mode.startswith(pictures.DEEP_MODES):
                raise DataError(f"{where}: image {number + 1:,} has more than 8 bits per channel. {_WITHOUT}")
            oddities.note(f"image {number + 1:,}", image)
            return image.mode, pictures.converted(image if old else pictures.upright(image), "RGB")
    except pictures.UNREADABLE as unreadable:
        raise DataError(
            f"{where}: image {number + 1:,} cannot be read ({unreadable}). {_WITHOUT}"
        ) from unreadable


def _feature(declared: Any, kind: Any) -> Feature:
    types = library("pyarrow", "parquet").types
    declared = declared if isinstance(declared, dict) else {}
    if declared.get("_type") == "Image":
        return Feature("image" if tables.is_image(kind) else "other")
    if declared.get("_type") not in ("Value", "ClassLabel") or tables.nested(kind) is not None:
        return Feature("other")
    names = declared.get("names")
    if names and isinstance(names, list) and types.is_integer(kind):
        return Feature("value", tuple(map(str, names)))
    return Feature("text" if types.is_string(kind) or types.is_large_string(kind) else "value")


def is_saved(folder: Path) -> bool:
    """Whether this folder was written by `save_to_disk`, or has such folders."""
    return any((each / name).is_file() for each in [folder, *_folders(folder)] for name in (STATE, SPLITS))


def _of_folder(folder: Path) -> tuple[dict[str, Split], dict[str, list[str]], LeftOut]:
    """The splits of a folder, and by split the client of each sample, if it has a folder for each. Raises DataError."""
    folder = folder.absolute()
    saved = [each for each in _folders(folder) if _is_one(each)]
    if _is_one(folder):
        splits, left_out = _read_one(folder, "")
        return splits, {}, tuple(left_out)
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}. Name one that save_to_disk wrote.")
    if not saved:
        source, written = json.dumps(str(folder)), json.dumps(f"{folder}_saved")
        code = f"import datasets; datasets.load_dataset({source}).save_to_disk({written})"
        raise DataError(
            f"{folder} has no data set that save_to_disk wrote. Write one with `python -c {shlex.quote(code)}`, and "
            f"use {shlex.quote(f'hf:{folder}_saved')}."
        )
    names = [each.name for each in saved]
    common = [name for name in names if _COMMON.search(name)]
    if odd := [*filter(split_role, names), *(common if len(common) < len(names) else [])]:
        raise DataError(
            f"{folder} has a folder for each client, and '{odd[0]}' looks like samples of no client. Move it out of "
            "this folder, or rename it."
        )
    clients = {each.name: _read_one(each, f"{each.name}/") for each in saved}
    first, (splits, _) = next(iter(clients.items()))
    for name, (other, _) in clients.items():
        if [*other] != [*splits]:
            raise DataError(
                f"{folder}: '{first}' has {' and '.join(splits)}, and '{name}' has {' and '.join(other)}. Save all "
                "clients with the same splits."
            )
        for split in splits:
            _refuse_other(folder, f"'{first}'", splits[split], f"'{name}'", other[split])
    left_out = [each for _, found in clients.values() for each in found]
    left_out += _left_out(folder, {*names}, "it is no folder of save_to_disk")
    joined, owners = {}, {}
    for split in splits:
        parts = {name: found[split] for name, (found, _) in clients.items()}
        joined[split] = _joined([*parts.values()])
        owners[split] = [name for name, part in parts.items() for _ in range(len(part.table))]
    return joined, owners, tuple(left_out)


def _is_one(folder: Path) -> bool:
    """Whether a folder is one data set, with or without splits."""
    if (folder / STATE).is_file() or (folder / SPLITS).is_file():
        return True
    inner = _splits(folder)
    return bool(inner) and all(map(split_role, inner))


def _splits(folder: Path) -> list[str]:
    return [each.name for each in _folders(folder) if (each / STATE).is_file()]


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, numbers in their names in numeric order."""
    if not folder.is_dir():
        return []

    def key(path: Path) -> list[Any]:
        parts = re.split(r"(\d+)", path.name)
        return [*((int(each), "") if each.isdecimal() else (-1, each) for each in parts), (-1, path.name)]

    with os.scandir(folder) as entries:  # a folder of a million images needs no look at each
        return sorted((Path(each) for each in entries if each.is_dir()), key=key)


def _read_one(folder: Path, prefix: str) -> tuple[dict[str, Split], list[tuple[str, str]]]:
    """The splits of one data set, 'train' if it has none, and what is left out."""
    if (folder / STATE).is_file():
        split, files = _read_split(folder)
        return {"train": split}, _left_out(folder, files, f"{STATE} does not name it", prefix)
    if (folder / SPLITS).is_file():
        names = _json(folder / SPLITS).get("splits")
        if not names or not isinstance(names, list) or not all(map(_is_plain, names)):
            raise _again(f"{folder / SPLITS} names no splits")
        roles = dict(zip(names, names, strict=True))
    else:
        roles = {name: str(split_role(name)) for name in _splits(folder)}
    if len({*roles.values()}) < len(roles):
        raise DataError(
            f"{folder} has several folders for one split: {', '.join(roles)}. Remove all but one."
        )
    found, left_out = {}, _left_out(folder, {*roles, SPLITS}, "it is no split", prefix)
    for name, role in roles.items():
        found[role], files = _read_split(folder / name)
        left_out += _left_out(folder / name, files, f"{STATE} does not name it", f"{prefix}{name}/")
    return found, left_out


def _read_split(folder: Path) -> tuple[Split, set[str]]:
    """The samples of a folder with a state.json, and the names of the files that were read."""
    state, info = _json(folder / STATE), _json(folder / "dataset_info.json")
    listed, features = state.get("_data_files"), info.get("features")
    listed = listed if isinstance(listed, list) else []
    files: list[Any] = [each.get("filename") for each in listed if isinstance(each, dict)]
    if not files or not isinstance(features, dict) or not all(map(_is_plain, files)):
        raise _again(f"{folder} names no Arrow files in it, or no features")
    if state.get("_indices_data_files"):
        raise DataError(
            f"{folder} was saved by an old version of datasets, with the order of its samples in another file. Load "
            "it with that version, and save `dataset.flatten_indices()`."
        )
    parts = [Split.of(features, _read_arrow(folder / file)) for file in files]
    for file, part in zip(files, parts, strict=True):
        _refuse_other(folder, files[0], parts[0], file, part)
    found = _joined(parts)
    if {*found.table.column_names} != {*features}:
        raise _again(f"{folder}: dataset_info.json has other columns than {files[0]}")
    if not len(found.table):
        raise DataError(f"{folder} has no samples. Remove this folder.")
    return found, {*files, STATE, "dataset_info.json"}


def _read_arrow(file: Path) -> Any:
    """The table of an Arrow stream. It stays on the disk until its values are read."""
    arrow = library("pyarrow", "parquet")
    refuse_irregular(file, error=DataError)
    batches, size = [], 0
    try:
        with arrow.ipc.open_stream(arrow.memory_map(str(file))) as stream:
            tables.refuse_repeated(file, stream.schema.names)
            for batch in stream:
                size += max(batch.nbytes, 8 * batch.num_rows)
                check_memory(file, size)
                batch.validate(full=True)
                batches.append(batch)
            return arrow.Table.from_batches(batches, stream.schema)
    except (OSError, arrow.ArrowException) as unreadable:
        raise _again(f"{file} is no Arrow stream ({unreadable})") from unreadable


def _joined(parts: Sequence[Split]) -> Split:
    table = library("pyarrow", "parquet").concat_tables([part.table for part in parts])
    return parts[0]._replace(table=table)


def _refuse_other(folder: Path, first: str, part: Split, name: str, other: Split) -> None:
    if part.features != other.features or not part.table.schema.equals(other.table.schema):
        raise DataError(
            f"{folder}: {first} and {name} have other columns, types, or classes. Save them from one data set."
        )


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_bytes(file, error=DataError))
    except (ValueError, RecursionError) as broken:
        raise _again(f"{file} is no JSON") from broken
    if not isinstance(found, dict):
        raise _again(f"{file} has no JSON object")
    return found


def _again(what: str) -> DataError:
    return DataError(f"{what}. Save the data set again.")


def _is_plain(name: Any) -> bool:
    """Whether this is the name of something in the same folder."""
    return isinstance(name, str) and Path(name).name == name != ".." and "\x00" not in name


def _left_out(folder: Path, known: set[str], why: str, prefix: str = "") -> list[tuple[str, str]]:
    return [(f"{prefix}{name}", why) for name in sorted({each.name for each in folder.iterdir()} - known)]
