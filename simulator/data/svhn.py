"""Street View House Numbers, cropped digits, from the publisher's two MATLAB files in torchvision's layout."""

from pathlib import Path

import numpy as np

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, register, silent
from simulator.data.download import Published, bring, verify
from simulator.data.images import Images, ImageSet, joined
from simulator.data.samples import Labels
from simulator.data.specs import ImageSpec

URL = "http://ufldl.stanford.edu/housenumbers/"
# torchvision publishes these MD5s.
FILES = (
    Published("train_32x32.mat", f"{URL}train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
    Published("test_32x32.mat", f"{URL}test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
)


@register
class SVHN(Dataset):
    """99,289 color images of digits, 32×32. The file `extra` is left out."""

    name = "svhn"
    title = "SVHN (cropped digits)"
    source = "Netzer et al. 2011, NIPS Workshop on Deep Learning and Unsupervised Feature Learning"
    train_samples = 73_257
    test_samples = 26_032
    classes = 10
    spec = ImageSpec(3, 32, 32)

    def files(self, folder: Path) -> list[Path]:
        return [folder / file.path for file in FILES]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        bring(FILES, folder, progress, self.name)

    def check(self, folder: Path) -> list[Path]:
        verify(FILES, folder, self.name)
        return self.files(folder)

    def load(self, folder: Path) -> ImageSet:
        train, test = self.check(folder)
        return joined(
            train=_arrays(train),
            test=_arrays(test),
            classes=tuple(str(digit) for digit in range(self.classes)),
            mean=(0.4377, 0.4438, 0.4728),
            std=(0.1980, 0.2010, 0.1970),
        )


def _arrays(file: Path) -> tuple[Images, Labels]:
    """Images [n, 32, 32, 3] of X [32, 32, 3, n], and labels [n] of y [n, 1], where 10 stands for the digit 0."""
    from scipy.io import loadmat

    try:
        matrices = loadmat(file, variable_names=["X", "y"])
        images: Images = np.ascontiguousarray(matrices["X"].transpose(3, 0, 1, 2))
        return images, matrices["y"].ravel().astype(np.int64) % 10
    except (OSError, ValueError, KeyError, TypeError) as unreadable:
        raise DataError(f"{file} cannot be read ({unreadable}).") from unreadable
