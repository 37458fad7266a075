"""A user's own folders of images and arrays: what is read, what is said of it, and what is refused with a way out."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.base.reading import read_bytes
from simulator.config import Config
from simulator.data import datasets
from simulator.data.samples import ImageSet, LabeledSet
from simulator.data.specs import ImageSpec
from simulator.sessions import history
from tests import federations
from tests.data.pictures import draw, pictures, shades


def load(path: Path, **data: Any) -> LabeledSet:
    config = DataConfig(dataset=str(path), **data)
    return datasets.load(str(path), path.parent, config=config)


def formed(path: Path, **data: Any) -> ImageSet:
    found: ImageSet = federations.formed(load(path, **data))
    return found


def said(samples: LabeledSet) -> str:
    left_out = [f"{what}: {why}" for what, why in samples.reading.left_out]
    return "\n".join([*left_out, *samples.reading.warnings, *samples.reading.notes])


def free(monkeypatch: pytest.MonkeyPatch, bytes: int) -> None:
    """So much memory is free."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=bytes))


# Folders

OF_DOMAINS = ("photo/mug/2", "photo/pen/2", "sketch/mug/3", "sketch/pen/3")


def test_images_are_in_the_order_of_domain_class_and_name(tmp_path: Path) -> None:
    files = [f"train/{each}" for each in OF_DOMAINS]
    images = formed(pictures(tmp_path, *files, "test/sketch/pen/1", "test/photo/mug/1"), domains=True)
    assert (images.classes, images.domains) == (("mug", "pen"), ("photo", "sketch"))
    assert images.images[:, 0, 0, 0].tolist() == [0, 1, 0, 1, 0, 1, 2, 0, 1, 2, 0, 0]
    assert images.labels.tolist() == [0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1]
    assert images.domain is not None and images.domain.tolist() == [0] * 4 + [1] * 6 + [0, 1]
    assert images.images.shape == (12, 3, 4, 3) and images.test_from == 10


def test_images_are_gray_if_most_are_in_every_domain(tmp_path: Path) -> None:
    own = pictures(tmp_path / "own", "cat/3", "dog/3")
    draw(own / "fox" / "0.png", 50, "L")
    assert formed(own).images[-1, 0, 0].tolist() == [50, 50, 50]
    for number in range(6):
        draw(own / "fox" / f"{number}.png", 50, "L")
    assert formed(own).images.shape[3] == 3  # half of them
    draw(own / "fox" / "6.png", 50, "L")
    assert formed(own).images.shape == (13, 3, 4, 1)
    office = pictures(tmp_path / "office", "photo/mug/1", "photo/pen/1")
    for number in range(4):
        draw(office / "sketch" / "mug" / f"{number}.png", 9, "L")
        draw(office / "sketch" / "pen" / f"{number}.png", 9, "L")
    assert formed(office, domains=True).images.shape == (10, 3, 4, 3)


def test_the_same_folder_has_the_same_fingerprint_in_older_sessions_without_deeper_images(
    tmp_path: Path,
) -> None:
    own = pictures(tmp_path / "own", "train/a/2", "train/b/3", "test/b/1")
    domains = pictures(tmp_path / "domains", *OF_DOMAINS)
    prints = [formed(own).fingerprint, formed(domains, domains=True).fingerprint]
    pictures(own, "train/b/more/1")
    pictures(domains, "photo/mug/x/5")
    assert [formed(each, domains="found").fingerprint for each in (own, domains)] == prints


def test_the_missing_keys_of_older_sessions_mean_the_old_reading() -> None:
    """Those on data sets of htfl-sim lack nothing."""
    for dataset, domains in (("/my/office", "found"), ("hf:a/b", "found"), ("digits", None)):
        old = {"method": {"name": "fedavg"}, "data": {"dataset": dataset}}
        assert Config.read(history.completed(old)).data.domains == domains
        new = Config.read(old).to_json()
        assert Config.read(history.completed(new)).data.domains is None


def test_settings_of_folders_are_refused_for_other_data(tmp_path: Path) -> None:
    for key, value in (("domains", True), ("labels", "x.csv")):
        with pytest.raises(ConfigError, match=f"data.{key} says how to read a folder, and 'digits' is none"):
            datasets.load("digits", tmp_path, config=DataConfig(**{key: value}))  # type: ignore[arg-type]
    office = pictures(tmp_path / "office", *OF_DOMAINS)
    config = DataConfig(dataset=str(office), domains=True, public="digits")  # which needs none of them
    assert datasets.read(config, str(office), tmp_path).domains == ("photo", "sketch")
    assert datasets.read(config, "digits", tmp_path).domains == ()


