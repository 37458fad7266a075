"""Who holds which image."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from simulator.base.errors import ConfigError, DataError
from simulator.data import partition
from tests.data.strategies import labelled, seeds

Labels = NDArray[np.int64]
quantities = st.sampled_from(["varied", "equal"])


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def balanced(classes: int, per_class: int) -> Labels:
    return np.arange(classes * per_class) % classes


def assert_disjoint_and_nobody_empty(holdings: Sequence[Labels]) -> None:
    together = np.concatenate(holdings)
    assert len(np.unique(together)) == len(together)
    assert all(len(held) for held in holdings)


def assert_same(first: Sequence[Labels], second: Sequence[Labels]) -> None:
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


class TestPathological:
    @given(labelled(min_per_class=30), st.integers(1, 30), st.data(), quantities, seeds)
    def test_each_client_holds_exactly_its_number_of_classes(
        self, set_, clients, data, quantity, seed
    ) -> None:
        labels, classes = set_
        each = data.draw(st.integers(1, classes))
        holdings = partition.pathological(labels, classes, clients, each, quantity, generator(seed))
        assert_disjoint_and_nobody_empty(holdings)
        assert [len(np.unique(labels[held])) for held in holdings] == [each] * clients

    @given(labelled(min_per_class=30), st.integers(1, 30), st.data(), seeds)
    def test_every_held_class_is_given_away_whole_and_owners_are_even(
        self, set_, clients, data, seed
    ) -> None:
        labels, classes = set_
        each = data.draw(st.integers(1, classes))
        holdings = partition.pathological(labels, classes, clients, each, "varied", generator(seed))
        owners = np.bincount(
            np.concatenate([np.unique(labels[held]) for held in holdings]), minlength=classes
        )
        assert owners.max() - owners.min() <= 1
        given_away = np.bincount(labels[np.concatenate(holdings)], minlength=classes)
        np.testing.assert_array_equal(
            given_away, np.where(owners > 0, np.bincount(labels, minlength=classes), 0)
        )

    @given(seeds)
    def test_the_same_generator_state_gives_the_same_partition(self, seed: int) -> None:
        labels = balanced(10, 50)
        first, second = (
            partition.pathological(labels, 10, 10, 2, "varied", generator(seed)) for _ in range(2)
        )
        assert_same(first, second)

    def test_different_seeds_give_different_partitions(self) -> None:
        labels = balanced(10, 50)
        first, second = (partition.pathological(labels, 10, 10, 2, "varied", generator(s)) for s in (1, 2))
        assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))

    def test_equal_shares_differ_by_at_most_one_image(self) -> None:
        # 10 clients × 2 classes over 10 classes: two owners for each class of 101 images, 50 and 51
        labels = balanced(10, 101)
        holdings = partition.pathological(labels, 10, 10, 2, "equal", generator())
        counts = {int(n) for held in holdings for n in np.unique(labels[held], return_counts=True)[1]}
        assert counts == {50, 51}

    def test_varied_shares_of_two_owners_lie_between_two_fifths_and_three_fifths(self) -> None:
        # U(0.4, 0.6) normalized over two owners: at least 0.4 / (0.4 + 0.6) of the class
        labels = balanced(10, 1000)
        holdings = partition.pathological(labels, 10, 10, 2, "varied", generator())
        counts = np.array([np.unique(labels[held], return_counts=True)[1] for held in holdings])
        assert counts.min() >= 399
        assert counts.max() <= 601
        assert len(np.unique(counts)) > 10

    def test_more_classes_per_client_than_classes_is_a_configuration_error(self) -> None:
        with pytest.raises(
            ConfigError, match=r"data\.classes_per_client is 12, but the data set has 10 classes"
        ):
            partition.pathological(balanced(10, 5), 10, 3, 12, "equal", generator())

    def test_a_class_with_fewer_images_than_owners_is_refused_with_the_numbers(self) -> None:
        with pytest.raises(DataError, match="class 0 has 4 samples for the 5 clients"):
            partition.pathological(balanced(2, 4), 2, 5, 2, "equal", generator())


class TestDirichlet:
    @given(labelled(), st.integers(1, 20), st.floats(0.01, 100), st.integers(1, 5), seeds)
    def test_every_image_has_one_owner_and_everyone_the_minimum(
        self, set_, clients, alpha, least, seed
    ) -> None:
        labels, classes = set_
        assume(clients * least <= len(labels))
        holdings = partition.dirichlet(labels, classes, clients, alpha, least, generator(seed))
        np.testing.assert_array_equal(np.sort(np.concatenate(holdings)), np.arange(len(labels)))
        assert min(map(len, holdings)) >= least
        again = partition.dirichlet(labels, classes, clients, alpha, least, generator(seed))
        assert_same(holdings, again)

    def test_a_hundred_clients_at_a_tiny_alpha_are_served(self, subtests: pytest.Subtests) -> None:
        for case, alpha in enumerate([1e-2, 1e-5, 1e-300]):
            with subtests.test(case=case):
                labels = balanced(10, 6000)
                holdings = partition.dirichlet(labels, 10, 100, alpha, 10, generator())
                assert_disjoint_and_nobody_empty(holdings)
                assert min(map(len, holdings)) >= 10
                assert sum(map(len, holdings)) == 60_000

    def test_a_minimum_that_takes_every_image_is_reached(self) -> None:
        holdings = partition.dirichlet(balanced(5, 20), 5, 10, 0.1, 10, generator())
        assert [len(held) for held in holdings] == [10] * 10

    def test_an_impossible_minimum_is_refused_with_the_numbers(self) -> None:
        with pytest.raises(
            DataError, match="11 clients with at least 10 samples each need 110 samples, and there are 100"
        ):
            partition.dirichlet(balanced(5, 20), 5, 11, 0.1, 10, generator())

    def test_a_small_alpha_leaves_clients_with_fewer_classes_than_a_large_one(self) -> None:
        labels = balanced(10, 500)

        def mean_classes(alpha: float) -> float:
            holdings = partition.dirichlet(labels, 10, 10, alpha, 10, generator())
            return float(np.mean([len(np.unique(labels[held])) for held in holdings]))

        assert mean_classes(0.1) < 7 < mean_classes(100) == 10

    def test_nobody_takes_more_classes_once_above_the_fair_share(self) -> None:
        # at α → 0 one client takes a whole class of 100; its fair share is 50, so ten clients take one class each
        labels = balanced(10, 100)
        holdings = partition.dirichlet(labels, 10, 20, 1e-6, 1, generator())
        large = [held for held in holdings if len(held) > 50]
        assert len(large) == 10
        assert all(len(np.unique(labels[held])) == 1 for held in large)


class TestIid:
    @given(st.integers(1, 500), st.integers(1, 30), quantities, seeds)
    def test_every_image_has_one_owner_and_nobody_is_empty(self, images, clients, quantity, seed) -> None:
        assume(clients <= images)
        labels = np.zeros(images, dtype=np.int64)
        holdings = partition.iid(labels, clients, quantity, generator(seed))
        np.testing.assert_array_equal(np.sort(np.concatenate(holdings)), np.arange(images))
        assert all(len(held) for held in holdings)
        assert_same(holdings, partition.iid(labels, clients, quantity, generator(seed)))

    def test_equal_shares_are_equal_and_varied_ones_are_not(self) -> None:
        labels = balanced(10, 100)
        equal = [len(held) for held in partition.iid(labels, 8, "equal", generator())]
        varied = [len(held) for held in partition.iid(labels, 8, "varied", generator())]
        assert equal == [125] * 8
        assert len(set(varied)) > 4
        # U(0.4, 0.6) normalized over eight: between 0.4 / (0.4 + 7 · 0.6) and 0.6 / (0.6 + 7 · 0.4) of 1000
        assert min(varied) >= 86
        assert max(varied) <= 177

    def test_fewer_images_than_clients_are_refused(self) -> None:
        with pytest.raises(DataError, match="3 samples are too few for 4 clients"):
            partition.iid(np.zeros(3, dtype=np.int64), 4, "equal", generator())


def test_pfllibs_rule_by_hand() -> None:
    """Two classes of 100, four clients of one class each: two owners a class, an equal share m = 50, least = min(40,
    200/4/2) = 25, and bounds max(50/10, 25/2) = 12 and 50: the first owner has 12 to 49 images, the second the rest."""
    labels = np.repeat([0, 1], 100)
    for seed in range(20):
        held = partition.pathological_as_pfllib(labels, 2, 4, 1, 40, np.random.default_rng(seed))
        assert [set(labels[each].tolist()) for each in held] == [{0}, {0}, {1}, {1}]
        assert all(12 <= len(held[first]) < 50 for first in (0, 2))
        assert [len(held[0]) + len(held[1]), len(held[2]) + len(held[3])] == [100, 100]
        assert held[0].tolist() == list(range(len(held[0])))  # in the order in which they are stored


def test_pfllibs_rule_spreads_sizes_far_and_leaves_classes_out() -> None:
    """Ten classes, two for each of ten clients: blocks of two clients share two classes, and sizes spread more than
    three times. With five clients of one class each, five of ten classes have an owner."""
    labels = np.repeat(np.arange(10), 6000)
    held = partition.pathological_as_pfllib(labels, 10, 10, 2, 40, np.random.default_rng(0))
    assert [sorted(set(labels[each].tolist())) for each in held[:4]] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    sizes = [len(each) for each in held]
    assert max(sizes) > 3 * min(sizes)
    few = partition.pathological_as_pfllib(labels, 10, 5, 1, 40, np.random.default_rng(0))
    assert sorted(set(labels[np.concatenate(few)].tolist())) == [0, 1, 2, 3, 4]


def test_pfllibs_rule_says_when_there_are_too_few_images() -> None:
    with pytest.raises(DataError, match="class 0 has 3 samples for 4 clients"):
        partition.pathological_as_pfllib(np.repeat([0, 1], 3), 2, 4, 2, 1, np.random.default_rng(0))


class Shares:
    """A generator whose Dirichlet draws are given, and which leaves the order of images as it is."""

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


@pytest.mark.parametrize(("cap", "second"), [(True, [0, 10]), (False, [7, 3])])
def test_without_the_cap_a_client_with_its_fair_share_goes_on_taking(cap: bool, second: list[int]) -> None:
    """Twenty images, two clients: the first class goes to client 0 whole, which is its fair share; of the second class
    shares of 0.7 and 0.3 were drawn."""
    labels = np.repeat([0, 1], 10)
    held = partition.dirichlet(labels, 2, 2, 0.5, 1, Shares([1.0, 0.0], [0.7, 0.3]), cap)
    assert [int((labels[each] == 1).sum()) for each in held] == second


def counts_of(labels: Labels, holdings: Sequence[Labels]) -> list[list[int]]:
    classes = int(labels.max()) + 1
    return [np.bincount(labels[held], minlength=classes).tolist() for held in holdings]


class TestExtendedDirichlet:
    @given(labelled(min_per_class=30), st.integers(1, 30), st.data(), st.floats(1e-3, 100), seeds)
    def test_each_client_holds_exactly_its_classes_and_the_minimum(
        self, set_, clients, data, alpha, seed
    ) -> None:
        labels, classes = set_
        each, cap = data.draw(st.integers(1, classes)), data.draw(st.booleans())
        divide = partition.extended_dirichlet
        # a class has at most 30 owners, and 30 samples or more: one for each owner
        holdings = divide(labels, classes, clients, each, alpha, each, generator(seed), cap)
        assert_disjoint_and_nobody_empty(holdings)
        assert [len(np.unique(labels[held])) for held in holdings] == [each] * clients
        assert_same(holdings, divide(labels, classes, clients, each, alpha, each, generator(seed), cap))

    @given(labelled(min_per_class=30), st.integers(1, 30), st.data(), seeds)
    def test_owners_are_even_and_an_owned_class_is_given_away_whole(self, set_, clients, data, seed) -> None:
        labels, classes = set_
        each = data.draw(st.integers(1, classes))
        held = partition.extended_dirichlet(labels, classes, clients, each, 0.5, 1, generator(seed))
        counts = np.array([np.bincount(labels[one], minlength=classes) for one in held])
        owners = (counts > 0).sum(axis=0)
        assert owners.max() - owners.min() <= 1
        every = np.bincount(labels, minlength=classes)
        np.testing.assert_array_equal(counts.sum(axis=0), np.where(owners > 0, every, 0))

    @pytest.mark.parametrize(("cap", "second"), [(True, [1, 7]), (False, [4, 4])])
    def test_an_owner_with_its_fair_share_gets_only_what_it_must(self, cap: bool, second: list[int]) -> None:
        """Twelve samples of one class and eight of another, two clients, a fair share of ten. All of the first class
        but one goes to client 0. Of the second, half was drawn for each."""
        labels = np.repeat([0, 1], [12, 8])
        drawn = Shares([1.0, 0.0], [0.5, 0.5])
        held = partition.extended_dirichlet(labels, 2, 2, 2, 0.5, 1, drawn, cap)
        assert counts_of(labels, held) == [[11, second[0]], [1, second[1]]]

    def test_each_owner_has_its_part_of_the_minimum_of_each_class(self) -> None:
        """At least ten samples of two classes: at least five of each."""
        labels = np.repeat([0, 1], 20)
        drawn = Shares([1.0, 0.0], [0.75, 0.25])
        held = partition.extended_dirichlet(labels, 2, 2, 2, 0.5, 10, drawn, cap=False)
        assert counts_of(labels, held) == [[15, 15], [5, 5]]

    def test_a_class_whose_owners_all_have_their_fair_share_is_given_away_whole(self) -> None:
        """28 samples, two clients, a fair share of 14. Client 0 owns the first two classes and has 19 samples of the
        first. The second class is its alone."""
        labels = np.repeat([0, 1, 2], [20, 4, 4])
        drawn = Shares([1.0, 0.0], [1.0], [1.0])
        held = partition.extended_dirichlet(labels, 3, 2, 2, 0.5, 1, drawn)
        assert counts_of(labels, held) == [[19, 4, 0], [1, 0, 4]]

    def test_a_minimum_that_a_class_cannot_give_is_refused_with_the_numbers(self) -> None:
        with pytest.raises(
            DataError,
            match=r"class 0 has 20 samples for the 5 clients .* at least 5 each.* data\.min_samples",
        ):
            partition.extended_dirichlet(balanced(2, 20), 2, 5, 2, 0.5, 10, generator())

    def test_more_classes_per_client_than_classes_is_a_configuration_error(self) -> None:
        with pytest.raises(ConfigError, match=r"classes_per_client is 12, .* 10 classes; use at most 10"):
            partition.extended_dirichlet(balanced(10, 5), 10, 3, 12, 0.5, 1, generator())


class TestInnerDirichlet:
    @given(labelled(), st.integers(1, 20), st.floats(1e-3, 100), seeds)
    def test_every_sample_has_one_owner_and_sizes_are_equal(self, set_, clients, alpha, seed) -> None:
        labels, classes = set_
        assume(clients <= len(labels))
        held = partition.inner_dirichlet(labels, classes, clients, alpha, "equal", generator(seed))
        np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(len(labels)))
        assert max(map(len, held)) - min(map(len, held)) <= 1
        again = partition.inner_dirichlet(labels, classes, clients, alpha, "equal", generator(seed))
        assert_same(held, again)

    def test_a_client_that_comes_too_late_for_a_class_draws_from_the_others(self) -> None:
        """Ten samples of each of two classes. Client 0 draws ten of the first, client 1 five of each. The first ten
        that ask for the first class are client 0's, so client 1 draws its last five from the second."""
        labels = np.repeat([0, 1], 10)
        held = partition.inner_dirichlet(labels, 2, 2, 0.5, "equal", Shares([1.0, 0.0], [0.5, 0.5]))
        assert counts_of(labels, held) == [[10, 0], [0, 10]]

    def test_a_client_without_a_share_of_what_is_left_takes_in_proportion(self) -> None:
        """Both clients want only the first class, which has four samples. Client 1 gets what is left: of eight samples
        of the second class and four of the third."""
        labels = np.repeat([0, 1, 2], [4, 8, 4])
        held = partition.inner_dirichlet(labels, 3, 2, 0.5, "equal", Shares([1.0, 0, 0], [1.0, 0, 0]))
        # client 0 lacks 4 of 12 samples, client 1 lacks 8: two thirds of each are of the second class
        assert counts_of(labels, held) == [[4, 3, 1], [0, 5, 3]]

    @pytest.mark.parametrize("alpha", [1e-2, 1e-300])
    def test_a_tiny_alpha_gives_half_of_the_clients_almost_one_class(self, alpha: float) -> None:
        labels = balanced(10, 6000)
        held = partition.inner_dirichlet(labels, 10, 100, alpha, "equal", generator())
        counts = np.array(counts_of(labels, held))
        assert counts.sum(axis=1).tolist() == [600] * 100
        assert (
            np.median(counts.max(axis=1)) > 480
        )  # less than all: many want a class that has no samples left

    def test_a_large_alpha_gives_everybody_the_same_mix(self) -> None:
        labels = balanced(10, 6000)
        held = partition.inner_dirichlet(labels, 10, 10, 1e6, "equal", generator())
        # 6,000 draws of ten equal classes: 600 ± 5 standard deviations of √(6,000 · 0.1 · 0.9) = 23
        assert all(485 < count < 715 for counts in counts_of(labels, held) for count in counts)

    def test_fewer_samples_than_clients_are_refused(self) -> None:
        with pytest.raises(DataError, match="3 samples are too few for 4 clients"):
            partition.inner_dirichlet(np.zeros(3, dtype=np.int64), 1, 4, 0.5, "equal", generator())


