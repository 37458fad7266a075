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
    """A window of random area, shape, and place, enlarged. As torchvision's, except that a longer side is cut."""
    height, width = x.shape[2:]
    area, ratio, down, right = _uniform(4, x, stream)
    wide, tall = _sides(x, WINDOW_AREA, area, WINDOW_RATIO, ratio)
    tall, wide = tall.clamp(1, height), wide.clamp(1, width)
    x = _stretched(x, 2, (down * (height - tall + 1)).floor(), tall)
    x = _stretched(x, 3, (right * (width - wide + 1)).floor(), wide)
    return x.contiguous(memory_format=torch.channels_last)


def cutout(x: Tensor, stream: torch.Generator) -> Tensor:
    """Set a square around a random pixel to 0, as far as it lies within the image (DeVries and Taylor 2017)."""
    height, width = x.shape[2:]
    tall, wide = round(CUTOUT * height), round(CUTOUT * width)
    down, right = _uniform(2, x, stream)
    top, left = (down * height).floor() - tall / 2, (right * width).floor() - wide / 2
    return x.masked_fill(_rectangle(x, top, tall, left, wide), 0.0)


def erase(x: Tensor, stream: torch.Generator) -> Tensor:
    """Set a rectangle of random area, shape, and place to 0 in every second image on average (Zhong et al. 2020)."""
    height, width = x.shape[2:]
    chosen, area, ratio, down, right = _uniform(5, x, stream)
    tall, wide = _sides(x, ERASED_AREA, area, ERASED_RATIO, ratio)
    tall, wide = tall.clamp(max=height), wide.clamp(max=width)
    top, left = (down * (height - tall + 1)).floor(), (right * (width - wide + 1)).floor()
    erased = _rectangle(x, top, tall, left, wide) & (chosen < ERASED)[:, None, None, None]
    return x.masked_fill(erased, 0.0)


_CHANGES = {"flip": flip, "crop": crop, "resized_crop": resized_crop, "cutout": cutout, "erase": erase}
_OF_KIND: dict[Kind, frozenset[str]] = {"image": frozenset(_CHANGES)}
"""The changes for each kind of samples."""


def _uniform(count: int, x: Tensor, stream: torch.Generator) -> Tensor:
    """[count, B] draws from [0, 1)."""
    return torch.rand(count, len(x), generator=stream, device=x.device)


def _sides(
    x: Tensor, areas: tuple[float, float], area: Tensor, ratios: tuple[float, float], ratio: Tensor
) -> tuple[Tensor, Tensor]:
    """Sides [B] in whole pixels of uniform areas, as shares of the image's; the first is `ratio` of the second."""
    low, high = (torch.tensor(each).log().item() for each in ratios)
    area = (areas[0] + (areas[1] - areas[0]) * area) * x.shape[2] * x.shape[3]
    ratio = torch.exp(low + (high - low) * ratio)
    return (area * ratio).sqrt().round(), (area / ratio).sqrt().round()


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


def _rectangle(x: Tensor, top: Tensor, tall: Tensor | int, left: Tensor, wide: Tensor | int) -> Tensor:
    """[B, 1, H, W] which pixels lie in each image's rectangle."""
    rows, columns = (
        (places >= first[:, None]) & (places < (first + length)[:, None])
        for places, first, length in (
            (torch.arange(x.shape[2], device=x.device), top, tall),
            (torch.arange(x.shape[3], device=x.device), left, wide),
        )
    )
    return (rows[:, :, None] & columns[:, None, :])[:, None]


@dataclass(frozen=True)
class RandomView:
    """A second view of each image, as in SimCLR. A phase's `draws` calls `drawn`, so that its loss stays pure."""

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
        # A crop and its transpose are equally likely.
        ratio = self.ratio[0] * (self.ratio[1] / self.ratio[0]) ** ratio
        width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        mirrored, none = torch.where(mirror < 0.5, 1, -1), torch.zeros_like(area)
        rows = [width * mirrored, none, (2 * left - 1) * (1 - width)]
        rows += [none, height, (2 * top - 1) * (1 - height)]
        crop = torch.stack(rows, 1).view(-1, 2, 3)  # from the view's coordinates in [−1, 1] to the image's
        grid = F.affine_grid(crop, list(x.shape), align_corners=False)
        view = F.grid_sample(x, grid, padding_mode="border", align_corners=False)

        mean = view.mean((1, 2, 3), keepdim=True)
        strength = self.jitter * (jittered < self.jittered)
        scale = (1 + strength * (2 * contrast - 1))[:, None, None, None]
        shift = (strength * (2 * brightness - 1))[:, None, None, None]
        jitter: Tensor = mean + (view - mean) * scale + shift
        return jitter
