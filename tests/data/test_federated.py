"""The federation's data: built from a configuration, gathered in batches, fingerprinted, and public samples."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.base.nested import with_overrides
from simulator.config import Config
from simulator.data.dividing import divided
from simulator.data.federated import (
    FederatedData,
    PublicData,
    Source,
    drawn,
    fingerprint,
    load,
    of_data_set,
    pooled,
    set_apart,
)  # fmt: skip
from simulator.data.inputs import arranged
from simulator.data.samples import ArraySet, ImageSet, SampleSet, joined
from simulator.data.specs import ImageSpec, SignalSpec, TokenSpec
from tests import federations

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
    x, y = data.batch(torch.tensor([7, 250, 31]))
    assert x.shape == (3, 3, 4, 5) and x.dtype == torch.float32 and data.spec.shape == (3, 4, 5)
    assert x.is_contiguous(memory_format=torch.channels_last) and y.tolist() == [7, 0, 1]
    for channel in range(3):
        held = np.concatenate([client.train for client in data.clients])
        bytes = images.images[held, ..., channel].astype(np.float64)
        expected = ((np.array([7.0, 250.0, 31.0]) - bytes.mean()) / bytes.std()).astype(np.float32)
        torch.testing.assert_close(x[:, channel, 2, 3], torch.from_numpy(expected))


def test_the_classes_of_a_client_are_those_it_trains_on_with_their_counts() -> None:
    data = build(classes_per_client=3)
    for client in data.clients:
        held, counts = torch.unique(data.labels[client.train], return_counts=True)
        assert client.classes == tuple(held.tolist()) and len(client.classes) == 3
        assert client.class_counts == tuple(counts.tolist())
        assert sum(client.class_counts) == len(client.train)


def test_a_split_in_two_has_no_eval_part_and_the_summary_names_samples_and_classes() -> None:
    data = build(split="75:25", partition="iid", quantity="equal")
    for client in data.clients:
        assert (len(client.train), len(client.eval), len(client.test)) == (75, 0, 25)
    first = data.summary()[0]
    assert [first[key] for key in ("client", "train", "eval", "test")] == [0, 75, 0, 25]
    assert sum(first["classes"].values()) == 75 and set(first["classes"]) <= set(data.classes)


def test_with_a_global_test_set_clients_share_one_test_tensor() -> None:
    data = build(split="global", partition="iid")
    assert torch.equal(torch.cat([c.train for c in data.clients]).sort().values, torch.arange(400))
    assert torch.equal(data.clients[0].test, torch.arange(400, 500))
    assert all(each.test is data.clients[0].test and len(each.eval) == 0 for each in data.clients)
    with pytest.raises(DataError, match="has no test set of its own"):
        build(image_set(test=0), split="global")


def test_with_a_limit_classes_and_test_images_stay_in_proportion() -> None:
    """500 images: 400 to train on and 100 to test on, a tenth of each per class; 250 is half of every part."""
    half = image_set().take(drawn(image_set(), 250, np.random.default_rng(0)))
    assert half.test_from == 200 and np.bincount(half.labels[:200]).tolist() == [20] * 10
    assert np.bincount(half.labels[200:]).tolist() == [5] * 10
    assert build(limit=1000).fingerprint == build().fingerprint
    with pytest.raises(DataError, match=r"data\.limit"):
        build(limit=8)


@given(st.integers(1, 499), st.integers(0, 2**32))
def test_the_number_of_a_draw_is_exact_and_no_image_comes_twice(limit: int, seed: int) -> None:
    chosen = drawn(image_set(), limit, np.random.default_rng(seed))
    assert len(chosen) == len(np.unique(chosen)) == limit


@given(st.integers(0, 50), st.integers(0, 50), st.integers(20, 50))
def test_images_for_tuning_are_apart_from_those_of_every_final_run(one: int, other: int, limit: int) -> None:
    """250 different images: 50 for tuning, 200 for final runs."""
    images = image_set(train=200, test=50)
    tuning, final = (pooled(images, pool) for pool in ("tuning", "final"))
    assert (len(tuning), len(final)) == (50, 200)
    searched = tuning.take(drawn(tuning, limit, np.random.default_rng(one))).images
    reported = final.take(drawn(final, limit, np.random.default_rng(other))).images
    assert not {image.tobytes() for image in searched} & {image.tobytes() for image in reported}


def test_another_assignment_gives_another_fingerprint() -> None:
    for change in ({"seed": 1}, {"split": "7:2:1"}, {"classes_per_client": 3}, {"limit": 400}):
        assert build(**change).fingerprint != build().fingerprint, change


@settings(max_examples=30)
@given(st.integers(0, 4), st.sampled_from([(0, 1), (0, 2), (2, 0)]))
def test_moving_one_index_between_parts_changes_the_fingerprint(client: int, move: tuple[int, int]) -> None:
    images = image_set()
    parts = divided(DataConfig(), 5, 0, images)
    before, changed, (source, target) = fingerprint(images, parts), list(parts[client]), move
    changed[target] = np.append(changed[target], changed[source][-1])
    changed[source] = changed[source][:-1]
    parts[client] = (changed[0], changed[1], changed[2])
    assert fingerprint(images, parts) != before


def test_one_changed_pixel_or_label_changes_the_fingerprint() -> None:
    images = image_set()
    pixels, labels = images.images.copy(), images.labels.copy()
    pixels[123, 2, 2, 1] ^= 1
    labels[77] = (labels[77] + 1) % 10
    cut = images.test_from
    for p, y in ((pixels, images.labels), (images.images, labels)):
        other = joined((p[:cut], y[:cut]), (p[cut:], y[cut:]), images.classes, images.mean, images.std)
        assert other.fingerprint != images.fingerprint


# Batches in the size and channels that the models want


def shaped(pixels: np.ndarray, **settings: Any) -> tuple[FederatedData, torch.Tensor]:
    """A batch of twelve copies of one image [h, w, c]. Pixels of a batch are its bytes / 255."""
    channels = pixels.shape[2]
    images = np.repeat(pixels[None].astype(np.uint8), 12, axis=0)
    mean, std = (0.0,) * channels, (1.0,) * channels
    samples = ImageSet(images, mean, std, labels=np.arange(12) % 2, classes=("a", "b"), test_from=12)
    data = build(samples, 1, partition="iid", split="75:25", **settings)
    return data, data.batch(torch.tensor([0, 1]))[0]


def test_enlarging_interpolates_between_the_centres_of_pixels_and_shrinking_averages() -> None:
    """Two pixels become four with centers at -1/4, 1/4, 3/4, 5/4 of the old ones. Of stripes, the average is a half."""
    _, batch = shaped(np.array([[0, 255], [0, 255]])[..., None], size=4)
    for row in batch[0, 0]:
        torch.testing.assert_close(row, torch.tensor([0, 0.25, 0.75, 1]))
    _, batch = shaped(np.tile([0, 255], (16, 8))[..., None], size=4)
    torch.testing.assert_close(batch[:, :, 1:3, 1:3], torch.full((2, 1, 2, 2), 0.5))


def test_batches_have_the_configured_size_and_the_stored_images_keep_theirs() -> None:
    for size in (3, 32, 224):
        data, batch = shaped(np.full((28, 20, 1), 51), size=size)
        torch.testing.assert_close(batch, torch.full((2, 1, size, size), 0.2))
        assert data.spec.shape == (1, size, size) and data.inputs.images.shape == (12, 28, 20, 1)  # type: ignore[attr-defined]


def test_gray_images_get_three_equal_channels_and_color_images_keep_theirs() -> None:
    pixels = np.arange(64).reshape(8, 8, 1)
    data, batch = shaped(pixels, rgb=True)
    assert data.spec.shape == (3, 8, 8)
    for channel in range(3):
        torch.testing.assert_close(batch[0, channel], torch.from_numpy(pixels[..., 0]) / 255)
    color = np.arange(192).reshape(8, 8, 3)
    assert torch.equal(shaped(color, rgb=True)[1], shaped(color)[1])


def test_batches_lie_channels_last_in_memory_however_they_are_shaped() -> None:
    for chosen in ({}, {"size": 12}, {"rgb": True}, {"size": 12, "rgb": True}):
        _, batch = shaped(np.zeros((8, 8, 1)), **chosen)
        assert batch.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(ConfigError, match=r"data\.size"):
        Config.read({"method": {"name": "standalone"}, "data": {"size": 0}})


def test_a_narrow_kernel_of_one_pixel_that_steps_over_pixels_gets_its_gradient() -> None:
    """∂/∂w of ∑ y is, for each input channel, the sum of the pixels seen. oneDNN writes past a buffer here."""
    for channels in (1, 4, 15, 16):
        layer = nn.Conv2d(channels, 8, kernel_size=1, stride=2, bias=False)
        x = torch.rand(16, channels, 8, 8, generator=torch.Generator().manual_seed(0))
        expected = layer(x)
        arranged(arranged(layer, ImageSpec(channels, 8, 8)), ImageSpec(channels, 8, 8))
        for _ in range(20):
            layer.zero_grad()
            output = layer(x.contiguous(memory_format=torch.channels_last))
            output.sum().backward()
            torch.testing.assert_close(output, expected)
            seen = x[:, :, ::2, ::2].sum((0, 2, 3)).expand(8, -1)[..., None, None]
            torch.testing.assert_close(layer.weight.grad, seen)


# Public samples: which they are, that clients have none of them, and that they have the clients' form


def numbered(train: int = 200, test: int = 50, side: int = 4, classes: int = 5) -> ImageSet:
    """Image i has i as its first byte, so that it tells where it came from."""
    count = train + test
    pixels = np.zeros((count, side, side, 1), dtype=np.uint8)
    pixels[:, 0, 0, 0] = np.arange(count)
    labels = np.arange(count) % classes
    names = tuple(f"class {label}" for label in range(classes))
    return joined((pixels[:train], labels[:train]), (pixels[train:], labels[train:]) if test else None, names)


def shown(public_set: SampleSet | None = None, held: SampleSet | None = None, **config: Any) -> FederatedData:
    data = DataConfig(partition="iid", **config)
    return FederatedData.build(data, 4, 3, held or numbered(), CPU, shown=public_set)


def public_of(data: FederatedData) -> PublicData:
    assert data.public is not None
    return data.public


def numbers(images: torch.Tensor) -> list[int]:
    return images[:, 0, 0, 0].tolist()


def of_clients(data: FederatedData) -> list[int]:
    indices = torch.cat([part for each in data.clients for part in (each.train, each.eval, each.test)])
    return numbers(data.inputs.images[indices.unique()])  # type: ignore[attr-defined]


def test_a_share_is_taken_out_of_all_samples_class_by_class_and_no_client_has_any_of_it() -> None:
    data = shown(public=0.2)
    public = public_of(data)
    found = numbers(public.inputs.images)  # type: ignore[attr-defined]
    assert len(found) == len(public) == 50 and sorted(found + of_clients(data)) == [*range(250)]
    assert torch.bincount(public.labels).tolist() == [10] * 5 and public.num_classes == 5
    assert [number % 5 for number in found] == public.labels.tolist()
    found = numbers(public_of(shown(public=0.2, split="global")).inputs.images)  # type: ignore[attr-defined]
    assert len(found) == 40 and max(found) < 200  # of the training samples


def test_clients_divide_the_rest_as_if_there_were_no_other_samples() -> None:
    private, _ = set_apart(numbered(), DataConfig(public=0.2), 3)
    alone, data = shown(held=private), shown(public=0.2)
    assert of_clients(alone) == of_clients(data)
    for one, other in zip(alone.clients, data.clients, strict=True):
        assert torch.equal(one.train, other.train)


def test_a_share_follows_from_the_partitions_seed_and_leaves_samples_on_both_sides() -> None:
    config = DataConfig(public=0.2)
    first, again, other = (
        set_apart(numbered(), config, seed)[1].images[:, 0, 0, 0].tolist() for seed in (3, 3, 4)
    )
    assert first == again != other
    for share, reason in ((0.004, "less than two public"), (0.999, "only public")):
        with pytest.raises(ConfigError, match=f"{share} of 250 samples leaves {reason} samples"):
            shown(public=share)


def test_another_data_set_leaves_the_clients_data_as_they_are() -> None:
    without, data = shown(), shown(numbered(side=4, classes=3), public="other")
    for one, other in zip(without.clients, data.clients, strict=True):
        assert torch.equal(one.train, other.train)
    assert without.public is None and public_of(data).num_classes == 3
    prints = {shown(numbered(count), public="other").fingerprint for count in (100, 101)}
    assert len(prints | {data.fingerprint, without.fingerprint}) == 4


def test_of_another_data_set_the_training_samples_are_public() -> None:
    for limit, left in ((None, 200), (20, 20), (1000, 200)):
        public = of_data_set(numbered(), DataConfig(public="other", public_limit=limit), 3)
        assert len(public) == left and public.images[:, 0, 0, 0].max() < 200
        assert np.bincount(public.labels).tolist() == [left // 5] * 5
    config = DataConfig(public="digits", public_limit=30, limit=300, partition="iid")
    data = load(Source(config, 4, 3, Path()), CPU)  # the digits with 30 of them besides
    assert len(public_of(data)) == 30 and public_of(data).inputs.spec == data.inputs.spec


def test_public_samples_of_another_form_are_refused(tmp_path: Path) -> None:
    larger = numbered(side=8)
    message = r"images of 1×8×8, and 'digits' has images of 1×4×4. Use data\.size"
    with pytest.raises(ConfigError, match=message):
        shown(larger, public="other")
    assert public_of(shown(larger, public="other", size=8)).batch(torch.tensor([0])).shape == (1, 1, 8, 8)
    with pytest.raises(ConfigError, match="'other' has table rows of 6 features, and 'digits' has images"):
        shown(federations.samples("table"), public="other")
    arrays = np.array([[1, 2]] * 40), np.arange(40) % 2
    held, other = (
        ArraySet.of(TokenSpec(2, 3), arrays).named(words) for words in (["", "a", "b"], ["", "b", "a"])
    )
    assert len(public_of(shown(held, held, public="other"))) == 40
    with pytest.raises(ConfigError, match="other tokens, channels, or features"):
        shown(other, held, public="other")
    for name, length in (("own", 4), ("other", 6)):
        np.savez(tmp_path / name, tokens=np.ones((40, length), int), labels=np.arange(40) % 2)
    files = [str(tmp_path / f"{name}.npz") for name in ("own", "other")]
    message = r"data\.public = '.*other\.npz' has samples of 6 tokens, and '.*own\.npz' of 4"
    with pytest.raises(ConfigError, match=message):
        load(Source(DataConfig(dataset=files[0], partition="iid", public=files[1]), 2, 0, tmp_path), CPU)


def test_signals_are_normalized_as_the_clients_are() -> None:
    """Public samples are ten times the clients': with their own scale, both would look alike."""
    held = federations.samples("signal")
    data = shown(ArraySet.of(SignalSpec(3, 20), (held.values * 10, held.labels)), held, public="other")
    inputs: Any = data.inputs
    expected = torch.from_numpy(held.values[[7]] * 10) * inputs.scale + inputs.shift
    torch.testing.assert_close(public_of(data).batch(torch.tensor([7])), expected)


