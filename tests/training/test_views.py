"""Random views: another at every draw, and nothing but what was drawn decides it."""

import torch

from simulator.base import rng
from simulator.training.augmentation import RandomView

IMAGES = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).reshape(2, 3, 8, 8) / 100


def view(purpose: str, images: torch.Tensor = IMAGES, **options: object) -> torch.Tensor:
    look = RandomView(**options)
    return look(images, look.drawn(rng.torch_stream(0, purpose), images))


def test_views_are_images_of_the_same_shape_and_differ_from_them_and_each_other() -> None:
    seen = view("a")
    assert seen.shape == IMAGES.shape
    assert not torch.allclose(seen, IMAGES)
    assert not torch.allclose(seen, view("b"))


def test_the_stream_decides_the_view_and_the_global_generator_has_no_part() -> None:
    before = torch.get_rng_state()
    assert torch.equal(view("a"), view("a"))
    assert torch.equal(torch.get_rng_state(), before)


def test_every_pixel_of_a_crop_comes_from_the_image() -> None:
    """Without jitter the view interpolates between pixels, so it stays within their range; wide draws, many times."""
    crops = view("crops", IMAGES[:1].expand(200, -1, -1, -1), jitter=0.0)
    assert crops.min() >= IMAGES[0].min() - 1e-5
    assert crops.max() <= IMAGES[0].max() + 1e-5
    channel_order = crops.mean((2, 3)).diff(dim=1)
    assert (channel_order > 0).all()  # channels are not mixed: each lies 0.64 above the one before
    rising = crops[:, 0, 0].diff(dim=1).sign().mean(1)
    assert (rising > 0.5).any()
    assert (rising < -0.5).any()  # some are mirrored


def test_a_crop_of_the_whole_is_the_image_or_its_mirror_image() -> None:
    """About half of fifty are mirrored."""
    views = view("whole", IMAGES[:1].expand(50, -1, -1, -1), area=(1.0, 1.0), ratio=(1.0, 1.0), jitter=0.0)
    mirrored = torch.isclose(views, IMAGES[:1].flip(3), atol=1e-5).all(3).all(2).all(1)
    whole = torch.isclose(views, IMAGES[:1], atol=1e-5).all(3).all(2).all(1)
    assert (mirrored ^ whole).all()
    assert 10 < mirrored.sum() < 40
