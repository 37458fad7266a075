"""A client's images divided into parts, stratified by class."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from simulator.base.data_section import split_shares
from simulator.base.errors import DataError
from simulator.data.partition import stratified
from tests.data.strategies import labelled, seeds

splits = st.sampled_from(["8:1:1", "75:25", "1:1:1", "1:9"])
Labels = NDArray[np.int64]


def split(labels: Labels, shares: str, seed: int = 0) -> tuple[Labels, ...]:
    indices = np.arange(len(labels)) + 1000  # positions and indices must not be mistaken for each other
    return stratified(indices, labels, split_shares(shares), 3, np.random.default_rng(seed))


@given(labelled(min_per_class=5), splits, seeds)
def test_the_parts_cover_everything_once_and_none_is_empty(set_, shares, seed) -> None:
    labels, _ = set_
    parts = split(labels, shares, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)) + 1000)
    assert all(len(part) for part in parts)
    assert set(labels[parts[0] - 1000]) == set(labels)
    for part, again in zip(parts, split(labels, shares, seed), strict=True):
        np.testing.assert_array_equal(part, again)


@given(labelled(min_per_class=10), st.sampled_from(["8:1:1", "75:25"]), seeds)
@example((np.repeat([0, 1, 2, 3], [10, 59, 15, 33]), 4), "8:1:1", 1)
def test_totals_match_the_shares_within_one_and_classes_within_the_bound(set_, shares, seed) -> None:
    labels, classes = set_
    held = np.bincount(labels, minlength=classes)
    others = len(labels) - classes
    weight = (held - 1) / others
    parts = split(labels, shares, seed)
    for number, (part, share) in enumerate(zip(parts, split_shares(shares), strict=True)):
        assert abs(len(part) - share * len(labels)) <= 1
        per_class = np.bincount(labels[part - 1000], minlength=classes)
        stretch = 1 + (len(parts) - 2) * (len(part) - classes * (number == 0)) / others
        firsts = np.abs(weight * classes - 1) * (1 - share if number == 0 else share)
        assert (np.abs(per_class - share * held) <= stretch + weight + firsts + 1e-9).all()


def test_eight_one_one_of_a_hundred_images_of_two_classes() -> None:
    labels = np.repeat([0, 1], 50)
    assert [len(part) for part in split(labels, "8:1:1")] == [80, 10, 10]


def test_a_client_with_as_many_samples_as_parts_has_one_in_each() -> None:
    assert [len(part) for part in split(np.array([5, 5, 5]), "8:1:1")] == [1, 1, 1]


def test_a_class_of_one_image_is_trained_on() -> None:
    labels = np.array([0] * 20 + [1])
    for seed in range(20):
        assert 1020 in split(labels, "1:1:1", seed)[0]


def test_the_single_test_image_is_not_always_of_the_same_class() -> None:
    labels = np.repeat([0, 1, 2], 4)
    tested = {int(labels[split(labels, "8:1:1", seed)[2][0] - 1000]) for seed in range(40)}
    assert tested == {0, 1, 2}


@pytest.mark.parametrize(("labels", "held"), [([0, 0], 1), ([0, 1, 2, 3], 4)])
def test_too_few_samples_are_refused_naming_client_and_count(labels: list[int], held: int) -> None:
    with pytest.raises(
        DataError, match=f"client 3 holds {len(labels)} samples of {held} classes, too few for 3 parts"
    ):
        split(np.array(labels), "8:1:1")
