"""Data sets of several domains, made from existing ones. Each domain changes the look of the same classes.

Every image is in one domain only, so no client's test image is another client's training image in another form. The
domain and the colors are drawn from streams of fixed seeds, so the images are the same in every run and on every
machine.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from simulator.data.datasets import Dataset, Progress, register, silent
from simulator.data.digits import Digits
from simulator.data.fashion_mnist import FashionMNIST
from simulator.data.images import CHUNK, Images, ImageSet

REACH = 8  # pixels to each side, with a standard deviation of two
SEED = 0

Change = Callable[[Images, np.random.Generator], Images]
"""(grayscale images [n, h, w, 1], stream) → images [n, h, w, 3]."""


def original(images: Images, stream: np.random.Generator) -> Images:
    """The unchanged images, with three equal channels."""
    return np.repeat(images, 3, axis=3)


def rotated(images: Images, stream: np.random.Generator) -> Images:
    """A quarter turn to the left."""
    return np.repeat(np.rot90(images, axes=(1, 2)), 3, axis=3)


def inverted(images: Images, stream: np.random.Generator) -> Images:
    """Dark on light."""
    return np.repeat(255 - images, 3, axis=3)


def coloured(images: Images, stream: np.random.Generator) -> Images:
    """From a dark color to a light one, drawn for every image: each channel from 0–127 and 128–255."""
    shape = (len(images), 1, 1, 3)
    dark, light = stream.integers(0, 128, shape), stream.integers(128, 256, shape)
    made: Images = (dark + (images * (light - dark) + 127) // 255).astype(np.uint8)
    return made


def blurred(images: Images, stream: np.random.Generator) -> Images:
    """Means with binomial weights over seventeen pixels down and across. The border repeats the last pixel.

    Sums are whole numbers, so every machine gets the same bytes.
    """
    weights = [math.comb(2 * REACH, k) for k in range(2 * REACH + 1)]
    border = ((0, 0), (REACH, REACH), (REACH, REACH), (0, 0))
    padded = np.pad(images.astype(np.int64), border, mode="edge")
    height, width = images.shape[1:3]
    rows, sums = np.zeros_like(padded[:, :height]), np.zeros(images.shape, dtype=np.int64)
    for shift, weight in enumerate(weights):
        rows += weight * padded[:, shift : shift + height]
    for shift, weight in enumerate(weights):
        sums += weight * rows[:, :, shift : shift + width]
    whole = sum(weights) ** 2
    return np.repeat(((sums + whole // 2) // whole).astype(np.uint8), 3, axis=3)


CHANGES: dict[str, Change] = {
    change.__name__: change for change in (original, rotated, inverted, coloured, blurred)
}


def in_domains(images: ImageSet, name: str) -> ImageSet:
    """Square grayscale images, divided over the domains equally by class and part, and changed."""
    from simulator.base import rng

    kind = 2 * images.labels + (np.arange(len(images)) >= images.test_from)
    dealt = np.lexsort((rng.numpy_stream(SEED, f"data/domains/{name}").random(len(images)), kind))
    domain = np.empty(len(images), dtype=np.int64)
    domain[dealt] = np.arange(len(images)) % len(CHANGES)
    altered = np.empty((*images.images.shape[:3], 3), dtype=np.uint8)
    for number, (title, change) in enumerate(CHANGES.items()):
        stream = rng.numpy_stream(SEED, f"data/domains/{name}/{title}")
        members = np.flatnonzero(domain == number)
        for start in range(0, len(members), CHUNK):
            chunk = members[start : start + CHUNK]
            altered[chunk] = change(images.images[chunk], stream)
    return replace(images, images=altered, mean=None, std=None, domains=tuple(CHANGES), domain=domain)


class Domains(Dataset):
    """Another data set's images, divided over five domains."""

    base: ClassVar[Dataset]

    def files(self, folder: Path) -> list[Path]:
        return self.base.files(folder)

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        self.base.fetch(folder, progress)

    def load(self, folder: Path) -> ImageSet:
        images = self.base.load(folder)
        assert isinstance(images, ImageSet)
        return in_domains(images, self.name)


@register
class DigitsDomains(Domains):
    """Digits."""

    name = "digits_domains"
    title = "Handwritten digits in five domains"
    source = Digits.source
    train_samples = Digits.train_samples
    test_samples = Digits.test_samples
    classes = Digits.classes
    spec = replace(Digits.spec, channels=3)
    base = Digits()


@register
class FashionMNISTDomains(Domains):
    """Clothes."""

    name = "fashion_mnist_domains"
    title = "Fashion-MNIST in five domains"
    source = FashionMNIST.source
    train_samples = FashionMNIST.train_samples
    test_samples = FashionMNIST.test_samples
    classes = FashionMNIST.classes
    spec = replace(FashionMNIST.spec, channels=3)
    base = FashionMNIST()
