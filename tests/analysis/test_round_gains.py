"""Gains round by round, of three clients whose accuracies one can subtract in one's head."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.results.analysis import round_gains
from simulator.results.analysis.round_gains import (
    Worst,
    client_gains,
    common_rounds,
    gain_after,
    gains_by_round,
    gains_of,
)
from simulator.results.analysis.run import SessionData
from tests.analysis.runs import of, record

approx = pytest.approx


def run(rounds: Sequence[Sequence[float | None]], test: Sequence[int] = ()) -> SessionData:
    """A session with these accuracies; test: the test samples of its clients."""
    records = [
        record(number, None if None in clients else 0.5, clients=clients)
        for number, clients in enumerate(rounds, 1)
    ]
    made = of("s", records)
    samples = {"classes": ["a"], "train": [[1]] * len(test), "test": list(test)}
    document = made.document | ({"samples": samples} if test else {})
    return SessionData(made.folder, document=document, config=made.config, ledger=made.ledger)


OWN = [[0.50, 0.50, 0.30], [0.75, 0.50, 0.25]]
OTHER = [[0.50, 0.25, 0.50], [0.50, 0.55, 0.35], [0.1, 0.1, 0.1]]


def test_three_clients_by_hand() -> None:
    found = gain_after(run(OWN), run(OTHER), 2)
    assert found is not None
    assert (found.clients, found.better, found.worse) == (3, 1, 2)
    assert found.mean == approx((0.25 - 0.05 - 0.10) / 3)
    assert (found.worst.client, found.worst.gain) == (2, approx(-0.10))
    assert found.worst.correct is None  # the session does not say how many samples it tests


def test_an_equal_client_neither_gains_nor_loses() -> None:
    found = gain_after(run(OWN), run(OTHER), 1)
    assert found is not None
    assert (found.clients, found.better, found.worse) == (3, 1, 1)


def test_few_samples_do_not_make_the_worst_client_and_counts_are_given() -> None:
    # Client 2 has 3 samples, so its −10 pp are left out. Client 1: 10 of 20 against 11 of 20.
    found = gain_after(run(OWN, [40, 20, 3]), run(OTHER), 2)
    assert found is not None
    assert found.worst == Worst(1, approx(-0.05), (10, 11, 20))
    few = gain_after(run(OWN, [4, 10, 20]), run(OTHER), 2)
    assert few is not None and few.worst.client == 2  # the only one that can be judged
    none = gain_after(run(OWN, [4, 10, 10]), run(OTHER), 2)
    assert none is not None and none.worst.client == 2  # without any that can be judged, all are ranked


def test_a_round_that_one_of_them_lacks_has_no_gains() -> None:
    assert gain_after(run(OWN), run(OTHER), 3) is None
    assert gain_after(run(OWN), run(OTHER), 0) is None
    assert gain_after(run([[0.5, 0.5]]), run(OTHER), 1) is None  # two clients and three


def test_rounds_are_those_that_both_evaluated_after_the_shared_ones() -> None:
    own = run([[0.1], [None], [0.3], [0.4]])
    assert common_rounds(own, run([[0.1], [0.2], [0.3]])).tolist() == [1, 3]
    assert common_rounds(own, run([[0.1], [0.2], [0.3]]), shared=1).tolist() == [3]


def test_a_client_without_an_accuracy_is_in_no_count() -> None:
    own, other = run([[0.5, None]]), run([[0.4, 0.9]])
    assert np.isnan(client_gains(own, other, 1)).tolist() == [False, True]
    found = gain_after(own, other, 1)
    assert found is not None and (found.clients, found.better) == (1, 1)


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=1, max_size=9), st.integers(1, 4))
def test_a_table_in_pieces_is_the_table(rounds: list[list[float]], cells: int) -> None:
    own, other = run(rounds), run(rounds[::-1])
    which = common_rounds(own, other)
    whole = gains_of(own, other, [0, 1], which)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(round_gains, "CELLS", cells)
        pieces = gains_by_round(own, other, which, lambda gains: gains.mean(axis=1))
    assert pieces.tolist() == whole.mean(axis=1).tolist()
    assert np.abs(whole).max() <= 1
