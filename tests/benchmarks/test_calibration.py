"""A calibrated clock predicts the seconds of a round of several methods."""

import time

import pytest

import simulator
from benchmarks.calibration import GOAL, METHODS, Comparison, compared, config, predicted
from simulator.data import datasets


def test_a_ratio_is_the_prediction_over_the_median_of_the_rounds() -> None:
    """A round of 40 s, which something else disturbed, changes nothing: 3 / 2."""
    assert Comparison(3.0, (2.0, 40.0, 1.0)).ratio == 1.5


def test_one_worker_takes_the_sum_of_the_clients_seconds_and_the_servers() -> None:
    """Clients of 2 and 3 s, and a server that works from second 9 to 13, take 9 s. Links take no time on it."""
    record = {"time": {"flights": [{"compute": 2.0}, {"compute": 3.0}], "aggregates": 9.0, "ends": 13.0}}
    assert predicted(record) == 9.0  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("method", METHODS)
def test_a_calibrated_clock_predicts_a_round(method: str) -> None:
    """By the processor's clock, because other programs change the wall clock's seconds."""
    if not datasets.get("fashion_mnist").is_present(simulator.data_folder(None)):
        pytest.skip("Fashion-MNIST is not here")
    assert abs(compared(config(method), 5, time.process_time).ratio - 1) < GOAL
