"""Data sets of several domains: those made from others, a folder for each, and clients of one domain or some."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from simulator.base.data_section import DataConfig, Dividing
from simulator.base.errors import ConfigError
from simulator.base.rng import numpy_stream
from simulator.data import datasets, image_sets, partition
from simulator.data.dividing import divided
from simulator.data.federated import FederatedData, drawn
from simulator.data.samples import ImageSet, joined
from tests.data.strategies import seeds

NO_DATA_DIR = Path("unused")
STREAM = numpy_stream(0, "tests/domains")


def grey(*rows: list[int]) -> NDArray[np.uint8]:
    """One image [1, h, w, 1]."""
    return np.array(rows, dtype=np.uint8)[None, :, :, None]


class TestChanges:
    def test_the_original_has_three_equal_channels(self) -> None:
        made = image_sets.original(grey([1, 2], [3, 4]), STREAM)
        assert made.shape == (1, 2, 2, 3)
        assert made[0, 1, 0].tolist() == [3, 3, 3]

    def test_a_quarter_turn_to_the_left_brings_the_right_column_up(self) -> None:
        made = image_sets.rotated(grey([1, 2], [3, 4]), STREAM)
        assert made[0, :, :, 0].tolist() == [[2, 4], [1, 3]]

    def test_inverted_is_255_less_the_byte(self) -> None:
        assert image_sets.inverted(grey([0, 200]), STREAM)[0, 0, :, 2].tolist() == [255, 55]

    @given(seeds)
    def test_coloured_goes_from_a_dark_colour_to_a_light_one(self, seed: int) -> None:
        """Where the image is black the one, where it is white the other, grey between them; never the same twice."""
        images = np.repeat(grey([0, 255, 100]), 2, axis=0)
        made = image_sets.coloured(images, np.random.default_rng(seed)).astype(int)
        dark, light, between = made[:, 0, 0], made[:, 0, 1], made[:, 0, 2]
        assert (dark < 128).all() and (light >= 128).all()
        assert (np.abs(between - (dark + (light - dark) * 100 / 255)) <= 0.5).all()
        assert made[0].tolist() != made[1].tolist()

    def test_blurred_keeps_what_is_even_and_spreads_a_point_by_binomial_weights(self) -> None:
        """C(16, 8)² / 2³² of 255 is 9.83 in the middle, C(16, 8)·C(16, 10) / 2³² of it two pixels beside it: 6.12."""
        assert (image_sets.blurred(grey([7] * 20, *[[7] * 20] * 19), STREAM) == 7).all()
        point = np.zeros((1, 33, 33, 1), dtype=np.uint8)
        point[0, 16, 16] = 255
        made = image_sets.blurred(point, STREAM)
        assert made[0, 16, 16, 0] == 10
        assert made[0, 16, 18, 1] == made[0, 14, 16, 2] == 6
        assert made[0, 16, 25:].max() == 0


def coded(per_class: int = 40, test: int = 20) -> ImageSet:
    """Grey images of 4×4 of three classes: no two alike, the test images last."""
    count = 3 * (per_class + test)
    images = np.arange(count, dtype=np.uint8)[:, None, None, None] + np.zeros((1, 4, 4, 1), dtype=np.uint8)
    labels = np.arange(count) % 3
    cut = 3 * per_class
    return joined((images[:cut], labels[:cut]), (images[cut:], labels[cut:]), ("a", "b", "c"))


class TestMade:
    def test_every_image_lies_in_one_domain_and_the_same_in_every_run(self) -> None:
        made, again = (image_sets.in_domains(coded(), "coded") for _ in range(2))
        assert made.domains == ("original", "rotated", "inverted", "coloured", "blurred")
        assert made.fingerprint == again.fingerprint
        assert made.domain is not None
        of = {name: np.flatnonzero(made.domain == number) for number, name in enumerate(made.domains)}
        assert made.images[of["original"], 0, 0, 0].tolist() == of["original"].tolist()
        assert made.images[of["inverted"], 0, 0, 0].tolist() == (255 - of["inverted"]).tolist()

    def test_classes_and_parts_are_dealt_out_equally(self) -> None:
        """40 images of a class over five domains are eight each, and 20 for the test four."""
        made = image_sets.in_domains(coded(), "coded")
        assert made.domain is not None
        for label in range(3):
            for part, each in ((slice(None, 120), 8), (slice(120, None), 4)):
                held = made.domain[part][made.labels[part] == label]
                assert np.bincount(held).tolist() == [each] * 5

    def test_digits_have_domains_too(self) -> None:
        entry, made = datasets.get("digits_domains"), datasets.load("digits_domains", NO_DATA_DIR)
        assert made.images.shape == (1797, *entry.spec.shape[1:], entry.spec.shape[0])
        assert (made.test_from, len(made) - made.test_from) == (entry.train_samples, entry.test_samples)
        assert entry.check(NO_DATA_DIR) == []

    def test_those_of_clothes_come_from_the_files_of_fashion_mnist(self, tmp_path: Path) -> None:
        own, base = datasets.get("fashion_mnist_domains"), datasets.get("fashion_mnist")
        assert own.files(tmp_path) == base.files(tmp_path)
        assert own.is_present(tmp_path) == base.is_present(tmp_path)


def in_two(count: int = 120) -> ImageSet:
    """Twice as many photographs as drawings, four classes in each."""
    images = np.zeros((count, 2, 2, 1), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(count)
    plain = joined((images, np.arange(count) // 3 % 4), None, ("a", "b", "c", "d"))
    return replace(plain, domains=("photo", "drawing"), domain=(np.arange(count) % 3 == 2).astype(np.int64))


def held(images: ImageSet, clients: int, **config: Any) -> list[set[int]]:
    """The domains of every client's images."""
    assert images.domain is not None
    parts = divided(DataConfig(**config), clients, 0, images)
    return [set(images.domain[np.concatenate(client)].tolist()) for client in parts]


