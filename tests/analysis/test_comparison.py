"""Comparing sessions: targets, standings, settings that differ."""

from pathlib import Path

import pytest

from simulator.results.analysis.comparison import common_round, common_target, differences, standing
from simulator.results.analysis.costs import Reached
from simulator.results.analysis.run import SessionData
from tests.analysis.rounds import ledger
from tui.common.formatting import until_target


def run_of(*means: float | None, **config: object) -> SessionData:
    return SessionData(Path("s"), config=config, ledger=ledger(*means))


def test_the_target_begins_at_the_multiple_of_five_per_cent_that_all_have_been_at() -> None:
    assert common_target([run_of(0.2, 0.62, 0.3), run_of(0.9)]) == 0.6
    assert common_target([run_of(0.65)]) == 0.65  # not 0.6, which 0.65 · 20 = 13.000…02 or 12.999…98 decides
    assert common_target([run_of(0.9), run_of(None)]) == 0.9  # of those that have an accuracy
    assert common_target([]) == 0.0


def test_the_common_round_is_the_last_that_all_have_evaluated() -> None:
    whole, short, gaps = run_of(0.1, 0.2, 0.3, 0.4), run_of(0.1, 0.2, 0.3), run_of(None, 0.2, None, 0.4)
    assert common_round([whole, short]) == 3
    assert common_round([whole, short, gaps]) == 2
    assert common_round([short, run_of(None, None, None)]) == 3  # a run without accuracy yet does not count
    assert common_round([run_of(0.1, None), run_of(None, 0.2)]) is None
    assert (standing(whole, 0.1, 3).best, standing(whole, 0.1, 3).last) == (0.3, 0.3)


def test_a_standing_has_the_best_the_last_measured_and_what_the_target_took() -> None:
    stands = standing(run_of(0.2, 0.6, 0.5, None), 0.5)
    assert (stands.best, stands.last) == (0.6, 0.5)
    assert stands.reached == Reached(round=2, bytes=300.0, flops=14.0, seconds=4.0)


def test_a_single_session_has_its_own_target_or_the_highest_that_it_reached() -> None:
    alone, wanted = standing(run_of(0.2, 0.62, 0.3)), standing(run_of(0.2, 0.62, until=0.9))
    assert alone.target == 0.6 and alone.reached == Reached(round=2, bytes=300.0, flops=14.0, seconds=4.0)
    assert (wanted.target, wanted.reached) == (0.9, None)
    assert (until_target(alone), until_target(wanted)) == (
        "60.0 % in round 2, after 300 B",
        "90.0 % not reached",
    )
    assert until_target(standing(run_of(None))) is None


@pytest.mark.parametrize("means", [(), (None,)])
def test_a_session_that_was_never_evaluated_has_no_accuracy(means: tuple[None, ...]) -> None:
    stands = standing(run_of(*means), 0.1)
    assert (stands.best, stands.last, stands.reached) == (None, None, None)


def test_only_settings_that_differ_are_listed_by_their_dotted_names() -> None:
    one = run_of(seed=1, training={"lr": 0.1, "epochs": 5}, data={"limit": None})
    other = run_of(seed=1, training={"lr": 0.2, "epochs": 5}, wire={"drop": [1]})
    assert differences([one, other]) == [("training.lr", (0.1, 0.2)), ("wire.drop", (None, [1]))]
    assert differences([one]) == differences([]) == []
