"""Random changes to training samples. Each sample draws its own from one keyed stream.

Each kind of samples has its own changes. Those of images act on normalized images. Pixels that are cut out or padded
become 0, the mean color of the data set. `RandomView` makes second views, for losses that compare two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.data.specs import InputSpec, Kind

PADDING = 4
CUTOUT = 0.5
"""Side of the square that is cut out, as a share of the image's: 16 of 32 pixels."""
WINDOW_AREA = (0.08, 1.0)
WINDOW_RATIO = (3 / 4, 4 / 3)
"""The window of a resized crop: its area as a share of the image's, and its ratio of width to height."""
ERASED_AREA = (0.04, 0.2)
ERASED_RATIO = (0.5, 2.0)
ERASED = 0.5
"""Share of the images that lose a rectangle; its area as a share of the image's; its ratio of height to width."""


def check(changes: Sequence[str], spec: InputSpec) -> None:
    """Raise ConfigError for a change that samples of this kind cannot have."""
    if odd := [change for change in changes if change not in _OF_KIND.get(spec.kind, ())]:
        raise ConfigError(
            f"training.augment has '{odd[0]}', which changes images, and the samples are {spec.noun}. Leave it out."
        )


def augmented(x: Tensor, kinds: Sequence[str], stream: torch.Generator) -> Tensor:
    """The samples [B, …] after the changes of these names, in this order."""
    for kind in kinds:
        x = _CHANGES[kind](x, stream)
    return x


def flip(x: Tensor, stream: torch.Generator) -> Tensor:
    """Mirror every second image on average from left to right."""
    mirrored = _uniform(1, x, stream)[0] < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)


def crop(x: Tensor, stream: torch.Generator) -> Tensor:
    """A random window of the image's own size in the image with a border of four pixels."""
    height, width = x.shape[2:]
    down, right = (_uniform(2, x, stream) * (2 * PADDING + 1)).long()
    padded = F.pad(x, (PADDING,) * 4)
    rows = down[:, None] + torch.arange(height, device=x.device)
    columns = right[:, None] + torch.arange(width, device=x.device)
    images = torch.arange(len(x), device=x.device)
    window = padded.permute(0, 2, 3, 1)[images[:, None, None], rows[:, :, None], columns[:, None, :]]
    return window.permute(0, 3, 1, 2)


def resized_crop(x: Tensor, stream: torch.Generator) -> Tensor:
    """A window of random area, shape, and place, enlarged to the image's size by bilinear interpolation.

    As torchvision's RandomResizedCrop, except that a side longer than the image's is cut and not drawn again.
    """
    height, width = x.shape[2:]
    area, ratio, down, right = _uniform(4, x, stream)
    area, ratio = _area(WINDOW_AREA, area, x), _ratio(WINDOW_RATIO, ratio)
    tall = (area / ratio).sqrt().round().clamp(1, height)
    wide = (area * ratio).sqrt().round().clamp(1, width)
    x = _stretched(x, 2, (down * (height - tall + 1)).floor(), tall)
    x = _stretched(x, 3, (right * (width - wide + 1)).floor(), wide)
    return x.contiguous(memory_format=torch.channels_last)


def cutout(x: Tensor, stream: torch.Generator) -> Tensor:
    """Set a square around a random pixel to 0, as far as it lies within the image (DeVries and Taylor 2017)."""
    height, width = x.shape[2:]
    half = (round(CUTOUT * height) / 2, round(CUTOUT * width) / 2)
    down, right = _uniform(2, x, stream)
    middle = ((down * height).floor(), (right * width).floor())
    rows = _between(height, middle[0] - half[0], middle[0] + half[0], x)
    columns = _between(width, middle[1] - half[1], middle[1] + half[1], x)
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


def erase(x: Tensor, stream: torch.Generator) -> Tensor:
    """Set a rectangle of random area, shape, and place to 0 in every second image on average (Zhong et al. 2020)."""
    height, width = x.shape[2:]
    chosen, area, ratio, down, right = _uniform(5, x, stream)
    area, ratio = _area(ERASED_AREA, area, x), _ratio(ERASED_RATIO, ratio)
    tall, wide = (
        (area * ratio).sqrt().round().clamp(max=height),
        (area / ratio).sqrt().round().clamp(max=width),
    )
    top, left = (down * (height - tall + 1)).floor(), (right * (width - wide + 1)).floor()
    rows, columns = _between(height, top, top + tall, x), _between(width, left, left + wide, x)
    erased = rows[:, :, None] & columns[:, None, :] & (chosen < ERASED)[:, None, None]
    return x.masked_fill(erased[:, None], 0.0)


