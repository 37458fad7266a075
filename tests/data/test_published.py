"""Data sets by name: how files are fetched and checked, and what is read of small files in the real formats."""

import gzip
import hashlib
import io
import json
import pickle
import socket
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat
from torchvision import datasets as published

from simulator.base.errors import ConfigError, DataError
from simulator.data import datasets, image_sets
from simulator.data.datasets import Published, download, silent
from simulator.data.samples import measured
from tests.data.pictures import encoded
from tests.data.server import Served, serving


def picture(
    colour: tuple[int, int, int], size: tuple[int, int], kind: str = "PNG", mode: str = "RGB"
) -> bytes:
    """An image file of one colour; of `size` width and height."""
    return encoded(Image.new("RGB", size, colour).convert(mode), kind)


def tar(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def matlab(**vectors: object) -> bytes:
    buffer = io.BytesIO()
    savemat(buffer, {name: np.asarray(values) for name, values in vectors.items()}, do_compression=True)
    return buffer.getvalue()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def lay(folder: Path, path: str, content: bytes) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def publish(
    monkeypatch: pytest.MonkeyPatch,
    dataset: type,
    files: Mapping[str, bytes],
    folder: Path | None = None,
    url: str = "http://127.0.0.1:9/",
) -> None:
    """Declare these files the published ones, and put them into the data folder."""
    monkeypatch.setattr(
        dataset, "published", tuple(Published(path, url, md5(each)) for path, each in files.items())
    )
    for path, content in files.items() if folder else ():
        lay(folder, path, content)  # type: ignore[arg-type]


# Fetching

CONTENT = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def server() -> Iterator[Served]:
    with serving(CONTENT) as served:
        yield served


def fetch(url: str, target: Path) -> None:
    download(url, target, md5(CONTENT), silent, "cifar10")


def test_a_file_is_fetched_into_a_folder_that_is_made_with_progress_to_the_end(
    server: Served, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    target = tmp_path / "new" / "data.bin"
    download(server.url, target, md5(CONTENT), lambda done, total: told.append((done, total)), "cifar10")
    assert target.read_bytes() == CONTENT
    assert [file.name for file in target.parent.iterdir()] == ["data.bin"]
    assert told == sorted(told) and told[-1] == (len(CONTENT), len(CONTENT)) and len(told) > 1


def test_a_broken_download_goes_on_where_it_stopped_or_from_the_start(server: Served, tmp_path: Path) -> None:
    target = tmp_path / "data.bin"
    server.breaks_off_after = 500_000
    with pytest.raises(DataError, match="broke off after 500000 of 1048576 bytes"):
        fetch(server.url, target)
    assert not target.exists()
    server.breaks_off_after = None
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=500000-"]
    server.honours_ranges = False
    for part in (CONTENT[:1000], CONTENT):
        (tmp_path / "data.bin.part").write_bytes(part)
        fetch(server.url, target)
        assert target.read_bytes() == CONTENT
        server.honours_ranges = True  # the second part is whole already


def test_another_file_than_the_published_one_is_thrown_away(server: Served, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(DataError, match="not the published file"):
        fetch(server.url, tmp_path / "data.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_reported_with_file_place_and_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(DataError) as error:
        fetch(f"http://127.0.0.1:{port}/", tmp_path / "data.bin")
    for part in ("data.bin", str(tmp_path), "htfl-sim data fetch cifar10", "`dataset='digits'`", "refused"):
        assert part in str(error.value)
    assert error.value.exit_code == 3
    monkeypatch.setattr(datasets, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(DataError, match="timed out"):
        fetch(f"http://127.0.0.1:{mute.getsockname()[1]}/", tmp_path / "data.bin")


# CIFAR

PER_BATCH = 4


def pixels(batch: int) -> NDArray[np.uint8]:
    """What one batch holds, [n, 3072]: each image's red plane first, then green, then blue."""
    return np.random.default_rng(batch).integers(0, 256, (PER_BATCH, 3072)).astype(np.uint8)


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
    odd = {"readme.html": b"not wanted", "../escape": b"evil"}
    archive = tar({f"cifar-10-batches-py/{name}": each for name, each in (files | odd).items()})
    monkeypatch.setattr(published.CIFAR10, "train_list", md5s[:5])
    monkeypatch.setattr(published.CIFAR10, "test_list", md5s[5:6])
    monkeypatch.setattr(published.CIFAR10, "meta", {**published.CIFAR10.meta, "md5": md5s[6][1]})
    monkeypatch.setattr(published.CIFAR10, "tgz_md5", md5(archive))
    return archive


ARCHIVE = "cifar-10-python.tar.gz"


def test_an_archive_in_the_data_folder_is_unpacked_and_read(cifar10: bytes, tmp_path: Path) -> None:
    """Only the known files leave it."""
    lay(tmp_path / "data", ARCHIVE, cifar10)
    images = datasets.load("cifar10", tmp_path / "data")
    assert images.images.shape == (24, 32, 32, 3) and images.test_from == 20
    assert images.labels.tolist() == [batch for batch in range(6) for _ in range(PER_BATCH)]
    assert images.classes[3] == "class 3" and images.mean == (0.4914, 0.4822, 0.4465)
    blue = pixels(2)[1].reshape(3, 32, 32)[2]
    np.testing.assert_array_equal(images.images[2 * PER_BATCH + 1, :, :, 2], blue)
    assert images.images.flags.c_contiguous
    folder = tmp_path / "data" / "cifar-10-batches-py"
    assert sorted(file.name for file in folder.iterdir()) == [
        "batches.meta", *(f"data_batch_{number}" for number in range(1, 6)), "test_batch",
    ]  # fmt: skip
    assert sorted(entry.name for entry in folder.parent.iterdir()) == [folder.name, ARCHIVE]
    assert [entry.name for entry in tmp_path.iterdir()] == ["data"]


def test_a_pickle_whose_md5_is_not_the_published_one_is_never_opened(cifar10: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data_batch_1 is missing"):
        datasets.get("cifar10").check(tmp_path)
    lay(tmp_path, ARCHIVE, cifar10[:-1] + b"!")
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz is damaged"):
        datasets.load("cifar10", tmp_path)
    assert not (tmp_path / "cifar-10-batches-py").exists()
    lay(tmp_path, ARCHIVE, cifar10)
    datasets.load("cifar10", tmp_path)
    witness = tmp_path / "opened"

    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (witness,)

    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(DataError, match="data_batch_3 is damaged"):
        datasets.load("cifar10", tmp_path)
    assert not witness.exists()
    datasets.get("cifar10").fetch(tmp_path)  # mends it from the archive at hand
    assert len(datasets.get("cifar10").check(tmp_path)) == 7


def test_cifar100_takes_its_fine_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"class {label}" for label in range(100)]
    files = {
        "train": pickle.dumps({"data": pixels(0), "fine_labels": [99, 7, 0, 7], "coarse_labels": [1] * 4}),
        "test": pickle.dumps({"data": pixels(1), "fine_labels": [5, 6, 7, 8], "coarse_labels": [1] * 4}),
        "meta": pickle.dumps({"fine_label_names": names}),
    }
    for part in ("train", "test"):
        monkeypatch.setattr(published.CIFAR100, f"{part}_list", [[part, md5(files[part])]])
    monkeypatch.setattr(published.CIFAR100, "meta", {**published.CIFAR100.meta, "md5": md5(files["meta"])})
    for name, content in files.items():
        lay(tmp_path, f"cifar-100-python/{name}", content)
    images = datasets.load("cifar100", tmp_path)
    assert images.labels.tolist() == [99, 7, 0, 7, 5, 6, 7, 8] and len(images.classes) == 100


def test_names_addresses_and_checksums_are_torchvisions(tmp_path: Path) -> None:
    for name in ("cifar10", "cifar100"):
        entry, theirs = datasets.get(name), getattr(published, name.upper())
        listed = {file for file, _ in [*theirs.train_list, *theirs.test_list]} | {theirs.meta["filename"]}
        assert {file.name for file in entry.files(tmp_path)} == listed
        assert {file.parent.name for file in entry.files(tmp_path)} == {theirs.base_folder}
    parts = [tuple(published.SVHN.split_list[part]) for part in ("train", "test")]
    assert [(file.url, file.path, file.md5) for file in image_sets.SVHN.published] == parts
    reader, files = published.Flowers102, image_sets.Flowers102.published
    known = [reader._file_dict[key] for key in ("image", "label", "setid")]
    assert [(Path(file.path).name, file.md5) for file in files] == known
    assert all(file.url.startswith(reader._download_url_prefix) for file in files)


# Fashion-MNIST


def idx(array: NDArray[Any]) -> bytes:
    array = array.astype(np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def clothes() -> dict[str, bytes]:
    """The four files with 20 and 10 images of random bytes; image i is of class i mod 10."""
    draw, made = np.random.default_rng(0), {}
    for part, count in (("train", 20), ("t10k", 10)):
        made[f"{part}-images-idx3-ubyte"] = idx(draw.integers(0, 256, (count, 28, 28)))
        made[f"{part}-labels-idx1-ubyte"] = idx(np.arange(count) % 10)
    return made


RAW, REAL = "FashionMNIST/raw", image_sets.DEBIAN


def write(folder: Path, files: dict[str, bytes], zipped: bool) -> None:
    for name, content in files.items():
        lay(folder, f"{name}.gz" if zipped else name, gzip.compress(content) if zipped else content)


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty place of Debian's package."""
    monkeypatch.setattr(image_sets, "DEBIAN", tmp_path / "debian")
    return tmp_path / "debian"


@pytest.mark.parametrize("zipped", [True, False])
def test_torchvisions_layout_is_read_training_images_first(
    tmp_path: Path, zipped: bool, debian: Path
) -> None:
    files = clothes()
    write(tmp_path / RAW, files, zipped)
    images = datasets.load("fashion_mnist", tmp_path)
    assert images.images.shape == (30, 28, 28, 1) and images.test_from == 20
    assert images.labels.tolist() == [*range(10), *range(10), *range(10)]
    assert images.images[20:].tobytes() == files["t10k-images-idx3-ubyte"][16:]
    assert (images.mean, images.std) == ((0.2860,), (0.3530,))
    write(debian, files, zipped)  # is used when the data folder has none
    assert len(datasets.load("fashion_mnist", tmp_path / "empty")) == 30
    assert not (tmp_path / "empty").exists()


@pytest.mark.usefixtures("debian")
def test_damaged_clothes_are_named(tmp_path: Path) -> None:
    changes = [
        ("t10k-images-idx3-ubyte", clothes()["t10k-images-idx3-ubyte"][:kept]) for kept in (0, 3, 10, 2000)
    ]
    changes += [("train-labels-idx1-ubyte", idx(labels)) for labels in (np.arange(19), np.full(20, 10))]
    for name, content in changes:
        write(tmp_path / RAW, clothes() | {name: content}, zipped=False)
        with pytest.raises(DataError, match=f"{name} is damaged"):
            datasets.load("fashion_mnist", tmp_path)
    write(tmp_path / RAW, clothes(), zipped=True)
    file = tmp_path / RAW / "train-labels-idx1-ubyte.gz"
    flipped = bytearray(file.read_bytes())
    flipped[len(flipped) // 2] ^= 4
    file.write_bytes(flipped)
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte\.gz is damaged"):
        datasets.get("fashion_mnist").check(tmp_path)


@pytest.mark.usefixtures("debian")
def test_missing_or_damaged_files_are_fetched_and_the_others_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server gives one content, so all but the training images are there already."""
    zipped = {f"{name}.gz": gzip.compress(content) for name, content in clothes().items()}
    for name, content in zipped.items():
        lay(tmp_path / RAW, name, content)
    (tmp_path / RAW / "train-images-idx3-ubyte.gz").write_bytes(b"damaged")
    md5s = [(name, md5(content)) for name, content in zipped.items()]
    monkeypatch.setattr(published.FashionMNIST, "resources", md5s)
    with serving(zipped["train-images-idx3-ubyte.gz"]) as served:
        monkeypatch.setattr(published.FashionMNIST, "mirrors", [served.url])
        datasets.get("fashion_mnist").fetch(tmp_path)
    assert len(served.ranges) == 1
    assert len(datasets.get("fashion_mnist").check(tmp_path)) == 4


@pytest.mark.skipif(not REAL.is_dir(), reason="needs Debian's dataset-fashion-mnist")
@pytest.mark.long
def test_the_real_files_have_the_stated_facts(tmp_path: Path) -> None:
    entry, images = datasets.get("fashion_mnist"), datasets.load("fashion_mnist", tmp_path)
    assert images.images.shape == (70_000, 28, 28, 1) and images.test_from == entry.train_samples
    assert np.bincount(images.labels).tolist() == [7000] * 10
    assert images.images[: images.test_from].mean() / 255 == pytest.approx(images.mean[0], abs=1e-4)


# Archives that are decoded once. In no order, with what is to be left out and a path that would lead elsewhere.

MEMBERS = {
    "./test/truck/b.png": picture((0, 0, 250), (32, 32)),
    "./train/truck/a.png": picture((0, 200, 0), (32, 32)),
    "./valid/bird/c.png": picture((9, 9, 9), (32, 32)),
    "./train/airplane/z.png": picture((102, 51, 0), (32, 32)),
    "./train/airplane/y.png": picture((255, 0, 255), (32, 32)),
    "./README": b"text",
    "../../train/cat/evil.png": picture((1, 1, 1), (32, 32)),
}
CINIC = "CINIC-10.tar.gz"


@pytest.fixture
def cinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a small CINIC-10 archive in it."""
    publish(monkeypatch, image_sets.Cinic10, {CINIC: tar(MEMBERS)}, tmp_path)
    return tmp_path


def test_training_images_come_first_each_part_in_the_order_of_its_names(
    cinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = datasets.load("cinic10", cinic)
    assert images.images.shape == (4, 32, 32, 3) and images.test_from == 3
    assert images.images[:, 5, 5].tolist() == [[255, 0, 255], [102, 51, 0], [0, 200, 0], [0, 0, 250]]
    assert images.labels.tolist() == [0, 0, 9, 9] and images.classes[9] == "truck"
    without_dots = tar({name.removeprefix("./"): content for name, content in MEMBERS.items()})
    publish(monkeypatch, image_sets.Cinic10, {CINIC: without_dots}, cinic)
    assert datasets.load("cinic10", cinic).fingerprint == images.fingerprint
    more = tar(MEMBERS | {"./train/bird/new.png": picture((3, 2, 1), (32, 32))})
    publish(monkeypatch, image_sets.Cinic10, {CINIC: more}, cinic)
    assert not datasets.get("cinic10").is_present(cinic)
    assert len(datasets.load("cinic10", cinic)) == 5


def test_the_archive_is_decoded_once_and_mapped_and_may_go_afterwards(cinic: Path) -> None:
    first = datasets.load("cinic10", cinic).fingerprint
    assert [entry.name for entry in (cinic / "decoded").iterdir()] == ["cinic10"]
    (cinic / CINIC).unlink()
    images = datasets.load("cinic10", cinic)
    assert images.fingerprint == first and isinstance(images.images, np.memmap)
    images.images[:] = 7  # leaves the file alone
    assert [file.name for file in datasets.get("cinic10").check(cinic)] == [
        "images.npy", "labels.npy", "about.json",
    ]  # fmt: skip


def test_a_missing_archive_is_downloaded_once_then_decoded_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tar(MEMBERS)
    told: list[tuple[int, int]] = []
    with serving(archive) as served:
        publish(monkeypatch, image_sets.Cinic10, {CINIC: archive}, url=served.url)
        images = datasets.load("cinic10", tmp_path / "new", lambda done, total: told.append((done, total)))
        datasets.load("cinic10", tmp_path / "new")
    assert len(images) == 4 and len(served.ranges) == 1 and {total for _, total in told} == {len(archive)}
    assert len(told) >= 1 + 4  # the download, and each decoded image


def test_damage_of_what_was_decoded_is_found_and_mended(cinic: Path) -> None:
    dataset, kept = datasets.get("cinic10"), cinic / "decoded" / "cinic10"
    dataset.fetch(cinic)
    whole = {name: (kept / name).read_bytes() for name in ("images.npy", "labels.npy", "about.json")}
    about = json.loads(whole["about.json"])
    del about["test_from"]
    torn = [("images.npy", whole["images.npy"][:200]), ("labels.npy", whole["labels.npy"][:40])]
    for name, content in [*torn, ("about.json", json.dumps(about).encode())]:
        (kept / name).write_bytes(content)
        with pytest.raises(DataError, match="damaged"):
            datasets.load("cinic10", cinic)
        (kept / name).write_bytes(whole[name])
    for text in ("[]", "{"):  # then the archive is decoded again
        (kept / "about.json").write_text(text)
        assert len(datasets.load("cinic10", cinic)) == 4
    changed = bytearray(whole["images.npy"])
    changed[-1] ^= 1
    (kept / "images.npy").write_bytes(changed)
    with pytest.raises(DataError, match=r"images\.npy is damaged .* `htfl-sim data fetch cinic10`"):
        dataset.check(cinic)
    dataset.fetch(cinic)
    dataset.check(cinic)


def test_an_archive_that_is_another_one_or_has_no_image_leaves_nothing(
    cinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError) as error:
        datasets.get("cinic10").check(cinic)
    for part in (str(cinic / "decoded" / "cinic10"), "htfl-sim data fetch cinic10", CINIC):
        assert part in str(error.value)
    lay(cinic, CINIC, tar({"./train/cat/evil.png": b"no image"}))
    with pytest.raises(DataError, match=r"needs CINIC-10\.tar\.gz, .* could not be downloaded"):
        datasets.load("cinic10", cinic)
    assert not (cinic / "decoded").exists()
    publish(monkeypatch, image_sets.Cinic10, {CINIC: tar({"./train/cat/x.png": b"\x89PNG no image"})}, cinic)
    with pytest.raises(DataError, match=r"CINIC-10\.tar\.gz cannot be decoded"):
        datasets.load("cinic10", cinic)
    assert list((cinic / "decoded").iterdir()) == []


# Other formats


def test_images_of_svhn_are_turned_and_the_digit_called_ten_is_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X as published: rows, columns, channels, images."""
    x = [np.random.default_rng(n).integers(0, 256, (32, 32, 3, n)).astype(np.uint8) for n in (3, 2)]
    y = [np.array(labels, dtype=np.uint8)[:, None] for labels in ([1, 10, 9], [10, 2])]
    files = {
        f"{part}_32x32.mat": matlab(X=x[number], y=y[number]) for number, part in enumerate(("train", "test"))
    }
    publish(monkeypatch, image_sets.SVHN, files, tmp_path)
    images = datasets.load("svhn", tmp_path)
    assert images.images.shape == (5, 32, 32, 3) and images.test_from == 3
    np.testing.assert_array_equal(images.images[1], x[0][..., 1])
    np.testing.assert_array_equal(images.images[4, 30, 2], x[1][30, 2, :, 1])
    assert images.labels.tolist() == [1, 0, 9, 0, 2] and images.classes[0] == "0"


def test_flowers_of_train_and_valid_are_trained_on_and_numbers_order_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images 1 to 6, of these classes (which count from 1), of several shapes as the photographs are."""
    sizes = ((500, 300), (224, 224), (50, 80), (64, 64), (300, 500), (225, 223))
    photographs = {
        f"jpg/image_{number:05d}.jpg": picture((40 * number,) * 3, size, "JPEG")  # type: ignore[arg-type]
        for number, size in enumerate(sizes, start=1)
    }
    files = {
        "flowers-102/102flowers.tgz": tar(photographs),
        "flowers-102/imagelabels.mat": matlab(labels=[(102, 1, 7, 7, 1, 102)]),
        "flowers-102/setid.mat": matlab(trnid=[[6, 3]], valid=[[1]], tstid=[[5, 2, 4]]),
    }
    publish(monkeypatch, image_sets.Flowers102, files, tmp_path)
    images = datasets.load("flowers102", tmp_path)
    assert images.images.shape == (6, 224, 224, 3) and images.test_from == 3
    assert images.labels.tolist() == [101, 6, 101, 0, 6, 0]
    assert np.round(images.images[:, 100, 100, 0] / 40).tolist() == [1, 3, 6, 2, 4, 5]
    assert images.images.reshape(6, -1).std(axis=1).max() <= 1  # one colour to every edge
    assert len(set(images.classes)) == 102 and images.classes[0] == "pink primrose"
    files["flowers-102/102flowers.tgz"] = tar(dict([*photographs.items()][:1]))
    publish(monkeypatch, image_sets.Flowers102, files, tmp_path)
    with pytest.raises(DataError, match=r"102flowers\.tgz cannot be decoded .*image_00002\.jpg"):
        datasets.load("flowers102", tmp_path)


def test_the_annotated_validation_images_of_tiny_imagenet_are_the_test_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def jpeg(grey: int, mode: str = "RGB") -> bytes:
        return picture((grey,) * 3, (64, 64), "JPEG", mode)  # type: ignore[arg-type]

    members = {
        "wnids.txt": b"n02\nn01\n",  # in no order, as published
        "words.txt": b"n01\tgoldfish, Carassius auratus\nn02\tcrane\nn03\tcrane\n",
        "train/n02/images/n02_0.JPEG": jpeg(20),
        "train/n02/n02_boxes.txt": b"n02_0.JPEG\t0\t0\t62\t62\n",
        "train/n01/images/n01_1.JPEG": jpeg(120, "L"),
        "train/n01/images/n01_0.JPEG": jpeg(60),
        "val/images/val_1.JPEG": jpeg(200),
        "val/images/val_0.JPEG": jpeg(160),
        "val/val_annotations.txt": b"val_1.JPEG\tn01\t0\t0\t62\t62\nval_0.JPEG\tn02\t0\t0\t62\t62\n",
        "test/images/test_0.JPEG": jpeg(250),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"tiny-imagenet-200/{name}", content)
    publish(monkeypatch, image_sets.TinyImageNet, {"tiny-imagenet-200.zip": buffer.getvalue()}, tmp_path)
    images = datasets.load("tiny_imagenet", tmp_path)
    assert images.images.shape == (5, 64, 64, 3) and images.test_from == 3
    assert images.labels.tolist() == [0, 0, 1, 1, 0]
    assert np.abs(images.images[:, 9, 9].astype(int) - [[60], [120], [20], [160], [200]]).max() <= 1
    assert images.classes == ("goldfish (n01)", "crane (n02)")  # sorted by id, and told apart
    assert (images.images[1] == images.images[1][..., :1]).all()  # a gray file


# By name, digits, and the measures of images


def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'fashion-mnist' is neither .* Did you mean 'fashion_mnist'"):
        datasets.load("fashion-mnist", tmp_path)
    with pytest.raises(ConfigError, match=r"unknown data set 'cifar'\. Did you mean 'cifar10'"):
        datasets.get("cifar")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    for name, way_out in (
        ("absent.npz", "'absent.npz' does not exist"), ("fancyzhx/ag_news", "or use hf:fancyzhx/ag_news"),
        ("https://example.org/t.csv", "is an address, .* Download it first"),
        ("/dev/null", "is neither a folder nor a plain file"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=way_out):
            datasets.load(name, tmp_path)
    with pytest.raises(ValueError, match="'digits' exists already"):
        datasets.register(image_sets.Digits)


def test_the_data_folder_is_the_option_then_the_environment_then_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTFL_DATA", "/from/environment")
    assert datasets.data_folder("/from/option") == Path("/from/option")
    assert datasets.data_folder(None) == Path("/from/environment")
    monkeypatch.delenv("HTFL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert datasets.data_folder(None).name == "htfl-sim"


@pytest.mark.long
def test_listing_the_data_sets_imports_neither_torch_nor_scikit_learn() -> None:
    code = (
        "import sys, simulator.data; from simulator.data import datasets; "
        "assert 'cifar100' in datasets.names(); print({'torch', 'sklearn', 'torchvision'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_digits_have_the_stated_facts_and_the_last_fifth_of_each_class_for_the_test(tmp_path: Path) -> None:
    """scikit-learn's file has 178 zeros; a fifth is 35, rounded down."""
    entry, images = datasets.get("digits"), datasets.load("digits", tmp_path)
    assert images.images.shape == (1797, 32, 32, 1) and entry.check(tmp_path) == []
    assert (images.test_from, len(images) - images.test_from) == (entry.train_samples, entry.test_samples)
    assert len(images.classes) == entry.classes
    assert np.bincount(images.labels)[0] == 178
    assert np.bincount(images.labels[images.test_from :])[0] == 35


@pytest.mark.long
def test_the_rows_of_digits_are_those_that_scikit_learn_reads() -> None:
    from sklearn.datasets import load_digits

    theirs = load_digits()
    assert image_sets.scanned().tolist() == np.column_stack([theirs.data, theirs.target]).tolist()


def test_enlarging_keeps_corners_and_interpolates_between_pixels() -> None:
    """Pixel centers of the large image lie at (i + 1/2) / 4 - 1/2 of the small one: 0, 0, 1/8, 3/8, 5/8, 7/8, 1 …"""
    small = np.zeros((1, 8, 8))
    small[0, 0, 0] = 16
    large = image_sets.enlarged(small)[0, :, :, 0]
    assert large[0, :7].tolist() == [255, 255, 223, 159, 96, 32, 0]
    assert large[2, 2] == round(255 * (7 / 8) ** 2) and large[8:, :].max() == 0


def test_mean_and_deviation_are_measured_per_channel() -> None:
    images = np.zeros((1, 2, 2, 2), dtype=np.uint8)
    images[0, :, :, 0] = [[0, 255], [255, 0]]
    images[0, :, :, 1] = 51
    mean, std = measured(np.concatenate([images, 255 - images]), np.array([0]))
    assert mean == (0.5, 0.2)
    assert std == (0.5, 1.0)  # a channel that never varies is not divided by zero
