"""What was measured on the parts of the split, by hand."""

import numpy as np
import pytest

from simulator.results.analysis.measures import client_on_part, measured, part_means, part_measures
from tests.analysis.runs import of, record


def on_test(mean: float | None, per_client: object, **own: float) -> dict[str, object]:
    """The key `evaluation` of a record."""
    figures = {"mean": mean, "weighted": mean, "per_client": per_client}
    named = {name: {**figures, "mean": value} for name, value in own.items()}
    part = {"accuracy": figures, "loss": figures, "f1": figures, **({"metrics": named} if own else {})}
    return {"evaluation": {"test": part}}


RECORDS = [
    record(1, 0.5),  # of an early version
    record(2, 0.5, **on_test(1.5, {"0": 1.0, "7": 2.0})),
    record(3, 0.5, **on_test(None, {"7": None}, zeal=4.0, accord=0.25)),
    record(4, 0.5, **on_test(0.5, [0.25] * 8, zeal=5.0)),
]


def test_loss_and_f1_come_first_and_then_own_metrics_by_name() -> None:
    assert part_measures(RECORDS) == ("loss", "f1", "accord", "zeal")
    assert part_measures(RECORDS[:1]) == ()


def test_a_mean_is_missing_in_rounds_that_have_none() -> None:
    np.testing.assert_equal(part_means(RECORDS, "test", "loss"), [np.nan, 1.5, np.nan, 0.5])
    np.testing.assert_equal(part_means(RECORDS, "test", "zeal"), [np.nan, np.nan, 4.0, 5.0])
    np.testing.assert_equal(part_means(RECORDS, "eval", "loss"), [np.nan] * 4)


def test_a_client_keeps_its_value_until_it_is_measured_again_or_absent() -> None:
    np.testing.assert_equal(client_on_part(RECORDS, "test", "loss", 0), [np.nan, 1.0, 1.0, 0.25])
    np.testing.assert_equal(client_on_part(RECORDS, "test", "f1", 7), [np.nan, 2.0, np.nan, 0.25])


def test_sessions_are_compared_by_test_loss_f1_and_own_metrics() -> None:
    run = of("a", RECORDS)
    for name in ("test loss", "test F1"):
        assert measured(run, name).tolist() == pytest.approx([np.nan, 1.5, np.nan, 0.5], nan_ok=True)
    assert measured(run, "accord").tolist() == pytest.approx([np.nan, np.nan, 0.25, np.nan], nan_ok=True)
