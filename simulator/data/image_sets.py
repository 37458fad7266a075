"""Built-in data sets of images.

The published files of CIFAR are pickles. None is opened before its bytes match the published MD5.

A data set of several domains is made from another one. Each domain changes the look of the same classes. Every image is
in one domain only, so no client's test image is another client's training image in another form. The domain and the
colors are drawn from streams of fixed seeds, so the images are the same in every run and on every machine.

Archives of image files are decoded once into arrays, which later runs map into memory. Under the data folder,
`decoded/<name>/` holds `images.npy` uint8 [n, side, side, 3], `labels.npy` int64 [n], and `about.json`: the published
files, the facts of the image set, and both arrays' SHA-256.
"""

import functools
import gzip
import hashlib
import io
import json
import math
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from simulator.base.errors import DataError
from simulator.data.datasets import (
    Dataset,
    Progress,
    Published,
    PublishedDataset,
    register,
    silent,
    verify,
)
from simulator.data.pictures import opened
from simulator.data.samples import CHUNK, Images, ImageSet, Labels, joined
from simulator.data.specs import ImageSpec

SIDE = 32
TEST_SHARE = 5  # one in five


@register
class Digits(Dataset):
    """1,797 digits of 8×8 pixels, enlarged to 32×32 so that CNNs with 5×5 kernels fit.

    They have no test set. The last fifth of each class replaces it. The file is in the order of collection, so most of
    those digits are by writers who are not in the training data.
    """

    name = "digits"
    title = "Optical recognition of handwritten digits (scikit-learn)"
    source = "Alpaydin & Kaynak 1998, UCI Machine Learning Repository, doi:10.24432/C50P49"
    train_samples = 1442
    test_samples = 355
    classes = 10
    spec = ImageSpec(1, SIDE, SIDE)

    def load(self, folder: Path) -> ImageSet:
        whole = _read()
        return replace(whole, images=whole.images.copy(), labels=whole.labels.copy())


