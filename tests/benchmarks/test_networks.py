"""A step of two networks beside both alone."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.networks import Step, shown, watching
from simulator.runners import local


def test_a_row_has_times_and_rates_and_their_ratios() -> None:
    """3 million operations in 200 µs are 15 GFLOP/s; 2 million in 100 µs are 20."""
    assert shown(200.0, 100.0, 3e6, 2e6) == ("200", "100", "2.00", "15.0", "20.0", "0.75")


@pytest.mark.parametrize("counts", [True, False])
def test_a_clients_training_is_timed_by_the_step(counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Step] = defaultdict(Step)
    client: Any = SimpleNamespace(
        local=SimpleNamespace(info=SimpleNamespace(architecture="cnn1"), flops=12.0)
    )
    monkeypatch.setattr(local, "train", lambda prepared: iter([None] * 3))
    with watching(found, counts):
        assert len(list(local.train(client))) == 3
    assert found["cnn1"].operations == 4.0
    assert len(found["cnn1"].microseconds) == counts