class TestLogNormal:
    @given(st.integers(50, 500), st.integers(1, 10), st.floats(0, 1), seeds)
    def test_sizes_are_in_proportion_to_the_exponentials_of_normal_draws(
        self, samples, clients, sigma, seed
    ) -> None:
        labels = np.zeros(samples, dtype=np.int64)
        held = partition.iid(labels, clients, partition.LogNormal(sigma, 1), generator(seed))
        drawn = [float(np.exp(sigma * z)) for z in generator(seed).standard_normal(clients)]
        exact = [samples * each / sum(drawn) for each in drawn]
        assume(min(exact) >= 1)
        assert all(abs(len(one) - size) < 1 for one, size in zip(held, exact, strict=True))
        np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(samples))

    def test_without_a_deviation_sizes_are_equal(self) -> None:
        held = partition.iid(balanced(10, 10), 8, partition.LogNormal(0.0, 1), generator())
        assert sorted(map(len, held)) == [12] * 4 + [13] * 4

    def test_the_logarithms_of_many_sizes_have_the_deviation(self) -> None:
        # 2,000 sizes of about 100: the estimate is within 5 · 0.3 / √4,000 = 0.024, and rounding adds less than 0.005
        held = partition.iid(balanced(10, 20_000), 2000, partition.LogNormal(0.3, 1), generator())
        assert abs(np.log([len(each) for each in held]).std() - 0.3) < 0.03

    @pytest.mark.parametrize("sigma", [3.0, 10.0])
    def test_nobody_is_below_the_minimum(self, sigma: float) -> None:
        labels, sizes = balanced(10, 100), partition.LogNormal(sigma, 20)
        for held in (
            partition.iid(labels, 10, sizes, generator()),
            partition.inner_dirichlet(labels, 10, 10, 0.1, sizes, generator()),
        ):
            assert min(map(len, held)) == 20 and sum(map(len, held)) == 1000

    def test_the_pathological_partition_draws_sizes_class_by_class(self) -> None:
        labels = balanced(10, 100)
        held = partition.pathological(labels, 10, 10, 2, partition.LogNormal(2.0, 20), generator())
        counts = np.array(counts_of(labels, held))
        assert ((counts > 0).sum(axis=1) == 2).all() and counts[counts > 0].min() == 10
        assert counts.sum(axis=0).tolist() == [100] * 10

    def test_an_impossible_minimum_is_refused_with_the_numbers(self) -> None:
        with pytest.raises(DataError, match="at least 30 samples each need 120 samples, and there are 100"):
            partition.iid(balanced(5, 20), 4, partition.LogNormal(0.3, 30), generator())


