"""Power loss: a session's whole life, cut at any write or flush, its pending writes kept, dropped or garbled."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from checkpoints import files
from tests import federations
from tests.checkpoints.disk import PowerCut, Recording
from tests.reliability.lives import Committed, Told, go_on, live, outcome, quiet

pytestmark = pytest.mark.long

ENDLESS = 10**9
SAMPLE = 8
"""Cuts tried by the fast test, spread over the life; the slow one tries every one of them."""


@pytest.fixture(autouse=True)
def _images() -> Iterator[None]:
    with federations.on_images(federations.generated()), quiet():
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, tuple[Committed, Committed]]:
    """How many writes and flushes the life makes, and what comes of it."""
    base = tmp_path_factory.mktemp("undisturbed")
    disk = Recording(base, ENDLESS)
    with (
        federations.on_images(federations.generated()),
        quiet(),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(files, "os", disk)
        live(base, Told())
    return ENDLESS - disk.left, outcome(base)


def cut_the_power(base: Path, cut: int, dice: random.Random) -> None:
    """Live until the n-th change, lose the power, and go on with what the disk holds, laid out in `base/after`."""
    before, after = base / "before", base / "after"
    before.mkdir()
    disk, told = Recording(before, cut), Told()
    with pytest.MonkeyPatch.context() as patch, suppress(PowerCut):
        patch.setattr(files, "os", disk)
        live(before, told)
    assert not told.ended
    disk.crash_into(after, lambda what: dice.randrange(3), before)
    go_on(after, told)


def test_power_lost_at_moments_spread_over_a_sessions_life_changes_no_bit(
    tmp_path: Path, undisturbed: tuple[int, tuple[Committed, Committed]]
) -> None:
    changes, expected = undisturbed
    # Four commits, an unfinished round, a fork, commands and answers: some ten changes each.
    assert changes > 150
    dice = random.Random(0)
    for cut in sorted(dice.sample(range(changes), SAMPLE)):
        (tmp_path / str(cut)).mkdir()
        cut_the_power(tmp_path / str(cut), cut, dice)
        assert outcome(tmp_path / str(cut) / "after") == expected


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_power_lost_at_any_moment_of_a_sessions_life_changes_no_bit(
    tmp_path: Path, undisturbed: tuple[int, tuple[Committed, Committed]]
) -> None:
    changes, expected = undisturbed
    for cut in range(changes):
        (tmp_path / str(cut)).mkdir()
        cut_the_power(tmp_path / str(cut), cut, random.Random(cut))
        assert outcome(tmp_path / str(cut) / "after") == expected, f"cut before change {cut}"