@functools.cache
def _read() -> ImageSet:
    """All images. A process with many sessions reads and enlarges them once, and then copies them."""
    rows = scanned()
    images, labels = enlarged(rows[:, :-1].reshape(-1, 8, 8)), rows[:, -1].astype(np.int64)
    test = np.zeros(len(labels), dtype=bool)
    for label in range(Digits.classes):
        members = np.flatnonzero(labels == label)
        test[members[len(members) - len(members) // TEST_SHARE :]] = True
    return joined(
        train=(images[~test], labels[~test]),
        test=(images[test], labels[test]),
        classes=tuple(str(digit) for digit in range(Digits.classes)),
    )


def sklearn_folder() -> Path:
    spec = find_spec("sklearn")
    assert spec is not None and spec.origin is not None  # scikit-learn is required
    return Path(spec.origin).parent / "datasets" / "data"


def scanned() -> NDArray[np.float64]:
    """Rows of 64 pixels, 0–16, and the digit, [1797, 65]. Importing scikit-learn for them takes as long as torch."""
    file = sklearn_folder() / "digits.csv.gz"
    if file.is_file():
        with gzip.open(file, "rt", encoding="ascii") as lines:
            return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits  # other versions keep it elsewhere

    raw = load_digits()
    return np.column_stack([raw.data, raw.target])


def enlarged(images: NDArray[np.float64]) -> Images:
    """Bilinear enlargement of images [n, 8, 8] with values 0–16 to uint8 [n, 32, 32, 1] with values 0–255.

    All weights are eighths, so the sums are exact, and the bytes are the same on every machine.
    """
    small = images.shape[1]
    centres = np.clip((np.arange(SIDE) + 0.5) * small / SIDE - 0.5, 0, small - 1)
    weights = np.clip(1 - np.abs(centres[:, None] - np.arange(small)), 0, None)
    large = weights @ images @ weights.T
    pixels: Images = np.floor(large * 255 / 16 + 0.5).astype(np.uint8)[..., None]
    return pixels


DEBIAN = Path("/usr/share/datasets/fashion-mnist")
IDX_FILES = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
)  # fmt: skip
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


@register
class FashionMNIST(PublishedDataset):
    """70,000 grayscale images of clothes, 28×28, from torchvision's folder or Debian's package, plain or gzipped."""

    name = "fashion_mnist"
    title = "Fashion-MNIST"
    source = "Xiao, Rasul & Vollgraf 2017, arXiv:1708.07747"
    train_samples = 60_000
    test_samples = 10_000
    classes = 10
    spec = ImageSpec(1, 28, 28)

    def files(self, folder: Path) -> list[Path]:
        raw = folder / "FashionMNIST" / "raw"
        return _found(raw) or _found(DEBIAN) or [raw / f"{name}.gz" for name in IDX_FILES]

    def sources(self) -> list[Published]:
        from torchvision.datasets import FashionMNIST as Reader

        return [
            Published(f"FashionMNIST/raw/{name}", Reader.mirrors[0] + name, md5)
            for name, md5 in Reader.resources
        ]

    check = Dataset.check  # by loading: Debian packages other files than the published ones

    def load(self, folder: Path) -> ImageSet:
        files = self.files(folder)
        return joined(_read_pair(*files[:2]), _read_pair(*files[2:]), CLOTHES, mean=(0.2860,), std=(0.3530,))


def _read_pair(images_file: Path, labels_file: Path) -> tuple[Images, Labels]:
    """Images [n, h, w, 1] and labels [n] of two files. Raises DataError if they do not belong together."""
    images, labels = read_idx(images_file), read_idx(labels_file)
    if images.ndim != 3:
        raise _damaged(images_file, "it does not hold images")
    if labels.shape != images.shape[:1] or labels.max(initial=0) >= len(CLOTHES):
        raise _damaged(labels_file, "it does not fit the images beside it")
    return images[..., None], labels.astype(np.int64)


def read_idx(file: Path) -> NDArray[np.uint8]:
    """A file in IDX format (big-endian header, then bytes), plain or gzipped. Raises DataError with its name."""
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except FileNotFoundError as missing:
        raise DataError(
            f"{file} is missing; get it with `htfl-sim data fetch fashion_mnist`, or use `dataset='digits'`."
        ) from missing
    except (OSError, EOFError, zlib.error) as unreadable:
        raise _damaged(file, str(unreadable)) from unreadable
    if len(content) < 4 or content[:3] != b"\0\0\x08" or len(content) < (start := 4 + 4 * content[3]):
        raise _damaged(file, "no IDX file of bytes")
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    if len(content) - start != math.prod(shape):
        raise _damaged(file, f"it has {len(content)} bytes, but its header gives another size")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _found(place: Path) -> list[Path]:
    found = [
        next((f for f in (place / f"{name}.gz", place / name) if f.is_file()), None) for name in IDX_FILES
    ]
    return [file for file in found if file] if all(found) else []


def _damaged(file: Path, why: str) -> DataError:
    return DataError(f"{file} is damaged ({why}); delete it and run `htfl-sim data fetch fashion_mnist`.")


class Cifar(PublishedDataset):
    """60,000 color images of 32×32 pixels, read by torchvision's class of the same data set."""

    source = "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images"
    train_samples = 50_000
    test_samples = 10_000
    spec = ImageSpec(3, 32, 32)
    subfolder: ClassVar[str]
    archive: ClassVar[str]
    batches: ClassVar[tuple[str, ...]]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]

    def reader(self) -> Any:
        """torchvision's class, which knows the URL and the MD5s."""
        from torchvision import datasets

        return getattr(datasets, self.name.upper())

    def files(self, folder: Path) -> list[Path]:
        return [folder / self.subfolder / name for name in self.batches]

    def is_present(self, folder: Path) -> bool:
        return super().is_present(folder) or (folder / self.archive).is_file()

    def load(self, folder: Path) -> ImageSet:
        if not super().is_present(folder) and (folder / self.archive).is_file():
            self.unpack(folder, silent)
        self.check(folder)
        parts = [self.reader()(folder, train=is_train) for is_train in (True, False)]
        train, test = ((part.data, np.asarray(part.targets, dtype=np.int64)) for part in parts)
        return joined(train, test, tuple(parts[0].classes), self.mean, self.std)

    def check(self, folder: Path) -> list[Path]:
        reader = self.reader()
        md5s = [*reader.train_list, *reader.test_list, (reader.meta["filename"], reader.meta["md5"])]
        batches = [Published(f"{self.subfolder}/{name}", reader.url, md5) for name, md5 in md5s]
        verify(batches, folder, self.name)
        return self.files(folder)

    def sources(self) -> list[Published]:
        return [Published(self.archive, self.reader().url, self.reader().tgz_md5)]

    def unpack(self, folder: Path, progress: Progress) -> None:
        """Write the batches from the archive under their known names, never under names from the archive."""
        archive, place = folder / self.archive, folder / self.subfolder
        verify(self.sources(), folder, self.name)
        targets = {f"{self.subfolder}/{file.name}": file for file in self.files(folder)}
        try:
            place.mkdir(exist_ok=True)
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    content = tar.extractfile(member) if member.name in targets else None
                    if content is not None:
                        target = targets[member.name]
                        part = target.with_name(f"{target.name}.part")
                        part.write_bytes(content.read())
                        part.replace(target)
        except (OSError, tarfile.TarError) as failure:
            raise DataError(f"{archive} cannot be unpacked into {place} ({failure}).") from failure


