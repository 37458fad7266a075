"""Fashion-MNIST, from torchvision's folder or Debian's package dataset-fashion-mnist."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, register, silent
from simulator.data.download import download, has_md5
from simulator.data.images import Images, ImageSet, joined
from simulator.data.samples import Labels
from simulator.data.specs import ImageSpec

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


@register
class FashionMNIST(Dataset):
    """70,000 grayscale images of clothes, 28×28. Files may be plain or gzipped."""

    name = "fashion_mnist"
    title = "Fashion-MNIST"
    source = "Xiao, Rasul & Vollgraf 2017, arXiv:1708.07747"
    train_samples = 60_000
    test_samples = 10_000
    classes = 10
    spec = ImageSpec(1, 28, 28)

    def files(self, folder: Path) -> list[Path]:
        raw = folder / "FashionMNIST" / "raw"
        return _found(raw) or _found(DEBIAN) or [raw / f"{name}.gz" for name in FILES]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        try:
            self.check(folder)
        except DataError:
            from torchvision.datasets import FashionMNIST as Published

            for name, md5 in Published.resources:
                target = folder / "FashionMNIST" / "raw" / name
                if not has_md5(target, md5):
                    download(Published.mirrors[0] + name, target, md5, progress, self.name)
            self.check(folder)

    def load(self, folder: Path) -> ImageSet:
        files = self.files(folder)
        return joined(
            train=_read_pair(files[0], files[1]),
            test=_read_pair(files[2], files[3]),
            classes=CLASSES,
            mean=(0.2860,),
            std=(0.3530,),
        )


def _read_pair(images_file: Path, labels_file: Path) -> tuple[Images, Labels]:
    """Images [n, h, w, 1] and labels [n] of two files. Raises DataError if they do not belong together."""
    images, labels = read_idx(images_file), read_idx(labels_file)
    if images.ndim != 3:
        raise _damaged(images_file, "it does not hold images")
    if labels.shape != images.shape[:1] or labels.max(initial=0) >= len(CLASSES):
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
    found = [next((f for f in (place / f"{name}.gz", place / name) if f.is_file()), None) for name in FILES]
    return [file for file in found if file] if all(found) else []


def _damaged(file: Path, why: str) -> DataError:
    return DataError(f"{file} is damaged ({why}); delete it and run `htfl-sim data fetch fashion_mnist`.")