class TestShards:
    @given(labelled(), st.integers(1, 20), st.integers(1, 5), seeds)
    def test_shards_are_stretches_of_the_sorted_samples(self, set_, clients, each, seed) -> None:
        labels, _ = set_
        assume(clients * each <= len(labels))
        held = partition.shards(labels, clients, each, generator(seed))
        np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(len(labels)))
        assert_same(held, partition.shards(labels, clients, each, generator(seed)))
        # The same, in other words: sort, cut, and deal.
        stream = generator(seed)
        by_class = sorted(stream.permutation(len(labels)).tolist(), key=lambda sample: labels[sample])
        shards = np.array_split(by_class, clients * each)
        owners = stream.permutation([client for client in range(clients) for _ in range(each)]).tolist()
        for client in range(clients):
            mine = [shard for shard, owner in zip(shards, owners, strict=True) if owner == client]
            assert len(mine) == each
            assert held[client].tolist() == sorted(np.concatenate(mine).tolist())

    def test_mcmahans_clients_of_two_shards_hold_at_most_two_digits(self) -> None:
        """200 shards of 30 of ten digits with 600 samples each: each shard has one digit."""
        labels = balanced(10, 600)
        held = partition.shards(labels, 100, 2, generator())
        assert [len(each) for each in held] == [60] * 100
        assert {len(np.unique(labels[each])) for each in held} == {1, 2}

    def test_fewer_samples_than_shards_are_refused_with_the_numbers(self) -> None:
        with pytest.raises(DataError, match="5 clients with 3 shards each need 15 samples, and there are 12"):
            partition.shards(balanced(3, 4), 5, 3, generator())
