"""Batches in the size and channels that the models want, whatever the stored images have."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.data.federated import FederatedData
from simulator.data.inputs import arranged
from simulator.data.samples import ImageSet
from simulator.data.specs import ImageSpec


def image_set(pixels: np.ndarray) -> ImageSet:
    """Twelve copies of one image [h, w, c] in two classes; pixels of a batch are its bytes / 255."""
    channels = pixels.shape[2]
    images = np.repeat(pixels[None].astype(np.uint8), 12, axis=0)
    return ImageSet(
        images,
        (0.0,) * channels,
        (1.0,) * channels,
        labels=np.arange(12) % 2,
        classes=("a", "b"),
        test_from=12,
    )


def shaped(pixels: np.ndarray, **settings: Any) -> tuple[FederatedData, torch.Tensor]:
    config = DataConfig(partition="iid", split="75:25", **settings)
    data = FederatedData.build(config, 1, 0, image_set(pixels), torch.device("cpu"))
    return data, data.batch(torch.tensor([0, 1]))[0]


def test_enlarging_interpolates_between_the_centres_of_pixels() -> None:
    # Two pixels 0 and 255 side by side become four whose centres lie at -1/4, 1/4, 3/4 and 5/4 of the old ones.
    pixels = np.array([[0, 255], [0, 255]])[..., None]
    _, batch = shaped(pixels, size=4)
    for row in batch[0, 0]:
        torch.testing.assert_close(row, torch.tensor([0, 0.25, 0.75, 1]))


def test_shrinking_averages_what_it_covers() -> None:
    # Stripes of 0 and 255: taking every fourth pixel would see one colour, the average is a half of it.
    pixels = np.tile([0, 255], (16, 8))[..., None]
    _, batch = shaped(pixels, size=4)
    torch.testing.assert_close(batch[:, :, 1:3, 1:3], torch.full((2, 1, 2, 2), 0.5))


def test_a_uniform_image_stays_uniform_in_any_size() -> None:
    for size in (3, 32, 224):
        data, batch = shaped(np.full((28, 28, 1), 51), size=size)
        torch.testing.assert_close(batch, torch.full((2, 1, size, size), 0.2))
        assert data.spec.shape == (1, size, size)


def test_an_image_that_is_not_square_becomes_so() -> None:
    data, batch = shaped(np.zeros((10, 20, 3)), size=16)
    assert data.spec.shape == (3, 16, 16)
    assert batch.shape == (2, 3, 16, 16)


def test_grey_images_get_three_equal_channels() -> None:
    pixels = np.arange(64).reshape(8, 8, 1)
    data, batch = shaped(pixels, rgb=True)
    assert data.spec.shape == (3, 8, 8)
    for channel in range(3):
        torch.testing.assert_close(batch[0, channel], torch.from_numpy(pixels[..., 0]) / 255)


def test_colour_images_keep_their_channels() -> None:
    data, batch = shaped(np.arange(192).reshape(8, 8, 3), rgb=True)
    assert data.spec.shape == (3, 8, 8)
    assert torch.equal(batch, shaped(np.arange(192).reshape(8, 8, 3))[1])


def test_batches_lie_channels_last_in_memory_however_they_are_shaped() -> None:
    for settings in ({}, {"size": 12}, {"rgb": True}, {"size": 12, "rgb": True}):
        _, batch = shaped(np.zeros((8, 8, 1)), **settings)
        assert batch.is_contiguous(memory_format=torch.channels_last)


def test_a_narrow_kernel_of_one_pixel_that_steps_over_pixels_gets_its_gradient(
    subtests: pytest.Subtests,
) -> None:
    """∂/∂w of ∑ y is, for each input channel, the sum of the pixels seen. oneDNN writes past a buffer here."""
    for case, channels in enumerate([1, 4, 15, 16]):
        with subtests.test(case=case):
            layer = nn.Conv2d(channels, 8, kernel_size=1, stride=2, bias=False)
            x = torch.rand(16, channels, 8, 8, generator=torch.Generator().manual_seed(0))
            expected = layer(x)
            arranged(arranged(layer, ImageSpec(channels, 8, 8)), ImageSpec(channels, 8, 8))
            for _ in range(20):
                layer.zero_grad()
                output = layer(x.contiguous(memory_format=torch.channels_last))
                output.sum().backward()
                torch.testing.assert_close(output, expected)
                torch.testing.assert_close(
                    layer.weight.grad, x[:, :, ::2, ::2].sum((0, 2, 3)).expand(8, -1)[..., None, None]
                )


def test_the_stored_images_keep_their_size() -> None:
    data, _ = shaped(np.zeros((8, 8, 1)), size=224, rgb=True)
    assert data.inputs.images.shape == (12, 8, 8, 1)


@pytest.mark.parametrize("size", [0, -3])
def test_a_size_without_pixels_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=r"data\.size"):
        Config.read({"method": {"name": "standalone"}, "data": {"size": size}})
