"""Who holds which sample: the rules, users, a file of indices, and the parts of each client."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simulator.base.data_section import DataConfig, Dividing, split_shares
from simulator.base.errors import ConfigError, DataError
from simulator.base.rng import numpy_stream
from simulator.data import datasets, image_sets, partition
from simulator.data.dividing import divided
from simulator.data.federated import FederatedData, drawn
from simulator.data.partition import RULES, Given, apportion, stratified
from simulator.data.samples import ImageSet, joined
from tests import federations

Labels = NDArray[np.int64]
OF_CLASSES = ("pathological", "extended_dirichlet")
seeds = st.integers(0, 2**32)


@st.composite
def labelled(
    draw: st.DrawFn,
    min_classes: int = 2,
    max_classes: int = 12,
    min_per_class: int = 0,
    max_per_class: int = 60,
) -> tuple[Labels, int]:
    """Labels int64 [n] in random order, and the number of classes, of which some may be empty."""
    amounts = draw(
        st.lists(
            st.integers(min_per_class, max_per_class), min_size=min_classes, max_size=max_classes
        ).filter(any)
    )
    labels = np.repeat(np.arange(len(amounts)), amounts)
    return np.random.default_rng(draw(seeds)).permutation(labels), len(amounts)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def divide(
    rule: str, labels: Labels, clients: int, least: int = 1, stream: Any = None, **config: Any
) -> list[Labels]:
    """The shares by a rule. Draws are those of seed 0, or of `stream`."""
    classes = config.pop("classes", int(labels.max()) + 1)
    about = Given(labels, classes, clients, least, stream or generator())
    return RULES[rule](about, DataConfig(partition=rule, **config))  # type: ignore[arg-type]


def balanced(classes: int, per_class: int) -> Labels:
    return np.arange(classes * per_class) % classes


def counts_of(labels: Labels, holdings: Sequence[Labels]) -> NDArray[np.int64]:
    """The samples [clients, classes] of each client."""
    classes = int(labels.max()) + 1
    return np.stack([np.bincount(labels[held], minlength=classes) for held in holdings])


@settings(max_examples=200)
@given(labelled(min_per_class=30), st.sampled_from([*RULES]), st.integers(1, 30), st.data(), seeds)
def test_every_rule_gives_each_sample_one_owner_and_each_client_what_it_must(
    set_: Any, rule: str, clients: int, data: st.DataObject, seed: int
) -> None:
    (labels, classes), quantities = set_, ("varied", "equal", "lognormal")
    each, least = data.draw(st.integers(1, classes)), data.draw(st.integers(1, 5))
    least = min(least, each) if rule in OF_CLASSES else least  # a class has at most 30 owners, and 30 samples
    about = {"quantity": data.draw(st.sampled_from(quantities)), "alpha": data.draw(st.floats(1e-3, 100))}
    about |= {"cap": data.draw(st.booleans()), "classes_per_client": each, "shards_per_client": least}
    assume(clients * least <= len(labels))
    held, again = (
        divide(rule, labels, clients, least, generator(seed), classes=classes, **about) for _ in range(2)
    )
    together, sizes = np.concatenate(held), [len(one) for one in held]
    assert [one.tolist() for one in held] == [one.tolist() for one in again]
    assert len(np.unique(together)) == len(together) and min(sizes) >= 1
    if rule in OF_CLASSES:
        counts = np.stack([np.bincount(labels[one], minlength=classes) for one in held])
        owners = (counts > 0).sum(axis=0)
        assert [len(np.unique(labels[one])) for one in held] == [each] * clients
        assert owners.max() - owners.min() <= 1
        every = np.bincount(labels, minlength=classes)
        assert counts.sum(axis=0).tolist() == np.where(owners > 0, every, 0).tolist()
    else:
        assert len(together) == len(labels)
        if rule == "dirichlet" or (rule in ("iid", "inner_dirichlet") and about["quantity"] == "lognormal"):
            assert min(sizes) >= least
        elif rule != "shards" and about["quantity"] == "equal":
            assert max(sizes) - min(sizes) <= 1


def test_other_seeds_give_other_partitions() -> None:
    for rule in RULES:
        one, other = (divide(rule, balanced(10, 50), 10, stream=generator(seed)) for seed in (1, 2))
        assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True)), rule


TOO_FEW: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("pathological", (balanced(2, 4), 5), {"quantity": "equal"}, "class 0 has 4 samples for the 5 clients"),
    ("pathological", (np.repeat([0, 1], 3), 4), {"quantity": "pfllib"}, "class 0 has 3 samples for 4 clients"),
    ("extended_dirichlet", (balanced(2, 20), 5, 10), {}, "20 samples for the 5 .* at least 5 each.*min_samples"),
    ("dirichlet", (balanced(5, 20), 11, 10), {}, "11 clients with at least 10 samples each need 110 samples, .* 100"),
    ("iid", (np.zeros(3, int), 4), {"quantity": "equal"}, "3 samples are too few for 4 clients"),
    ("inner_dirichlet", (np.zeros(3, int), 4), {"quantity": "equal"}, "3 samples are too few for 4 clients"),
    ("iid", (balanced(5, 20), 4, 30), {"quantity": "lognormal"}, "at least 30 samples each need 120 .* there are 100"),
    ("shards", (balanced(3, 4), 5), {"shards_per_client": 3}, "5 clients with 3 shards each need 15 samples, .* 12"),
]  # fmt: skip


def test_too_few_samples_or_classes_are_refused_with_the_numbers() -> None:
    for rule, about, config, message in TOO_FEW:
        with pytest.raises(DataError, match=message):
            divide(rule, *about, **config)
    for rule in OF_CLASSES:
        with pytest.raises(ConfigError, match=r"classes_per_client is 12, .* 10 classes; use at most 10"):
            divide(rule, balanced(10, 5), 3, classes_per_client=12)


def test_varied_and_equal_shares_by_hand() -> None:
    """Ten clients of two of ten classes: two owners for each class of 101 samples, 50 and 51. U(0.4, 0.6) over two
    owners is at least 0.4 of the class, and over eight from 0.4 / (0.4 + 7 · 0.6) to 0.6 / (0.6 + 7 · 0.4).
    """
    labels = balanced(10, 101)
    counts = counts_of(labels, divide("pathological", labels, 10, quantity="equal"))
    assert set(counts[counts > 0].tolist()) == {50, 51}
    labels = balanced(10, 1000)
    counts = counts_of(labels, divide("pathological", labels, 10))
    counts = counts[counts > 0]
    assert counts.min() >= 399 and counts.max() <= 601 and len(np.unique(counts)) > 10
    varied = [len(held) for held in divide("iid", balanced(10, 100), 8)]
    assert len(set(varied)) > 4 and min(varied) >= 86 and max(varied) <= 177
    assert [len(held) for held in divide("iid", balanced(10, 100), 8, quantity="equal")] == [125] * 8


def test_a_hundred_clients_at_a_tiny_alpha_are_served() -> None:
    labels = balanced(10, 6000)
    for alpha in (1e-2, 1e-300):
        sizes = [len(held) for held in divide("dirichlet", labels, 100, 10, alpha=alpha)]
        assert min(sizes) >= 10 and sum(sizes) == 60_000
        counts = counts_of(labels, divide("inner_dirichlet", labels, 100, quantity="equal", alpha=alpha))
        assert counts.sum(axis=1).tolist() == [600] * 100
        assert (
            np.median(counts.max(axis=1)) > 480
        )  # less than all: many want a class that has no samples left
    assert [len(held) for held in divide("dirichlet", balanced(5, 20), 10, 10, alpha=0.1)] == [10] * 10


def test_alpha_decides_on_the_mix_of_classes() -> None:
    """The last: 6,000 draws of ten equal classes are 600 ± 5 standard deviations of √(6,000 · 0.1 · 0.9) = 23."""
    labels = balanced(10, 500)
    few, many = (
        (counts_of(labels, divide("dirichlet", labels, 10, 10, alpha=alpha)) > 0).sum(axis=1).mean()
        for alpha in (0.1, 100)
    )
    assert few < 7 < many == 10
    labels = balanced(10, 6000)
    counts = counts_of(labels, divide("inner_dirichlet", labels, 10, quantity="equal", alpha=1e6))
    assert counts.min() > 485 and counts.max() < 715


def test_nobody_takes_more_classes_once_above_the_fair_share() -> None:
    """At α → 0, one client takes a whole class of 100. Its fair share is 50, so ten clients take one class each."""
    labels = balanced(10, 100)
    large = [held for held in divide("dirichlet", labels, 20, alpha=1e-6) if len(held) > 50]
    assert len(large) == 10 and all(len(np.unique(labels[held])) == 1 for held in large)


def test_pfllibs_rule_by_hand() -> None:
    """Two classes of 100, four clients of one class each: two owners a class, an equal share m = 50, least = min(40,
    200/4/2) = 25, and bounds max(50/10, 25/2) = 12 and 50: the first owner has 12 to 49 images, the second the rest.
    """
    labels, rule = np.repeat([0, 1], 100), {"quantity": "pfllib", "classes_per_client": 1}
    for seed in range(20):
        held = divide("pathological", labels, 4, 40, generator(seed), **rule)
        assert [set(labels[each].tolist()) for each in held] == [{0}, {0}, {1}, {1}]
        assert all(12 <= len(held[first]) < 50 for first in (0, 2))
        assert [len(held[0]) + len(held[1]), len(held[2]) + len(held[3])] == [100, 100]
        assert held[0].tolist() == list(range(len(held[0])))  # in the order in which they are stored
    # Ten classes, two for each of ten clients: blocks of two share two classes. With five of one each, five have none.
    labels = np.repeat(np.arange(10), 6000)
    held = divide("pathological", labels, 10, 40, quantity="pfllib")
    assert [sorted(set(labels[each].tolist())) for each in held[:4]] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert max(map(len, held)) > 3 * min(map(len, held))
    few = divide("pathological", labels, 5, 40, **rule)
    assert sorted(set(labels[np.concatenate(few)].tolist())) == [0, 1, 2, 3, 4]


class Shares:
    """A generator whose Dirichlet draws are given, and which leaves the order of samples as it is."""

    def __init__(self, *shares: list[float]) -> None:
        self._shares = iter(shares)

    def dirichlet(self, alpha: object) -> np.ndarray:
        return np.array(next(self._shares))

    def permutation(self, members: np.ndarray) -> np.ndarray:
        return members

    def random(self, count: int) -> np.ndarray:
        return np.zeros(count)

    def multinomial(self, counts: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """What is expected. All numbers in these tests are whole."""
        return np.rint(counts[:, None] * shares).astype(np.int64)


EXTENDED, INNER, EQUAL = "extended_dirichlet", "inner_dirichlet", {"quantity": "equal"}
BY_HAND: list[tuple[str, list[int], int, dict[str, Any], list[list[float]], list[list[int]], str]] = [
    ("dirichlet", [10, 10], 1, {"cap": True}, [[1, 0], [0.7, 0.3]], [[10, 0], [0, 10]],
     "The first class goes to client 0 whole, which is its fair share."),
    ("dirichlet", [10, 10], 1, {"cap": False}, [[1, 0], [0.7, 0.3]], [[10, 7], [0, 3]],
     "Without the cap, it gets its drawn share of the second."),
    (EXTENDED, [12, 8], 1, {"cap": True}, [[1, 0], [0.5, 0.5]], [[11, 1], [1, 7]],
     "A fair share of ten, which client 0 has: it gets only what it must."),
    (EXTENDED, [12, 8], 1, {"cap": False}, [[1, 0], [0.5, 0.5]], [[11, 4], [1, 4]], "The same without the cap."),
    (EXTENDED, [20, 20], 10, {"cap": False}, [[1, 0], [0.75, 0.25]], [[15, 15], [5, 5]],
     "At least ten samples of two classes are at least five of each."),
    (EXTENDED, [20, 4, 4], 1, {}, [[1, 0], [1], [1]], [[19, 4, 0], [1, 0, 4]],
     "Client 0 has its fair share of 14, and is the only owner of the second class."),
    (INNER, [10, 10], 1, EQUAL, [[1, 0], [0.5, 0.5]], [[10, 0], [0, 10]],
     "Client 0 asks for ten of the first class, and client 1 for five of each. It comes too late, and draws again."),
    (INNER, [4, 8, 4], 1, EQUAL, [[1, 0, 0], [1, 0, 0]], [[4, 3, 1], [0, 5, 3]],
     "Both want the first class. Client 0 lacks 4 of the other 12, and client 1 lacks 8: two thirds of the second."),
]  # fmt: skip


def test_dirichlet_rules_with_given_draws_by_hand() -> None:
    for rule, sizes, least, config, draws, held, why in BY_HAND:
        labels = np.repeat(np.arange(len(sizes)), sizes)
        assert counts_of(labels, divide(rule, labels, 2, least, Shares(*draws), **config)).tolist() == held, (
            why
        )


@given(st.integers(50, 500), st.integers(1, 10), st.floats(0, 1), seeds)
def test_log_normal_sizes_are_in_proportion_to_the_exponentials_of_normal_draws(
    samples: int, clients: int, sigma: float, seed: int
) -> None:
    held = divide(
        "iid", np.zeros(samples, int), clients, 1, generator(seed), quantity="lognormal", sigma=sigma
    )
    drawn = [float(np.exp(sigma * z)) for z in generator(seed).standard_normal(clients)]
    exact = [samples * each / sum(drawn) for each in drawn]
    assume(min(exact) >= 1)
    assert all(abs(len(one) - size) < 1 for one, size in zip(held, exact, strict=True))


def test_log_normal_sizes_have_the_deviation_and_the_minimum() -> None:
    """2,000 sizes of about 100: the estimate is within 5 · 0.3 / √4,000 = 0.024, and rounding adds less than 0.005."""
    held = divide("iid", balanced(10, 20_000), 2000, quantity="lognormal", sigma=0.3)
    assert abs(np.log([len(each) for each in held]).std() - 0.3) < 0.03
    labels, rule = balanced(10, 100), {"quantity": "lognormal", "sigma": 3.0}
    for name in ("iid", INNER):
        sizes = [len(held) for held in divide(name, labels, 10, 20, alpha=0.1, **rule)]
        assert min(sizes) == 20 and sum(sizes) == 1000
    counts = counts_of(labels, divide("pathological", labels, 10, 20, **rule))
    assert counts[counts > 0].min() == 10 and counts.sum(axis=0).tolist() == [100] * 10


@given(labelled(), st.integers(1, 20), st.integers(1, 5), seeds)
def test_shards_are_stretches_of_the_sorted_samples(set_: Any, clients: int, each: int, seed: int) -> None:
    """In other words: sort, cut, and deal."""
    labels, _ = set_
    assume(clients * each <= len(labels))
    held = divide("shards", labels, clients, stream=generator(seed), shards_per_client=each)
    stream = generator(seed)
    by_class = sorted(stream.permutation(len(labels)).tolist(), key=lambda sample: labels[sample])
    shards = np.array_split(by_class, clients * each)
    owners = stream.permutation([client for client in range(clients) for _ in range(each)]).tolist()
    for client in range(clients):
        mine = [shard for shard, owner in zip(shards, owners, strict=True) if owner == client]
        assert len(mine) == each
        assert held[client].tolist() == sorted(np.concatenate(mine).tolist())


# Whole numbers in proportion to weights


def test_apportioned_counts_by_hand() -> None:
    """7 · (0.5, 0.3, 0.2) = 3.5, 2.1, 1.4: .5 is the largest remainder. The earlier entry wins a tie. With a minimum of
    1, 6 · (0.8, 0.1, 0.1) rounds to 5, 1, 0, and the first gives one.
    """
    assert apportion(7, [5, 3, 2]).tolist() == [4, 2, 1]
    assert apportion(5, [1, 1]).tolist() == [3, 2]
    assert apportion(6, [8, 1, 1], minimum=1).tolist() == [4, 1, 1]
    with pytest.raises(ValueError, match="2 cannot give each its minimum, 3 in all"):
        apportion(2, [1, 1, 1], minimum=1)


WEIGHTS = st.lists(st.floats(0.01, 100), min_size=1, max_size=20)


@given(WEIGHTS, st.integers(0, 5), st.integers(0, 10_000))
def test_counts_add_up_within_one_of_the_exact_shares_and_not_below_the_minimum(
    weights: list[float], minimum: int, more: int
) -> None:
    total = minimum * len(weights) + more
    free, least = apportion(total, weights), apportion(total, weights, minimum)
    assert free.sum() == least.sum() == total and least.min() >= minimum
    assert np.abs(free - total * np.array(weights) / sum(weights)).max() < 1 + 1e-9


# Users


def test_small_users_are_joined_with_the_next_small_ones() -> None:
    """Users 1, 2, and 4 have fewer than 5: 1 and 2 reach 5 together, and 4 is left over and joins them."""
    assert partition.groups_of_users([7, 2, 3, 9, 4], 5) == [[0], [1, 2, 4], [3]]
    assert partition.groups_of_users([7, 2], 5) == [[0, 1]]
    assert partition.groups_of_users([2, 2], 5) == []


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 20))
def test_groups_hold_every_user_once_and_enough_samples(sizes: list[int], least: int) -> None:
    groups = partition.groups_of_users(sizes, least)
    members = [user for group in groups for user in group]
    assert len(members) == len(set(members))
    assert all(sum(sizes[user] for user in group) >= least for group in groups)
    if sum(sizes) >= least:
        assert sorted(members) == list(range(len(sizes)))


def test_each_client_holds_one_user_drawn_from_those_that_there_are() -> None:
    held = partition.natural(np.array([0, 1, 0, 1, 2, 2, 0]), 3, 2, generator())
    assert [each.tolist() for each in held] == [[0, 2, 6], [1, 3], [4, 5]]
    user = np.repeat(np.arange(20), 3)
    pairs = [partition.natural(user, 2, 3, generator(seed)) for seed in range(20)]
    assert all(len(set(user[each])) == 1 for pair in pairs for each in pair)
    assert len({tuple(each.tolist()) for pair in pairs for each in pair}) > 10
    with pytest.raises(DataError, match="Use `clients=3`"):
        partition.natural(np.array([0, 0, 1, 1, 2, 2]), 4, 2, generator())


# The parts of a client


def split(labels: Labels, shares: str, seed: int = 0) -> tuple[Labels, ...]:
    indices = np.arange(len(labels)) + 1000  # positions and indices must not be mistaken for each other
    return stratified(indices, labels, split_shares(shares), 3, generator(seed))


@given(labelled(min_per_class=10), st.sampled_from(["8:1:1", "75:25", "1:1:1", "1:9"]), seeds)
@example((np.repeat([0, 1, 2, 3], [10, 59, 15, 33]), 4), "8:1:1", 1)
def test_parts_cover_everything_once_with_their_shares_within_the_bound(
    set_: Any, shares: str, seed: int
) -> None:
    """The bound of each class: see `stratified`."""
    labels, classes = set_
    parts = split(labels, shares, seed)
    assert np.sort(np.concatenate(parts)).tolist() == [*range(1000, 1000 + len(labels))]
    assert all(len(part) for part in parts) and set(labels[parts[0] - 1000]) == set(labels)
    assert [part.tolist() for part in parts] == [part.tolist() for part in split(labels, shares, seed)]
    held, others = np.bincount(labels, minlength=classes), len(labels) - classes
    weight = (held - 1) / others
    for number, (part, share) in enumerate(zip(parts, split_shares(shares), strict=True)):
        if shares in ("1:1:1", "1:9"):
            continue  # the first of each class may be more than the share of training
        assert abs(len(part) - share * len(labels)) <= 1
        per_class = np.bincount(labels[part - 1000], minlength=classes)
        stretch = 1 + (len(parts) - 2) * (len(part) - classes * (number == 0)) / others
        firsts = np.abs(weight * classes - 1) * (1 - share if number == 0 else share)
        assert (np.abs(per_class - share * held) <= stretch + weight + firsts + 1e-9).all()


def test_parts_by_hand() -> None:
    """A class of one sample is trained on. The single test sample is not always of the same class."""
    assert [len(part) for part in split(np.repeat([0, 1], 50), "8:1:1")] == [80, 10, 10]
    assert [len(part) for part in split(np.array([5, 5, 5]), "8:1:1")] == [1, 1, 1]
    assert all(1020 in split(np.array([0] * 20 + [1]), "1:1:1", seed)[0] for seed in range(20))
    labels = np.repeat([0, 1, 2], 4)
    assert {int(labels[split(labels, "8:1:1", seed)[2][0] - 1000]) for seed in range(40)} == {0, 1, 2}
    for few, classes in (([0, 0], 1), ([0, 1, 2, 3], 4)):
        with pytest.raises(
            DataError, match=f"client 3 holds {len(few)} samples of {classes} classes, too few for 3 parts"
        ):
            split(np.array(few), "8:1:1")


# A file of indices

GOOD = [{"train": [4, 0, 1], "eval": [2], "test": [8, 9]}, {"train": [3, 5], "test": [8, 9]}]


def of_file(folder: Path, content: object) -> FederatedData:
    """Two clients of ten images of labels 0, 1, 0, 1, … The last two are the data set's own test images."""
    path = folder / "mine.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    pixels = np.arange(10, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 1), dtype=np.uint8)
    labels = np.arange(10) % 2
    images = joined((pixels[:8], labels[:8]), (pixels[8:], labels[8:]), ("even", "odd"))
    config = DataConfig(partition="indices", indices=str(path))
    return FederatedData.build(config, 2, 0, images, torch.device("cpu"))


