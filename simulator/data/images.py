"""A data set of images in memory: one array of bytes."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from simulator.data.samples import Indices, Labels, SampleSet
from simulator.data.specs import ImageSpec

Images = NDArray[np.uint8]
CHUNK = 1024
"""Images measured at a time. All at once would take eight times their memory."""


@dataclass(frozen=True, eq=False)
class ImageSet(SampleSet):
    """Images uint8 [n, h, w, c]. `mean` and `std` are per channel, of pixel values divided by 255."""

    images: Images
    labels: Labels
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    test_from: int
    domains: tuple[str, ...] = ()
    domain: Labels | None = None
    users: tuple[str, ...] = ()
    user: Labels | None = None

    @property
    def spec(self) -> ImageSpec:
        _, height, width, channels = self.images.shape
        return ImageSpec(channels, height, width)

    @property
    def values(self) -> Images:
        return self.images

    def facts(self) -> list[Any]:
        return [self.images.shape, self.classes, self.mean, self.std, self.test_from]

    def taken(self, indices: Indices) -> Self:
        return replace(self, images=self.images[indices])


def joined(
    train: tuple[Images, Labels],
    test: tuple[Images, Labels] | None,
    classes: tuple[str, ...],
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> ImageSet:
    """An image set of (images, labels) for training and, optionally, for test.

    Missing `mean` and `std` are measured on the training images.
    """
    images, labels = train
    if mean is None or std is None:
        mean, std = measured(images)
    test_from = len(labels)
    if test is not None:
        images, labels = np.concatenate([images, test[0]]), np.concatenate([labels, test[1]])
    images = np.ascontiguousarray(images)
    return ImageSet(images, labels.astype(np.int64), classes, mean, std, test_from)


def measured(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of images [n, h, w, c] / 255. The deviation is 1 for a constant channel.

    Sums are whole numbers, so every machine gets the same bits.
    """
    means, deviations = [], []
    values = np.arange(256)
    for channel in range(images.shape[3]):
        counts = np.zeros(256, dtype=np.int64)
        for start in range(0, len(images), CHUNK):
            counts += np.bincount(images[start : start + CHUNK, ..., channel].ravel(), minlength=256)
        pixels, total, squares = (int((counts * values**power).sum()) for power in (0, 1, 2))
        variance = (pixels * squares - total * total) / (pixels * 255) ** 2
        means.append(total / (pixels * 255))
        deviations.append(variance**0.5 or 1.0)
    return tuple(means), tuple(deviations)
