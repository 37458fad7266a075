"""Data sets decoded once from an archive: what is kept, when it is made again, and how it goes wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.base.errors import DataError
from simulator.data import datasets, decoded
from simulator.data.download import Published
from tests.data.archives import encoded, lay, md5, tar
from tests.data.server import serving

# In no order, as in the real archive, with what is to be left out and a path that would lead elsewhere.
MEMBERS = {
    "./test/truck/b.png": encoded((0, 0, 250), (32, 32)),
    "./train/truck/a.png": encoded((0, 200, 0), (32, 32)),
    "./valid/bird/c.png": encoded((9, 9, 9), (32, 32)),
    "./train/airplane/z.png": encoded((102, 51, 0), (32, 32)),
    "./train/airplane/y.png": encoded((255, 0, 255), (32, 32)),
    "./README": b"text",
    "../../train/cat/evil.png": encoded((1, 1, 1), (32, 32)),
}


def publish(monkeypatch: pytest.MonkeyPatch, archive: bytes, url: str = "http://127.0.0.1:9/") -> None:
    """Declare this the published CINIC-10."""
    monkeypatch.setattr(decoded.Cinic10, "published", (Published("CINIC-10.tar.gz", url, md5(archive)),))


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a small CINIC-10 archive in it."""
    archive = tar(MEMBERS)
    publish(monkeypatch, archive)
    lay(tmp_path, "CINIC-10.tar.gz", archive)
    return tmp_path


def kept(data_dir: Path) -> Path:
    return data_dir / "decoded" / "cinic10"


def test_training_images_come_first_each_part_in_the_order_of_its_names(data_dir: Path) -> None:
    images = datasets.load("cinic10", data_dir)
    assert images.images.shape == (4, 32, 32, 3)
    assert images.images[:, 5, 5].tolist() == [[255, 0, 255], [102, 51, 0], [0, 200, 0], [0, 0, 250]]
    assert images.labels.tolist() == [0, 0, 9, 9]
    assert images.test_from == 3
    assert images.classes[9] == "truck"


def test_names_without_a_leading_dot_are_read_alike(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_dots = datasets.load("cinic10", data_dir).fingerprint
    archive = tar({name.removeprefix("./"): content for name, content in MEMBERS.items()})
    publish(monkeypatch, archive)
    lay(data_dir, "CINIC-10.tar.gz", archive)
    assert datasets.load("cinic10", data_dir).fingerprint == with_dots


def test_the_archive_is_decoded_once_and_may_go_afterwards(data_dir: Path) -> None:
    first = datasets.load("cinic10", data_dir).fingerprint
    assert [entry.name for entry in (data_dir / "decoded").iterdir()] == ["cinic10"]
    (data_dir / "CINIC-10.tar.gz").unlink()
    assert datasets.load("cinic10", data_dir).fingerprint == first
    assert [file.name for file in datasets.get("cinic10").check(data_dir)] == [
        "images.npy", "labels.npy", "about.json",
    ]  # fmt: skip


def test_the_images_are_mapped_and_writing_to_them_leaves_the_file_alone(data_dir: Path) -> None:
    images = datasets.load("cinic10", data_dir).images
    assert isinstance(images, np.memmap)
    images[:] = 7
    datasets.get("cinic10").check(data_dir)


def test_another_published_archive_is_decoded_afresh(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets.load("cinic10", data_dir)
    archive = tar(MEMBERS | {"./train/bird/new.png": encoded((3, 2, 1), (32, 32))})
    publish(monkeypatch, archive)
    assert not datasets.get("cinic10").is_present(data_dir)
    lay(data_dir, "CINIC-10.tar.gz", archive)
    assert len(datasets.load("cinic10", data_dir)) == 5


def test_a_changed_byte_is_found_by_the_check_and_mended_by_fetching(data_dir: Path) -> None:
    dataset = datasets.get("cinic10")
    dataset.fetch(data_dir)
    content = bytearray((kept(data_dir) / "images.npy").read_bytes())
    content[-1] ^= 1
    (kept(data_dir) / "images.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"images\.npy is damaged .* `htfl-sim data fetch cinic10`"):
        dataset.check(data_dir)
    dataset.fetch(data_dir)
    dataset.check(data_dir)


@pytest.mark.parametrize(("name", "length"), [("images.npy", 200), ("labels.npy", 40)])
def test_a_torn_file_is_refused_by_name(data_dir: Path, name: str, length: int) -> None:
    datasets.load("cinic10", data_dir)
    file = kept(data_dir) / name
    file.write_bytes(file.read_bytes()[: min(length, file.stat().st_size - 1)])
    with pytest.raises(DataError, match="damaged"):
        datasets.load("cinic10", data_dir)


def test_a_fact_that_is_missing_is_damage(data_dir: Path) -> None:
    datasets.load("cinic10", data_dir)
    about = json.loads((kept(data_dir) / "about.json").read_text())
    del about["test_from"]
    (kept(data_dir) / "about.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match="damaged"):
        datasets.load("cinic10", data_dir)


@pytest.mark.parametrize("text", ["[]", "{"])
def test_without_a_sound_about_file_the_archive_is_decoded_again(data_dir: Path, text: str) -> None:
    datasets.load("cinic10", data_dir)
    (kept(data_dir) / "about.json").write_text(text)
    assert len(datasets.load("cinic10", data_dir)) == 4


def test_an_archive_that_is_not_the_published_one_is_never_opened(data_dir: Path) -> None:
    (data_dir / "CINIC-10.tar.gz").write_bytes(tar({"./train/cat/evil.png": b"no image"}))
    with pytest.raises(DataError, match=r"needs CINIC-10\.tar\.gz, .* could not be downloaded"):
        datasets.load("cinic10", data_dir)
    assert not (data_dir / "decoded").exists()


def test_an_image_that_cannot_be_decoded_names_the_archive_and_leaves_nothing(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tar({"./train/cat/x.png": b"\x89PNG no image"})
    publish(monkeypatch, archive)
    lay(data_dir, "CINIC-10.tar.gz", archive)
    with pytest.raises(DataError, match=r"CINIC-10\.tar\.gz cannot be decoded"):
        datasets.load("cinic10", data_dir)
    assert list((data_dir / "decoded").iterdir()) == []


def test_what_is_missing_is_downloaded_then_decoded_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tar(MEMBERS)
    told: list[tuple[int, int]] = []
    with serving(archive) as served:
        publish(monkeypatch, archive, served.url)
        images = datasets.load("cinic10", tmp_path / "new", lambda done, total: told.append((done, total)))
    assert len(images) == 4
    assert {total for _, total in told} == {len(archive)}
    assert len(told) >= 1 + 4  # the download, and each decoded image


def test_checking_what_was_never_decoded_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        datasets.get("cinic10").check(tmp_path)
    for part in (str(tmp_path / "decoded" / "cinic10"), "htfl-sim data fetch cinic10", "CINIC-10.tar.gz"):
        assert part in str(error.value)