def test_a_file_at_the_limit_is_read_and_a_byte_more_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert read_bytes(tmp_path / "file", most=3) == b"abc"
    with pytest.raises(ConfigError, match="file is larger than 2 B, the most that is read"):
        read_bytes(tmp_path / "file", most=2)


# Images


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return pictures(tmp_path / "pets", "cat/3", "dog/3")


def test_a_photograph_is_turned_upright_except_in_older_sessions(tmp_path: Path) -> None:
    """Orientation 6 is stored turned a quarter to the left: its upper left pixel belongs to the upper right."""
    own = pictures(tmp_path / "own", "b/1")
    stored = Image.new("RGB", (3, 4))
    stored.putpixel((0, 0), (200, 200, 200))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    (own / "a").mkdir()
    stored.save(own / "a" / "photo.png", exif=exif)
    samples = formed(own)
    assert samples.images.shape == (2, 3, 4, 3)
    assert np.argwhere(samples.images[0, ..., 0]).tolist() == [[0, 3]]
    assert said(samples) == "Turned upright by EXIF orientation: 1 image, such as a/photo.png."
    Image.new("RGB", (3, 4)).save(own / "b" / "0.png", exif=exif)
    assert formed(own, domains="found").images.shape[1:3] == (4, 3)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_alpha_and_later_frames_are_left_out_and_said_and_damaged_exif_says_nothing(tmp_path: Path) -> None:
    own = pictures(tmp_path / "own", "a/0", "b/1")
    Image.new("RGBA", (4, 3), (1, 2, 3, 0)).save(own / "a" / "clear.png")
    frames = [Image.new("RGB", (4, 3), (each, 0, 0)) for each in (50, 250)]
    frames[0].save(own / "a" / "film.gif", save_all=True, append_images=frames[1:])
    Image.new("RGB", (4, 3)).save(
        own / "a" / "x.jpg", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01"
    )
    samples = formed(own)
    assert samples.images[:2, 0, 0].tolist() == [[1, 2, 3], [50, 0, 0]]
    assert said(samples) == (
        "An alpha channel is left out: 1 image, such as a/clear.png.\n"
        "Only the first of several frames is read: 1 image, such as a/film.gif."
    )


def test_a_truncated_image_is_named(pets: Path) -> None:
    file = pets / "dog" / "2.png"
    content = file.read_bytes()
    for kept in (0, 20, 50):
        file.write_bytes(content[:kept])
        with pytest.raises(DataError, match=r"dog/2\.png cannot be read"):
            formed(pets)


