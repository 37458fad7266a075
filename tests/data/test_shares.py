"""Whole numbers in proportion to weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.data.partition import apportion

weights = st.lists(st.floats(0.01, 100), min_size=1, max_size=20)


def test_the_largest_remainder_gets_the_last_one() -> None:
    # 7 · (0.5, 0.3, 0.2) = 3.5, 2.1, 1.4: floors add up to 6, and .5 is the largest remainder
    assert apportion(7, [5, 3, 2]).tolist() == [4, 2, 1]


def test_the_earlier_entry_wins_a_tie() -> None:
    assert apportion(5, [1, 1]).tolist() == [3, 2]


def test_a_minimum_is_taken_from_whoever_is_furthest_above_theirs() -> None:
    # 6 · (0.8, 0.1, 0.1) = 4.8, 0.6, 0.6 rounds to 5, 1, 0
    assert apportion(6, [8, 1, 1], minimum=1).tolist() == [4, 1, 1]


def test_minima_above_the_total_are_refused() -> None:
    with pytest.raises(ValueError, match="2 cannot give each its minimum, 3 in all"):
        apportion(2, [1, 1, 1], minimum=1)


@given(st.integers(0, 10_000), weights)
def test_counts_add_up_and_are_within_one_of_the_exact_shares(total: int, weights: list[float]) -> None:
    counts = apportion(total, weights)
    assert counts.sum() == total
    assert np.abs(counts - total * np.array(weights) / sum(weights)).max() < 1 + 1e-9


@given(weights, st.integers(0, 5), st.integers(0, 100))
def test_nobody_is_below_the_minimum(weights: list[float], minimum: int, more: int) -> None:
    counts = apportion(minimum * len(weights) + more, weights, minimum)
    assert counts.min() >= minimum
    assert counts.sum() == minimum * len(weights) + more
