"""Data sets of image files in an archive. They are decoded once into arrays, which later runs map into memory.

Under the data folder, `decoded/<name>/` holds `images.npy` uint8 [n, side, side, 3], `labels.npy` int64 [n], and
`about.json`: the published files, the facts of the image set, and both arrays' SHA-256.
"""

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from simulator.base.errors import DataError
from simulator.data.datasets import Progress, register, silent
from simulator.data.download import Published, PublishedDataset, bring
from simulator.data.pictures import opened
from simulator.data.samples import Images, ImageSet, Labels
from simulator.data.specs import ImageSpec

VERSION = 1
"""Version of the stored arrays. If it changes, the archives are decoded again."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError)
UNDECODABLE = (
    OSError, SyntaxError, ValueError, KeyError, EOFError, NotImplementedError, zlib.error,
    tarfile.TarError, zipfile.BadZipFile, Image.DecompressionBombError,
)  # fmt: skip


class Listing(NamedTuple):
    """The archive's members that are images, with their classes, in the order of the stored arrays."""

    train: list[tuple[str, int]]
    test: list[tuple[str, int]]
    classes: tuple[str, ...]


class DecodedDataset(PublishedDataset):
    """A data set whose first published file is an archive (.tar.gz, .tgz or .zip) of image files."""

    @abstractmethod
    def listing(self, folder: Path) -> Listing:
        """The facts about the images in the published files under the data folder."""

    def files(self, folder: Path) -> list[Path]:
        place = folder / "decoded" / self.name
        return [place / "images.npy", place / "labels.npy", place / "about.json"]

    def is_present(self, folder: Path) -> bool:
        return super().is_present(folder) and self._about(folder).get("source") == self._source()

    def load(self, folder: Path) -> ImageSet:
        """The images, mapped from their file: pages are read on use."""
        if not self.is_present(folder):
            raise DataError(
                f"data set '{self.name}' is not decoded in {folder / 'decoded' / self.name}; `htfl-sim data fetch "
                f"{self.name}` does that, from {folder / self.published[0].path} if it is there."
            )
        images_file, labels_file, _ = self.files(folder)
        about = self._about(folder)
        try:
            images: Images = np.load(images_file, mmap_mode="c", allow_pickle=False)
            labels: Labels = np.load(labels_file, allow_pickle=False)
            classes, test_from = tuple(about["classes"]), int(about["test_from"])
            image_set = ImageSet(images, labels=labels, classes=classes, test_from=test_from)
        except UNREADABLE as unreadable:
            raise self._damaged(images_file.parent, unreadable) from unreadable
        if images.shape != (len(labels), *self.spec.shape[1:], 3) or images.dtype != np.uint8:
            raise self._damaged(images_file, f"it does not fit {labels_file.name}")
        return image_set

    def check(self, folder: Path) -> list[Path]:
        """The files, each with the SHA-256 from when it was written."""
        self.load(folder)
        known = self._about(folder).get("sha256", {})
        for file in self.files(folder)[:2]:
            if _sha256(file) != known.get(file.name):
                raise self._damaged(file, "its SHA-256 is not the one it was written with")
        return self.files(folder)

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        try:
            self.check(folder)
        except DataError:
            bring(self.published, folder, progress, self.name)
            self._decode(folder, progress)

    def _decode(self, folder: Path, progress: Progress) -> None:
        """Decode everything into a scratch folder, which then replaces the final one as a whole."""
        place = folder / "decoded" / self.name
        archive = folder / self.published[0].path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=f"{self.name}.") as scratch:
                whole = Path(scratch) / "whole"
                whole.mkdir()
                self._write(whole, archive, self.listing(folder), progress)
                shutil.rmtree(place, ignore_errors=True)
                whole.rename(place)
        except UNDECODABLE as failure:
            reason = " ".join(str(failure).split()) or type(failure).__name__
            raise DataError(f"{archive} cannot be decoded into {place} ({reason}).") from failure

    def _write(self, whole: Path, archive: Path, listing: Listing, progress: Progress) -> None:
        members = listing.train + listing.test
        row = {name: number for number, (name, _) in enumerate(members)}
        side = self.spec.shape[1]
        images = np.lib.format.open_memmap(
            whole / "images.npy", mode="w+", dtype=np.uint8, shape=(len(members), side, side, 3)
        )
        missing = set(row)
        for name, content, done in contents(archive, row):
            images[row[name]] = pixels(content, side)
            missing.discard(name)
            progress(done, archive.stat().st_size)
        if missing:
            raise ValueError(f"it has no {min(missing)}")
        images.flush()
        np.save(whole / "labels.npy", np.array([label for _, label in members], dtype=np.int64))
        about = {
            "source": self._source(),
            "classes": listing.classes,
            "test_from": len(listing.train),
            "sha256": {name: _sha256(whole / name) for name in ("images.npy", "labels.npy")},
        }
        (whole / "about.json").write_text(json.dumps(about), encoding="utf-8")

    def _source(self) -> dict[str, Any]:
        """The facts that the stored arrays depend on, in the form of `about.json`, where a tuple is a list."""
        files = {file.path: file.md5 for file in self.published}
        return {"version": VERSION, "shape": list(self.spec.shape), "md5": files}

    def _about(self, folder: Path) -> dict[str, Any]:
        try:
            about = json.loads(self.files(folder)[-1].read_text(encoding="utf-8"))
        except UNREADABLE:
            return {}
        return about if isinstance(about, dict) else {}

    def _damaged(self, file: Path, why: object) -> DataError:
        return DataError(f"{file} is damaged ({why}); `htfl-sim data fetch {self.name}` makes it again.")