class TestClients:
    def test_a_client_of_one_domain_has_images_of_that_one(self, subtests: pytest.Subtests) -> None:
        for case, rule in enumerate(
            [
                {},
                {"partition": "iid", "quantity": "lognormal"},
                *({"partition": rule} for rule in get_args(Dividing)),
            ]
        ):
            with subtests.test(case=case):
                domains_of = held(in_two(240), 6, domains_per_client=1, **rule)
                assert sorted(map(sorted, domains_of)) == [[0]] * 3 + [[1]] * 3

    def test_clients_of_two_domains_have_both(self, subtests: pytest.Subtests) -> None:
        for rule in ("iid", "dirichlet", "inner_dirichlet"):
            with subtests.test(rule):
                assert held(in_two(240), 4, domains_per_client=2, partition=rule) == [{0, 1}] * 4

    def test_without_the_option_domains_do_not_matter(self) -> None:
        images = in_two()
        plain = replace(images, domains=(), domain=None)
        for one, two in zip(
            divided(DataConfig(), 3, 0, images), divided(DataConfig(), 3, 0, plain), strict=True
        ):
            assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))

    def test_equal_clients_of_one_domain_share_it_equally(self) -> None:
        """80 photographs for two clients, 40 drawings for two."""
        config = DataConfig(partition="iid", quantity="equal", domains_per_client=1, split="1:1")
        sizes = [sum(map(len, parts)) for parts in divided(config, 4, 0, in_two())]
        assert sorted(sizes) == [20, 20, 40, 40]

    def test_in_the_dirichlet_partition_everyone_has_its_least_over_all_its_domains(self) -> None:
        config = DataConfig(partition="dirichlet", alpha=0.05, min_samples=15, domains_per_client=2)
        sizes = [sum(map(len, parts)) for parts in divided(config, 5, 0, in_two())]
        assert min(sizes) >= 15

    def test_the_federations_data_says_whose_domains_are_which(self) -> None:
        config = DataConfig(partition="iid", domains_per_client=1)
        data = FederatedData.build(config, 2, 0, in_two(), torch.device("cpu"))
        assert sorted(client["domains"] for client in data.summary()) == [["drawing"], ["photo"]]

    @given(st.integers(1, 5), st.integers(1, 20), st.integers(1, 5), seeds)
    def test_domains_are_held_by_as_equal_numbers_and_no_image_twice(
        self, kinds: int, clients: int, each: int, seed: int
    ) -> None:
        each = min(each, kinds)
        if clients * each < kinds:
            clients = kinds
        domain = np.arange(kinds * clients * 2) % kinds
        about = partition.Given(np.zeros_like(domain), 1, clients, 1, np.random.default_rng(seed))
        config = DataConfig(partition="iid", quantity="equal", domains_per_client=each)
        shares = partition.by_domain(about, config, domain, [f"domain {number}" for number in range(kinds)])
        assert sorted(np.concatenate(shares).tolist()) == list(range(len(domain)))
        owned = [np.unique(domain[share]).tolist() for share in shares]
        assert all(len(found) == each for found in owned)
        owners = np.bincount([number for found in owned for number in found], minlength=kinds)
        assert owners.max() - owners.min() <= 1

    def test_a_limit_takes_of_every_domain_in_proportion(self) -> None:
        few = in_two().take(drawn(in_two(), 30, numpy_stream(0, "tests")))
        assert few.domain is not None
        assert np.bincount(few.domain).tolist() == [20, 10]
        assert few.images[:, 0, 0, 0].tolist() == [i for i in few.images[:, 0, 0, 0] if i < 120]
        assert ((few.images[:, 0, 0, 0] % 3 == 2) == few.domain).all()

    def test_domains_belong_to_the_fingerprint(self) -> None:
        images = in_two()
        assert images.domain is not None
        assert replace(images, domain=1 - images.domain).fingerprint != images.fingerprint
        assert replace(images, domains=("photo", "sketch")).fingerprint != images.fingerprint


@pytest.mark.parametrize(
    ("clients", "config", "why"),
    [
        (
            4,
            {"domains_per_client": 3},
            r"data\.domains_per_client is 3, .* 2 domains \(photo, drawing\); use at most 2",
        ),
        (
            1,
            {"domains_per_client": 1},
            "1 clients of 1 domains each leave samples of photo, drawing without a client; .* 2 clients",
        ),
    ],
)
def test_domains_that_cannot_be_dealt_are_a_configuration_error(
    clients: int, config: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        divided(DataConfig(partition="iid", **config), clients, 0, in_two())


def test_a_data_set_without_domains_has_none_to_deal() -> None:
    with pytest.raises(
        ConfigError, match=r"data set 'digits' has no domains to deal out; use digits_domains"
    ):
        divided(DataConfig(domains_per_client=1), 2, 0, coded())


def test_classes_and_shards_are_not_dealt_out_to_clients_of_several_domains(
    subtests: pytest.Subtests,
) -> None:
    for case, (rule, dealt) in enumerate(
        [("pathological", "classes"), ("extended_dirichlet", "classes"), ("shards", "shards")]
    ):
        with (
            subtests.test(case=case),
            pytest.raises(ValueError, match=f"partition '{rule}' deals out {dealt} domain by domain"),
        ):
            DataConfig(partition=rule, domains_per_client=2)
