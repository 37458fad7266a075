"""Answers by class: by hand, and as a share of what a record says of the client."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.record import check_record
from simulator.metrics.evaluation import figures
from simulator.results.analysis.classes import ClassCounts, class_counts, class_table, recalls
from simulator.runners.evaluation import Answers
from tests import sessions
from tests.analysis.runs import record


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


def test_a_client_keeps_its_counts_in_rounds_without_new_ones() -> None:
    assert class_counts(RECORDS[:1], 0) is None
    assert class_counts(RECORDS[:2], 0) == {0: ClassCounts(4, 3, 3), 2: ClassCounts(6, 3, 7)}
    later = {0: ClassCounts(4, 4, 4), 1: ClassCounts(0, 0, 2), 2: ClassCounts(6, 4, 4)}
    assert class_counts(RECORDS, 0) == class_counts(RECORDS, 2) == later
    assert class_counts(RECORDS[:3], 2) == class_counts(RECORDS[:2], 2)


def test_nothing_is_known_of_a_client_that_was_never_evaluated_or_has_left_or_of_another_part() -> None:
    assert class_counts(RECORDS, 1) is None
    assert class_counts(RECORDS, 3) is None
    assert class_counts(RECORDS, 0, "eval") is None
    assert class_counts([], 0) is None


def test_counts_before_a_round_that_counts_no_classes_are_outdated() -> None:
    records = [*RECORDS, record(5, 0.5), counted(6, {"1": FIRST})]
    assert class_counts(records[:5], 0) is None
    assert class_counts(records, 0) is None
    assert class_counts(records, 1) is not None
    assert class_table(records[:5], 4, 3) is None


def test_recall_and_precision_are_shares_of_samples_and_of_answers() -> None:
    assert (ClassCounts(6, 3, 4).recall, ClassCounts(6, 3, 4).precision) == (0.5, 0.75)
    assert np.isnan(ClassCounts(0, 0, 4).recall)
    assert np.isnan(ClassCounts(6, 0, 0).precision)


def test_the_table_has_every_client_and_class_and_ignores_classes_that_the_data_lacks() -> None:
    table = class_table(RECORDS, 4, 3)
    assert table is not None
    np.testing.assert_equal(
        table.recall, [[1, np.nan, 4 / 6], [np.nan] * 3, [1, np.nan, 4 / 6], [np.nan] * 3]
    )
    np.testing.assert_equal(table.precision[0], [1, 0, 1])
    assert table.over_clients() == [(8, 8, 8), (0, 0, 4), (12, 8, 8)]
    narrow = class_table(RECORDS, 4, 2)
    assert narrow is not None
    assert narrow.over_clients() == [(8, 8, 8), (0, 0, 4)]


def test_recalls_have_a_row_for_each_round() -> None:
    np.testing.assert_equal(
        recalls(RECORDS, 0, 3), [[np.nan] * 3, [0.75, np.nan, 0.5], [1, np.nan, 4 / 6], [1, np.nan, 4 / 6]]
    )
    np.testing.assert_equal(recalls(RECORDS, 3, 3)[1:, 0], [0.75, np.nan, np.nan])


@st.composite
def answers(draw: st.DrawFn) -> Answers:
    """What a client of four classes answered: any label for any sample."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12))
    labels, chosen = ([pair[side] for pair in pairs] for side in (0, 1))
    hits = tuple(sum(pair == (label, label) for pair in pairs) for label in range(4))
    return Answers(hits, tuple(map(chosen.count, range(4))), tuple(map(labels.count, range(4))), 0.0)


ROUNDS = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 3), answers()), st.sets(st.integers(0, 3)), st.booleans()),
    min_size=1,
    max_size=5,
)
"""For each round: who is evaluated, who is absent, and whether the record has news alone."""


@given(ROUNDS)
def test_sums_over_classes_are_the_accuracies_of_the_record(rounds: Any) -> None:
    """Each client has the same samples throughout, as the weights of a record's means require."""
    records, full, before = list[Any](), list[Any](), None
    for number, (now, absent, news) in enumerate(rounds, 1):
        told = {
            client: {"test": each} for client, each in now.items() if client not in absent and each.samples
        }
        sizes = {"test": [1, 1, 1, 1]}
        both = [figures(told, sizes, before, short, absent, by_class=True) for short in (news, False)]
        before = both[1]
        records.append(record(number, 0.5, evaluation=both[0]))
        full.append(both[1]["test"])
        table = class_table(records, 4, 4)
        assert table is not None
        for client, accuracy in enumerate(full[-1]["accuracy"]["per_client"]):
            found = class_counts(records, client)
            if accuracy is None:
                assert found is None
                assert not table.samples[client].any()
                continue
            assert found is not None
            samples = sum(each.samples for each in found.values())
            assert sum(each.correct for each in found.values()) / samples == accuracy
            assert sum(each.answered for each in found.values()) == samples
            assert table.correct[client].sum() / table.samples[client].sum() == accuracy
            np.testing.assert_equal(recalls(records, client, 4)[-1], table.recall[client])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([[0, 2, 1]], r"per_client\[0\]\[0\] "),
        ([[0, 2, 3, 3]], "does not count classes"),
        ([[0, 2, 2, 1]], "does not count classes"),
        ([[1, 2, 1, 1], [1, 2, 1, 1]], "does not count classes"),
        ([[0, 2, -1, 1]], "is -1, less than 0"),
        ([[0, 2.0, 1, 1]], "is not a whole number"),
    ],
)
def test_a_record_that_does_not_count_classes_is_rejected(rows: Any, fault: str) -> None:
    check_record(counted(1, [[[0, 2, 1, 1]], None, None, None]), 4)
    with pytest.raises(ValueError, match=fault):
        check_record(counted(1, [rows, None, None, None]), 4)


def test_a_record_that_counts_classes_of_other_clients_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"evaluation\.test\.classes\.per_client is of 3 clients, not 4"):
        check_record(counted(1, [None] * 3), 4)
    with pytest.raises(ValueError, match=r"evaluation\.test\.classes\.per_client names a client"):
        check_record(counted(1, {"4": None}), 4)