@register
class Cifar10(Cifar):
    name = "cifar10"
    title = "CIFAR-10"
    classes = 10
    subfolder = "cifar-10-batches-py"
    archive = "cifar-10-python.tar.gz"
    batches = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)


@register
class Cifar100(Cifar):
    name = "cifar100"
    title = "CIFAR-100 (fine labels)"
    classes = 100
    subfolder = "cifar-100-python"
    archive = "cifar-100-python.tar.gz"
    batches = ("train", "test", "meta")
    mean = (0.5071, 0.4865, 0.4409)
    std = (0.2673, 0.2564, 0.2762)


@register
class SVHN(PublishedDataset):
    """99,289 color images of digits, 32×32. The file `extra` is left out."""

    name = "svhn"
    title = "SVHN (cropped digits)"
    source = "Netzer et al. 2011, NIPS Workshop on Deep Learning and Unsupervised Feature Learning"
    train_samples = 73_257
    test_samples = 26_032
    classes = 10
    spec = ImageSpec(3, 32, 32)
    published = tuple(
        Published(name, f"http://ufldl.stanford.edu/housenumbers/{name}", md5)
        for name, md5 in (
            ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        )
    )
    """torchvision publishes these MD5s."""

    def load(self, folder: Path) -> ImageSet:
        train, test = map(_of_matlab, self.check(folder))
        classes = tuple(str(digit) for digit in range(self.classes))
        return joined(train, test, classes, mean=(0.4377, 0.4438, 0.4728), std=(0.1980, 0.2010, 0.1970))


def _of_matlab(file: Path) -> tuple[Images, Labels]:
    """Images [n, 32, 32, 3] of X [32, 32, 3, n], and labels [n] of y [n, 1], where 10 stands for the digit 0."""
    from scipy.io import loadmat

    try:
        matrices = loadmat(file, variable_names=["X", "y"])
        images: Images = np.ascontiguousarray(matrices["X"].transpose(3, 0, 1, 2))
        return images, matrices["y"].ravel().astype(np.int64) % 10
    except (OSError, ValueError, KeyError, TypeError) as unreadable:
        raise DataError(f"{file} cannot be read ({unreadable}).") from unreadable


REACH = 8  # pixels to each side, with a standard deviation of two
SEED = 0

Change = Callable[[Images, np.random.Generator], Images]
"""(grayscale images [n, h, w, 1], stream) → images [n, h, w, 3]."""


def original(images: Images, stream: np.random.Generator) -> Images:
    return np.repeat(images, 3, axis=3)


def rotated(images: Images, stream: np.random.Generator) -> Images:
    return np.repeat(np.rot90(images, axes=(1, 2)), 3, axis=3)


def inverted(images: Images, stream: np.random.Generator) -> Images:
    return np.repeat(255 - images, 3, axis=3)


