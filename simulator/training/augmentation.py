"""Random changes to training images, each image's drawn by itself from one keyed stream.

They act on normalised images; what is cut out or padded becomes 0, the mean colour of the data set.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

PADDING = 4
CUTOUT = 0.5
"""Side of the square that is cut out, in shares of the image's: 16 of 32 pixels."""
ERASED_AREA = (0.04, 0.2)
ERASED_RATIO = (0.5, 2.0)
ERASED = 0.5
"""Share of the images of which a rectangle is erased; its area in shares of the image's, its height to its width."""


def augmented(x: Tensor, kinds: Sequence[str], stream: torch.Generator) -> Tensor:
    """The images [B, channels, height, width] after the changes of these names, in this order."""
    for kind in kinds:
        x = _KINDS[kind](x, stream)
    return x


def flip(x: Tensor, stream: torch.Generator) -> Tensor:
    """Mirrored from left to right, every second image on average."""
    mirrored = _uniform(1, x, stream)[0] < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)


def crop(x: Tensor, stream: torch.Generator) -> Tensor:
    """A window of the image's own size in the image with a border of four pixels."""
    height, width = x.shape[2:]
    down, right = (_uniform(2, x, stream) * (2 * PADDING + 1)).long()
    padded = F.pad(x, (PADDING,) * 4)
    rows = down[:, None] + torch.arange(height, device=x.device)
    columns = right[:, None] + torch.arange(width, device=x.device)
    images = torch.arange(len(x), device=x.device)
    window = padded.permute(0, 2, 3, 1)[images[:, None, None], rows[:, :, None], columns[:, None, :]]
    return window.permute(0, 3, 1, 2)


def cutout(x: Tensor, stream: torch.Generator) -> Tensor:
    """Without a square around a random pixel, as far as it lies within the image (DeVries and Taylor 2017)."""
    height, width = x.shape[2:]
    half = (round(CUTOUT * height) / 2, round(CUTOUT * width) / 2)
    down, right = _uniform(2, x, stream)
    middle = ((down * height).floor(), (right * width).floor())
    rows = _between(height, middle[0] - half[0], middle[0] + half[0], x)
    columns = _between(width, middle[1] - half[1], middle[1] + half[1], x)
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


def erase(x: Tensor, stream: torch.Generator) -> Tensor:
    """Every second image on average without a rectangle of random area, shape and place (Zhong et al. 2020)."""
    height, width = x.shape[2:]
    chosen, area, ratio, down, right = _uniform(5, x, stream)
    area = (ERASED_AREA[0] + (ERASED_AREA[1] - ERASED_AREA[0]) * area) * height * width
    low, high = (torch.tensor(each).log().item() for each in ERASED_RATIO)
    ratio = torch.exp(low + (high - low) * ratio)
    tall, wide = (
        (area * ratio).sqrt().round().clamp(max=height),
        (area / ratio).sqrt().round().clamp(max=width),
    )
    top, left = (down * (height - tall + 1)).floor(), (right * (width - wide + 1)).floor()
    rows, columns = _between(height, top, top + tall, x), _between(width, left, left + wide, x)
    erased = rows[:, :, None] & columns[:, None, :] & (chosen < ERASED)[:, None, None]
    return x.masked_fill(erased[:, None], 0.0)


_KINDS = {"flip": flip, "crop": crop, "cutout": cutout, "erase": erase}


def _uniform(count: int, x: Tensor, stream: torch.Generator) -> Tensor:
    """[count, B] draws from [0, 1)."""
    return torch.rand(count, len(x), generator=stream, device=x.device)


def _between(size: int, first: Tensor, end: Tensor, x: Tensor) -> Tensor:
    """[B, size] whether a place along an axis is at or after `first` and before `end`."""
    places = torch.arange(size, device=x.device)
    return (places >= first[:, None]) & (places < end[:, None])
