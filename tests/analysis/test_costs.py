"""What rounds cost and what a target took, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.errors import ConfigError
from simulator.results.analysis.comparison import table
from simulator.results.analysis.costs import (
    COSTS,
    SIMULATED,
    Reached,
    comparable_costs,
    costs,
    elsewhere,
    nearest,
    reached,
)
from simulator.results.analysis.run import NOTHING, SessionData
from simulator.results.figures import accuracy, gains
from tests.analysis.rounds import ledger
from tests.analysis.runs import clocked, run


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


def counted(name: str, costs: str = "actual", schedule: str = "synchronous") -> SessionData:
    """A session on the clock of one round and 3 joules, which are counted by this rule."""
    made = clocked(name, [(10, 0.5)], method=name)
    made.config["system"] = {"costs": costs, "schedule": schedule}
    return made


OF_TODAY = [counted("a"), counted("b", schedule="buffered")]
OF_BEFORE = [counted("c", "planned"), counted("d", "planned", "buffered")]
"""Sessions of before count waiting in synchronous rounds, and not in buffered ones."""


@pytest.mark.parametrize(
    ("runs", "comparable"),
    [
        (OF_TODAY, True),
        ([OF_BEFORE[0], counted("e", "planned", "deadline")], True),
        (OF_BEFORE, False),
        ([OF_TODAY[0], OF_BEFORE[0]], False),
    ],
)
def test_joules_of_different_rules_are_never_drawn_on_one_axis(
    runs: list[SessionData], comparable: bool
) -> None:
    assert comparable_costs(runs) == (*COSTS, *SIMULATED[: 1 + comparable])
    shown = [plot.get_xlabel() for plot in gains.pareto(runs, by="method").axes if plot.get_visible()]
    assert (shown[-1] == "energy, J") == comparable
    if comparable:
        accuracy.over(runs, by="method", x="joules")
    else:
        with pytest.raises(ConfigError, match=r"Do not compare joules.*Choose another x axis"):
            accuracy.over(runs, by="method", x="joules")


def test_a_table_says_which_rows_count_joules_by_another_rule() -> None:
    rules = "as they happened (a); as planned, without waiting (d)"
    about = f"Do not compare joules. They are counted by different rules: {rules}."
    runs = [OF_TODAY[0], OF_BEFORE[1]]
    assert about in table(runs, "method", target=0.5).remarks()
    assert about in table(runs, "method", columns=["joules"]).remarks()
    assert about not in table(runs, "method").remarks()
    assert not any("joules" in each for each in table(OF_TODAY, "method", target=0.5).remarks())
    timeless = [*OF_BEFORE[:1], run("e", [0.5], method="e")]
    assert not any("joules" in each for each in table(timeless, "method", target=0.5).remarks())
