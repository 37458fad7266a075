"""CIFAR-10 and CIFAR-100 in torchvision's layout, downloaded when missing.

The published files are pickles. None is opened before its bytes match the published MD5.
"""

import tarfile
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, register, silent
from simulator.data.download import Published, bring, has_md5, verify
from simulator.data.images import Images, ImageSet, joined
from simulator.data.samples import Labels
from simulator.data.specs import ImageSpec


class Cifar(Dataset):
    """60,000 color images of 32×32 pixels, read by torchvision's class of the same data set."""

    source = "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images"
    train_samples = 50_000
    test_samples = 10_000
    spec = ImageSpec(3, 32, 32)
    subfolder: ClassVar[str]
    archive: ClassVar[str]
    batches: ClassVar[tuple[str, ...]]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]

    @abstractmethod
    def reader(self) -> Any:
        """torchvision's class, which knows the URL and the MD5s."""

    def files(self, folder: Path) -> list[Path]:
        return [folder / self.subfolder / name for name in self.batches]

    def is_present(self, folder: Path) -> bool:
        return super().is_present(folder) or (folder / self.archive).is_file()

    def load(self, folder: Path) -> ImageSet:
        if not super().is_present(folder) and (folder / self.archive).is_file():
            self._unpack(folder)
        self.check(folder)
        reader = self.reader()
        train = reader(folder, train=True)
        return joined(
            train=_arrays(train),
            test=_arrays(reader(folder, train=False)),
            classes=tuple(train.classes),
            mean=self.mean,
            std=self.std,
        )

    def check(self, folder: Path) -> list[Path]:
        reader = self.reader()
        md5s = [*reader.train_list, *reader.test_list, (reader.meta["filename"], reader.meta["md5"])]
        batches = [Published(f"{self.subfolder}/{name}", reader.url, md5) for name, md5 in md5s]
        verify(batches, folder, self.name)
        return self.files(folder)

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        try:
            self.check(folder)
        except DataError:
            reader = self.reader()
            bring([Published(self.archive, reader.url, reader.tgz_md5)], folder, progress, self.name)
            self._unpack(folder)
            self.check(folder)

    def _unpack(self, folder: Path) -> None:
        """Write the batches from the archive under their known names, never under names from the archive."""
        archive = folder / self.archive
        if not has_md5(archive, self.reader().tgz_md5):
            raise self._damaged(archive)
        try:
            self._write_batches(folder, archive)
        except (OSError, tarfile.TarError) as failure:
            raise DataError(
                f"{archive} cannot be unpacked into {folder / self.subfolder} ({failure})."
            ) from failure

    def _write_batches(self, folder: Path, archive: Path) -> None:
        targets = {f"{self.subfolder}/{file.name}": file for file in self.files(folder)}
        (folder / self.subfolder).mkdir(exist_ok=True)
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name in targets else None
                if content is not None:
                    target = targets[member.name]
                    part = target.with_name(f"{target.name}.part")
                    part.write_bytes(content.read())
                    part.replace(target)

    def _damaged(self, file: Path) -> DataError:
        return DataError(
            f"{file} is damaged: its MD5 is not the published one. `htfl-sim data fetch {self.name}` replaces it."
        )


@register
class Cifar10(Cifar):
    name = "cifar10"
    title = "CIFAR-10"
    classes = 10
    subfolder = "cifar-10-batches-py"
    archive = "cifar-10-python.tar.gz"
    batches = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)

    def reader(self) -> Any:
        from torchvision.datasets import CIFAR10

        return CIFAR10


@register
class Cifar100(Cifar):
    name = "cifar100"
    title = "CIFAR-100 (fine labels)"
    classes = 100
    subfolder = "cifar-100-python"
    archive = "cifar-100-python.tar.gz"
    batches = ("train", "test", "meta")
    mean = (0.5071, 0.4865, 0.4409)
    std = (0.2673, 0.2564, 0.2762)

    def reader(self) -> Any:
        from torchvision.datasets import CIFAR100

        return CIFAR100


def _arrays(part: Any) -> tuple[Images, Labels]:
    return part.data, np.asarray(part.targets, dtype=np.int64)
