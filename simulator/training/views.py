"""Random views of images, for losses that compare two of them."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


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
