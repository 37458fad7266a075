"""Data sets of the Hugging Face Hub (`hf:OWNER/NAME`, or `hf:OWNER/NAME@CONFIG`), or of a folder (`hf:./FOLDER`). They
are read as data and run no code.

The samples are the images of a data set with one column of images, the texts of a column, or the rows of a table.
"""

import io
import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from simulator.base import extras
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.base.extras import install_command, library
from simulator.data import saved, tables
from simulator.data.pictures import (
    DEEP_MODES,
    GREY_MODES,
    UNREADABLE,
    Oddities,
    check_memory,
    converted,
    opened,
    upright,
)
from simulator.data.samples import Images, ImageSet, Indices, LabeledSet, Reading, SampleSet, UnfittedSet
from simulator.data.saved import Split
from simulator.data.specs import Kind
from simulator.data.tables import OwnParts

PREFIX = "hf:"
OLDEST = 4
"""The first major version of the package `datasets` that runs no code of a data set."""
_WITHOUT = "Remove this row, or choose another data set."
_NAME = re.compile(r"(?P<path>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<config>[\w.+-]+))?", re.ASCII)


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
    left_out: tuple[tuple[str, str], ...]
    """Splits and files that are not read, with the reasons."""
    clients: int = 0
    """The folders of clients."""


def is_name(dataset: str) -> bool:
    """Whether this names a data set of Hugging Face, or a folder that its package wrote."""
    return dataset.startswith(PREFIX)


def folder_of(dataset: str) -> Path | None:
    """The folder that this names; None for a data set of the Hub."""
    path = dataset.removeprefix(PREFIX)
    return Path(path).expanduser() if is_name(dataset) and path.startswith((".", "/", "~")) else None


def load(name: str, columns: DataConfig) -> LabeledSet:
    """All samples, those of the split `test` as the own test set. Other splits than `train` and `test` are left out.

    Raises ConfigError for a wrong name or wrong columns, DataError for data that cannot be had or are no samples.
    """
    found = _open(name, columns)
    samples = _samples(found)
    read = samples.reading
    left_out, notes = (*read.left_out, *found.left_out), read.notes
    if found.test is not None and not samples.has_test_set:
        left_out += (("split test", "its labels are hidden"),)
    if found.clients:
        notes += (f"each of {found.clients} folders has the samples of a client",)
    return replace(samples, reading=replace(read, left_out=left_out, notes=notes))


def _samples(found: _Opened) -> LabeledSet:
    columns, features = found.columns, found.train.features
    target = tables.target_of(found.name, list(features), columns)
    kind, column = _form(found)
    if kind == "table":
        return _of_table(found, columns, _plain(found))
    named = [each for each in (target, columns.client) if each is not None]
    if kind == "tokens":
        columns = columns.model_copy(update={"ignore": (), "text": column})
        return _of_table(found, columns, [*named, column])
    table, own = _table(found, named, target)
    parts = [part for part in (found.train, found.test) if part is not None]
    cells = itertools.chain.from_iterable(part.cells(column) for part in parts)
    return _of_images(f"'{found.name}'", cells, table, columns, own, features, column)


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
    labels, classes = tables.labels_of(where, table, columns, own)
    left_out = [
        (each, f"the samples are the images of '{column}'")
        for each in names
        if each not in (columns.target, columns.client, column)
    ]
    oddities = Oddities()
    images, gray = _images(where, cells, len(labels), columns.finds_domains, oddities)
    samples = UnfittedSet(
        (images, gray),
        _learned,
        labels=labels,
        classes=classes,
        test_from=own.test_from or len(labels),
        reading=oddities.told(Reading(tuple(left_out), notes=(f"images in column '{column}'",))),
    )
    if columns.client is None:
        return samples
    return samples.of_users(tables.names_of_users(where, table, columns))


def kind_of(name: str, columns: DataConfig) -> Kind:
    """The kind of the samples. Raises as `load` does."""
    found = _open(name, columns)
    tables.target_of(name, list(found.train.features), found.columns)
    return _form(found)[0]


