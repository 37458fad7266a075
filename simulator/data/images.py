"""A data set in memory: all images as one array of bytes, the data set's own test images last."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Indices = NDArray[np.int64]
CHUNK = 1024
"""Images looked at together, where all would take eight times their memory."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images uint8 [n, h, w, c] with labels int64 [n], training images first, then test images.

    `mean` and `std` are per channel, of pixel values divided by 255. `test_from` is the index of the first
    image of the data set's own test set, n if it has none. In a data set of several `domains` (photographs and drawings
    of the same classes) `domain` says of each image which it is of, int64 [n]; else there are none.
    """

    images: Images
    labels: Labels
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    test_from: int
    domains: tuple[str, ...] = ()
    domain: Labels | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_test_set(self) -> bool:
        return self.test_from < len(self)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of what can change a result: pixels, labels, shape, classes, normalisation."""
        facts = [self.images.shape, self.classes, self.mean, self.std, self.test_from]
        digest = hashlib.sha256(json.dumps(facts).encode())
        digest.update(np.ascontiguousarray(self.images).data)
        digest.update(np.ascontiguousarray(self.labels, dtype="<i8").data)
        if self.domain is not None:
            digest.update(json.dumps(self.domains).encode())
            digest.update(np.ascontiguousarray(self.domain, dtype="<i8").data)
        return digest.hexdigest()

    def take(self, indices: Indices) -> "ImageSet":
        """The images at ascending `indices`, as a data set with the same classes and normalisation."""
        return replace(
            self,
            images=self.images[indices],
            labels=self.labels[indices],
            test_from=int(np.searchsorted(indices, self.test_from)),
            domain=None if self.domain is None else self.domain[indices],
        )


def joined(
    train: tuple[Images, Labels],
    test: tuple[Images, Labels] | None,
    classes: tuple[str, ...],
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> ImageSet:
    """An image set of (images, labels) for training and, if there are any, for test.

    Without published `mean` and `std` they are measured on the training images.
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
    """Mean and standard deviation per channel of images [n, h, w, c] / 255; or 1 if it never varies.

    Summed in whole numbers, so that every machine gets the same bits.
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
