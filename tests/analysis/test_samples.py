"""The data of clients, as a session notes them."""

from pathlib import Path
from typing import Any

import pytest

from checkpoints import Damaged
from simulator.results.analysis import feed
from simulator.results.analysis.run import Samples, SessionData
from tests import sessions

NOTED = {"classes": ["cat", "dog", "owl"], "train": [[3, 0, 9], [0, 1, 1]], "test": [19, 20]}


def test_a_client_has_its_classes_the_largest_first() -> None:
    samples = Samples.of(SessionData(Path("s"), document={"samples": NOTED}))
    assert samples is not None
    assert samples.largest(0) == [("owl", 9), ("cat", 3)]
    assert samples.largest(1) == [("dog", 1), ("owl", 1)]
    assert [samples.few(client) for client in (0, 1)] == [True, False]


def test_an_early_session_says_nothing_of_its_data(tmp_path: Path) -> None:
    assert Samples.of(feed.read(sessions.make(tmp_path / "s", rounds=1, clients=2))) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"test": [19]}, "of other clients than these 2"),
        ({"train": [[1, 2, 3]]}, "of other clients than these 2"),
        ({"train": [[1, 2, 3], [1, 2]]}, "not of 3 classes"),
        ({"train": [[1, 2, -3], [1, 2, 3]]}, "samples.train"),
        ({"test": [True, 3]}, "samples.test"),
        ({"test": [10**30, 3]}, "samples.test"),
    ],
)
def test_counts_that_do_not_fit_are_damage(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", rounds=1, clients=2, samples=NOTED | wrong)
    with pytest.raises(Damaged, match=said):
        feed.read(folder)
