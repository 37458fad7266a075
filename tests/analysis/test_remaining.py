"""What is still to be computed; every round of these sessions took 2.5 s."""

from pathlib import Path

import pytest

from simulator.results.analysis import costs, feed
from simulator.results.analysis.run import SessionData
from tests import sessions


@pytest.fixture
def half(tmp_path: Path) -> SessionData:
    """Stopped after 12 of 20 rounds, with checkpoints of rounds 5, 10 and 12."""
    return feed.read(sessions.make(tmp_path / "half", rounds=12, of=20, clients=2, state="stopped"))


def test_the_estimate_is_the_latest_rounds_mean_times_what_is_left(half: SessionData) -> None:
    assert costs.seconds_left(half.curves, 8) == pytest.approx(8 * 2.5)
    assert costs.seconds_left(half.curves, 0) is None
    assert costs.seconds_left(half.curves.upto(0), 8) is None


@pytest.mark.parametrize(("round", "rounds"), [(9, 4), (10, 0), (4, 4), (0, 0)])
def test_a_state_is_computed_again_from_the_nearest_checkpoint_before(
    round: int, rounds: int, half: SessionData
) -> None:
    assert costs.rounds_again(half, round) == (rounds, rounds * 2.5)


@pytest.mark.parametrize(
    ("until_time", "simulated", "left"),
    [
        (0.0, None, 90),  # no clock
        (0.0, 20.0, 90),
        (50.0, 20.0, 15),  # ten rounds took 20 s, so 30 s more take 15
        (49.0, 20.0, 15),  # a round that has begun ends
        (1000.0, 20.0, 90),  # the last round comes first
        (20.0, 20.0, 0),
        (50.0, float("nan"), 90),
    ],
)
def test_a_run_that_ends_at_a_simulated_time_has_the_rounds_left_that_this_takes(
    until_time: float, simulated: float | None, left: int
) -> None:
    assert costs.rounds_left(100, 10, until_time, simulated) == left
