"""Tiny-ImageNet: 200 classes of ImageNet in 64×64 pixels, from its archive of JPEG files."""

import zipfile
from pathlib import Path

from simulator.data.datasets import register
from simulator.data.decoded import DecodedDataset, Listing
from simulator.data.download import Published
from simulator.data.specs import ImageSpec

ROOT = "tiny-imagenet-200"
# Stanford publishes no checksum. All public loaders agree on this MD5.
ARCHIVE = Published(
    f"{ROOT}.zip", "http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"
)


@register
class TinyImageNet(DecodedDataset):
    """Its validation images replace the test images, whose labels were never published.

    Classes are in the order of their WordNet ids. Grayscale files become color images.
    """

    name = "tiny_imagenet"
    title = "Tiny-ImageNet"
    source = "Le & Yang 2015, Tiny ImageNet Visual Recognition Challenge (Stanford CS 231N)"
    train_samples = 100_000
    test_samples = 10_000
    classes = 200
    spec = ImageSpec(3, 64, 64)

    def published(self) -> list[Published]:
        return [ARCHIVE]

    def listing(self, folder: Path) -> Listing:
        with zipfile.ZipFile(folder / ARCHIVE.path) as archive:
            names = sorted(archive.namelist())
            ids = sorted(_lines(archive, "wnids.txt"))
            words = dict(line.split("\t", 1) for line in _lines(archive, "words.txt"))
            annotations = [line.split("\t")[:2] for line in _lines(archive, "val/val_annotations.txt")]
        labels = {wordnet_id: number for number, wordnet_id in enumerate(ids)}
        train = [
            (name, labels[name.split("/")[2]])
            for name in names
            if name.startswith(f"{ROOT}/train/") and name.endswith(".JPEG")
        ]
        test = [(f"{ROOT}/val/images/{file}", labels[wordnet_id]) for file, wordnet_id in sorted(annotations)]
        return Listing(train, test, tuple(f"{words[each].split(',')[0]} ({each})" for each in ids))


def _lines(archive: zipfile.ZipFile, name: str) -> list[str]:
    return archive.read(f"{ROOT}/{name}").decode("utf-8").splitlines()
