"""Single clients and their answers by class, by hand."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.record import check_record
from simulator.base.sections import MANY
from simulator.results.analysis.classes import ClassCounts, class_counts, class_table, recalls
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
from tests.analysis.runs import record


def curves_of(*rounds: list[float | None]) -> Curves:
    """Each client's accuracy by round."""
    return Ledger.of([runs.record(number, 0.5, clients=each) for number, each in enumerate(rounds, 1)]).curves


def test_who_is_behind_and_who_fell_most_is_told_of_the_last_round() -> None:
    curves = curves_of([0.9, 0.4, None], [0.5, 0.3, None])
    assert accuracy_changes(curves) == pytest.approx([-0.4, -0.1, np.nan], nan_ok=True)
    assert np.isnan(accuracy_changes(curves.upto(1))).all()
    assert fell_most(curves) == (0, pytest.approx(-0.4))
    assert fell_most(curves.upto(1)) is None
    assert fell_most(curves_of([0.2, 0.3], [0.2, 0.4])) is None
    assert lowest_client(curves) == (1, 0.3)
    assert lowest_client(curves_of([0.4, 0.3, 0.3])) == (1, 0.3)  # the first of equals
    assert lowest_client(curves_of([None, None])) is None


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
    found = [change_over(rising[:rounds], 5) for rounds in (7, 3, 2, 1)]
    assert found[:2] == [(pytest.approx(0.6), 6), (pytest.approx(0.2), 2)]
    assert [distance for _, distance in found[2:]] == [0, 0]


def test_incidents_are_listed_by_round() -> None:
    # Client 4 diverges in round 5, client 3 takes no part in every fourth round.
    records = [sessions.record(round, 5) for round in range(1, 9)]
    records[1] |= {"dropped": [3]}
    assert incidents(records, 3) == Incidents(diverged=[], dropped=[2], absent=[4, 8])
    assert incidents(records, 4) == Incidents(diverged=[5], dropped=[], absent=[])
    assert incidents(records, 0) == Incidents([], [], [])


def test_a_round_says_of_every_client_what_became_of_it() -> None:
    record = sessions.record(5, 5) | {"dropped": [3]}
    found = results(record, "htm5")
    assert [each.model for each in found] == ["cnn1", "cnn2", "cnn3", "cnn4", "cnn5"]
    accuracy, loss = (record[what]["per_client"][0] for what in ("accuracy", "loss"))
    traffic = sessions.ADAPTER
    assert found[0] == ClientResult(0, "cnn1", accuracy, loss, traffic, traffic, True, False, False)
    assert found[3].dropped and found[4].diverged and found[4].loss is None
    assert results(record, "unknown")[0].model == "unknown"
    assert results(record, [])[0].model is None


@given(clients=st.integers(MANY + 1, 3000), data=st.data())
def test_of_more_they_show_a_thousand_those_that_took_part_first(clients: int, data: st.DataObject) -> None:
    took_part = data.draw(st.sets(st.integers(0, clients - 1), max_size=20))
    pinned = data.draw(st.sets(st.integers(0, clients - 1), max_size=3))
    shown = listed_clients(clients, took_part, pinned)
    assert shown == sorted(set(shown))
    assert MANY <= len(shown) <= MANY + len(pinned) and listed_clients(MANY, []) == list(range(MANY))
    assert took_part | pinned <= set(shown)


def test_a_list_keeps_whom_it_had_when_another_takes_part() -> None:
    before = set(listed_clients(2000, []))
    newcomer = next(client for client in range(2000) if client not in before)
    assert len(before - set(listed_clients(2000, [newcomer]))) == 1


def counted(round: int, per_client: Any) -> Any:
    """A record of four clients that counts classes on the test part."""
    figure = {"mean": 0.5, "weighted": 0.5, "per_client": {}}
    part = {"accuracy": figure, "loss": figure, "f1": figure, "classes": {"per_client": per_client}}
    return sessions.record(round, 4) | {"evaluation": {"test": part}}


