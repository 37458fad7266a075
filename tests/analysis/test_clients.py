"""Single clients, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.sections import MANY
from simulator.results.analysis.clients import (
    ClientResult,
    Incidents,
    accuracy_changes,
    best_round,
    change_over,
    falls,
    fell_most,
    incidents,
    listed_clients,
    lowest_client,
    results,
)
from simulator.results.analysis.ledger import Curves, Ledger
from tests import sessions
from tests.analysis import runs
from tests.analysis.rounds import ledger


def test_the_change_is_that_to_the_round_before() -> None:
    curves = ledger(0.2, 0.5, 0.4).curves
    assert accuracy_changes(curves) == pytest.approx([-0.1])
    assert accuracy_changes(curves.upto(2)) == pytest.approx([0.3])
    assert np.isnan(accuracy_changes(curves.upto(1))).all()


def curves_of(*rounds: list[float | None]) -> Curves:
    """Each client's accuracy by round."""
    return Ledger.of([runs.record(number, 0.5, clients=each) for number, each in enumerate(rounds, 1)]).curves


def test_who_is_behind_and_who_fell_most_is_told_of_the_last_round() -> None:
    curves = curves_of([0.9, 0.4, None], [0.5, 0.3, None])
    assert lowest_client(curves) == (1, 0.3)
    assert fell_most(curves) == (0, pytest.approx(-0.4))
    assert fell_most(curves.upto(1)) is None
    assert lowest_client(curves_of([None, None])) is None
    assert fell_most(curves_of([0.2, 0.3], [0.2, 0.4])) is None


def test_the_worst_client_has_the_lowest_accuracy_that_is_printed() -> None:
    # 45 % of 100 samples and 33.3 % of 3: the counts that are printed beside it say what it rests on
    assert lowest_client(curves_of([0.4, 0.45, 1 / 3, None])) == (2, pytest.approx(1 / 3))
    assert lowest_client(curves_of([0.4, 0.3, 0.3])) == (1, 0.3)  # the first of equals


def test_the_clearest_drop_is_the_most_significant_one_and_chance_is_none() -> None:
    # Errors of a difference: sqrt(2 · 0.625 · 0.375 / 24) = 0.140, and sqrt(2 · 0.725 · 0.275 / 100) = 0.063.
    curves = curves_of([18 / 24, 0.8, 2 / 3, 1.0], [12 / 24, 0.65, 1 / 3, 1.0])
    tested = np.array([24, 100, 3, 0])
    assert fell_most(curves) == (2, pytest.approx(-1 / 3))
    assert fell_most(curves, tested) == (1, pytest.approx(-0.15))  # −2.4 errors; client 0 has −1.8
    assert fell_most(curves, np.array([24, 24, 3, 0])) is None
    assert fell_most(curves.upto(1), tested) is None


def test_falls_of_more_than_twenty_points_are_told_by_round_the_largest_first() -> None:
    curves = curves_of(
        [0.9, 0.9, 0.9, None], [0.65, 0.5, 0.71, 0.1], [0.65, 0.5, 0.71, 0.1], [0.65, 0.2, 0.9, 0.1]
    )
    assert falls(curves) == [
        (2, [(1, pytest.approx(-0.4)), (0, pytest.approx(-0.25))]),
        (4, [(1, pytest.approx(-0.3))]),
    ]
    assert falls(curves.upto(1)) == []


def test_falls_that_rest_on_few_samples_do_not_count_and_before_round_one_there_are_none() -> None:
    curves = curves_of([0.9, 0.9], [0.5, 0.5])
    assert falls(curves, few=np.array([True, False])) == [(2, [(1, pytest.approx(-0.4))])]
    assert falls(Ledger.of([]).curves, few=np.array([True, False])) == []


def test_the_best_is_the_first_of_equals_and_leaves_gaps_out() -> None:
    assert best_round(np.array([0.1, np.nan, 0.7, 0.7])) == (0.7, 3)
    value, round = best_round(np.array([np.nan]))
    assert np.isnan(value) and round == 0


def test_a_change_is_since_so_many_rounds_before_or_since_the_nearest_known_one() -> None:
    """Of 7 rounds, 5 before the last is round 2: 0.7 − 0.2. With a gap there, it is round 1: 0.7 − 0.1."""
    rising = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    assert change_over(rising, 5) == (pytest.approx(0.5), 5)
    rising[1] = np.nan
    assert change_over(rising, 5) == (pytest.approx(0.6), 6)
    assert change_over(rising[:3], 5) == (pytest.approx(0.2), 2)
    assert change_over(rising[:1], 5)[1] == 0
    assert change_over(rising[:2], 5)[1] == 0


def test_incidents_are_listed_by_round() -> None:
    # Client 4 diverges in round 5, client 3 takes no part in every fourth round.
    records = [sessions.record(round, 5) for round in range(1, 9)]
    records[1] |= {"dropped": [3]}
    assert incidents(records, 3) == Incidents(diverged=(), dropped=(2,), absent=(4, 8))
    assert incidents(records, 4) == Incidents(diverged=(5,), dropped=(), absent=())
    assert incidents(records, 0) == Incidents((), (), ())


def test_a_round_says_of_every_client_what_became_of_it() -> None:
    record = sessions.record(5, 5) | {"dropped": [3]}
    found = results(record, "htm5")
    assert [each.model for each in found] == ["cnn1", "cnn2", "cnn3", "cnn4", "cnn5"]
    assert found[0] == ClientResult(
        client=0,
        model="cnn1",
        accuracy=record["accuracy"]["per_client"][0],
        loss=record["loss"]["per_client"][0],
        up=sessions.ADAPTER,
        down=sessions.ADAPTER,
        took_part=True,
        diverged=False,
        dropped=False,
    )
    assert found[3].dropped and found[4].diverged and found[4].loss is None
    assert results(record, "unknown")[0].model == "unknown"
    assert results(record, [])[0].model is None


def test_lists_show_everybody_up_to_a_thousand_clients() -> None:
    assert listed_clients(MANY, []) == list(range(MANY))


@given(clients=st.integers(MANY + 1, 3000), data=st.data())
def test_of_more_they_show_a_thousand_those_that_took_part_first(clients: int, data: st.DataObject) -> None:
    took_part = data.draw(st.sets(st.integers(0, clients - 1), max_size=20))
    pinned = data.draw(st.sets(st.integers(0, clients - 1), max_size=3))
    shown = listed_clients(clients, took_part, pinned)
    assert shown == sorted(set(shown))
    assert MANY <= len(shown) <= MANY + len(pinned)
    assert took_part | pinned <= set(shown)


def test_a_list_keeps_whom_it_had_when_another_takes_part() -> None:
    before = set(listed_clients(2000, []))
    newcomer = next(client for client in range(2000) if client not in before)
    assert len(before - set(listed_clients(2000, [newcomer]))) == 1
