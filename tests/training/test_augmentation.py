"""Augmentation by hand: what each change does to one image, given what was drawn; and random views."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from simulator.base import rng
from simulator.training import augmentation
from simulator.training.augmentation import RandomView
from tests import federations

# Augmentation by hand: what each change does to one image, given what was drawn.


def given(monkeypatch: pytest.MonkeyPatch, *draws: Sequence[float]) -> None:
    """Let the draws be these: a row for each quantity, a column for each image."""
    monkeypatch.setattr(augmentation, "_uniform", lambda count, x, stream: torch.tensor(draws))


def counted(side: int, images: int = 1) -> Tensor:
    """Images [images, 1, side, side] whose pixels are numbered from 1, row by row."""
    one = torch.arange(1.0, side * side + 1).reshape(1, 1, side, side)
    return one.expand(images, -1, -1, -1)


STREAM = torch.Generator()


def test_a_flip_mirrors_left_and_right_if_the_draw_is_below_a_half(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, [0.4, 0.6])
    first, second = augmentation.flip(counted(2, 2), STREAM)
    assert first[0].tolist() == [[2, 1], [4, 3]]
    assert second[0].tolist() == [[1, 2], [3, 4]]


def test_a_crop_is_a_window_in_the_image_with_a_border_of_four_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nine places each way the middle one (0.5 · 9 = 4) is the image; one further down and to the left shifts it."""
    given(monkeypatch, [0.5, 0.6, 0.0], [0.5, 0.4, 0.0])
    same, shifted, corner = augmentation.crop(counted(2, 3), STREAM)
    assert same[0].tolist() == [[1, 2], [3, 4]]
    assert shifted[0].tolist() == [[0, 3], [0, 0]]
    assert corner[0].tolist() == [[0, 0], [0, 0]]


def test_a_resized_crop_enlarges_a_window_of_drawn_size_and_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """4×4 images. A quarter of the area, (0.25 − 0.08)/0.92, and ratio 1 (0.5): two by two pixels. In the lower right
    corner these are 11, 12, 15, 16; places −¼, ¼, ¾, 1¼ of the window lie at 11, 11¼, 11¾, 12. With all of the area
    the image stays.

    12×12: a third of 144 is 48, and at ratio 4/3 the window is 8 wide and 6 tall: from pixel 1 at its upper left
    corner, the last column of the first row shows 8, and the last row of the first column 5·12 + 1 = 61.
    """
    given(monkeypatch, [0.17 / 0.92, 1.0], [0.5, 0.5], [0.99, 0.0], [0.99, 0.0])
    window, whole = augmentation.resized_crop(counted(4, 2), STREAM)
    expected = torch.tensor([11.0, 11.25, 11.75, 12.0]) + torch.tensor([0.0, 1.0, 3.0, 4.0])[:, None]
    torch.testing.assert_close(window[0], expected)
    torch.testing.assert_close(whole[0], counted(4)[0, 0])
    given(monkeypatch, [(1 / 3 - 0.08) / 0.92], [1.0], [0.0], [0.0])
    seen = augmentation.resized_crop(counted(12), STREAM)[0, 0]
    assert [round(seen[0, 0].item()), round(seen[0, -1].item()), round(seen[-1, 0].item())] == [1, 8, 61]


def test_cutout_zeroes_a_square_of_half_the_side_around_a_pixel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four pixels: two by two around pixel (2, 2) are rows and columns 1 and 2; around (0, 0) one lies inside."""
    given(monkeypatch, [0.5, 0.0], [0.5, 0.0])
    inside, corner = augmentation.cutout(counted(4, 2), STREAM)
    assert (inside[0] == 0).nonzero().tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert (corner[0] == 0).nonzero().tolist() == [[0, 0]]


def test_erasing_zeroes_a_rectangle_of_the_drawn_size_and_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """10×10: the largest area, 20, and the largest ratio, 2: √40 ≈ 6 tall and √10 ≈ 3 wide; placed in the upper left
    corner. The second image is not chosen.
    """
    given(monkeypatch, [0.0, 0.9], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0])
    erased, whole = augmentation.erase(counted(10, 2), STREAM)
    zeros = (erased[0] == 0).nonzero()
    assert len(zeros) == 18
    assert zeros.max(0).values.tolist() == [5, 2]
    assert (whole != 0).all()


def test_changes_come_in_the_order_in_which_they_are_named() -> None:
    x = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))

    def seen(*kinds: str) -> Tensor:
        return augmentation.augmented(x, kinds, torch.Generator().manual_seed(1))

    assert torch.equal(seen(), x)
    assert torch.equal(seen("crop", "flip"), seen("crop", "flip"))
    assert not torch.equal(seen("crop", "flip"), seen("flip", "crop"))


def test_training_is_augmented_by_keyed_draws_and_evaluation_is_not() -> None:
    """The same bits with one worker and two, other bits than without; and what does not train is not touched."""

    def after(workers: int, augment: list[str]) -> dict[str, object]:
        training = {"augment": augment, "epochs": 2}
        settings = federations.config("fedavg", training=training, runtime={"workers": workers})
        return federations.state_bits(federations.run(federations.built(settings).engine, 2))

    every = ["crop", "resized_crop", "flip", "cutout", "erase"]
    assert after(1, every) == after(2, every) != after(1, [])


# Random views: another at every draw, and nothing but what was drawn decides it.


IMAGES = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).reshape(2, 3, 8, 8) / 100


def view(purpose: str, images: torch.Tensor = IMAGES, **options: object) -> torch.Tensor:
    look = RandomView(**options)
    return look(images, look.drawn(rng.torch_stream(0, purpose), images))


def test_views_differ_from_their_images_and_each_other_and_their_stream_decides_them() -> None:
    before, seen = torch.get_rng_state(), view("a")
    assert seen.shape == IMAGES.shape
    assert not torch.allclose(seen, IMAGES)
    assert not torch.allclose(seen, view("b"))
    assert torch.equal(seen, view("a"))
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
