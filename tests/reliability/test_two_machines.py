"""Two machines on one folder, over which no lock reaches, and whose clocks differ: no time decides anything."""

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from checkpoints import lock
from simulator.base import rng
from simulator.engine.progress import Event, RoundFinished
from simulator.sessions.session import Session
from tests import federations
from tests.reliability.sessions import (
    AnyProcess,
    configuration,
    finish,
    messages,
    rounds,
    start,
    wait_until,
)

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("generated_images")]

DISPLACED = 4
RETENTIONS: list[dict[str, Any]] = [
    {"keep_last": 1, "keep_best": False},
    {"keep_last": 3, "keep_best": True},
    {"keep_last": 1, "keep_every": 4, "keep_best": False},
    {"keep_last": 2, "keep_every": 3, "keep_best": True},
]


def runs(session: Path, owner: AnyProcess, more: int, seconds: float) -> None:
    """Let the owner write so many lines of the ledger, and run on for a while."""
    seen = rounds(session)
    wait_until(lambda: rounds(session) >= seen + more, owner)
    time.sleep(seconds)


def owns(session: Path, machine: str) -> bool:
    return (checkpoints.SessionReader(session).owner() or {}).get("host") == machine


def stop_steal_continue(folder: Path, every: int, retention: dict[str, Any], times: int, seed: int) -> None:
    """The session goes from machine to machine; every owner but the last wakes up when it is no longer one."""
    draw = rng.numpy_stream(seed, f"tests/two machines/{every}")
    kept = [f"checkpoint.{key} = {str(value).lower()}" for key, value in retention.items()]
    config = configuration(folder, "fedavg", 100_000, f"checkpoint.every = {every}", *kept)
    session, begin = folder / "s", ("run", "--config", config)
    owner = start(folder, *begin, "--session", "s", machine="machine0")
    try:
        wait_until(lambda: rounds(session) > 0, owner)
        for number in range(1, times + 1):
            runs(session, owner, int(draw.integers(1, 3)), float(draw.uniform(0, 0.06)))
            owner.send_signal(signal.SIGSTOP)
            before, owner = owner, start(folder, "resume", "s", "--steal", machine=f"machine{number}")
            wait_until(partial(owns, session, f"machine{number}"), owner)
            # It wakes up while the other opens the session, or some rounds later.
            runs(session, owner, int(draw.integers(0, 5)), float(draw.uniform(0, 0.1)))
            before.send_signal(signal.SIGCONT)
            assert before.wait(600) == DISPLACED, messages(folder)
        runs(session, owner, 2, 0)
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(600) == -signal.SIGTERM
    finally:
        owner.kill()
    said = [line for line in messages(folder).splitlines() if "displaced by process" in line]
    assert len(said) == times and all("nothing was written" in line for line in said)
    assert [each for each in checkpoints.verify(session) if each.severity == "damage"] == []
    checkpoints.Store.open(session).close()  # sweeps what displaced owners had begun
    assert checkpoints.verify(session) == []
    finish(folder, *begin, "--session", "alone", "--rounds", str(rounds(session)))
    assert federations.committed(session) == federations.committed(folder / "alone")


@pytest.mark.parametrize("every", [1, 5])
def test_an_owner_that_was_displaced_costs_nothing(tmp_path: Path, every: int) -> None:
    stop_steal_continue(tmp_path, every, RETENTIONS[0], times=3, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("retention", RETENTIONS, ids=str)
def test_fifty_displaced_owners_cost_nothing(tmp_path: Path, every: int, retention: dict[str, Any]) -> None:
    stop_steal_continue(tmp_path, every, retention, times=50, seed=1)


IN_2099, IN_1971 = 4_070_908_800, 31_536_000


def run(folder: Path, rounds: int = 4) -> None:
    """A session of four rounds, stopped after some of them."""
    session = Session.create(federations.config("fedssa", rounds=4), folder, folder.parent)
    session.run(stop=lambda: "SIGTERM" if session.round >= rounds else None)


def test_files_whose_times_are_shuffled_are_read_by_round(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder, rounds=2)
    draw = rng.numpy_stream(0, "tests/mtimes")
    for path in folder.rglob("*"):
        moment = float(draw.uniform(IN_1971, IN_2099))
        os.utime(path, (moment, moment))
    session = Session.resume(folder, tmp_path)
    assert session.round == 2
    session.run()
    run(tmp_path / "alone")
    assert federations.committed(folder) == federations.committed(tmp_path / "alone")


@pytest.mark.parametrize("year", ["1971", "2099"])
def test_a_wrong_clock_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, year: str) -> None:
    folder = tmp_path / "s"
    run(folder, rounds=2)
    monkeypatch.setattr(lock, "now", lambda: f"{year}-01-01T00:00:00.000Z")
    monkeypatch.setattr(time, "time", lambda: float(IN_1971 if year == "1971" else IN_2099))
    Session.resume(folder, tmp_path).run()
    run(tmp_path / "alone")
    assert federations.committed(folder) == federations.committed(tmp_path / "alone")
    assert checkpoints.verify(folder) == []


def test_commands_are_taken_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, posted = tmp_path / "s", []

    def post(event: Event) -> None:
        if isinstance(event, RoundFinished) and event.record["round"] == 1:
            for moment, rate in ((IN_2099, 0.02), (IN_1971, 0.03)):
                monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment * 10**9)
                arguments = {"method": None, "set": [f"training.lr={rate}"]}
                posted.append(checkpoints.post(folder, "switch", arguments))
            monkeypatch.undo()

    Session.create(federations.config("fedssa", rounds=4), folder, tmp_path).run(post)
    answers = [checkpoints.answer(folder, command.id) for command in posted]
    assert [each and each.outcome for each in answers] == ["applied", "applied"]
    rates = [
        entry["settings"]["training"]["lr"] for entry in checkpoints.SessionReader(folder).manifest().history
    ]
    assert rates == [0.1, 0.02, 0.03], "in the order in which they were posted"
