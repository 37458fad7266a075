"""SVHN, Flowers-102 and Tiny-ImageNet from files in their publishers' formats."""

from pathlib import Path

import numpy as np
import pytest
from torchvision import datasets as published

from simulator.base.errors import DataError
from simulator.data import datasets, decoded, image_sets
from simulator.data.download import Published
from tests.data.archives import encoded, lay, matlab, md5, tar, zipped


def declared(path: str, content: bytes) -> Published:
    return Published(path, "http://127.0.0.1:9/", md5(content))


class TestSVHN:
    @pytest.fixture
    def data_dir(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        files = []
        for path, count, labels in (("train_32x32.mat", 3, [1, 10, 9]), ("test_32x32.mat", 2, [10, 2])):
            content = matlab(X=self.pixels(count), y=np.array(labels, dtype=np.uint8)[:, None])
            lay(tmp_path, path, content)
            files.append(declared(path, content))
        monkeypatch.setattr(image_sets.SVHN, "published", tuple(files))
        return tmp_path

    @staticmethod
    def pixels(count: int) -> np.ndarray:
        """X as published: rows, columns, channels, images."""
        return np.random.default_rng(count).integers(0, 256, (32, 32, 3, count)).astype(np.uint8)

    def test_images_are_turned_and_the_digit_called_ten_is_zero(self, data_dir: Path) -> None:
        images = datasets.load("svhn", data_dir)
        assert images.images.shape == (5, 32, 32, 3)
        np.testing.assert_array_equal(images.images[1], self.pixels(3)[..., 1])
        np.testing.assert_array_equal(images.images[4, 30, 2], self.pixels(2)[30, 2, :, 1])
        assert images.labels.tolist() == [1, 0, 9, 0, 2]
        assert images.test_from == 3
        assert images.classes[0] == "0"

    def test_the_checksums_are_torchvisions(self) -> None:
        parts = [published.SVHN.split_list[part] for part in ("train", "test")]
        found = [(file.url, file.path, file.md5) for file in image_sets.SVHN.published]
        assert found == [tuple(part) for part in parts]


class TestFlowers102:
    # Image 1 … 6, of the classes below (which count from 1), of several shapes as the photographs are.
    LABELS = (102, 1, 7, 7, 1, 102)
    SIZES = ((500, 300), (224, 224), (50, 80), (64, 64), (300, 500), (225, 223))

    @pytest.fixture
    def data_dir(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        photographs = tar(
            {
                f"jpg/image_{number:05d}.jpg": encoded((40 * number,) * 3, size, "JPEG")
                for number, size in enumerate(self.SIZES, start=1)
            }
        )
        contents = {
            "flowers-102/102flowers.tgz": photographs,
            "flowers-102/imagelabels.mat": matlab(labels=[self.LABELS]),
            "flowers-102/setid.mat": matlab(trnid=[[6, 3]], valid=[[1]], tstid=[[5, 2, 4]]),
        }
        for path, content in contents.items():
            lay(tmp_path, path, content)
        files = tuple(declared(path, content) for path, content in contents.items())
        monkeypatch.setattr(decoded.Flowers102, "published", files)
        return tmp_path

    def test_train_and_valid_are_trained_on_and_numbers_order_each_part(self, data_dir: Path) -> None:
        images = datasets.load("flowers102", data_dir)
        assert images.test_from == 3
        assert images.labels.tolist() == [101, 6, 101, 0, 6, 0]
        assert np.round(images.images[:, 100, 100, 0] / 40).tolist() == [1, 3, 6, 2, 4, 5]
        assert images.images.shape == (6, 224, 224, 3)
        assert images.images.reshape(6, -1).std(axis=1).max() <= 1  # one colour to every edge
        assert len(set(images.classes)) == 102 and images.classes[0] == "pink primrose"

    def test_a_photograph_that_the_archive_lacks_is_named(
        self, data_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = tar({"jpg/image_00001.jpg": encoded((0, 0, 0), (8, 8), "JPEG")})
        lay(data_dir, "flowers-102/102flowers.tgz", content)
        monkeypatch.setattr(
            decoded.Flowers102,
            "published",
            (declared("flowers-102/102flowers.tgz", content), *decoded.Flowers102.published[1:]),
        )
        with pytest.raises(DataError, match=r"102flowers\.tgz cannot be decoded .*image_00002\.jpg"):
            datasets.load("flowers102", data_dir)

    def test_the_checksums_are_torchvisions(self) -> None:
        reader = published.Flowers102
        known = [reader._file_dict[key] for key in ("image", "label", "setid")]
        assert [(Path(file.path).name, file.md5) for file in decoded.Flowers102.published] == known
        assert all(file.url.startswith(reader._download_url_prefix) for file in decoded.Flowers102.published)


class TestTinyImageNet:
    @pytest.fixture
    def data_dir(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        root = "tiny-imagenet-200"

        def jpeg(grey: int, mode: str = "RGB") -> bytes:
            return encoded((grey,) * 3, (64, 64), "JPEG", mode)

        content = zipped(
            {
                f"{root}/wnids.txt": b"n02\nn01\n",  # in no order, as published
                f"{root}/words.txt": b"n01\tgoldfish, Carassius auratus\nn02\tcrane\nn03\tcrane\n",
                f"{root}/train/n02/images/n02_0.JPEG": jpeg(20),
                f"{root}/train/n02/n02_boxes.txt": b"n02_0.JPEG\t0\t0\t62\t62\n",
                f"{root}/train/n01/images/n01_1.JPEG": jpeg(120, "L"),
                f"{root}/train/n01/images/n01_0.JPEG": jpeg(60),
                f"{root}/val/images/val_1.JPEG": jpeg(200),
                f"{root}/val/images/val_0.JPEG": jpeg(160),
                f"{root}/val/val_annotations.txt": b"val_1.JPEG\tn01\t0\t0\t62\t62\nval_0.JPEG\tn02\t0\t0\t62\t62\n",
                f"{root}/test/images/test_0.JPEG": jpeg(250),
            }
        )
        lay(tmp_path, f"{root}.zip", content)
        monkeypatch.setattr(decoded.TinyImageNet, "published", (declared(f"{root}.zip", content),))
        return tmp_path

    def test_the_annotated_validation_images_are_the_test_images(self, data_dir: Path) -> None:
        images = datasets.load("tiny_imagenet", data_dir)
        assert images.images.shape == (5, 64, 64, 3)
        assert images.test_from == 3
        assert images.labels.tolist() == [0, 0, 1, 1, 0]
        assert np.abs(images.images[:, 9, 9].astype(int) - [[60], [120], [20], [160], [200]]).max() <= 1
        assert images.classes == ("goldfish (n01)", "crane (n02)")  # sorted by id, and told apart
        assert (images.images[1] == images.images[1][..., :1]).all()  # a gray file
