"""CINIC-10: the classes of CIFAR-10, in images of CIFAR-10 and ImageNet, from its archive of PNG files."""

import tarfile
from pathlib import Path

from simulator.data.datasets import register
from simulator.data.decoded import DecodedDataset, Listing
from simulator.data.download import Published
from simulator.data.specs import ImageSpec

# The publisher's page has no checksum. All public loaders agree on this MD5.
ARCHIVE = Published(
    "CINIC-10.tar.gz",
    "https://datashare.ed.ac.uk/server/api/core/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/content",
    "6ee4d0c996905fe93221de577967a372",
)
CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@register
class Cinic10(DecodedDataset):
    """The parts `train` and `test`, 90,000 color images each. The equally large part `valid` is left out."""

    name = "cinic10"
    title = "CINIC-10"
    source = "Darlow et al. 2018, arXiv:1810.03505"
    train_samples = 90_000
    test_samples = 90_000
    classes = 10
    spec = ImageSpec(3, 32, 32)

    def published(self) -> list[Published]:
        return [ARCHIVE]

    def listing(self, folder: Path) -> Listing:
        with tarfile.open(folder / ARCHIVE.path, "r:gz") as tar:
            names = sorted(name.removeprefix("./") for name in tar.getnames())
        parts: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
        labels = {label: number for number, label in enumerate(CLASSES)}
        for name in names:
            part, _, rest = name.partition("/")
            label, _, file = rest.partition("/")
            if part in parts and label in labels and file.endswith(".png"):
                parts[part].append((name, labels[label]))
        return Listing(parts["train"], parts["test"], CLASSES)