FIRST = [[0, 4, 3, 3], [2, 6, 3, 7]]
"""Ten samples: of class 0 three of four are found, of class 2 three of six."""
LATER = [[0, 4, 4, 4], [1, 0, 0, 2], [2, 6, 4, 4]]
"""Two samples of class 2 are taken for class 1."""
RECORDS = [
    record(1, 0.5),  # of an early version
    counted(2, [FIRST, None, FIRST, FIRST]),
    counted(3, {"0": LATER, "3": None}),  # client 3 has left
    counted(4, {"2": LATER}),
]


def test_a_client_keeps_its_counts_in_rounds_without_new_ones_that_count_classes() -> None:
    now = {0: ClassCounts(4, 3, 3), 2: ClassCounts(6, 3, 7)}
    later = {0: ClassCounts(4, 4, 4), 1: ClassCounts(0, 0, 2), 2: ClassCounts(6, 4, 4)}
    again = [*RECORDS, record(5, 0.5), counted(6, {"1": FIRST})]
    for records, client, expected in (
        (RECORDS[:1], 0, None), (RECORDS[:2], 0, now), (RECORDS[:3], 2, now), (RECORDS, 0, later), (RECORDS, 2, later),
        (RECORDS, 1, None),  # never evaluated
        (RECORDS, 3, None),  # has left
        ([], 0, None), (again[:5], 0, None), (again, 0, None), (again, 1, now),
    ):  # fmt: skip
        assert class_counts(records, client) == expected
    assert class_counts(RECORDS, 0, "eval") is None and class_table(again[:5], 4, 3) is None


def test_recall_and_precision_are_shares_of_samples_and_of_answers() -> None:
    assert (ClassCounts(6, 3, 4).recall, ClassCounts(6, 3, 4).precision) == (0.5, 0.75)
    assert np.isnan(ClassCounts(0, 0, 4).recall)
    assert np.isnan(ClassCounts(6, 0, 0).precision)


def test_the_table_has_every_client_and_class_and_ignores_classes_that_the_data_lacks() -> None:
    table, narrow = class_table(RECORDS, 4, 3), class_table(RECORDS, 4, 2)
    assert table is not None and narrow is not None
    np.testing.assert_equal(table.recall, [[1, np.nan, 4 / 6], [np.nan] * 3] * 2)
    np.testing.assert_equal(table.precision[0], [1, 0, 1])
    assert table.over_clients() == [(8, 8, 8), (0, 0, 4), (12, 8, 8)]
    assert narrow.over_clients() == [(8, 8, 8), (0, 0, 4)]


def test_recalls_have_a_row_for_each_round() -> None:
    np.testing.assert_equal(
        recalls(RECORDS, 0, 3), [[np.nan] * 3, [0.75, np.nan, 0.5], [1, np.nan, 4 / 6], [1, np.nan, 4 / 6]]
    )
    np.testing.assert_equal(recalls(RECORDS, 3, 3)[1:, 0], [0.75, np.nan, np.nan])


def test_a_record_that_does_not_count_classes_or_counts_those_of_others_is_rejected() -> None:
    check_record(counted(1, [[[0, 2, 1, 1]], None, None, None]), 4)
    for rows, fault in (
        ([[0, 2, 1]], r"per_client\[0\]\[0\] "), ([[0, 2, 3, 3]], "does not count classes"),
        ([[0, 2, 2, 1]], "does not count classes"), ([[1, 2, 1, 1], [1, 2, 1, 1]], "does not count classes"),
        ([[0, 2, -1, 1]], "is -1, less than 0"), ([[0, 2.0, 1, 1]], "is not a whole number"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=fault):
            check_record(counted(1, [rows, None, None, None]), 4)
    for per_client, fault in (([None] * 3, "is of 3 clients, not 4"), ({"4": None}, "names a client")):
        with pytest.raises(ValueError, match=rf"evaluation\.test\.classes\.per_client {fault}"):
            check_record(counted(1, per_client), 4)


def test_a_record_whose_time_is_none_is_rejected() -> None:
    for at, is_rejected in (("2026-01-31T12:00:00Z", False), ("x", True)):
        made = counted(1, [None] * 4)
        made["timing"]["at"] = at
        with pytest.raises(ValueError, match=r"timing\.at") if is_rejected else nullcontext():
            check_record(made, 4)
