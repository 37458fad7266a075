"""Data sets of texts: AG News as CSV files, and IMDB as a folder of text files."""

import csv
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, register, silent
from simulator.data.download import Published, bring, verify
from simulator.data.samples import UnfittedSet
from simulator.data.words import SPEC, of_texts, spaced

LONGEST = 1 << 20
"""The maximum number of characters of one text."""


def as_samples(
    train: tuple[Sequence[str], Sequence[int]],
    test: tuple[Sequence[str], Sequence[int]],
    classes: tuple[str, ...],
) -> UnfittedSet:
    """English texts with their labels. They keep the words of older sessions."""
    labels = np.array([*train[1], *test[1]], dtype=np.int64)
    return of_texts([*train[0], *test[0]], labels, classes, len(train[1]), spaced)


@register
class AgNews(Dataset):
    """120,000 + 7,600 news in four classes: the title and the first sentences of each."""

    name = "ag_news"
    title = "AG News"
    source = "Zhang et al. 2015, arXiv:1509.01626"
    train_samples = 120_000
    test_samples = 7_600
    classes = 4
    spec = SPEC
    CLASSES = ("World", "Sports", "Business", "Sci/Tech")
    FILES = tuple(
        Published(
            f"ag_news/{part}.csv",
            f"https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/{part}.csv",
            md5,
        )
        for part, md5 in (
            ("train", "b1a00f826fdfbd249f79597b59e1dc12"),
            ("test", "d52ea96a97a2d943681189a97654912d"),
        )
    )

    def files(self, folder: Path) -> list[Path]:
        return [folder / file.path for file in self.FILES]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        bring(self.FILES, folder, progress, self.name)

    def check(self, folder: Path) -> list[Path]:
        verify(self.FILES, folder, self.name)
        return self.files(folder)

    def load(self, folder: Path) -> UnfittedSet:
        train, test = (_news(file) for file in self.files(folder))
        return as_samples(train, test, self.CLASSES)


def _news(file: Path) -> tuple[list[str], list[int]]:
    """The texts and labels of a CSV file with the columns class (1 to 4), title, and description, without a header."""
    texts, labels = [], []
    with _opened(file) as lines:
        csv.field_size_limit(LONGEST)
        reader = csv.reader(lines)
        for row in _rows(file, reader):
            if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
                raise DataError(
                    f"{file} is damaged in line {reader.line_num:,}: it needs a class from 1 to 4, a title, and a "
                    "description. Fetch it again: `htfl-sim data fetch ag_news`."
                )
            labels.append(int(row[0]) - 1)
            texts.append(f"{row[1]} {row[2]}")
    if not texts:
        raise DataError(f"{file} is empty. Fetch it again: `htfl-sim data fetch ag_news`.")
    return texts, labels


def _opened(file: Path):  # type: ignore[no-untyped-def]  # a text file
    try:
        return file.open(encoding="utf-8", newline="")
    except OSError as missing:
        raise DataError(
            f"{file} cannot be read ({missing.strerror}). Get it with `htfl-sim data fetch ag_news`."
        ) from missing


def _rows(file: Path, reader: Iterable[list[str]]) -> Iterator[list[str]]:
    try:
        yield from reader
    except UnicodeDecodeError as wrong:
        raise DataError(
            f"{file} is not UTF-8 text. Fetch it again: `htfl-sim data fetch ag_news`."
        ) from wrong
    except csv.Error as broken:
        raise DataError(
            f"{file} is no CSV ({broken}). Fetch it again: `htfl-sim data fetch ag_news`."
        ) from broken


@register
class Imdb(Dataset):
    """25,000 + 25,000 reviews of films in two classes."""

    name = "imdb"
    title = "Large Movie Review Dataset (IMDB)"
    source = "Maas et al. 2011, ACL"
    train_samples = 25_000
    test_samples = 25_000
    classes = 2
    spec = SPEC
    ARCHIVE = Published(
        "aclImdb_v1.tar.gz",
        "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        "7c2ac02c03563afcf9b574c7e56c153a",
    )
    CLASSES = ("neg", "pos")

    def files(self, folder: Path) -> list[Path]:
        """The unpacked folder, if there is one, and otherwise the archive."""
        unpacked = folder / "aclImdb"
        if unpacked.is_dir():
            return [unpacked / part / label for part in ("train", "test") for label in self.CLASSES]
        return [folder / self.ARCHIVE.path]

    def is_present(self, folder: Path) -> bool:
        return all(file.exists() for file in self.files(folder))

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        bring([self.ARCHIVE], folder, progress, self.name)

    def load(self, folder: Path) -> UnfittedSet:
        found = self._unpacked(folder) if (folder / "aclImdb").is_dir() else self._packed(folder)
        parts = {}
        for part in ("train", "test"):
            rows = sorted(
                (label, name, text) for (where, label, name), text in found.items() if where == part
            )
            if {label for label, _, _ in rows} != set(self.CLASSES):
                raise DataError(
                    f"{folder / 'aclImdb' / part} needs the folders neg and pos with texts in both. Fetch it again: "
                    "`htfl-sim data fetch imdb`."
                )
            parts[part] = [text for _, _, text in rows], [self.CLASSES.index(label) for label, _, _ in rows]
        return as_samples(parts["train"], parts["test"], self.CLASSES)

    def _unpacked(self, folder: Path) -> dict[tuple[str, str, str], str]:
        texts = {}
        for place in self.files(folder):
            for file in sorted(place.glob("*.txt")) if place.is_dir() else []:
                if file.is_file() and not file.is_symlink():
                    texts[place.parent.name, place.name, file.name] = _decoded(file, _limited(file))
        return texts

    def _packed(self, folder: Path) -> dict[tuple[str, str, str], str]:
        archive = folder / self.ARCHIVE.path
        texts = {}
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    path = member.name.removeprefix("./").split("/")
                    if (
                        len(path) == 4
                        and path[2] in self.CLASSES
                        and path[3].endswith(".txt")
                        and member.isfile()
                    ):
                        content = tar.extractfile(member)
                        assert content is not None  # it is a file
                        texts[path[1], path[2], path[3]] = _decoded(archive, content.read(LONGEST))
        except (OSError, EOFError, tarfile.TarError) as broken:
            raise DataError(
                f"{archive} cannot be read ({broken}). Fetch it again: `htfl-sim data fetch imdb`."
            ) from broken
        return texts


def _limited(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(LONGEST)
    except OSError as unreadable:
        raise DataError(f"{file} cannot be read ({unreadable.strerror}).") from unreadable


def _decoded(file: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise DataError(f"{file} has a text that is not UTF-8. Save it with this encoding.") from wrong