def contents(archive: Path, wanted: dict[str, int]) -> Iterator[tuple[str, bytes, int]]:
    """The name and content of every wanted member, in the archive's order, and the bytes of the archive read so far.

    Nothing is unpacked to disk, so a path in the archive cannot lead outside.
    """
    if archive.suffix == ".zip":
        done = 0
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                done += member.compress_size
                if member.filename in wanted:
                    yield member.filename, opened.read(member), done
        return
    with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:gz") as tar:
        while (entry := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # hundreds of thousands, never asked for again
            name = entry.name.removeprefix("./")
            content = tar.extractfile(entry) if name in wanted else None
            if content is not None:
                yield name, content.read(), raw.tell()


def pixels(content: bytes, side: int) -> Images:
    """An encoded image as RGB, scaled to a square of that side if necessary: uint8 [side, side, 3]."""
    with opened(io.BytesIO(content)) as image:
        colour = image.convert("RGB")
    if colour.size != (side, side):
        colour = colour.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(colour)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
    published = (
        Published(
            "CINIC-10.tar.gz",
            "https://datashare.ed.ac.uk/server/api/core/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/content",
            "6ee4d0c996905fe93221de577967a372",
        ),
    )
    """The publisher's page has no checksum. All public loaders agree on this MD5."""
    CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

    def listing(self, folder: Path) -> Listing:
        with tarfile.open(folder / self.published[0].path, "r:gz") as tar:
            names = sorted(name.removeprefix("./") for name in tar.getnames())
        parts: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
        labels = {label: number for number, label in enumerate(self.CLASSES)}
        for name in names:
            part, _, rest = name.partition("/")
            label, _, file = rest.partition("/")
            if part in parts and label in labels and file.endswith(".png"):
                parts[part].append((name, labels[label]))
        return Listing(parts["train"], parts["test"], self.CLASSES)


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
    published = tuple(
        Published(f"flowers-102/{name}", f"https://www.robots.ox.ac.uk/~vgg/data/flowers/102/{name}", md5)
        for name, md5 in (
            ("102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
            ("imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
            ("setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
        )
    )
    """In torchvision's folder, with the MD5s that torchvision publishes."""

    def listing(self, folder: Path) -> Listing:
        from scipy.io import loadmat
        from torchvision.datasets import Flowers102 as Reader

        every, parts = (loadmat(folder / file.path) for file in self.published[1:])
        labels = every["labels"].ravel()

        def members(*names: str) -> list[tuple[str, int]]:
            numbers = sorted(int(number) for name in names for number in parts[name].ravel())
            return [(f"jpg/image_{number:05d}.jpg", int(labels[number - 1]) - 1) for number in numbers]

        return Listing(members("trnid", "valid"), members("tstid"), tuple(Reader.classes))


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
    ROOT = "tiny-imagenet-200"
    published = (
        Published(
            f"{ROOT}.zip", f"http://cs231n.stanford.edu/{ROOT}.zip", "90528d7ca1a48142e341f4ef8d21d0de"
        ),
    )
    """Stanford publishes no checksum. All public loaders agree on this MD5."""

    def listing(self, folder: Path) -> Listing:
        with zipfile.ZipFile(folder / self.published[0].path) as archive:
            names = sorted(archive.namelist())
            ids, titles, boxes = (
                archive.read(f"{self.ROOT}/{name}").decode("utf-8").splitlines()
                for name in ("wnids.txt", "words.txt", "val/val_annotations.txt")
            )
        ids.sort()
        words = dict(line.split("\t", 1) for line in titles)
        annotations = [line.split("\t")[:2] for line in boxes]
        labels = {wordnet_id: number for number, wordnet_id in enumerate(ids)}
        train = [
            (name, labels[name.split("/")[2]])
            for name in names
            if name.startswith(f"{self.ROOT}/train/") and name.endswith(".JPEG")
        ]
        test = [
            (f"{self.ROOT}/val/images/{file}", labels[wordnet_id]) for file, wordnet_id in sorted(annotations)
        ]
        return Listing(train, test, tuple(f"{words[each].split(',')[0]} ({each})" for each in ids))