_CHANGES = {"flip": flip, "crop": crop, "resized_crop": resized_crop, "cutout": cutout, "erase": erase}
_OF_KIND: dict[Kind, frozenset[str]] = {"image": frozenset(_CHANGES)}
"""The changes for each kind of samples."""


def _uniform(count: int, x: Tensor, stream: torch.Generator) -> Tensor:
    """[count, B] draws from [0, 1)."""
    return torch.rand(count, len(x), generator=stream, device=x.device)


def _area(shares: tuple[float, float], drawn: Tensor, x: Tensor) -> Tensor:
    """[B] areas in pixels, uniform between these shares of the image's."""
    return (shares[0] + (shares[1] - shares[0]) * drawn) * x.shape[2] * x.shape[3]


def _ratio(bounds: tuple[float, float], drawn: Tensor) -> Tensor:
    """[B] ratios between these bounds, uniform in their logarithm."""
    low, high = (torch.tensor(each).log().item() for each in bounds)
    return torch.exp(low + (high - low) * drawn)


def _stretched(x: Tensor, axis: int, first: Tensor, length: Tensor) -> Tensor:
    """The images with the `length` [B] pixels from `first` [B] on stretched along an axis to the whole size."""
    size = x.shape[axis]
    middles = torch.arange(size, device=x.device) + 0.5
    places = (middles * (length / size)[:, None] - 0.5).clamp(min=0).minimum(length[:, None] - 1)
    before = places.floor()
    after = (before + 1).minimum(length[:, None] - 1)
    shape = [len(x), 1, 1, 1]
    shape[axis] = size

    def taken(places: Tensor) -> Tensor:
        rows = (places + first[:, None]).long().view(shape)
        return x.gather(axis, rows.expand(x.shape))

    return torch.lerp(taken(before), taken(after), (places - before).to(x.dtype).view(shape))


def _between(size: int, first: Tensor, end: Tensor, x: Tensor) -> Tensor:
    """[B, size] whether a position along an axis is at or after `first` and before `end`."""
    places = torch.arange(size, device=x.device)
    return (places >= first[:, None]) & (places < end[:, None])


@dataclass(frozen=True)
class RandomView:
    """A second view of each image, as in SimCLR: a resized crop, perhaps mirrored, with changed contrast and
    brightness.

    A phase's `draws` calls `drawn`, and its loss applies the view to these draws. So the loss stays pure.
    """

    area: tuple[float, float] = (0.2, 1.0)
    """Share of the image that the crop covers."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Width to height of the crop, in shares of the image's."""
    jitter: float = 0.4
    """Contrast is multiplied by at most 1 ± this. Brightness shifts by at most ± this, in standard deviations."""
    jittered: float = 0.8
    """Share of the images whose contrast and brightness change."""

    def drawn(self, stream: torch.Generator, x: Tensor) -> Tensor:
        """Eight uniform draws for every image of the batch x [B, …]: [8, B]."""
        return torch.rand(8, len(x), device=x.device, generator=stream)

    def __call__(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Views of normalized images, both [B, channels, height, width]."""
        area, ratio, left, top, mirror, contrast, brightness, jittered = drawn
        area = self.area[0] + (self.area[1] - self.area[0]) * area
        ratio = (
            self.ratio[0] * (self.ratio[1] / self.ratio[0]) ** ratio
        )  # a crop and its transpose are equally likely
        width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        none = torch.zeros_like(area)
        crop = torch.stack(  # from the view's coordinates in [−1, 1] to the image's
            [
                torch.stack(
                    [width * torch.where(mirror < 0.5, 1, -1), none, (2 * left - 1) * (1 - width)], 1
                ),
                torch.stack([none, height, (2 * top - 1) * (1 - height)], 1),
            ],
            1,
        )
        grid = F.affine_grid(crop, list(x.shape), align_corners=False)
        view = F.grid_sample(x, grid, padding_mode="border", align_corners=False)

        mean = view.mean((1, 2, 3), keepdim=True)
        strength = self.jitter * (jittered < self.jittered)
        scale = (1 + strength * (2 * contrast - 1))[:, None, None, None]
        shift = (strength * (2 * brightness - 1))[:, None, None, None]
        jitter: Tensor = mean + (view - mean) * scale + shift
        return jitter