def coloured(images: Images, stream: np.random.Generator) -> Images:
    """From a dark color to a light one, drawn for every image: each channel from 0–127 and 128–255."""
    shape = (len(images), 1, 1, 3)
    dark, light = stream.integers(0, 128, shape), stream.integers(128, 256, shape)
    made: Images = (dark + (images * (light - dark) + 127) // 255).astype(np.uint8)
    return made


def blurred(images: Images, stream: np.random.Generator) -> Images:
    """Means with binomial weights over seventeen pixels down and across. The border repeats the last pixel.

    Sums are whole numbers, so every machine gets the same bytes.
    """
    weights = [math.comb(2 * REACH, k) for k in range(2 * REACH + 1)]
    border = ((0, 0), (REACH, REACH), (REACH, REACH), (0, 0))
    padded = np.pad(images.astype(np.int64), border, mode="edge")
    height, width = images.shape[1:3]
    rows, sums = np.zeros_like(padded[:, :height]), np.zeros(images.shape, dtype=np.int64)
    for shift, weight in enumerate(weights):
        rows += weight * padded[:, shift : shift + height]
    for shift, weight in enumerate(weights):
        sums += weight * rows[:, :, shift : shift + width]
    whole = sum(weights) ** 2
    return np.repeat(((sums + whole // 2) // whole).astype(np.uint8), 3, axis=3)


CHANGES: dict[str, Change] = {
    change.__name__: change for change in (original, rotated, inverted, coloured, blurred)
}


def in_domains(images: ImageSet, name: str) -> ImageSet:
    """Square grayscale images, divided over the domains equally by class and part, and changed."""
    from simulator.base import rng

    kind = 2 * images.labels + (np.arange(len(images)) >= images.test_from)
    dealt = np.lexsort((rng.numpy_stream(SEED, f"data/domains/{name}").random(len(images)), kind))
    domain = np.empty(len(images), dtype=np.int64)
    domain[dealt] = np.arange(len(images)) % len(CHANGES)
    altered = np.empty((*images.images.shape[:3], 3), dtype=np.uint8)
    for number, (title, change) in enumerate(CHANGES.items()):
        stream = rng.numpy_stream(SEED, f"data/domains/{name}/{title}")
        members = np.flatnonzero(domain == number)
        for start in range(0, len(members), CHUNK):
            chunk = members[start : start + CHUNK]
            altered[chunk] = change(images.images[chunk], stream)
    return replace(images, images=altered, mean=None, std=None, domains=tuple(CHANGES), domain=domain)


class Domains(Dataset):
    """Another data set's images, divided over five domains."""

    base: ClassVar[Dataset]

    def __init_subclass__(cls) -> None:
        for fact in ("source", "train_samples", "test_samples", "classes"):
            setattr(cls, fact, getattr(cls.base, fact))
        assert isinstance(cls.base.spec, ImageSpec)
        cls.spec = replace(cls.base.spec, channels=3)

    def files(self, folder: Path) -> list[Path]:
        return self.base.files(folder)

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        self.base.fetch(folder, progress)

    def load(self, folder: Path) -> ImageSet:
        images = self.base.load(folder)
        assert isinstance(images, ImageSet)
        return in_domains(images, self.name)


@register
class DigitsDomains(Domains):
    """Digits."""

    name = "digits_domains"
    title = "Handwritten digits in five domains"
    base = Digits()


@register
class FashionMNISTDomains(Domains):
    """Clothes."""

    name = "fashion_mnist_domains"
    title = "Fashion-MNIST in five domains"
    base = FashionMNIST()


VERSION = 1
"""Version of the stored arrays. If it changes, the archives are decoded again."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError)
UNDECODABLE = (
    OSError, SyntaxError, ValueError, KeyError, EOFError, NotImplementedError, zlib.error,
    tarfile.TarError, zipfile.BadZipFile, Image.DecompressionBombError,
)  # fmt: skip


class Listing(NamedTuple):
    """The archive's members that are images, with their classes, in the order of the stored arrays."""

    train: list[tuple[str, int]]
    test: list[tuple[str, int]]
    classes: tuple[str, ...]


class DecodedDataset(PublishedDataset):
    """A data set whose first published file is an archive (.tar.gz, .tgz or .zip) of image files."""

    @abstractmethod
    def listing(self, folder: Path) -> Listing:
        """The facts about the images in the published files under the data folder."""

    def files(self, folder: Path) -> list[Path]:
        place = folder / "decoded" / self.name
        return [place / "images.npy", place / "labels.npy", place / "about.json"]

    def is_present(self, folder: Path) -> bool:
        return super().is_present(folder) and self._about(folder).get("source") == self._source()

    def load(self, folder: Path) -> ImageSet:
        """The images, mapped from their file: pages are read on use."""
        if not self.is_present(folder):
            raise DataError(
                f"data set '{self.name}' is not decoded in {folder / 'decoded' / self.name}; `htfl-sim data fetch "
                f"{self.name}` does that, from {folder / self.published[0].path} if it is there."
            )
        images_file, labels_file, _ = self.files(folder)
        about = self._about(folder)
        try:
            images: Images = np.load(images_file, mmap_mode="c", allow_pickle=False)
            labels: Labels = np.load(labels_file, allow_pickle=False)
            classes, test_from = tuple(about["classes"]), int(about["test_from"])
            image_set = ImageSet(images, labels=labels, classes=classes, test_from=test_from)
        except UNREADABLE as unreadable:
            raise self._damaged(images_file.parent, unreadable) from unreadable
        if images.shape != (len(labels), *self.spec.shape[1:], 3) or images.dtype != np.uint8:
            raise self._damaged(images_file, f"it does not fit {labels_file.name}")
        return image_set

    def check(self, folder: Path) -> list[Path]:
        """The files, each with the SHA-256 from when it was written."""
        self.load(folder)
        known = self._about(folder).get("sha256", {})
        for file in self.files(folder)[:2]:
            if _sha256(file) != known.get(file.name):
                raise self._damaged(file, "its SHA-256 is not the one it was written with")
        return self.files(folder)

    def unpack(self, folder: Path, progress: Progress) -> None:
        """Decode everything into a scratch folder, which then replaces the final one as a whole."""
        place = folder / "decoded" / self.name
        archive = folder / self.published[0].path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=f"{self.name}.") as scratch:
                whole = Path(scratch) / "whole"
                whole.mkdir()
                self._write(whole, archive, self.listing(folder), progress)
                shutil.rmtree(place, ignore_errors=True)
                whole.rename(place)
        except UNDECODABLE as failure:
            reason = " ".join(str(failure).split()) or type(failure).__name__
            raise DataError(f"{archive} cannot be decoded into {place} ({reason}).") from failure

    def _write(self, whole: Path, archive: Path, listing: Listing, progress: Progress) -> None:
        members = listing.train + listing.test
        row = {name: number for number, (name, _) in enumerate(members)}
        side = self.spec.shape[1]
        images = np.lib.format.open_memmap(
            whole / "images.npy", mode="w+", dtype=np.uint8, shape=(len(members), side, side, 3)
        )
        missing = set(row)
        for name, content, done in contents(archive, row):
            images[row[name]] = pixels(content, side)
            missing.discard(name)
            progress(done, archive.stat().st_size)
        if missing:
            raise ValueError(f"it has no {min(missing)}")
        images.flush()
        np.save(whole / "labels.npy", np.array([label for _, label in members], dtype=np.int64))
        about = {
            "source": self._source(),
            "classes": listing.classes,
            "test_from": len(listing.train),
            "sha256": {name: _sha256(whole / name) for name in ("images.npy", "labels.npy")},
        }
        (whole / "about.json").write_text(json.dumps(about), encoding="utf-8")

    def _source(self) -> dict[str, Any]:
        """The facts that the stored arrays depend on, in the form of `about.json`, where a tuple is a list."""
        md5 = {file.path: file.md5 for file in self.published}
        return {"version": VERSION, "shape": list(self.spec.shape), "md5": md5}

    def _about(self, folder: Path) -> dict[str, Any]:
        try:
            about = json.loads(self.files(folder)[-1].read_text(encoding="utf-8"))
        except UNREADABLE:
            return {}
        return about if isinstance(about, dict) else {}

    def _damaged(self, file: Path, why: object) -> DataError:
        return DataError(f"{file} is damaged ({why}); `htfl-sim data fetch {self.name}` makes it again.")


def contents(archive: Path, wanted: dict[str, int]) -> Iterator[tuple[str, bytes, int]]:
    """Each wanted member's name and content, and the bytes read so far. Nothing is unpacked to disk."""
    if archive.suffix == ".zip":
        done = 0
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                done += member.compress_size
                if member.filename in wanted:
                    yield member.filename, opened.read(member), done
        return
    with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:gz") as tar:
        while (entry := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # hundreds of thousands, never asked for again
            name = entry.name.removeprefix("./")
            content = tar.extractfile(entry) if name in wanted else None
            if content is not None:
                yield name, content.read(), raw.tell()


def pixels(content: bytes, side: int) -> Images:
    """An encoded image as RGB, scaled to a square of that side if necessary: uint8 [side, side, 3]."""
    with opened(io.BytesIO(content)) as image:
        colour = image.convert("RGB")
    if colour.size != (side, side):
        colour = colour.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(colour)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@register
class Cinic10(DecodedDataset):
    """The parts `train` and `test`, 90,000 color images each. The equally large part `valid` is left out."""

    name = "cinic10"
    title = "CINIC-10"
    source = "Darlow et al. 2018, arXiv:1810.03505"
    train_samples = 90_000
    test_samples = 90_000
    classes = 10
    spec = ImageSpec(3, 32, 32)
    published = (
        Published(
            "CINIC-10.tar.gz",
            "https://datashare.ed.ac.uk/server/api/core/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/content",
            "6ee4d0c996905fe93221de577967a372",
        ),
    )
    """The publisher's page has no checksum. All public loaders agree on this MD5."""
    CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

    def listing(self, folder: Path) -> Listing:
        with tarfile.open(folder / self.published[0].path, "r:gz") as tar:
            names = sorted(name.removeprefix("./") for name in tar.getnames())
        parts: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
        labels = {label: number for number, label in enumerate(self.CLASSES)}
        for name in names:
            part, _, rest = name.partition("/")
            label, _, file = rest.partition("/")
            if part in parts and label in labels and file.endswith(".png"):
                parts[part].append((name, labels[label]))
        return Listing(parts["train"], parts["test"], self.CLASSES)


@register
class Flowers102(DecodedDataset):
    """Photographs of many sizes, stored as 224×224 whatever their proportions.

    The publisher's parts `train` and `valid`, with ten images of each class each, are the training images. FedL2G's
    presets scale batches to the 64×64 of its authors' code (`data.size`).
    """

    name = "flowers102"
    title = "Oxford Flowers-102"
    source = "Nilsback & Zisserman 2008, ICVGIP"
    train_samples = 2040
    test_samples = 6149
    classes = 102
    spec = ImageSpec(3, 224, 224)
    published = tuple(
        Published(f"flowers-102/{name}", f"https://www.robots.ox.ac.uk/~vgg/data/flowers/102/{name}", md5)
        for name, md5 in (
            ("102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
            ("imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
            ("setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
        )
    )
    """In torchvision's folder, with the MD5s that torchvision publishes."""

    def listing(self, folder: Path) -> Listing:
        from scipy.io import loadmat
        from torchvision.datasets import Flowers102 as Reader

        every, parts = (loadmat(folder / file.path) for file in self.published[1:])
        labels = every["labels"].ravel()

        def members(*names: str) -> list[tuple[str, int]]:
            numbers = sorted(int(number) for name in names for number in parts[name].ravel())
            return [(f"jpg/image_{number:05d}.jpg", int(labels[number - 1]) - 1) for number in numbers]

        return Listing(members("trnid", "valid"), members("tstid"), tuple(Reader.classes))


@register
class TinyImageNet(DecodedDataset):
    """Its validation images replace the test images, whose labels were never published.

    Classes are in the order of their WordNet ids. Grayscale files become color images.
    """

    name = "tiny_imagenet"
    title = "Tiny-ImageNet"
    source = "Le & Yang 2015, Tiny ImageNet Visual Recognition Challenge (Stanford CS 231N)"
    train_samples = 100_000
    test_samples = 10_000
    classes = 200
    spec = ImageSpec(3, 64, 64)
    ROOT = "tiny-imagenet-200"
    published = (
        Published(
            f"{ROOT}.zip", f"http://cs231n.stanford.edu/{ROOT}.zip", "90528d7ca1a48142e341f4ef8d21d0de"
        ),
    )
    """Stanford publishes no checksum. All public loaders agree on this MD5."""

    def listing(self, folder: Path) -> Listing:
        with zipfile.ZipFile(folder / self.published[0].path) as archive:
            names = sorted(archive.namelist())
            ids, titles, boxes = (
                archive.read(f"{self.ROOT}/{name}").decode("utf-8").splitlines()
                for name in ("wnids.txt", "words.txt", "val/val_annotations.txt")
            )
        ids.sort()
        words = dict(line.split("\t", 1) for line in titles)
        annotations = [line.split("\t")[:2] for line in boxes]
        labels = {wordnet_id: number for number, wordnet_id in enumerate(ids)}
        train = [
            (name, labels[name.split("/")[2]])
            for name in names
            if name.startswith(f"{self.ROOT}/train/") and name.endswith(".JPEG")
        ]
        test = [
            (f"{self.ROOT}/val/images/{file}", labels[wordnet_id]) for file, wordnet_id in sorted(annotations)
        ]
        return Listing(train, test, tuple(f"{words[each].split(',')[0]} ({each})" for each in ids))
