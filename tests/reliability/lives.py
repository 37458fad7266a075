"""The life of a session, with all that can be asked of one, and how it goes on after it was cut short anywhere."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import simulator
from checkpoints import SessionUnreadable, lock
from simulator.engine.progress import ClientTrained, Event, RoundFinished
from simulator.sessions.session import Session
from tests import federations
from tests.reliability.sessions import kinds

CONFIG = federations.config("lg_fedavg", rounds=2)
SWITCH: dict[str, Any] = {"method": "fedssa", "set": []}
FORK_AT = 1

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


def live(base: Path, told: Told) -> None:
    """Two rounds, a switch between them, a stop within the second, a resume; a fork of the first, run to its end."""
    folder = base / "s"
    _run(Session.create(CONFIG, folder, base), _Operator(folder, told, stop=True), told)
    told.stopped = True
    _run(Session.resume(folder, base), _Operator(folder, told), told)
    told.finished = True
    simulator.fork(folder, base / "fork", base, FORK_AT)
    told.forked = True
    _run(Session.resume(base / "fork", base), None, told)
    told.ended = True


def go_on(base: Path, told: Told) -> None:
    """Do the rest of the life, whatever of it is there; nothing that was reported as done may be missing."""
    folder = base / "s"
    if not checkpoints.is_session(folder):
        assert not told.created, "a session that was made is gone"
        _run(Session.create(CONFIG, folder, base), _Operator(folder, told), told)
    else:
        reader = checkpoints.SessionReader(folder)
        reached = max([0, *reader.rounds()])
        assert reached >= told.rounds, "a round that was committed is gone"
        _post_again_if_lost(reader, reached, told)
        if told.stopped and not told.finished and reached == FORK_AT:
            assert reader.unfinished_round() is not None, "finished clients of the stopped round are gone"
        _run(Session.resume(folder, base), _Operator(folder, told), told)
    fork = base / "fork"
    try:
        _run(Session.resume(fork, base), None, told)
    except SessionUnreadable as error:
        assert not told.forked, f"a fork that was made is gone: {error}"
        assert "is not a session" in str(error) or "interrupted while it was made" in str(error)
        _remove(fork)
        simulator.fork(folder, fork, base, FORK_AT)
        _run(Session.resume(fork, base), None, told)


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


@contextmanager
def quiet() -> Iterator[None]:
    """Heartbeats only where the life itself writes one, so that every run of it makes the same calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "PULSE_SECONDS", 1e6)
        patch.setattr(lock, "BEAT_SECONDS", math.inf)
        yield


def _run(session: Session, operator: "_Operator | None", told: Told) -> None:
    told.created = True
    try:
        session.run(operator or (lambda _: None))
    except BaseException:
        # The machine is gone, or the disk: let go of threads and descriptors, as the end of the process would.
        with suppress(BaseException):
            session.close()
        raise


class _Operator:
    """Posts the switch after round 1, and a stop after the first client of round 2, if asked to."""

    def __init__(self, folder: Path, told: Told, stop: bool = False) -> None:
        self._folder, self._told, self._stop = folder, told, stop

    def __call__(self, event: Event) -> None:
        match event:
            case RoundFinished(record):
                self._told.rounds = record["round"]
                if record["round"] == FORK_AT:
                    self._told.switch = checkpoints.post(self._folder, "switch", SWITCH).id
            case ClientTrained(2, _, 1) if self._stop:
                checkpoints.post(self._folder, "stop")


def _post_again_if_lost(reader: checkpoints.SessionReader, reached: int, told: Told) -> None:
    """The switch after round 1 is asked for again if nobody was told that it was posted."""
    waiting = [command.id for command in checkpoints.pending(reader.folder) if command.kind == "switch"]
    if told.switch and reached == FORK_AT:
        assert waiting == [told.switch], "a command that was posted is gone"
    if reached == FORK_AT and not waiting:
        checkpoints.post(reader.folder, "switch", SWITCH)


def _remove(folder: Path) -> None:
    """What a person does with a half-made fork."""
    if folder.exists():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