def test_a_share_and_a_name_can_be_typed_and_what_cannot_be_meant_is_refused() -> None:
    for typed, read in (("0.1", 0.1), ("fashion_mnist", "fashion_mnist")):
        raw = with_overrides({"method": {"name": "standalone"}}, [f"data.public={typed}"])
        assert Config.read(raw).data.public == read
    refused: list[tuple[dict[str, Any], str]] = [
        ({"public": 0.0}, "no share between 0 and 1"),
        ({"public": 1.0}, "no share between 0 and 1"),
        ({"public": 0.1, "partition": "indices", "indices": "file.json"}, "a share in public would give"),
        ({"public_limit": 10}, "public_limit is for a data set"),
        ({"public": 0.1, "public_limit": 10}, "public_limit is for a data set"),
        ({"public": "digits", "public_limit": 1}, "greater than or equal to 2"),
    ]
    for data, reason in refused:
        with pytest.raises(ValueError, match=reason):
            DataConfig(**data)


def test_rounds_have_all_public_samples_or_draw_some_from_the_partitions_seed() -> None:
    public, again = public_of(shown(public=0.2)), public_of(shown(public=0.2))
    assert [public.of_round(1, most).tolist() for most in (None, 50, 51)] == [[*range(50)]] * 3
    first, second = public.of_round(1, 10).tolist(), public.of_round(2, 10).tolist()
    assert len(set(first)) == 10 and first == sorted(first) == again.of_round(1, 10).tolist() != second