def users(name: str, columns: DataConfig) -> Users:
    """The users that a column names, or the clients of a folder of clients. Raises as `load` does."""
    if columns.client is None and folder_of(name) is None:
        return Users()
    found = _open(name, columns)
    target = tables.target_of(name, list(found.train.features), found.columns)
    if (client := found.columns.client) is None:
        return Users()
    table, own = _table(found, [target, client], target)
    counts = table[client].value_counts(sort=False, dropna=False).tolist()
    return Users(counts, found.clients > 0, found.clients > 0 and own.test_from != len(table))


def _open(name: str, columns: DataConfig) -> _Opened:
    """The data set: of its folder, or downloaded unless the package's own cache has it."""
    clients, left_out = dict[str, list[str]](), tuple[tuple[str, str], ...]()
    if (folder := folder_of(name)) is not None:
        try:
            parts, clients, left_out = saved.read(folder)
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
        parts = {key: part.with_texts(column, clients[key]) for key, part in parts.items()}
    left_out += tuple(
        (f"split {each}", "only train and test are read") for each in parts if each not in (first, "test")
    )
    test = parts["test"] if {"train", "test"} <= {*parts} else None
    held = len({*clients.get(first, ())}) if columns.client is not None else 0
    return _Opened(name, parts[first], test, columns, left_out, held)


def _of_hub(name: str, columns: DataConfig) -> dict[str, Split]:
    """The splits of a data set of the Hub."""
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
        key: Split(part.features.to_dict(), part.with_format("arrow")[:], paths=True)
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


def _plain(found: _Opened) -> list[str]:
    """The columns of a table. Raises DataError for one with several values in a cell."""
    features = found.train.features
    kept = [key for key in features if key not in found.columns.ignore]
    for key in kept:
        if features[key].kind not in ("text", "value"):
            raise DataError(
                f"'{found.name}': column '{key}' is neither numbers nor texts. Leave it out: `data.ignore=[\"{key}\"]`."
            )
    return kept


def _of_table(found: _Opened, columns: DataConfig, names: Sequence[str]) -> LabeledSet:
    assert columns.target is not None  # `tables.target_of` has checked it
    table, own = _table(found, names, columns.target)
    ignored = tuple(each for each in columns.ignore if each in names)
    samples = tables.samples(found.name, table, columns.model_copy(update={"ignore": ignored}), own)
    reason = "data.ignore names it" if columns.text is None else "the texts are in another column"
    left_out = [(each, reason) for each in found.train.features if each not in names or each in ignored]
    return replace(samples, reading=replace(samples.reading, left_out=tuple(left_out)))


def _table(found: _Opened, names: Sequence[str], target: str) -> tuple[Any, OwnParts]:
    """These columns of all samples as a data frame, and what the data set has fixed.

    A test split without labels is left out: its classes are all −1.
    """
    import pandas as pd

    features, parts = found.train.features, [found.train.frame(names)]
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


def _images(
    where: str, cells: Iterable[Any], count: int, old: bool, oddities: Oddities
) -> tuple[Images, NDArray[np.bool_]]:
    """The first `count` images as RGB [n, h, w, 3], and whether each is gray."""
    stored: Images | None = None
    gray = np.zeros(count, dtype=bool)
    for number, cell in enumerate(itertools.islice(cells, count)):
        mode, pixels = _decoded(where, number, cell, old, oddities)
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
        gray[number] = mode in GREY_MODES
    assert stored is not None  # labels were counted
    return stored, gray


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
    try:
        with opened(Path(cell["path"]) if cell["bytes"] is None else io.BytesIO(cell["bytes"])) as image:
            if image.mode.startswith(DEEP_MODES):
                raise DataError(f"{where}: image {number + 1:,} has more than 8 bits per channel. {_WITHOUT}")
            oddities.note(f"image {number + 1:,}", image)
            return image.mode, converted(image if old else upright(image), "RGB")
    except UNREADABLE as unreadable:
        raise DataError(
            f"{where}: image {number + 1:,} cannot be read ({unreadable}). {_WITHOUT}"
        ) from unreadable
