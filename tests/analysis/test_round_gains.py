"""Gains round by round, of three clients whose accuracies one can subtract in one's head."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.results.analysis import partners
from simulator.results.analysis.partners import (
    Worst,
    client_gains,
    common_rounds,
    gain_after,
    gains_by_round,
    gains_of,
    verdict,
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


def evaluated(rounds: Sequence[Sequence[float]], seed: int = 0) -> SessionData:
    """A session of a seed whose means are those of its clients."""
    records = [record(at, sum(each) / len(each), clients=each) for at, each in enumerate(rounds, 1)]
    return of("s", records, seed=seed)


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


def test_the_worst_client_has_the_lowest_gain_and_the_samples_that_it_rests_on() -> None:
    # Client 2: 35 % against 25 % of 3 samples, which are 1 against 1. The counts say that this is little.
    found = gain_after(run(OWN, [40, 20, 3]), run(OTHER), 2)
    assert found is not None
    assert found.worst == Worst(2, approx(-0.10), (1, 1, 3))


def test_a_verdict_names_the_round_the_losing_clients_and_the_test() -> None:
    """Gains of 5, −1, 5, and 7 pp: their mean is 4 pp, their std √(36/3) = 3.46, and t(3) is 3.182: 4 ± 5.5 pp."""
    own, other = [[0.1] * 4, [0.55, 0.49, 0.55, 0.57]], [[0.1] * 4, [0.5] * 4]
    one, two = evaluated(own), evaluated(other)
    assert verdict([one], [two], 2) == (
        "+4.0 pp at round 2, 1 of 4 clients loses, within noise (paired t over 4 clients, 95 %: −1.5 to +9.5 pp)"
    )
    clear = evaluated([[0.1] * 4, [0.55, 0.54, 0.55, 0.56]])
    assert str(verdict([clear], [two], 2)).startswith(
        "+5.0 pp at round 2, 0 of 4 clients lose, more than noise ("
    )


def test_a_verdict_over_seeds_pairs_them_and_tests_over_them() -> None:
    """Differences of 2 and 4 pp: 3 ± 12.706 · 1.414 / √2 = 3 ± 12.7 pp."""
    runs = [evaluated([[0.52, 0.52]], seed=0), evaluated([[0.54, 0.54]], seed=1)]
    others = [evaluated([[0.5, 0.5]], seed=seed) for seed in (1, 0)]
    assert verdict(runs, others, 1) == (
        "+3.0 pp at round 1, 0 of 2 clients lose, within noise (paired t over 2 seeds, 95 %: −9.7 to +15.7 pp)"
    )
    assert str(verdict(runs, others[:1], 1)).startswith(
        "+4.0 pp at round 1 over 1 common seed, 0 of 2 clients lose, "
    )
    assert (
        verdict(runs, [evaluated([[0.5, 0.5]], seed=seed) for seed in (2, 3)], 1) is None
    )  # no seed in common


def test_a_client_of_several_seeds_counts_once_by_its_mean() -> None:
    """Client 0: −4 and 2 pp, which is −1. Client 1: −1 and 3 pp, which is 1."""
    runs = [evaluated([[0.46, 0.49]], seed=0), evaluated([[0.52, 0.53]], seed=1)]
    others = [evaluated([[0.5, 0.5]], seed=seed) for seed in (0, 1)]
    assert ", 1 of 2 clients loses, " in str(verdict(runs, others, 1))


def test_clients_that_differ_or_a_single_one_give_no_test() -> None:
    one, two = evaluated([[0.5, 0.6]]), evaluated([[0.4, 0.5]], seed=1)
    assert verdict([one], [two], 1) == "+10.0 pp at round 1; no test, because their clients differ"
    assert verdict([evaluated([[0.5]])], [evaluated([[0.4]])], 1) == (
        "+10.0 pp at round 1, 0 of 1 clients lose; no test of a single client"
    )
    assert verdict([one], [evaluated([])], 1) is None


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
        patched.setattr(partners, "CELLS", cells)
        pieces = gains_by_round(own, other, which, lambda gains: gains.mean(axis=1))
    assert pieces.tolist() == whole.mean(axis=1).tolist()
    assert np.abs(whole).max() <= 1
