"""What rounds cost and what a target took, by hand."""

from simulator.analysis.costs import Reached, costs, first_at, reached
from simulator.analysis.run import NOTHING
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
