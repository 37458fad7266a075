"""Data sets in Arrow, with the features that the package `datasets` declares. Its `save_to_disk` writes such folders.

A folder is a data set (state.json), or has one for each split. Or each of its folders is such a folder, and holds what
one client has, as Flower writes partitions (adap/flower@202ab5e, datasets/flwr_datasets/cli/create.py). Only the JSON
and Arrow files are read. Paths in them are not opened.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulator.base.errors import DataError
from simulator.base.extras import library
from simulator.base.reading import read_bytes, refuse_irregular
from simulator.data import tables
from simulator.data.image_folders import split_role
from simulator.data.pictures import check_memory

STATE, SPLITS = "state.json", "dataset_dict.json"
_COMMON = re.compile(
    r"(?<![a-z])(server|central(ized)?|global|all|test(set)?|val(idation)?|eval)(?![a-z])", re.IGNORECASE
)
"""Names of folders whose samples are probably those of no client."""


class Feature(NamedTuple):
    """What a column holds."""

    kind: str
    """image, text, value, or other."""
    classes: tuple[str, ...] | None = None
    """The names of classes, by number."""


class Split:
    """The samples of a split. `paths`: whether its images may be files elsewhere, as in the cache of `datasets`."""

    def __init__(self, features: Mapping[str, Any], table: Any, paths: bool = False) -> None:
        self.features = {
            name: _feature(features.get(name), table.schema.field(name).type) for name in table.column_names
        }
        self.table = table
        self._paths = paths

    def with_texts(self, name: str, texts: Sequence[str]) -> "Split":
        """The same samples with one more column."""
        found = Split({}, self.table.append_column(name, [list(texts)]), self._paths)
        found.features = self.features | {name: Feature("text")}
        return found

    def frame(self, names: Sequence[str]) -> Any:
        """These columns as a data frame."""
        return self.table.select(list(names)).to_pandas(ignore_metadata=True)

    def cells(self, column: str) -> Iterator[Any]:
        """The encoded images of a column: {"bytes", "path"}, or None for a sample without."""
        for batch in self.table.select([column]).to_batches(max_chunksize=256):
            for cell in batch.column(0).to_pylist():
                yield cell if cell and (cell["bytes"] is not None or self._paths) else None


class Folder(NamedTuple):
    """What was read of a folder."""

    splits: dict[str, Split]
    clients: dict[str, list[str]]
    """The client of each sample, by split. Empty without a folder for each client."""
    left_out: tuple[tuple[str, str], ...]


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


def read(folder: Path) -> Folder:
    """The splits of a folder. Raises DataError for one that was not written by `save_to_disk`, or is damaged."""
    folder = folder.absolute()
    saved = [each for each in _folders(folder) if _is_one(each)]
    if _is_one(folder):
        splits, left_out = _read_one(folder, "")
        return Folder(splits, {}, tuple(left_out))
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
                f"{folder}: '{first}' has {_listed(splits)}, and '{name}' has {_listed(other)}. Save all clients with "
                "the same splits."
            )
        for split in splits:
            _refuse_other(folder, f"'{first}'", splits[split], f"'{name}'", other[split])
    left_out = [each for _, found in clients.values() for each in found]
    left_out += _left_out(folder, {*names}, "it is no folder of save_to_disk")
    return Folder(
        {split: _joined([found[split] for found, _ in clients.values()]) for split in splits},
        {
            split: [name for name, (found, _) in clients.items() for _ in range(len(found[split].table))]
            for split in splits
        },
        tuple(left_out),
    )


def _is_one(folder: Path) -> bool:
    """Whether a folder is one data set, with or without splits."""
    if (folder / STATE).is_file() or (folder / SPLITS).is_file():
        return True
    inner = _splits(folder)
    return bool(inner) and all(map(split_role, inner))


def _splits(folder: Path) -> list[str]:
    """The folders in a folder that have a state.json."""
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
            raise DataError(f"{folder / SPLITS} names no splits. Save the data set again.")
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
        raise DataError(f"{folder} names no Arrow files in it, or no features. Save the data set again.")
    if state.get("_indices_data_files"):
        raise DataError(
            f"{folder} was saved by an old version of datasets, with the order of its samples in another file. Load "
            "it with that version, and save `dataset.flatten_indices()`."
        )
    parts = [Split(features, _read_arrow(folder / file)) for file in files]
    for file, part in zip(files, parts, strict=True):
        _refuse_other(folder, files[0], parts[0], file, part)
    found = _joined(parts)
    if {*found.table.column_names} != {*features}:
        raise DataError(
            f"{folder}: dataset_info.json has other columns than {files[0]}. Save the data set again."
        )
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
        raise DataError(f"{file} is no Arrow stream ({unreadable}). Save the data set again.") from unreadable


def _joined(parts: Sequence[Split]) -> Split:
    if len(parts) == 1:
        return parts[0]
    found = Split({}, library("pyarrow", "parquet").concat_tables([part.table for part in parts]))
    found.features = parts[0].features
    return found


def _refuse_other(folder: Path, first: str, part: Split, name: str, other: Split) -> None:
    """Refuse a part with other columns than the first one."""
    if part.features != other.features or not part.table.schema.equals(other.table.schema):
        raise DataError(
            f"{folder}: {first} and {name} have other columns, types, or classes. Save them from one data set."
        )


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_bytes(file, error=DataError))
    except (ValueError, RecursionError) as broken:
        raise DataError(f"{file} is no JSON. Save the data set again.") from broken
    if not isinstance(found, dict):
        raise DataError(f"{file} has no JSON object. Save the data set again.")
    return found


def _is_plain(name: Any) -> bool:
    """Whether this is the name of something in the same folder."""
    return isinstance(name, str) and Path(name).name == name != ".." and "\x00" not in name


def _left_out(folder: Path, known: set[str], why: str, prefix: str = "") -> list[tuple[str, str]]:
    return [(f"{prefix}{name}", why) for name in sorted({each.name for each in folder.iterdir()} - known)]


def _listed(splits: Mapping[str, Split]) -> str:
    return " and ".join(splits)
