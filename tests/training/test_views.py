"""Random views: new at every look while training, keyed to a stream, and nothing at all in evaluation."""

import torch

from simulator import rng
from simulator.rng import drawing_from
from simulator.training.views import RandomView

IMAGES = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).reshape(2, 3, 8, 8) / 100


def view(purpose: str) -> torch.Tensor:
    with drawing_from(rng.torch_stream(0, purpose)):
        return RandomView()(IMAGES)


def test_views_are_images_of_the_same_shape_and_differ_from_them_and_each_other() -> None:
    seen = view("a")
    assert seen.shape == IMAGES.shape
    assert not torch.allclose(seen, IMAGES)
    assert not torch.allclose(seen, view("b"))


def test_the_stream_decides_the_view_and_the_global_generator_has_no_part() -> None:
    before = torch.get_rng_state()
    assert torch.equal(view("a"), view("a"))
    assert torch.equal(torch.get_rng_state(), before)


def test_nothing_is_drawn_in_evaluation() -> None:
    assert RandomView().eval()(IMAGES) is IMAGES


def test_every_pixel_of_a_crop_comes_from_the_image() -> None:
    """Without jitter the view interpolates between pixels, so it stays within their range; wide draws, many times."""

    class Crop(RandomView):
        JITTER = 0.0

    with drawing_from(rng.torch_stream(0, "crops")):
        crops = Crop()(IMAGES[:1].expand(200, -1, -1, -1))
    assert crops.min() >= IMAGES[0].min() - 1e-5
    assert crops.max() <= IMAGES[0].max() + 1e-5
    channel_order = crops.mean((2, 3)).diff(dim=1)
    assert (channel_order > 0).all()  # channels are not mixed: each lies 0.64 above the one before
    rising = crops[:, 0, 0].diff(dim=1).sign().mean(1)
    assert (rising > 0.5).any()
    assert (rising < -0.5).any()  # some are mirrored


def test_a_crop_of_the_whole_is_the_image_or_its_mirror_image() -> None:
    """About half of fifty are mirrored."""

    class Whole(RandomView):
        AREA = (1.0, 1.0)
        RATIO = (1.0, 1.0)
        JITTER = 0.0

    with drawing_from(rng.torch_stream(0, "whole")):
        views = Whole()(IMAGES[:1].expand(50, -1, -1, -1))
    mirrored = torch.isclose(views, IMAGES[:1].flip(3), atol=1e-5).all(3).all(2).all(1)
    whole = torch.isclose(views, IMAGES[:1], atol=1e-5).all(3).all(2).all(1)
    assert (mirrored ^ whole).all()
    assert 10 < mirrored.sum() < 40