def test_what_only_is_named_as_a_picture_starts_no_other_program(
    pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        formed(pets)
    assert not started.exists()


def test_what_does_not_fit_into_memory_is_refused_before_it_is_read(
    pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six images of 4×3 pixels in three colors have 216 bytes. The file of 60 KB has 60 MB of nothing."""
    free(monkeypatch, 215)
    with pytest.raises(DataError, match=r"pets asks for .* GiB of memory"):
        formed(pets)
    free(monkeypatch, 216)
    formed(pets)
    file = tmp_path / "mine.npz"
    np.savez_compressed(file, images=np.zeros((6, 1000, 10_000), np.uint8), labels=np.arange(6) % 2)
    assert file.stat().st_size < 100_000
    free(monkeypatch, 60_000_000)
    with pytest.raises(DataError, match=r"mine\.npz asks for 0\.1 GiB of memory, and 0\.1 GiB are free"):
        load(file)
    free(monkeypatch, 60_000_000 + 6 * 8)
    assert len(load(file)) == 6


# Arrays


def saved(folder: Path, arrays: dict[str, Any]) -> Path:
    """A file of these arrays, without those that are None."""
    np.savez(folder / "own.npz", **{name: each for name, each in arrays.items() if each is not None})
    return folder / "own.npz"


LABELS = np.array([0, 1, 1, 0])
OWN = {"images": shades(6, 4, 5), "labels": np.array([7, 3, 7, 3, 9, 9])}
TESTED = {**OWN, "test_images": np.full((2, 4, 5), 250, np.uint8), "test_labels": np.array([9, 3])}
KERAS = {"x_train": shades(4, 8, 8, 3), "y_train": LABELS[:, None]}


def test_arrays_are_read_by_their_keys(tmp_path: Path) -> None:
    for arrays, shape, labels in (
        (OWN, (6, 4, 5, 1), [1, 0, 1, 0, 2, 2]),
        (TESTED, (8, 4, 5, 1), [1, 0, 1, 0, 2, 2, 2, 0]),
        (KERAS, (4, 8, 8, 3), [0, 1, 1, 0]),
    ):
        file = saved(tmp_path, arrays)
        samples = formed(file)
        assert (samples.images.shape, samples.labels.tolist(), said(samples)) == (shape, labels, "")
        assert samples.images[6:].min(initial=250) == 250
        assert datasets.declared(str(file)) == ImageSpec(shape[3], shape[1], shape[2])


RANGES: list[tuple[Any, list[int], str]] = [
    (np.float32([0, 0.2, 1]), [0, 51, 255], "'images' have numbers from 0 to 1. They are multiplied by 255 and r"),
    (np.float64([0, 7, 200]), [0, 7, 200], "'images' have numbers from 0 to 200. They are read from 0 to 255, as"),
    (np.float64([0, 7.6, 200]), [0, 8, 200], "They are read from 0 to 255, rounded to whole numbers."),
    (np.int64([0, 7, 200]), [0, 7, 200], ""),
    (np.array([False, True, True]), [0, 1, 1], ""),
]  # fmt: skip


def test_numbers_become_bytes_and_it_is_said_how(tmp_path: Path) -> None:
    for images, pixels, told in RANGES:
        whole = np.repeat(images, 20).reshape(3, 4, 5)
        samples = formed(saved(tmp_path, {"images": whole, "labels": [0, 1, 1]}))
        assert samples.images[:, 0, 0, 0].tolist() == pixels
        assert told in said(samples) and bool(told) == bool(said(samples))


AMBIGUOUS: list[tuple[str, tuple[int, ...], str, str, Any]] = [
    ("images", (4, 3, 32, 32), r"\[n, channels, h, w\] with 32×32 pixels and 3 channels", "nchw", ImageSpec(3, 32, 32)),
    ("images", (4, 3, 3, 3), r"\[n, h, w, channels\] with 3×3 pixels and 3 channels or", "nhwc", ImageSpec(3, 3, 3)),
    ("images", (4, 1, 28, 28), r"\[n, channels, h, w\] with 28×28 pixels and 1 channels", "nchw", ImageSpec(1, 28, 28)),
    ("images", (4, 13, 64, 64), r"\[n, channels, h, w\] with 64×64 pixels and 13", "nchw", ImageSpec(13, 64, 64)),
    ("images", (4, 64, 64, 13), r"\[n, h, w, channels\] with 64×64 pixels and 13", "nhwc", ImageSpec(13, 64, 64)),
    ("images", (4, 28, 28, 28), r"\[n, h, w, channels\] with 28×28 pixels and 28", "NHWC", ImageSpec(28, 28, 28)),
    ("images", (4, 28, 3), r"gray images of 28×3 pixels \(\[n, h, w\]\), or with channels", "nhw", ImageSpec(1, 28, 3)),
    ("signals", (4, 128, 9), r"\[n, time, channels\] with 128 values and 9 channels", "ntc", (9, 128)),
    ("signals", (4, 9, 9), r"\[n, channels, time\] with 9 values and 9 channels or", "nct", (9, 9)),
]  # fmt: skip


def test_axes_that_can_be_read_in_two_ways_are_refused_until_they_are_named(tmp_path: Path) -> None:
    for name, shape, message, axes, spec in AMBIGUOUS:
        file = saved(tmp_path, {name: shades(*shape), "labels": LABELS})
        with pytest.raises(DataError, match=message) as refused:
            load(file)
        assert f'"{axes.lower()}"' in str(refused.value)
        found = load(saved(tmp_path, {name: shades(*shape), "labels": LABELS, "axes": axes}))
        form, order = federations.formed(found).spec, axes.lower()
        assert (form if isinstance(spec, ImageSpec) else form.shape) == spec
        assert datasets.declared(str(file)) == form
        usual = "nct" if name == "signals" else "nhwc" if len(shape) == 4 else "nhw"
        moved = shades(*shape).transpose([order.index(axis) for axis in usual])
        assert (federations.formed(found).values.squeeze() == moved.squeeze()).all()


def test_a_cut_and_an_encrypted_file_are_named(tmp_path: Path) -> None:
    """Bit 0 of a member's flags says encrypted, at byte 6 of its header and byte 8 of its entry in the directory."""
    content = saved(tmp_path, OWN).read_bytes()
    for position in (0.01, 0.5, 0.9, 0.999):
        (tmp_path / "own.npz").write_bytes(content[: int(position * len(content))])
        with pytest.raises(DataError, match=r"own\.npz cannot be read"):
            load(tmp_path / "own.npz")
    changed = bytearray(content)
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := changed.find(signature, start + 1)) >= 0:
            changed[start + at] |= 1
    (tmp_path / "own.npz").write_bytes(changed)
    with pytest.raises(DataError, match=r"own\.npz cannot be read.*encrypted"):
        load(tmp_path / "own.npz")
