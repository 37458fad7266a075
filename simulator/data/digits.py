"""Data sets that come with scikit-learn, without a download: handwritten digits, and two small tables."""

import functools
import gzip
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.data.datasets import Dataset, register
from simulator.data.images import Images, ImageSet, joined
from simulator.data.samples import ArraySet
from simulator.data.specs import ImageSpec, TableSpec

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


class _Table(Dataset):
    """A small table that comes with scikit-learn. It has no test set of its own."""

    test_samples = 0
    file: str
    """Its file: rows of numbers and a class, below a line with the numbers of rows and columns, and the classes."""
    features: tuple[str, ...]
    """The names of the columns, which the file does not have."""

    def load(self, folder: Path) -> ArraySet:
        lines = (_folder() / self.file).read_text("ascii").split()
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


def _folder() -> Path:
    """The folder of scikit-learn's data."""
    spec = find_spec("sklearn")
    assert spec is not None and spec.origin is not None  # scikit-learn is required
    return Path(spec.origin).parent / "datasets" / "data"


def scanned() -> NDArray[np.float64]:
    """Rows of 64 pixels, 0–16, and the digit, [1797, 65], from scikit-learn's file without importing scikit-learn.

    The import would take as long as importing torch, before every run.
    """
    file = _folder() / "digits.csv.gz"
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
