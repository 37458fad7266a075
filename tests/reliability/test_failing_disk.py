"""A session's whole life, cut short at any write, flush, or failing call: it goes on, and no bit changes."""

import errno
import math
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import simulator
from checkpoints import DiskError, SessionUnreadable, files, lock
from simulator.engine.progress import ClientTrained, Event, RoundFinished
from simulator.sessions.session import Session
from tests import federations
from tests.checkpoints.disk import Failing, PowerCut, Recording
from tests.reliability.sessions import kinds

pytestmark = pytest.mark.long

CONFIG = federations.config("lg_fedavg", rounds=2)
SWITCH: dict[str, Any] = {"method": "fedssa", "set": []}
FORK_AT = 1
ENDLESS = 10**9
SAMPLE = 6
"""Cuts tried by the fast tests, spread over the life; the slow ones try every one of them."""

Committed = tuple[list[dict[str, Any]], dict[str, str]]


@dataclass
class Told:
    """What the life had reported as done when it was cut."""

    created: bool = False
    rounds: int = 0
    switch: str | None = None
    stopped: bool = False
    finished: bool = False
    forked: bool = False
    ended: bool = False


@pytest.fixture(autouse=True)
def _images() -> Iterator[None]:
    with quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Heartbeats only where the life itself writes one, so that every run of it makes the same calls."""
    with federations.on_images(federations.generated()), pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "PULSE_SECONDS", 1e6)
        patch.setattr(lock, "BEAT_SECONDS", math.inf)
        yield


def run(session: Session, told: Told, switched: bool = False, stop: bool = False) -> None:
    """To its end. `switched`: a switch is posted after round 1. `stop`: it stops after the first client of round 2."""
    folder, told.created = session.folder, True

    def operate(event: Event) -> None:
        match event:
            case RoundFinished(record) if switched:
                told.rounds = record["round"]
                if record["round"] == FORK_AT:
                    told.switch = checkpoints.post(folder, "switch", SWITCH).id
            case ClientTrained(2, _, 1) if stop:
                checkpoints.post(folder, "stop")

    try:
        session.run(operate)
    except BaseException:
        # The machine is gone, or the disk: let go of threads and descriptors, as the end of the process would.
        with suppress(BaseException):
            session.close()
        raise


def live(base: Path, told: Told) -> None:
    """Two rounds, a switch between them, a stop within the second, a resume; a fork of the first, run to its end."""
    folder = base / "s"
    run(Session.create(CONFIG, folder, base), told, switched=True, stop=True)
    told.stopped = True
    run(Session.resume(folder, base), told, switched=True)
    told.finished = True
    simulator.fork(folder, base / "fork", base, FORK_AT)
    told.forked = True
    run(Session.resume(base / "fork", base), told)
    told.ended = True


def go_on(base: Path, told: Told) -> None:
    """Do the rest of the life, whatever of it is there; nothing that was reported as done may be missing."""
    folder, fork = base / "s", base / "fork"
    if not checkpoints.is_session(folder):
        assert not told.created, "a session that was made is gone"
        run(Session.create(CONFIG, folder, base), told, switched=True)
    else:
        reader = checkpoints.SessionReader(folder)
        reached = max([0, *reader.rounds()])
        assert reached >= told.rounds, "a round that was committed is gone"
        if reached == FORK_AT:
            waiting = [command.id for command in checkpoints.pending(folder) if command.kind == "switch"]
            assert not told.switch or waiting == [told.switch], "a command that was posted is gone"
            if not waiting:  # nobody was told that it was posted
                checkpoints.post(folder, "switch", SWITCH)
            if told.stopped and not told.finished:
                assert reader.unfinished_round() is not None, "finished clients of the stopped round are gone"
        run(Session.resume(folder, base), told, switched=True)
    try:
        run(Session.resume(fork, base), told)
    except SessionUnreadable as error:
        assert not told.forked, f"a fork that was made is gone: {error}"
        assert "is not a session" in str(error) or "interrupted while it was made" in str(error)
        shutil.rmtree(fork, ignore_errors=True)  # what a person does with a half-made fork
        simulator.fork(folder, fork, base, FORK_AT)
        run(Session.resume(fork, base), told)


def outcome(base: Path) -> tuple[Committed, Committed]:
    """What both sessions come to, which must be sound, and have nothing left over.

    A command that a dead poster had not finished writing stays for a minute, since it might be alive.
    """
    for folder in (base / "s", base / "fork"):
        left = [path for box in ("tmp", "partial", "control/inbox") for path in (folder / box).iterdir()]
        assert [path for path in left if (path.parent.name, path.suffix) != ("inbox", ".tmp")] == []
        assert len(checkpoints.verify(folder)) == len(left)
        assert kinds(folder)[-1] == "stopped"
    return federations.committed(base / "s"), federations.committed(base / "fork")


def cut(base: Path, disk: Recording | Failing, says: str = "") -> Told:
    """The life on this disk, until the power goes or a call fails, which the message of a DiskError says."""
    told = Told()
    with pytest.MonkeyPatch.context() as patch, suppress(PowerCut):
        patch.setattr(files, "os", disk)
        try:
            live(base, told)
        except DiskError as error:
            assert says in str(error) and str(base) in str(error)
    return told


Try = Callable[[Path, int], None]


def lose_power(base: Path, nth: int) -> None:
    """Before the n-th change; what was not flushed is kept, dropped, or garbled."""
    before, after, dice = base / "before", base / "after", random.Random(nth)
    before.mkdir(parents=True)
    disk = Recording(before, nth)
    told = cut(before, disk)
    if nth == ENDLESS:
        base.joinpath("calls").write_text(str(ENDLESS - disk.left))
        before.rename(after)
        return
    assert not told.ended
    disk.crash_into(after, lambda what: dice.randrange(3), before)
    go_on(after, told)


def failing(names: set[str], code: int, says: str) -> Try:
    """The n-th of the calls fails."""

    def fail(base: Path, nth: int) -> None:
        (base / "after").mkdir(parents=True)
        disk = Failing(names, nth, code)
        told = cut(base / "after", disk, says)
        base.joinpath("calls").write_text(str(ENDLESS - disk.left))
        assert disk.struck or nth == ENDLESS
        if not told.ended:  # a link that the disk refused may have been made up for by a copy
            go_on(base / "after", told)

    return fail


CALLS = {
    "no_space_left": ({"write", "mkdir", "link", "replace"}, errno.ENOSPC, "no space left"),
    "io_error_on_fsync": ({"fsync"}, errno.EIO, "htfl-sim verify"),
}
WAYS: dict[str, Try] = {"power_loss": lose_power} | {name: failing(*about) for name, about in CALLS.items()}


def cut_short(base: Path, way: str, every: bool) -> None:
    WAYS[way](base / "undisturbed", ENDLESS)
    changes = int((base / "undisturbed" / "calls").read_text())
    expected = outcome(base / "undisturbed" / "after")
    # Four commits, an unfinished round, a fork, commands and answers: some ten changes each.
    assert changes > (150 if way == "power_loss" else 50)
    for nth in range(changes) if every else sorted(random.Random(0).sample(range(changes), SAMPLE)):
        WAYS[way](base / str(nth), nth)
        assert outcome(base / str(nth) / "after") == expected, f"cut before call {nth}"


@pytest.mark.parametrize("way", WAYS)
def test_a_life_cut_at_some_moments_changes_no_bit(tmp_path: Path, way: str) -> None:
    cut_short(tmp_path, way, every=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", WAYS)
def test_a_life_cut_at_any_moment_changes_no_bit(tmp_path: Path, way: str) -> None:
    cut_short(tmp_path, way, every=True)


@pytest.mark.parametrize("way", CALLS)
def test_a_session_is_made_whole_or_not_at_all(tmp_path: Path, way: str) -> None:
    """Nobody but this process could free the lock, and nobody at all the name."""
    names, code, _ = CALLS[way]
    nth, struck = 0, True
    while struck:
        folder, disk = tmp_path / str(nth), Failing(names, nth, code)
        with pytest.MonkeyPatch.context() as patch, suppress(DiskError):
            patch.setattr(files, "os", disk)
            Session.create(CONFIG, folder, tmp_path).close()
        struck = disk.struck
        if checkpoints.is_free(folder):
            Session.create(CONFIG, folder, tmp_path).close()
        Session.resume(folder, tmp_path).close()
        nth += 1
    assert nth > 3
