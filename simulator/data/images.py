"""A data set of images in memory: one array of bytes."""

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from simulator.data.samples import NOTHING_SAID, Form, Indices, Labels, Reading, SampleSet, UnfittedSet
from simulator.data.specs import ImageSpec

Images = NDArray[np.uint8]
CHUNK = 1024
"""Images measured at a time. All at once would take eight times their memory."""


@dataclass(frozen=True, eq=False)
class ImageSet(SampleSet):
    """Images uint8 [n, h, w, c].

    `mean` and `std` are constants that the data set publishes: per channel, of pixel values divided by 255. None: they
    are measured (`inputs_of`).
    """

    images: Images
    labels: Labels
    classes: tuple[str, ...]
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    test_from: int
    domains: tuple[str, ...] = ()
    domain: Labels | None = None
    users: tuple[str, ...] = ()
    user: Labels | None = None
    reading: Reading = NOTHING_SAID

    @classmethod
    def of_unfitted(cls, samples: UnfittedSet, images: Images) -> "ImageSet":
        """The same samples as these images."""
        own = (samples.test_from, samples.domains, samples.domain, samples.users, samples.user)
        return cls(images, samples.labels, samples.classes, None, None, *own, samples.reading)

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

    def learned(self, held: Indices | None) -> Form:
        if held is None and self.mean is None:  # older sessions measured before the samples were divided
            mean, std = measured(self.images, np.arange(self.test_from))
            return lambda samples: replace(cast(ImageSet, samples), mean=mean, std=std)
        return super().learned(held)


def joined(
    train: tuple[Images, Labels],
    test: tuple[Images, Labels] | None,
    classes: tuple[str, ...],
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> ImageSet:
    """An image set of (images, labels) for training and, optionally, for test."""
    images, labels = train
    test_from = len(labels)
    if test is not None:
        images, labels = np.concatenate([images, test[0]]), np.concatenate([labels, test[1]])
    images = np.ascontiguousarray(images)
    return ImageSet(images, labels.astype(np.int64), classes, mean, std, test_from)


def measured(images: Images, held: Indices) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of the images at `held` / 255. The deviation is 1 for a constant channel.

    Sums are whole numbers, so every machine gets the same bits.
    """
    means, deviations = [], []
    values = np.arange(256)
    counts = np.zeros((images.shape[3], 256), dtype=np.int64)
    for start in range(0, len(held), CHUNK):
        chunk = images[held[start : start + CHUNK]]
        for channel, count in enumerate(counts):
            count += np.bincount(chunk[..., channel].ravel(), minlength=256)
    for count in counts:
        pixels, total, squares = (int((count * values**power).sum()) for power in (0, 1, 2))
        variance = (pixels * squares - total * total) / (pixels * 255) ** 2
        means.append(total / (pixels * 255))
        deviations.append(variance**0.5 or 1.0)
    return tuple(means), tuple(deviations)
