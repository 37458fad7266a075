"""No space left, and an I/O error on fsync: any call of a session's whole life fails once, and costs no bit."""

import errno
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import checkpoints
from checkpoints import DiskError, files
from simulator.sessions.session import Session
from tests import federations
from tests.checkpoints.disk import Failing
from tests.reliability.lives import CONFIG, Committed, Told, go_on, live, outcome, quiet

pytestmark = pytest.mark.long

ENDLESS = 10**9
SAMPLE = 4
"""Failures tried by the fast test, spread over the life; the slow one tries every one of them."""


@dataclass(frozen=True)
class Failure:
    """System calls that fail, how, and what the message must say."""

    calls: frozenset[str]
    code: int
    says: str


FAILURES = [
    pytest.param(
        Failure(frozenset({"write", "mkdir", "link", "replace"}), errno.ENOSPC, "no space left"),
        id="no_space_left",
    ),
    pytest.param(Failure(frozenset({"fsync"}), errno.EIO, "htfl-sim verify"), id="io_error_on_fsync"),
]


@pytest.fixture(autouse=True)
def _images() -> Iterator[None]:
    with federations.on_images(federations.generated()), quiet():
        yield


def attempt(base: Path, failure: Failure, nth: int) -> tuple[Failing, Told]:
    """The life with the n-th of the calls failing: it ends there, and says why in the message of a DiskError."""
    failing, told = Failing(set(failure.calls), nth, failure.code), Told()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", failing)
        try:
            live(base, told)
        except DiskError as error:
            assert failing.struck
            assert failure.says in str(error)
            assert str(base) in str(error)
    return failing, told


def undisturbed(base: Path, failure: Failure) -> tuple[int, tuple[Committed, Committed]]:
    """How many of the calls the life makes, and what comes of it."""
    base.mkdir()
    failing, told = attempt(base, failure, ENDLESS)
    assert told.ended
    return ENDLESS - failing.left, outcome(base)


def fail_and_go_on(base: Path, failure: Failure, nth: int, expected: tuple[Committed, Committed]) -> None:
    base.mkdir()
    failing, told = attempt(base, failure, nth)
    assert failing.struck
    if not told.ended:  # a link that the disk refused may have been made up for by a copy
        go_on(base, told)
    assert outcome(base) == expected, f"call {nth}"


@pytest.mark.parametrize("failure", FAILURES)
def test_a_disk_that_refuses_while_a_session_is_made_leaves_its_name_free_or_a_session(
    tmp_path: Path, failure: Failure
) -> None:
    """Nobody but this process could free the lock, and nobody at all the name."""
    nth, struck = 0, True
    while struck:
        folder, failing = tmp_path / str(nth), Failing(set(failure.calls), nth, failure.code)
        with pytest.MonkeyPatch.context() as patch, suppress(DiskError):
            patch.setattr(files, "os", failing)
            Session.create(CONFIG, folder, tmp_path).close()
        struck = failing.struck
        if checkpoints.is_free(folder):
            Session.create(CONFIG, folder, tmp_path).close()
        Session.resume(folder, tmp_path).close()
        nth += 1
    assert nth > 3


@pytest.mark.parametrize("failure", FAILURES)
def test_a_disk_that_refuses_a_call_somewhere_in_a_sessions_life_changes_no_bit(
    tmp_path: Path, failure: Failure
) -> None:
    calls, expected = undisturbed(tmp_path / "undisturbed", failure)
    assert calls > 50
    for nth in sorted(random.Random(0).sample(range(calls), SAMPLE)):
        fail_and_go_on(tmp_path / str(nth), failure, nth, expected)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_disk_that_refuses_any_call_of_a_sessions_life_changes_no_bit(
    tmp_path: Path, failure: Failure
) -> None:
    calls, expected = undisturbed(tmp_path / "undisturbed", failure)
    for nth in range(calls):
        fail_and_go_on(tmp_path / str(nth), failure, nth, expected)
