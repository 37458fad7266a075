"""A user's own images."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from simulator.base.errors import DataError
from simulator.data import datasets
from simulator.data.samples import ImageSet
from tests import federations

NO_DATA_DIR = Path("unused")


def load(path: Path) -> ImageSet:
    found: ImageSet = federations.formed(datasets.load(str(path), NO_DATA_DIR))
    return found


def draw(file: Path, value: int, mode: str = "RGB", size: tuple[int, int] = (6, 4)) -> None:
    """A picture of one value, `size` wide and high."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode in ("L", "I;16") else (value,) * len(mode)).save(file)


def free(monkeypatch: pytest.MonkeyPatch, bytes: int) -> None:
    """So much memory is free."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=bytes))


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    folder = tmp_path / "pets"
    for number in range(3):
        draw(folder / "dog" / f"{number}.png", 10 + number)
        draw(folder / "cat" / f"{number}.png", 20 + number)
    return folder


class TestFolder:
    def test_class_folders_in_order_of_name_are_the_classes(self, pets: Path) -> None:
        images = load(pets)
        assert images.classes == ("cat", "dog")
        assert images.images.shape == (6, 4, 6, 3)
        assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert images.images[:, 0, 0, 0].tolist() == [20, 21, 22, 10, 11, 12]
        assert not images.has_test_set

    def test_train_and_test_folders_make_a_data_set_with_a_test_set(self, pets: Path, tmp_path: Path) -> None:
        both = tmp_path / "both"
        both.mkdir()
        pets.rename(both / "train")
        draw(both / "test" / "dog" / "x.png", 99)
        images = load(both)
        assert images.test_from == 6
        assert images.labels[6:].tolist() == [1]
        assert images.images[6, 0, 0, 0] == 99

    def test_a_class_only_in_test_is_refused(self, pets: Path, tmp_path: Path) -> None:
        both = tmp_path / "both"
        both.mkdir()
        pets.rename(both / "train")
        draw(both / "test" / "fox" / "x.png", 99)
        with pytest.raises(DataError, match="fox is a class that has no training images"):
            load(both)

    def test_mostly_grey_images_are_all_made_grey(self, pets: Path) -> None:
        for number in range(7):
            draw(pets / "fox" / f"{number}.png", 50, mode="L")
        assert load(pets).images.shape == (13, 4, 6, 1)

    def test_a_few_grey_images_among_colour_ones_are_made_colour(self, pets: Path) -> None:
        draw(pets / "fox" / "x.png", 50, mode="L")
        assert load(pets).images[-1, 0, 0].tolist() == [50, 50, 50]

    @pytest.mark.parametrize("kept", [0, 20, 50])
    def test_a_truncated_image_is_named(self, pets: Path, kept: int) -> None:
        file = pets / "dog" / "2.png"
        file.write_bytes(file.read_bytes()[:kept])
        with pytest.raises(DataError, match=r"dog/2\.png cannot be read"):
            load(pets)

    def test_what_only_is_named_as_a_picture_starts_no_other_program(
        self, pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of PostScript in a .png Pillow would have Ghostscript make the pixels."""
        started = tmp_path / "started"
        ghostscript = tmp_path / "bin" / "gs"
        ghostscript.parent.mkdir()
        ghostscript.write_text(f"#!/bin/sh\ntouch {started}\n")
        ghostscript.chmod(0o755)
        monkeypatch.setenv("PATH", f"{ghostscript.parent}:{os.environ['PATH']}")
        monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # looked for once a process
        drawing = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 4\n%%EndComments\nshowpage\n%%EOF\n"
        (pets / "cat" / "1.png").write_text(drawing)
        with pytest.raises(DataError, match=r"cat/1\.png cannot be read"):
            load(pets)
        assert not started.exists()

    def test_pictures_that_do_not_fit_into_memory_are_refused_before_any_is_decoded(
        self, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Six of 6×4 pixels in three colours: 432 bytes."""
        free(monkeypatch, 431)
        with pytest.raises(DataError, match=r"pets asks for .* GiB of memory"):
            load(pets)
        free(monkeypatch, 432)
        load(pets)


def arrays(**changes: Any) -> dict[str, Any]:
    images = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
    return {"images": images, "labels": np.array([7, 3, 7, 3, 9, 9]), **changes}


def saved(tmp_path: Path, contents: dict[str, Any]) -> Path:
    file = tmp_path / "mine.npz"
    np.savez(file, **contents)
    return file


class TestNpz:
    def test_grey_images_get_a_channel_and_labels_become_class_numbers(self, tmp_path: Path) -> None:
        images = load(saved(tmp_path, arrays()))
        assert images.images.shape == (6, 4, 5, 1)
        assert images.classes == ("3", "7", "9")
        assert images.labels.tolist() == [1, 0, 1, 0, 2, 2]
        assert not images.has_test_set

    def test_test_images_come_last(self, tmp_path: Path) -> None:
        test = {"test_images": np.full((2, 4, 5), 250, dtype=np.uint8), "test_labels": np.array([9, 3])}
        images = load(saved(tmp_path, arrays(**test)))
        assert images.test_from == 6
        assert images.labels[6:].tolist() == [2, 0]
        assert images.images[6:].min() == 250

    def test_arrays_that_do_not_fit_are_refused(self, tmp_path: Path, subtests: pytest.Subtests) -> None:
        for case, (changes, message) in enumerate(
            [
                (
                    {"images": np.zeros((6, 4), dtype=np.uint8)},
                    r"'images' must be numbers .* not uint8 \[6, 4\]",
                ),
                (
                    {"images": np.zeros((6, 4, 5), dtype=complex)},
                    "'images' must be numbers .* not complex128",
                ),
                (
                    {"images": np.zeros((0, 4, 5), dtype=np.uint8), "labels": np.zeros(0, int)},
                    "'images' must be numbers",
                ),
                (
                    {"labels": np.zeros(5, dtype=int)},
                    r"'labels' must be 6 whole numbers or texts, not int64 \[5\]",
                ),
                (
                    {"test_images": np.zeros((1, 9, 9), dtype=np.uint8), "test_labels": np.array([3])},
                    "'test_images' differ from 'images'",
                ),
            ]
        ):
            with subtests.test(case=case):
                place = tmp_path / str(case)
                place.mkdir()
                with pytest.raises(DataError, match=message):
                    load(saved(place, arrays(**changes)))

    def test_an_encrypted_file_is_named(self, tmp_path: Path) -> None:
        """Bit 0 of a member's flags says so, at byte 6 of its header and byte 8 of its entry in the directory."""
        file = saved(tmp_path, arrays())
        content = bytearray(file.read_bytes())
        for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            start = -1
            while (start := content.find(signature, start + 1)) >= 0:
                content[start + at] |= 1
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"mine\.npz cannot be read.*encrypted"):
            load(file)

    def test_a_missing_array_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="has no array 'labels'"):
            load(saved(tmp_path, {"images": np.zeros((1, 2, 2), dtype=np.uint8)}))

    def test_a_cut_file_is_named(self, tmp_path: Path, subtests: pytest.Subtests) -> None:
        for case, position in enumerate([0.01, 0.5, 0.9, 0.999]):
            with subtests.test(case=case):
                place = tmp_path / str(case)
                place.mkdir()
                file = saved(place, arrays())
                content = file.read_bytes()
                file.write_bytes(content[: int(position * len(content))])
                with pytest.raises(DataError, match=r"mine\.npz cannot be read"):
                    load(file)

    def test_arrays_that_do_not_fit_into_memory_are_refused_before_any_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """60 MB of nothing in a file of 60 KB."""
        images = {"images": np.zeros((6, 1000, 10_000), np.uint8), "labels": np.arange(6) % 2}
        np.savez_compressed(tmp_path / "mine.npz", **images)
        assert (tmp_path / "mine.npz").stat().st_size < 100_000
        free(monkeypatch, 60_000_000)
        with pytest.raises(DataError, match=r"mine\.npz asks for 0\.1 GiB of memory, and 0\.1 GiB are free"):
            load(tmp_path / "mine.npz")
        free(monkeypatch, 60_000_000 + 6 * 8)
        assert len(load(tmp_path / "mine.npz")) == 6

    def test_arrays_of_more_pixels_than_a_picture_may_have_are_refused(self, tmp_path: Path) -> None:
        images = {"images": np.zeros((1, 4097, 4096), np.uint8), "labels": np.zeros(1, int)}
        with pytest.raises(DataError, match="more than 16,777,216 pixels an image"):
            load(saved(tmp_path, images))
