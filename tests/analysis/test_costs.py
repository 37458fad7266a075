"""What rounds cost and what a target took, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.results.analysis.costs import Reached, costs, elsewhere, first_at, nearest, reached
from simulator.results.analysis.run import NOTHING
from tests.analysis.rounds import ledger


def test_a_target_costs_what_all_rounds_up_to_it_cost() -> None:
    took = reached(ledger(0.2, 0.5, 0.6, 0.4).curves, 0.6)
    assert took == Reached(round=3, bytes=450.0, flops=21.0, seconds=6.0)


def test_a_target_is_reached_when_it_is_first_reached_exactly_or_passed() -> None:
    assert reached(ledger(0.2, 0.7, 0.5, 0.9).curves, 0.5) == Reached(2, 300.0, 14.0, 4.0)


def test_a_target_that_was_never_reached_has_no_cost() -> None:
    assert reached(ledger(0.2, 0.5).curves, 0.51) is None
    assert reached(NOTHING.curves, 0.0) is None


def test_rounds_without_an_evaluation_reach_nothing() -> None:
    curves = ledger(None, 0.3, None, 0.5).curves
    assert curves.evaluated.tolist() == [2, 4]
    assert first_at(curves.mean, 0.1) == 2


def test_costs_are_what_was_spent_since_round_1() -> None:
    curves = ledger(0.1, 0.2, 0.3).curves
    assert costs(curves, "rounds").tolist() == [1, 2, 3]
    assert costs(curves, "bytes").tolist() == [150, 300, 450]
    assert costs(curves, "FLOPs").tolist() == [7, 14, 21]
    assert costs(curves, "seconds").tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("place", "cost", "there"),
    [
        (("rounds", 2.0), "bytes", 300.0),
        (("bytes", 299.0), "rounds", 2.0),
        (("bytes", 375.0), "rounds", 2.0),  # as near to 450 as to 300
        (("bytes", 376.0), "seconds", 6.0),
        (("FLOPs", 1e9), "rounds", 3.0),
        (("rounds", 0.0), "FLOPs", 7.0),
        (("rounds", 12.0), "rounds", 12.0),  # another session may have more rounds
    ],
)
def test_a_place_is_on_another_axis_where_the_nearest_round_is(place, cost, there) -> None:  # type: ignore[no-untyped-def]
    assert elsewhere(ledger(0.1, 0.2, 0.3).curves, place, cost) == there


def test_before_the_first_round_a_place_is_nowhere_else() -> None:
    assert math.isnan(elsewhere(NOTHING.curves, ("bytes", 5.0), "rounds"))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).map(sorted), st.floats(-10, 60))
def test_the_nearest_has_none_nearer(places: list[int], at: float) -> None:
    found = nearest(np.array(places, float), at)
    assert abs(places[found] - at) == min(abs(place - at) for place in places)
