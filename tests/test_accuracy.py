"""The ledger's accuracy, by hand."""

import pytest

from simulator.metrics.evaluation import accuracy


def test_mean_weighted_and_spread() -> None:
    """Accuracies 0.5 (of 10) and 1.0 (of 30): mean 0.75, weighted (5 + 30)/40, population deviation 0.25."""
    result = accuracy({0: (5, 10), 1: (30, 30)}, [10, 30], None)
    assert result == {
        "mean": 0.75,
        "std": 0.25,
        "weighted": 0.875,
        "min": 0.5,
        "max": 1.0,
        "best_mean": 0.75,
        "best_weighted": 0.875,
        "per_client": [0.5, 1.0],
    }


def test_a_client_never_evaluated_is_null_and_counts_for_nothing() -> None:
    result = accuracy({1: (1, 4)}, [10, 4, 10], None)
    assert result["per_client"] == [None, 0.25, None]
    assert result["mean"] == result["weighted"] == result["min"] == result["max"] == 0.25


def test_a_client_not_evaluated_this_round_stays_as_it_was() -> None:
    """Client 0 keeps 0.5, client 1 moves to 0.9: mean 0.7, weighted (0.5·10 + 0.9·30)/40 = 0.8."""
    before = accuracy({0: (5, 10), 1: (30, 30)}, [10, 30], None)
    result = accuracy({1: (27, 30)}, [10, 30], before)
    assert result["per_client"] == [0.5, 0.9]
    assert result["mean"] == pytest.approx(0.7)
    assert result["weighted"] == pytest.approx(0.8)


def test_the_best_mean_is_kept_when_the_mean_falls_and_raised_when_it_rises() -> None:
    first = accuracy({0: (8, 10)}, [10], None)
    worse = accuracy({0: (6, 10)}, [10], first)
    better = accuracy({0: (9, 10)}, [10], worse)
    assert [r["best_mean"] for r in (first, worse, better)] == [0.8, 0.8, 0.9]


def test_the_best_weighted_is_of_its_own_round() -> None:
    """Ten and forty images: 10/10 and 10/40, then 4/10 and 32/40. Means 0.625 and 0.6, weighted 0.4 and 0.72."""
    first = accuracy({0: (10, 10), 1: (10, 40)}, [10, 40], None)
    second = accuracy({0: (4, 10), 1: (32, 40)}, [10, 40], first)
    assert (first["best_mean"], first["best_weighted"]) == (0.625, 0.4)
    assert (second["best_mean"], second["best_weighted"]) == (0.625, 0.72)


def test_the_record_before_is_not_changed() -> None:
    before = accuracy({0: (8, 10)}, [10], None)
    accuracy({0: (1, 10)}, [10], before)
    assert before["per_client"] == [0.8]
