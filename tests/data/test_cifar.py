"""CIFAR from files in its own format: pickles in a tar.gz, each with a published MD5."""

import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from torchvision import datasets as published

from simulator.base.errors import DataError
from simulator.data import datasets
from tests.data.server import serving

PER_BATCH = 4


def pixels(batch: int) -> np.ndarray:
    """What one batch holds, [n, 3072]: each image's red plane first, then green, then blue."""
    return np.random.default_rng(batch).integers(0, 256, (PER_BATCH, 3072)).astype(np.uint8)


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def archive_of(folder: str, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in {**files, "readme.html": b"not wanted", "../escape": b"evil"}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def cifar10(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A small CIFAR-10 archive, declared the published one."""
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    files = {
        name: pickle.dumps({"data": pixels(number), "labels": [number] * PER_BATCH})
        for number, name in enumerate(names)
    }
    files["batches.meta"] = pickle.dumps({"label_names": [f"class {label}" for label in range(10)]})
    md5s = [[name, md5(content)] for name, content in files.items()]
    archive = archive_of("cifar-10-batches-py", files)
    monkeypatch.setattr(published.CIFAR10, "train_list", md5s[:5])
    monkeypatch.setattr(published.CIFAR10, "test_list", md5s[5:6])
    monkeypatch.setattr(published.CIFAR10, "meta", {**published.CIFAR10.meta, "md5": md5s[6][1]})
    monkeypatch.setattr(published.CIFAR10, "tgz_md5", md5(archive))
    return archive


def lay(archive: bytes, data_dir: Path) -> Path:
    data_dir.mkdir(exist_ok=True)
    (data_dir / "cifar-10-python.tar.gz").write_bytes(archive)
    return data_dir


def unpacked(archive: bytes, data_dir: Path) -> Path:
    datasets.load("cifar10", lay(archive, data_dir))
    return data_dir / "cifar-10-batches-py"


def test_an_archive_in_the_data_folder_is_unpacked_and_read(cifar10: bytes, tmp_path: Path) -> None:
    images = datasets.load("cifar10", lay(cifar10, tmp_path))
    assert images.images.shape == (24, 32, 32, 3)
    assert images.test_from == 20
    assert images.labels.tolist() == [batch for batch in range(6) for _ in range(PER_BATCH)]
    assert images.classes[3] == "class 3"
    blue = pixels(2)[1].reshape(3, 32, 32)[2]
    np.testing.assert_array_equal(images.images[2 * PER_BATCH + 1, :, :, 2], blue)
    assert images.images.flags.c_contiguous
    assert images.mean == (0.4914, 0.4822, 0.4465)


def test_only_the_known_files_leave_the_archive(cifar10: bytes, tmp_path: Path) -> None:
    folder = unpacked(cifar10, tmp_path / "data")
    assert sorted(file.name for file in folder.iterdir()) == [
        "batches.meta", *(f"data_batch_{number}" for number in range(1, 6)), "test_batch",
    ]  # fmt: skip
    assert sorted(entry.name for entry in folder.parent.iterdir()) == [folder.name, "cifar-10-python.tar.gz"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["data"]


def test_a_pickle_whose_md5_is_not_the_published_one_is_never_opened(cifar10: bytes, tmp_path: Path) -> None:
    folder = unpacked(cifar10, tmp_path)
    witness = tmp_path / "opened"

    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (witness,)

    (folder / "data_batch_3").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(DataError, match="data_batch_3 is damaged"):
        datasets.load("cifar10", tmp_path)
    assert not witness.exists()


def test_a_damaged_archive_is_never_unpacked(cifar10: bytes, tmp_path: Path) -> None:
    lay(cifar10[:-1] + b"!", tmp_path)
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz is damaged"):
        datasets.load("cifar10", tmp_path)
    assert not (tmp_path / "cifar-10-batches-py").exists()


def test_what_is_missing_is_downloaded(
    cifar10: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    with serving(cifar10) as served:
        monkeypatch.setattr(published.CIFAR10, "url", served.url)
        images = datasets.load("cifar10", tmp_path / "new", lambda done, total: told.append((done, total)))
        datasets.load("cifar10", tmp_path / "new")
    assert len(images) == 24
    assert told[-1] == (len(cifar10), len(cifar10))
    assert len(served.ranges) == 1


def test_fetching_mends_a_damaged_file_from_the_archive_at_hand(cifar10: bytes, tmp_path: Path) -> None:
    folder = unpacked(cifar10, tmp_path)
    (folder / "test_batch").write_bytes(b"damaged")
    datasets.get("cifar10").fetch(tmp_path)
    assert len(datasets.get("cifar10").check(tmp_path)) == 7


def test_checking_what_is_not_there_names_the_first_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data_batch_1 is missing"):
        datasets.get("cifar10").check(tmp_path)


def test_cifar100_takes_its_fine_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"class {label}" for label in range(100)]
    files = {
        "train": pickle.dumps({"data": pixels(0), "fine_labels": [99, 7, 0, 7], "coarse_labels": [1] * 4}),
        "test": pickle.dumps({"data": pixels(1), "fine_labels": [5, 6, 7, 8], "coarse_labels": [1] * 4}),
        "meta": pickle.dumps({"fine_label_names": names}),
    }
    monkeypatch.setattr(published.CIFAR100, "train_list", [["train", md5(files["train"])]])
    monkeypatch.setattr(published.CIFAR100, "test_list", [["test", md5(files["test"])]])
    monkeypatch.setattr(published.CIFAR100, "meta", {**published.CIFAR100.meta, "md5": md5(files["meta"])})
    (tmp_path / "cifar-100-python").mkdir()
    for name, content in files.items():
        (tmp_path / "cifar-100-python" / name).write_bytes(content)
    images = datasets.load("cifar100", tmp_path)
    assert images.labels.tolist() == [99, 7, 0, 7, 5, 6, 7, 8]
    assert len(images.classes) == 100


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_our_file_names_are_torchvisions(name: str, tmp_path: Path) -> None:
    entry = datasets.get(name)
    theirs = getattr(published, name.upper())
    listed = {file for file, _ in [*theirs.train_list, *theirs.test_list]} | {theirs.meta["filename"]}
    assert {file.name for file in entry.files(tmp_path)} == listed
    assert {file.parent.name for file in entry.files(tmp_path)} == {theirs.base_folder}
