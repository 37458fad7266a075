"""Fashion-MNIST from files in IDX format."""

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from torchvision import datasets as published

from simulator.base.errors import DataError
from simulator.data import datasets, image_sets
from tests.data.server import serving

Bytes = NDArray[np.uint8]


def idx(array: Bytes) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def contents(train: int = 20, test: int = 10) -> dict[str, bytes]:
    """The four files with `train` and `test` images of random bytes; image i is of class i mod 10."""
    draw = np.random.default_rng(0)
    made = {}
    for part, count in (("train", train), ("t10k", test)):
        made[f"{part}-images-idx3-ubyte"] = idx(draw.integers(0, 256, (count, 28, 28)).astype(np.uint8))
        made[f"{part}-labels-idx1-ubyte"] = idx((np.arange(count) % 10).astype(np.uint8))
    return made


@pytest.fixture(autouse=True)
def nothing_from_debian(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(image_sets, "DEBIAN", tmp_path / "debian")


def write(folder: Path, files: dict[str, bytes], zipped: bool) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def raw(data_dir: Path) -> Path:
    return data_dir / "FashionMNIST" / "raw"


@pytest.mark.parametrize("zipped", [True, False])
def test_torchvisions_layout_is_read_training_images_first(tmp_path: Path, zipped: bool) -> None:
    files = contents()
    write(raw(tmp_path), files, zipped)
    images = datasets.load("fashion_mnist", tmp_path)
    assert images.images.shape == (30, 28, 28, 1)
    assert images.test_from == 20
    assert images.labels.tolist() == [*range(10), *range(10), *range(10)]
    assert images.images[20:].tobytes() == files["t10k-images-idx3-ubyte"][16:]
    assert (images.mean, images.std) == ((0.2860,), (0.3530,))


def test_debians_package_is_used_when_the_data_folder_has_none(tmp_path: Path) -> None:
    write(tmp_path / "debian", contents(), zipped=True)
    assert len(datasets.load("fashion_mnist", tmp_path / "empty")) == 30
    assert not (tmp_path / "empty").exists()


def test_a_truncated_plain_file_is_named(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, kept in enumerate([0, 3, 10, 2000]):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            folder = write(raw(place), contents(), zipped=False)
            file = folder / "t10k-images-idx3-ubyte"
            file.write_bytes(file.read_bytes()[:kept])
            with pytest.raises(DataError, match="t10k-images-idx3-ubyte is damaged"):
                datasets.load("fashion_mnist", place)


def test_a_flipped_bit_in_a_zipped_file_is_found(tmp_path: Path) -> None:
    folder = write(raw(tmp_path), contents(), zipped=True)
    file = folder / "train-labels-idx1-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte\.gz is damaged"):
        datasets.get("fashion_mnist").check(tmp_path)


@pytest.mark.parametrize("labels", [np.arange(19), np.full(20, 10)])
def test_labels_that_do_not_fit_the_images_are_refused(tmp_path: Path, labels: NDArray[np.int64]) -> None:
    write(
        raw(tmp_path), {**contents(), "train-labels-idx1-ubyte": idx((labels).astype(np.uint8))}, zipped=False
    )
    with pytest.raises(DataError, match="train-labels-idx1-ubyte is damaged"):
        datasets.load("fashion_mnist", tmp_path)


def test_missing_or_damaged_files_are_fetched_and_the_others_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # one server gives one content, so all but the training images are there already
    zipped = {f"{name}.gz": gzip.compress(content) for name, content in contents().items()}
    raw(tmp_path).mkdir(parents=True)
    for name, content in zipped.items():
        (raw(tmp_path) / name).write_bytes(content)
    (raw(tmp_path) / "train-images-idx3-ubyte.gz").write_bytes(b"damaged")
    md5s = [(name, hashlib.md5(content).hexdigest()) for name, content in zipped.items()]
    monkeypatch.setattr(published.FashionMNIST, "resources", md5s)
    with serving(zipped["train-images-idx3-ubyte.gz"]) as served:
        monkeypatch.setattr(published.FashionMNIST, "mirrors", [served.url])
        datasets.get("fashion_mnist").fetch(tmp_path)
    assert len(served.ranges) == 1
    assert len(datasets.get("fashion_mnist").check(tmp_path)) == 4


REAL = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.skipif(not REAL.is_dir(), reason="needs Debian's dataset-fashion-mnist")
@pytest.mark.long
def test_the_real_files_have_the_stated_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_sets, "DEBIAN", REAL)
    entry, images = datasets.get("fashion_mnist"), datasets.load("fashion_mnist", tmp_path)
    assert images.images.shape == (70_000, 28, 28, 1)
    assert images.test_from == entry.train_samples
    assert np.bincount(images.labels).tolist() == [7000] * 10
    assert images.images[: images.test_from].mean() / 255 == pytest.approx(images.mean[0], abs=1e-4)
