"""Traffic by tensor, by hand."""

from simulator.results.analysis.costs import TensorTraffic, by_tensor
from tests import sessions


def test_tensors_are_counted_up_to_the_last_of_the_rounds() -> None:
    # Ten clients in rounds 1 to 3, nine in round 4.
    once = sessions.ADAPTER
    records = [sessions.record(round, 10) for round in range(1, 5)]
    assert by_tensor(records) == [
        TensorTraffic("adapter", "down", 9 * once, 0.5, 39 * once),
        TensorTraffic("adapter", "up", 9 * once, 0.5, 39 * once),
    ]


def test_a_tensor_that_no_longer_travels_keeps_its_total_and_one_that_never_did_is_left_out() -> None:
    records = [
        {"bytes": {"by_tensor": {"up/head": 300, "down/unused": 0}}},
        {"bytes": {"by_tensor": {"up/adapter": 100}}},
    ]
    assert by_tensor(records) == [
        TensorTraffic("head", "up", 0, 0.0, 300),
        TensorTraffic("adapter", "up", 100, 1.0, 100),
    ]


def test_without_a_round_nothing_travelled() -> None:
    assert by_tensor([]) == []
