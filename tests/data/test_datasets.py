"""Data sets by name or path, and where they lie."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simulator.base.errors import ConfigError
from simulator.data import datasets, image_sets
from simulator.data.samples import measured


def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'fashion-mnist' is neither .* Did you mean 'fashion_mnist'"):
        datasets.load("fashion-mnist", tmp_path)
    with pytest.raises(ConfigError, match=r"unknown data set 'cifar'\. Did you mean 'cifar10'"):
        datasets.get("cifar")


def test_what_is_not_there_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (name, way_out) in enumerate(
        [
            ("absent.npz", "'absent.npz' does not exist"),
            ("fancyzhx/ag_news", "or use hf:fancyzhx/ag_news"),
            ("https://example.org/t.csv", "is an address, .* Download it first"),
            ("/dev/null", "is neither a folder nor a plain file"),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            with pytest.raises(ConfigError, match=way_out):
                datasets.load(name, place)


def test_a_name_can_be_taken_only_once() -> None:
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


class TestDigits:
    def test_the_stated_facts_are_those_of_the_images(self, tmp_path: Path) -> None:
        entry, images = datasets.get("digits"), datasets.load("digits", tmp_path)
        assert images.images.shape == (1797, 32, 32, 1)
        assert (images.test_from, len(images) - images.test_from) == (entry.train_samples, entry.test_samples)
        assert len(images.classes) == entry.classes
        assert entry.check(tmp_path) == []

    @pytest.mark.long
    def test_the_rows_are_those_that_scikit_learn_reads(self) -> None:
        from sklearn.datasets import load_digits

        theirs = load_digits()
        assert image_sets.scanned()[:, :-1].tolist() == theirs.data.tolist()
        assert image_sets.scanned()[:, -1].tolist() == theirs.target.tolist()

    def test_the_test_set_holds_the_last_fifth_of_each_class(self, tmp_path: Path) -> None:
        images = datasets.load("digits", tmp_path)
        # scikit-learn's file has 178 zeros; a fifth is 35, rounded down
        assert np.bincount(images.labels)[0] == 178
        assert np.bincount(images.labels[images.test_from :])[0] == 35

    def test_enlarging_keeps_corners_and_interpolates_between_pixels(self) -> None:
        small = np.zeros((1, 8, 8))
        small[0, 0, 0] = 16
        large = image_sets.enlarged(small)[0, :, :, 0]
        # pixel centres of the large image lie at (i + 1/2) / 4 - 1/2 of the small one: 0, 0, 1/8, 3/8, 5/8, 7/8, 1 …
        assert large[0, :7].tolist() == [255, 255, 223, 159, 96, 32, 0]
        assert large[2, 2] == round(255 * (7 / 8) ** 2)
        assert large[8:, :].max() == 0


def test_mean_and_deviation_are_measured_per_channel() -> None:
    images = np.zeros((1, 2, 2, 2), dtype=np.uint8)
    images[0, :, :, 0] = [[0, 255], [255, 0]]
    images[0, :, :, 1] = 51
    mean, std = measured(np.concatenate([images, 255 - images]), np.array([0]))
    assert mean == (0.5, 0.2)
    assert std == (0.5, 1.0)  # a channel that never varies is not divided by zero
