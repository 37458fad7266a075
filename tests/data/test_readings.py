"""What is read of a user's own images and arrays, and what is said of it, by the layout that other tools write."""

import os
from collections.abc import Callable
from pathlib import Path
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

Draw = Callable[..., None]


def load(path: Path, **data: Any) -> LabeledSet:
    config = DataConfig(dataset=str(path), **data)
    return datasets.load(str(path), path.parent, config=config)


def formed(path: Path, **data: Any) -> ImageSet:
    found: ImageSet = federations.formed(load(path, **data))
    return found


def pictures(root: Path, *files: str) -> Path:
    """Images of 4×3 pixels. `cat/3` are three in the folder `cat`. Other files have a text."""
    for file in files:
        folder, _, count = file.rpartition("/")
        (root / folder).mkdir(parents=True, exist_ok=True)
        if count.isdigit():
            for number in range(int(count)):
                Image.new("RGB", (4, 3), (number, 9, 9)).save(root / folder / f"{number}.png")
        else:
            (root / file).write_text("words")
    return root


def table(root: Path, name: str, *rows: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("\n".join(rows) + "\n")


def summary(samples: LabeledSet) -> dict[str, tuple[int, int]]:
    """The numbers of training and test images of each class, with its domain if there are any."""
    found: dict[str, tuple[int, int]] = {}
    for number, label in enumerate(samples.labels):
        name = samples.classes[label]
        if samples.domain is not None:
            name = f"{samples.domains[samples.domain[number]]}/{name}"
        train, test = found.get(name, (0, 0))
        found[name] = (train + 1, test) if number < samples.test_from else (train, test + 1)
    return found


def said(samples: LabeledSet) -> str:
    left_out = [f"{what}: {why}" for what, why in samples.reading.left_out]
    return "\n".join([*left_out, *samples.reading.warnings, *samples.reading.notes])


def test_folders_are_read_by_splits_and_classes(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (files, data, read, told) in enumerate(
        [
            (("train/a/2", "train/b/2"), {}, {"a": (2, 0), "b": (2, 0)}, ""),
            (("control/2", "test/3"), {}, {"control": (2, 0), "test": (3, 0)}, ""),
            (
                ("dog/husky/2", "dog/pug/1", "cat/3"),
                {},
                {"cat": (3, 0), "dog": (3, 0)},
                "Images in deeper folders",
            ),
            (
                ("a/train/x/2", "a/train/y/2", "b/train/x/2", "b/train/y/2", "a/test/x/1", "b/test/y/1"),
                {"domains": True},
                {"a/x": (2, 1), "a/y": (2, 0), "b/x": (2, 0), "b/y": (2, 1)},
                "",
            ),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            samples = load(pictures(place / "own", *files), **data)
            assert summary(samples) == read
            assert said(samples).startswith(told) if told else not said(samples)


def test_settings_of_folders_are_refused_for_other_data(tmp_path: Path) -> None:
    own = pictures(tmp_path / "own", "a/1", "b/1")
    for data in ({"domains": True}, {"labels": "x.csv"}):
        with pytest.raises(
            ConfigError, match=f"data.{next(iter(data))} says how to read a folder, and 'digits' is none"
        ):
            datasets.load("digits", tmp_path, config=DataConfig(**data))  # type: ignore[arg-type]
    with pytest.raises(
        DataError, match=r"own has no domains: its folders a, b have no class folders\. Leave out data"
    ):
        load(own, domains=True)
    with pytest.raises(
        ConfigError, match=r"data\.domains reads domains from folders, and data\.labels needs none"
    ):
        load(own, domains=True, labels="x.csv")


def test_a_public_data_set_that_is_no_folder_needs_none_of_its_settings(tmp_path: Path) -> None:
    own = pictures(tmp_path / "own", "photo/mug/1", "photo/pen/1", "sketch/mug/1", "sketch/pen/1")
    config = DataConfig(dataset=str(own), domains=True, public="digits")
    assert datasets.read(config, str(own), tmp_path).domains == ("photo", "sketch")
    assert datasets.read(config, "digits", tmp_path).domains == ()


class TestLabels:
    def test_the_column_of_classes_can_be_named(self, tmp_path: Path) -> None:
        own = pictures(tmp_path / "own", "2")
        table(own, "meta.csv", "age,file,sick", "1,0.png,yes", "0,1.png,no")
        with pytest.raises(
            ConfigError, match=r"Nothing says which column of .* Set data.target to one of age, sick."
        ):
            load(own, labels="meta.csv")
        assert summary(load(own, labels="meta.csv", target="sick")) == {"no": (1, 0), "yes": (1, 0)}
        table(own, "digits.csv", "id,digit", "0,1", "1,0")
        with pytest.raises(ConfigError, match=r"Set data.target to one of id, digit."):
            load(own, labels="digits.csv")
        assert load(own, labels="digits.csv", target="digit").labels.tolist() == [0, 1]
        table(own, "twice.csv", "a,b,c", "0,0,x", "1,1,y")
        with pytest.raises(
            DataError, match=r"twice\.csv has several columns that name images: a, b\. Keep one\."
        ):
            load(own, labels="twice.csv", target="c")
        with pytest.raises(ConfigError, match=r"data\.target is 'sik', and .* Did you mean 'sick'\?"):
            load(own, labels="meta.csv", target="sik")

    def test_a_missing_file_is_refused_with_the_nearest(self, tmp_path: Path) -> None:
        own = pictures(tmp_path / "own", "2")
        table(own, "labels.csv", "file,label")
        with pytest.raises(ConfigError, match=r"no such file\. Did you mean 'labels\.csv'\?"):
            load(own, labels="label.csv")

    def test_a_file_at_the_limit_is_read_and_a_byte_more_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"abc")
        assert read_bytes(tmp_path / "file", most=3) == b"abc"
        with pytest.raises(ConfigError, match="file is larger than 2 B, the most that is read"):
            read_bytes(tmp_path / "file", most=2)

    def test_a_pipe_and_a_file_above_the_limit_are_refused(self, tmp_path: Path) -> None:
        own = pictures(tmp_path / "own", "2")
        os.mkfifo(own / "pipe.csv")
        (own / "large.csv").touch()
        os.truncate(own / "large.csv", (64 << 20) + 1)
        for name, why in (("pipe", "it is a pipe. Name a regular file"), ("large", "is larger than 64")):
            with pytest.raises(DataError, match=rf"data\.labels.*{name}\.csv.*{why}"):
                load(own, labels=f"{name}.csv")


class TestImages:
    def test_a_phones_photograph_is_turned_upright(self, tmp_path: Path) -> None:
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

    def test_an_older_session_ignores_the_orientation(self, tmp_path: Path) -> None:
        own = tmp_path / "own"
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = 6
        for name in ("a", "b"):
            (own / name).mkdir(parents=True)
            Image.new("RGB", (3, 4)).save(own / name / "0.jpg", exif=exif)
        assert formed(own).images.shape[1:3] == (3, 4)
        assert formed(own, domains="found").images.shape[1:3] == (4, 3)

    def test_alpha_and_later_frames_are_left_out_and_said(self, tmp_path: Path) -> None:
        own = pictures(tmp_path / "own", "b/1")
        (own / "a").mkdir()
        Image.new("RGBA", (4, 3), (1, 2, 3, 0)).save(own / "a" / "clear.png")
        frames = [Image.new("RGB", (4, 3), (each, 0, 0)) for each in (50, 250)]
        frames[0].save(own / "a" / "film.gif", save_all=True, append_images=frames[1:])
        samples = formed(own)
        assert samples.images[:2, 0, 0].tolist() == [[1, 2, 3], [50, 0, 0]]
        assert said(samples) == (
            "An alpha channel is left out: 1 image, such as a/clear.png.\n"
            "Only the first of several frames is read: 1 image, such as a/film.gif."
        )

    @pytest.mark.filterwarnings("ignore:Corrupt EXIF")
    def test_damaged_exif_says_nothing(self, tmp_path: Path) -> None:
        own = pictures(tmp_path / "own", "a/1", "b/1")
        Image.new("RGB", (4, 3)).save(
            own / "a" / "x.jpg", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01"
        )
        assert len(formed(own)) == 3


class TestOlderSessions:
    def test_their_missing_keys_mean_the_old_reading(self) -> None:
        """Those on data sets of htfl-sim lack nothing."""
        for dataset, domains in (("/my/office", "found"), ("hf:a/b", "found"), ("digits", None)):
            old = {"method": {"name": "fedavg"}, "data": {"dataset": dataset}}
            assert Config.read(history.completed(old)).data.domains == domains
            new = Config.read(old).to_json()
            assert Config.read(history.completed(new)).data.domains is None

    def test_folders_of_folders_stay_domains_and_deeper_images_out(self, tmp_path: Path) -> None:
        own = pictures(
            tmp_path / "own", "photo/mug/2", "photo/pen/1", "sketch/mug/1", "sketch/pen/1", "photo/mug/x/5"
        )
        assert summary(load(own, domains="found")) == {
            "photo/mug": (2, 0), "photo/pen": (1, 0), "sketch/mug": (1, 0), "sketch/pen": (1, 0),
        }  # fmt: skip

    def test_the_same_folder_has_the_same_fingerprint(self, tmp_path: Path) -> None:
        own = pictures(tmp_path / "own", "train/a/2", "train/b/3", "test/b/1")
        assert formed(own).fingerprint == formed(own, domains="found").fingerprint
        domains = pictures(tmp_path / "domains", "p/a/2", "p/b/1", "q/a/1", "q/b/2")
        assert formed(domains, domains=True).fingerprint == formed(domains, domains="found").fingerprint


def bytes_of(*shape: int) -> Any:
    return (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)


LABELS = np.array([0, 1, 1, 0])
PARTS = {
    "train_images": bytes_of(4, 8, 8, 3), "train_labels": LABELS[:, None],
    "val_images": bytes_of(2, 8, 8, 3), "val_labels": LABELS[:2, None],
    "test_images": bytes_of(2, 8, 8, 3), "test_labels": LABELS[:2, None],
}  # fmt: skip
KERAS = {"x_train": bytes_of(4, 8, 8), "y_train": LABELS, "x_test": bytes_of(2, 8, 8), "y_test": LABELS[:2]}
UNUSED = "'test_images' is the own test set, and no other split is used"


def test_arrays_are_read_by_the_keys_of_other_tools(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (arrays, shape, read, told) in enumerate(
        [
            (
                PARTS,
                (6, 8, 8, 3),
                {"0": (2, 1), "1": (2, 1)},
                f"array 'val_images': {UNUSED}\narray 'val_labels': {UNUSED}",
            ),
            (KERAS, (6, 8, 8, 1), {"0": (2, 1), "1": (2, 1)}, ""),
            (
                {"x_train": bytes_of(4, 8, 8, 3), "y_train": LABELS[:, None]},
                (4, 8, 8, 3),
                {"0": (2, 0), "1": (2, 0)},
                "",
            ),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            np.savez(place / "own.npz", **arrays)
            samples = formed(place / "own.npz")
            assert samples.images.shape == shape
            assert summary(samples) == read
            assert said(samples) == told
            assert datasets.declared(str(place / "own.npz")) == ImageSpec(shape[3], shape[1], shape[2])


def test_numbers_become_bytes_and_it_is_said_how(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (images, pixels, told) in enumerate(
        [
            (
                np.float32([0, 0.2, 1]),
                [0, 51, 255],
                "'images' have numbers from 0 to 1. They are multiplied by 255 and r",
            ),
            (
                np.float64([0, 7, 200]),
                [0, 7, 200],
                "'images' have numbers from 0 to 200. They are read from 0 to 255, as",
            ),
            (
                np.float64([0, 7.6, 200]),
                [0, 8, 200],
                "They are read from 0 to 255, rounded to whole numbers.",
            ),
            (np.int64([0, 7, 200]), [0, 7, 200], ""),
            (np.array([False, True, True]), [0, 1, 1], ""),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            whole = np.repeat(images, 20).reshape(3, 4, 5)
            np.savez(place / "own.npz", images=whole, labels=[0, 1, 1])
            samples = formed(place / "own.npz")
            assert samples.images[:, 0, 0, 0].tolist() == pixels
            assert told in said(samples) and bool(told) == bool(said(samples))


def test_training_and_test_images_have_one_range(tmp_path: Path) -> None:
    bright = np.full((2, 4, 5), 200.0)
    np.savez(tmp_path / "own.npz", images=bright / 255, labels=[0, 1], test_images=bright, test_labels=[0, 1])
    with pytest.raises(DataError, match=r"'images' and 'test_images' have fractions from 0\.784314 to 200"):
        load(tmp_path / "own.npz")


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


def test_axes_that_can_be_read_in_two_ways_are_refused_until_they_are_named(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for case, (name, shape, message, axes, spec) in enumerate(AMBIGUOUS):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            file = str(place / "own.npz")
            np.savez(file, **{name: bytes_of(*shape), "labels": LABELS})
            with pytest.raises(DataError, match=message) as refused:
                load(Path(file))
            assert f'"{axes.lower()}"' in str(refused.value)
            np.savez(file, **np.load(file), axes=axes)
            found = load(Path(file))
            form = federations.formed(found).spec
            assert (form if isinstance(spec, ImageSpec) else form.shape) == spec
            assert datasets.declared(file) == form
            order = axes.lower()
            usual = "nct" if name == "signals" else "nhwc" if len(shape) == 4 else "nhw"
            moved = bytes_of(*shape).transpose([order.index(axis) for axis in usual])
            assert (federations.formed(found).values.squeeze() == moved.squeeze()).all()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"axes": "hwn"}, r"'axes' is 'hwn', and 'images' \[4, 8, 8\] takes nhw"),
        ({"test_images": bytes_of(4, 8, 8), "test_labels": np.array(["0"] * 4)}, "only one of 'labels' and 'test_la"),
    ],
)  # fmt: skip
def test_arrays_with_other_labels_or_keys_are_refused(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    np.savez(tmp_path / "own.npz", **{"images": bytes_of(4, 8, 8), "labels": LABELS, **arrays})
    with pytest.raises(DataError, match=message):
        load(tmp_path / "own.npz")


@pytest.mark.parametrize(
    ("array", "kinds"), [
        (np.zeros((4, 8), int), ("tokens", "features")),
    ]
)  # fmt: skip
def test_keras_arrays_of_two_kinds_are_refused_until_the_kind_is_named(
    tmp_path: Path, array: Any, kinds: tuple[str, str]
) -> None:
    np.savez(tmp_path / "own.npz", x_train=array, y_train=LABELS)
    with pytest.raises(
        DataError, match=f"can be read in two ways: as {kinds[0]} or as {kinds[1]}. Save it as '{kinds[0]}'"
    ):
        load(tmp_path / "own.npz")
    np.savez(tmp_path / "own.npz", **{kinds[0]: array, "labels": LABELS})
    assert len(load(tmp_path / "own.npz")) == 4
