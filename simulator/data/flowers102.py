"""Oxford Flowers-102, from the publisher's archive of photographs and MATLAB files of labels and parts."""

from pathlib import Path
from typing import Any

from simulator.data.datasets import register
from simulator.data.decoded import DecodedDataset, Listing
from simulator.data.download import Published
from simulator.data.specs import ImageSpec

URL = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
# In torchvision's folder, with the MD5s that torchvision publishes.
FILES = (
    Published("flowers-102/102flowers.tgz", f"{URL}102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
    Published("flowers-102/imagelabels.mat", f"{URL}imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
    Published("flowers-102/setid.mat", f"{URL}setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
)


@register
class Flowers102(DecodedDataset):
    """Photographs of many sizes, stored as 224×224 whatever their proportions.

    The publisher's parts `train` and `valid`, with ten images of each class each, are the training images. FedL2G's
    presets scale batches to the 64×64 of its authors' code (`data.size`).
    """

    name = "flowers102"
    title = "Oxford Flowers-102"
    source = "Nilsback & Zisserman 2008, ICVGIP"
    train_samples = 2040
    test_samples = 6149
    classes = 102
    spec = ImageSpec(3, 224, 224)

    def published(self) -> list[Published]:
        return list(FILES)

    def listing(self, folder: Path) -> Listing:
        from torchvision.datasets import Flowers102 as Reader

        _, labels_file, parts_file = (folder / file.path for file in FILES)
        labels, parts = _matrix(labels_file)["labels"], _matrix(parts_file)

        def members(*names: str) -> list[tuple[str, int]]:
            numbers = sorted(int(number) for name in names for number in parts[name])
            return [(f"jpg/image_{number:05d}.jpg", int(labels[number - 1]) - 1) for number in numbers]

        return Listing(members("trnid", "valid"), members("tstid"), tuple(Reader.classes))


def _matrix(file: Path) -> Any:
    """The vectors in a MATLAB file, by name."""
    from scipy.io import loadmat

    return {name: values.ravel() for name, values in loadmat(file).items() if not name.startswith("__")}
