"""Built-in data sets of images: digits, Fashion-MNIST, CIFAR-10, CIFAR-100, SVHN, and two in five domains.

The published files of CIFAR are pickles. None is opened before its bytes match the published MD5.

A data set of several domains is made from another one. Each domain changes the look of the same classes. Every image is
in one domain only, so no client's test image is another client's training image in another form. The domain and the
colors are drawn from streams of fixed seeds, so the images are the same in every run and on every machine.
"""

import functools
import gzip
import math
import tarfile
import zlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, register, silent
from simulator.data.download import Published, PublishedDataset, bring, verify
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
    """The folder of scikit-learn's data."""
    spec = find_spec("sklearn")
    assert spec is not None and spec.origin is not None  # scikit-learn is required
    return Path(spec.origin).parent / "datasets" / "data"


def scanned() -> NDArray[np.float64]:
    """Rows of 64 pixels, 0–16, and the digit, [1797, 65], from scikit-learn's file without importing scikit-learn.

    The import would take as long as importing torch, before every run.
    """
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
class FashionMNIST(Dataset):
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

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        try:
            self.check(folder)
        except DataError:
            from torchvision.datasets import FashionMNIST as Reader

            files = [
                Published(f"FashionMNIST/raw/{name}", Reader.mirrors[0] + name, md5)
                for name, md5 in Reader.resources
            ]
            bring(files, folder, progress, self.name)
            self.check(folder)

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
    """The four files in `place`, or none if one is missing."""
    found = [
        next((f for f in (place / f"{name}.gz", place / name) if f.is_file()), None) for name in IDX_FILES
    ]
    return [file for file in found if file] if all(found) else []


def _damaged(file: Path, why: str) -> DataError:
    return DataError(f"{file} is damaged ({why}); delete it and run `htfl-sim data fetch fashion_mnist`.")


class Cifar(Dataset):
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

    @abstractmethod
    def reader(self) -> Any:
        """torchvision's class, which knows the URL and the MD5s."""

    def files(self, folder: Path) -> list[Path]:
        return [folder / self.subfolder / name for name in self.batches]

    def is_present(self, folder: Path) -> bool:
        return super().is_present(folder) or (folder / self.archive).is_file()

    def load(self, folder: Path) -> ImageSet:
        if not super().is_present(folder) and (folder / self.archive).is_file():
            self._unpack(folder)
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

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        try:
            self.check(folder)
        except DataError:
            bring([self._published()], folder, progress, self.name)
            self._unpack(folder)
            self.check(folder)

    def _unpack(self, folder: Path) -> None:
        """Write the batches from the archive under their known names, never under names from the archive."""
        archive, place = folder / self.archive, folder / self.subfolder
        verify([self._published()], folder, self.name)
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

    def _published(self) -> Published:
        return Published(self.archive, self.reader().url, self.reader().tgz_md5)


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

    def reader(self) -> Any:
        from torchvision.datasets import CIFAR10

        return CIFAR10


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

    def reader(self) -> Any:
        from torchvision.datasets import CIFAR100

        return CIFAR100


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
    """The unchanged images, with three equal channels."""
    return np.repeat(images, 3, axis=3)


def rotated(images: Images, stream: np.random.Generator) -> Images:
    """A quarter turn to the left."""
    return np.repeat(np.rot90(images, axes=(1, 2)), 3, axis=3)


def inverted(images: Images, stream: np.random.Generator) -> Images:
    """Dark on light."""
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
    source = Digits.source
    train_samples = Digits.train_samples
    test_samples = Digits.test_samples
    classes = Digits.classes
    spec = replace(Digits.spec, channels=3)
    base = Digits()


@register
class FashionMNISTDomains(Domains):
    """Clothes."""

    name = "fashion_mnist_domains"
    title = "Fashion-MNIST in five domains"
    source = FashionMNIST.source
    train_samples = FashionMNIST.train_samples
    test_samples = FashionMNIST.test_samples
    classes = FashionMNIST.classes
    spec = replace(FashionMNIST.spec, channels=3)
    base = FashionMNIST()
