"""The federation's data: built from a configuration, gathered in batches, fingerprinted."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.data.dividing import divided
from simulator.data.federated import FederatedData, drawn, fingerprint, pooled
from simulator.data.samples import ImageSet, joined

CPU = torch.device("cpu")


def image_set(classes: int = 10, train: int = 400, test: int = 100, channels: int = 3) -> ImageSet:
    """Image i has every byte i mod 251, so that a gathered image tells where it came from."""
    count = train + test
    pixels = np.broadcast_to(
        (np.arange(count) % 251).astype(np.uint8)[:, None, None, None], (count, 4, 5, channels)
    )
    labels = np.arange(count) % classes
    names = tuple(f"class {label}" for label in range(classes))
    own_test = (pixels[train:], labels[train:]) if test else None
    return joined((pixels[:train], labels[:train]), own_test, names)


def build(images: ImageSet | None = None, clients: int = 5, seed: int = 0, **config: Any) -> FederatedData:
    return FederatedData.build(DataConfig(**config), clients, seed, images or image_set(), CPU)


def test_a_batch_is_normalized_and_channels_last() -> None:
    images = image_set()
    data = build(images)
    chosen = torch.tensor([7, 250, 31])
    x, y = data.batch(chosen)
    assert x.shape == (3, 3, 4, 5)
    assert x.dtype == torch.float32
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert y.tolist() == [7, 0, 1]
    for channel in range(3):
        held = np.concatenate([client.train for client in data.clients])
        bytes = images.images[held, ..., channel].astype(np.float64)
        expected = ((np.array([7.0, 250.0, 31.0]) - bytes.mean()) / bytes.std()).astype(np.float32)
        torch.testing.assert_close(x[:, channel, 2, 3], torch.from_numpy(expected))


def test_gathering_a_batch_leaves_the_images_as_they_are() -> None:
    data = build()
    before = data.inputs.images.clone()
    data.batch(torch.arange(10))
    assert torch.equal(data.inputs.images, before)
    assert data.inputs.images.dtype == torch.uint8


def test_the_images_have_a_shape_of_channels_height_and_width() -> None:
    assert build().spec.shape == (3, 4, 5)
    assert build(image_set(channels=1)).spec.shape == (1, 4, 5)


def test_the_classes_of_a_client_are_those_it_trains_on_with_their_counts() -> None:
    data = build(classes_per_client=3)
    for client in data.clients:
        held, counts = torch.unique(data.labels[client.train], return_counts=True)
        assert client.classes == tuple(held.tolist())
        assert client.class_counts == tuple(counts.tolist())
        assert sum(client.class_counts) == client.num_train == len(client.train)
        assert client.num_test == len(client.test)
        assert len(client.classes) == 3


def test_every_image_lies_in_one_part_of_one_client() -> None:
    data = build(partition="iid")
    together = torch.cat([part for c in data.clients for part in (c.train, c.eval, c.test)])
    assert torch.equal(together.sort().values, torch.arange(500))


def test_a_split_in_two_has_no_eval_part() -> None:
    for client in build(split="75:25", partition="iid", quantity="equal").clients:
        assert (client.num_train, client.num_eval, client.num_test) == (75, 0, 25)


class TestGlobalTestSet:
    def test_clients_train_on_the_training_images_and_share_one_test_tensor(self) -> None:
        data = build(split="global", partition="iid")
        assert torch.equal(torch.cat([c.train for c in data.clients]).sort().values, torch.arange(400))
        assert torch.equal(data.clients[0].test, torch.arange(400, 500))
        assert all(client.test is data.clients[0].test for client in data.clients)
        assert all(client.num_eval == 0 for client in data.clients)

    def test_a_data_set_without_one_is_refused(self) -> None:
        with pytest.raises(DataError, match="has no test set of its own"):
            build(image_set(test=0), split="global")


class TestLimit:
    def test_classes_and_test_images_stay_in_proportion(self) -> None:
        # 500 images: 400 to train on and 100 to test on, a tenth of each per class; 250 is half of every part
        half = image_set().take(drawn(image_set(), 250, np.random.default_rng(0)))
        assert half.test_from == 200
        assert np.bincount(half.labels[:200]).tolist() == [20] * 10
        assert np.bincount(half.labels[200:]).tolist() == [5] * 10

    @given(st.integers(1, 499), st.integers(0, 2**32))
    def test_the_number_is_exact_and_no_image_comes_twice(self, limit: int, seed: int) -> None:
        images = image_set().take(drawn(image_set(), limit, np.random.default_rng(seed)))
        assert len(images) == limit
        # bytes tell images of equal label apart up to 251 images away
        assert max(np.unique(images.images[:, 0, 0, 0], return_counts=True)[1]) <= 2

    @given(st.integers(0, 50), st.integers(0, 50), st.integers(20, 50))
    def test_images_for_tuning_are_apart_from_those_of_every_final_run(
        self, one: int, other: int, limit: int
    ) -> None:
        """250 different images: 50 for tuning, 200 for final runs."""
        images = image_set(train=200, test=50)
        tuning, final = (pooled(images, pool) for pool in ("tuning", "final"))
        assert (len(tuning), len(final)) == (50, 200)
        searched = tuning.take(drawn(tuning, limit, np.random.default_rng(one))).images
        reported = final.take(drawn(final, limit, np.random.default_rng(other))).images
        assert not {image.tobytes() for image in searched} & {image.tobytes() for image in reported}

    def test_a_limit_above_the_number_of_images_changes_nothing(self) -> None:
        assert build(limit=1000).fingerprint == build().fingerprint

    def test_too_small_a_limit_is_refused(self) -> None:
        with pytest.raises(DataError, match=r"data\.limit"):
            build(limit=8)


class TestFingerprint:
    def test_the_same_configuration_gives_the_same_fingerprint(self) -> None:
        assert build().fingerprint == build().fingerprint

    def test_another_assignment_gives_another_fingerprint(self, subtests: pytest.Subtests) -> None:
        for case, change in enumerate(
            [{"seed": 1}, {"split": "7:2:1"}, {"classes_per_client": 3}, {"limit": 400}]
        ):
            with subtests.test(case=case):
                assert build(**change).fingerprint != build().fingerprint

    @settings(max_examples=30)
    @given(st.integers(0, 4), st.sampled_from([(0, 1), (0, 2), (2, 0)]))
    def test_moving_one_index_between_parts_changes_it(self, client: int, move: tuple[int, int]) -> None:
        images = image_set()
        parts = divided(DataConfig(), 5, 0, images)
        before = fingerprint(images, parts)
        changed = list(parts[client])
        source, target = move
        changed[target] = np.append(changed[target], changed[source][-1])
        changed[source] = changed[source][:-1]
        parts[client] = (changed[0], changed[1], changed[2])
        assert fingerprint(images, parts) != before

    def test_one_changed_pixel_or_label_changes_it(self) -> None:
        images = image_set()
        pixels, labels = images.images.copy(), images.labels.copy()
        pixels[123, 2, 2, 1] ^= 1
        labels[77] = (labels[77] + 1) % 10
        cut = images.test_from
        for p, y in ((pixels, images.labels), (images.images, labels)):
            other = joined((p[:cut], y[:cut]), (p[cut:], y[cut:]), images.classes, images.mean, images.std)
            assert other.fingerprint != images.fingerprint


def test_the_summary_names_samples_and_classes_of_each_client() -> None:
    data = build(split="75:25", partition="iid", quantity="equal")
    first = data.summary()[0]
    assert {key: first[key] for key in ("client", "train", "eval", "test")} == {
        "client": 0, "train": 75, "eval": 0, "test": 25,
    }  # fmt: skip
    assert sum(first["classes"].values()) == 75
    assert set(first["classes"]) <= set(data.classes)


def test_more_classes_per_client_than_the_data_has_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"data\.classes_per_client"):
        build(classes_per_client=11)