def test_every_client_holds_what_the_file_says(tmp_path: Path) -> None:
    data = of_file(tmp_path, GOOD)
    first, second = data.clients
    assert [part.tolist() for part in (first.train, first.eval, first.test)] == [[4, 0, 1], [2], [8, 9]]
    assert [part.tolist() for part in (second.train, second.eval, second.test)] == [[3, 5], [], [8, 9]]
    assert (first.classes, first.class_counts) == ((0, 1), (2, 1))
    assert (second.classes, second.class_counts) == ((1,), (2,))
    assert first.test is second.test
    assert of_file(tmp_path, GOOD).fingerprint == data.fingerprint
    assert of_file(tmp_path, [GOOD[0] | {"train": [0, 4, 1]}, GOOD[1]]).fingerprint != data.fingerprint


def changed(**parts: Any) -> list[dict[str, Any]]:
    return [GOOD[0], GOOD[1] | parts]


BAD: list[tuple[Any, str]] = [
    (changed(test=[3, 9]), "client 1: sample 3 is in both train and test"),
    (changed(eval=[5]), "client 1: sample 5 is in both train and eval"),
    (changed(eval=[8]), "client 1: sample 8 is in both eval and test"),
    (changed(train=[10]), "client 1, train: there is no sample 10; the data set has 0 to 9"),
    (changed(train=[-1]), "client 1, train: there is no sample -1"),
    (changed(train=[3, 3]), "client 1, train: sample 3 appears twice"),
    (changed(train=[]), "client 1: its train part is empty"),
    (changed(train=[True]), "client 1, train: must be a list of whole numbers"),
    (changed(train="all"), "client 1, train: must be a list of whole numbers"),
    (changed(tests=[1]), "client 1: must be"),
    ([GOOD[0], {"train": [1]}], "client 1: must be"),
    ([GOOD[0], [1, 2]], "client 1: must be"),
    (GOOD[:1], "has the indices of 1 clients, federation.clients is 2; use `clients=1`"),
    ({"0": GOOD[0]}, "must be a list"),
    ("[{", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
]


def test_a_bad_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content, why in BAD:
        with pytest.raises(DataError, match=why):
            of_file(tmp_path, content)
    with pytest.raises(DataError, match=r"cannot read the partition /nowhere/mine\.json"):
        partition.read_indices(Path("/nowhere/mine.json"), 2, 10)
    # Two lists, one object, and 2 + 1 + 2 values are refused before they are parsed.
    monkeypatch.setattr(partition, "MOST_INDICES", 5)
    with pytest.raises(
        DataError, match=r"mine\.json has more than 5 values\. Use fewer clients or samples\."
    ):
        of_file(tmp_path, [{"train": [0, 1], "test": [2]}])


def test_settings_that_do_not_go_with_a_file_are_refused() -> None:
    file = {"partition": "indices", "indices": "mine.json"}
    for data, why in (
        ({"partition": "indices"}, "belong together"),
        ({"indices": "mine.json"}, "belong together"),
        ({**file, "limit": 5}, "limit would give other images"),
        ({**file, "domains_per_client": 1}, "has no effect with indices"),
    ):
        with pytest.raises(ConfigError, match=why):
            federations.config(data=data)


# Domains: data sets made from others, and clients of one domain or some

STREAM = numpy_stream(0, "tests/domains")


def grey(*rows: list[int]) -> NDArray[np.uint8]:
    """One image [1, h, w, 1]."""
    return np.array(rows, dtype=np.uint8)[None, :, :, None]


def test_pictures_change_by_domain() -> None:
    assert image_sets.original(grey([1, 2], [3, 4]), STREAM)[0, 1, 0].tolist() == [3, 3, 3]
    assert image_sets.rotated(grey([1, 2], [3, 4]), STREAM)[0, :, :, 0].tolist() == [[2, 4], [1, 3]]
    assert image_sets.inverted(grey([0, 200]), STREAM)[0, 0, :, 2].tolist() == [255, 55]


@given(seeds)
def test_coloured_goes_from_a_dark_colour_to_a_light_one(seed: int) -> None:
    """Where the image is black the one, where it is white the other, grey between them; never the same twice."""
    images = np.repeat(grey([0, 255, 100]), 2, axis=0)
    made = image_sets.coloured(images, np.random.default_rng(seed)).astype(int)
    dark, light, between = made[:, 0, 0], made[:, 0, 1], made[:, 0, 2]
    assert (dark < 128).all() and (light >= 128).all()
    assert (np.abs(between - (dark + (light - dark) * 100 / 255)) <= 0.5).all()
    assert made[0].tolist() != made[1].tolist()


def test_blurred_keeps_what_is_even_and_spreads_a_point_by_binomial_weights() -> None:
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


def test_every_image_lies_in_one_domain_and_classes_and_parts_are_dealt_out_equally() -> None:
    """40 images of a class over five domains are eight each, and 20 for the test four."""
    made, again = (image_sets.in_domains(coded(), "coded") for _ in range(2))
    assert made.domains == ("original", "rotated", "inverted", "coloured", "blurred")
    assert made.fingerprint == again.fingerprint and made.domain is not None
    of = {name: np.flatnonzero(made.domain == number) for number, name in enumerate(made.domains)}
    assert made.images[of["original"], 0, 0, 0].tolist() == of["original"].tolist()
    assert made.images[of["inverted"], 0, 0, 0].tolist() == (255 - of["inverted"]).tolist()
    for label in range(3):
        for part, each in ((slice(None, 120), 8), (slice(120, None), 4)):
            assert np.bincount(made.domain[part][made.labels[part] == label]).tolist() == [each] * 5
    entry, digits = datasets.get("digits_domains"), datasets.load("digits_domains", Path("unused"))
    assert digits.images.shape == (1797, *entry.spec.shape[1:], entry.spec.shape[0])
    assert (digits.test_from, len(digits) - digits.test_from) == (entry.train_samples, entry.test_samples)


def test_clothes_in_domains_come_from_the_files_of_fashion_mnist(tmp_path: Path) -> None:
    own, base = datasets.get("fashion_mnist_domains"), datasets.get("fashion_mnist")
    assert own.files(tmp_path) == base.files(tmp_path) != []
    assert own.is_present(tmp_path) == base.is_present(tmp_path)


def in_two(count: int = 120) -> ImageSet:
    """Twice as many photographs as drawings, four classes in each."""
    images = np.zeros((count, 2, 2, 1), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(count)
    plain = joined((images, np.arange(count) // 3 % 4), None, ("a", "b", "c", "d"))
    return replace(plain, domains=("photo", "drawing"), domain=(np.arange(count) % 3 == 2).astype(np.int64))


def domains_held(images: ImageSet, clients: int, **config: Any) -> list[set[int]]:
    """The domains of every client's images."""
    assert images.domain is not None
    parts = divided(DataConfig(**config), clients, 0, images)
    return [set(images.domain[np.concatenate(client)].tolist()) for client in parts]


def test_clients_have_samples_of_as_many_domains_as_configured() -> None:
    """By equal shares, two clients share 80 photographs, and two 40 drawings."""
    quantities = [{}, {"partition": "iid", "quantity": "lognormal"}]
    for rule in [*quantities, *({"partition": rule} for rule in get_args(Dividing))]:
        domains_of = domains_held(in_two(240), 6, domains_per_client=1, **rule)
        assert sorted(map(sorted, domains_of)) == [[0]] * 3 + [[1]] * 3, rule
    for rule in ("iid", "dirichlet", "inner_dirichlet"):
        assert domains_held(in_two(240), 4, domains_per_client=2, partition=rule) == [{0, 1}] * 4
    config = DataConfig(partition="iid", quantity="equal", domains_per_client=1, split="1:1")
    assert sorted(sum(map(len, parts)) for parts in divided(config, 4, 0, in_two())) == [20, 20, 40, 40]
    config = DataConfig(partition="dirichlet", alpha=0.05, min_samples=15, domains_per_client=2)
    assert min(sum(map(len, parts)) for parts in divided(config, 5, 0, in_two())) >= 15
    data = FederatedData.build(
        DataConfig(partition="iid", domains_per_client=1), 2, 0, in_two(), torch.device("cpu")
    )
    assert sorted(client["domains"] for client in data.summary()) == [["drawing"], ["photo"]]


@given(st.integers(1, 5), st.integers(1, 20), st.integers(1, 5), seeds)
def test_domains_are_held_by_as_equal_numbers_and_no_image_twice(
    kinds: int, clients: int, each: int, seed: int
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


def test_a_limit_takes_of_every_domain_in_proportion_and_domains_belong_to_the_fingerprint() -> None:
    images = in_two()
    few = images.take(drawn(images, 30, numpy_stream(0, "tests")))
    assert images.domain is not None and few.domain is not None
    assert np.bincount(few.domain).tolist() == [20, 10]
    assert ((few.images[:, 0, 0, 0] % 3 == 2) == few.domain).all()
    assert replace(images, domain=1 - images.domain).fingerprint != images.fingerprint
    assert replace(images, domains=("photo", "sketch")).fingerprint != images.fingerprint


def test_without_the_option_domains_do_not_matter() -> None:
    plain = replace(in_two(), domains=(), domain=None)
    for one, two in zip(
        divided(DataConfig(), 3, 0, in_two()), divided(DataConfig(), 3, 0, plain), strict=True
    ):
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_domains_that_cannot_be_dealt_are_a_configuration_error() -> None:
    refused: list[tuple[int, int, str]] = [
        (4, 3, r"data\.domains_per_client is 3, .* 2 domains \(photo, drawing\); use at most 2"),
        (1, 1, "1 clients of 1 domains each leave samples of photo, drawing without a client; .* 2 clients"),
    ]
    for clients, each, why in refused:
        with pytest.raises(ConfigError, match=why):
            divided(DataConfig(partition="iid", domains_per_client=each), clients, 0, in_two())
    with pytest.raises(ConfigError, match="data set 'digits' has no domains to deal out; use digits_domains"):
        divided(DataConfig(domains_per_client=1), 2, 0, coded())
    for rule, dealt in (("pathological", "classes"), ("extended_dirichlet", "classes"), ("shards", "shards")):
        with pytest.raises(ValueError, match=f"partition '{rule}' deals out {dealt} domain by domain"):
            DataConfig(partition=rule, domains_per_client=2)  # type: ignore[arg-type]
