"""Processes are killed and power is cut at any moment: the last commit is there, whole."""

import random
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from checkpoints import Retention, SessionReader, SessionUnreadable, Store, answer, files, post, verify
from tests.checkpoints.disk import PowerCut, Recording
from tests.checkpoints.helpers import commit, make, record, save_unfinished_round, server_value, weights
from tests.processes import FORKED

# Children are forked from a process that has imported torch once.


def keep_committing(folder: Path, reports: Connection) -> None:
    with Store.open(folder, retention=Retention(last=2, every=10)) as store:
        for round in range((store.round or 0) + 1, 1_000_000):
            commit(store, round)
            store.heartbeat(round=round)
            reports.send(round)


def run_and_kill(folder: Path, seconds: float) -> list[int]:
    """Let a child commit until some time after its first report, kill it, and return what it reported."""
    mine, its = FORKED.Pipe(duplex=False)
    child = FORKED.Process(target=keep_committing, args=(folder, its))
    child.start()
    its.close()
    reported = [mine.recv()]
    time.sleep(seconds)
    child.kill()
    child.join()
    with suppress(EOFError):
        while True:
            reported.append(mine.recv())
    return reported


@pytest.mark.long
def test_a_process_killed_at_any_moment_loses_no_commit_it_reported(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    Store.create(folder, {}).close()
    moments = random.Random(0)
    newest = 0
    for _ in range(12):
        reported = run_and_kill(folder, moments.uniform(0, 0.05))

        assert reported == list(range(newest + 1, reported[-1] + 1))
        session = SessionReader(folder)
        assert session.state() == "interrupted"
        newest = session.rounds()[-1]
        # At most the one commit it had not reported yet.
        assert newest in (reported[-1], reported[-1] + 1)
        assert server_value(session.load(newest, "server")) == newest
        assert session.records() == [record(round) for round in range(1, newest + 1)]
    with Store.open(folder) as store:
        assert store.round == newest
    assert verify(folder) == []


@dataclass
class Told:
    """What a fork's life had reported as done when the power went."""

    round: int = 0
    partial: bool = False
    posted: str | None = None
    answered: bool = False


def live(folder: Path, parent: Path, told: Told) -> None:
    """A fork at round 2, an unfinished round 3, a checkpoint of it after its line, and a command in round 4."""
    ledger = (parent / "ledger.jsonl").read_bytes()
    first = ledger[: ledger.index(b"\n") + 1]
    source = SessionReader(parent).manifest(2)
    store = Store.create(folder, {"parent": {"round": 2}}, Retention(last=1), ledger=first)
    for ref in source.states.values():
        store.import_object(parent, ref)
    store.commit(2, source.states, source.record, source.history, [])
    told.round = 2
    save_unfinished_round(store, 3)
    told.partial = True
    store.append(record(3))
    commit(store, 3)
    told.round = 3
    told.posted = post(folder, "switch").id
    (command,) = store.commands()
    store.commit(4, {"server": store.put(weights(4))}, record(4), [], [command.id])
    told.round = 4
    store.answer(command, "applied", round=4)
    told.answered = True


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("parent") / "s", rounds=3)


def cut_the_power(base: Path, parent: Path, cut: int, dice: random.Random) -> bool:
    """Live until the n-th change, lose the power, open what is left; False when life ended before."""
    disk, told = Recording(base / "s", cut), Told()
    with pytest.MonkeyPatch.context() as patch, suppress(PowerCut):
        patch.setattr(files, "os", disk)
        live(base / "s", parent, told)
    disk.crash_into(base / "after", lambda what: dice.randrange(3))
    assert_nothing_told_is_lost(base / "after", told)
    assert verify(parent) == []
    return not told.answered


def assert_nothing_told_is_lost(after: Path, told: Told) -> None:
    try:
        store = Store.open(after, retention=Retention(last=1))
    except SessionUnreadable as error:
        # Only a fork that was never reported as made may be missing or half made.
        assert "is not a session" in str(error) or "interrupted while it was made" in str(error)
        assert told.round == 0
        return
    with store:
        newest = store.round or 0
        assert newest in (told.round, max(told.round + 1, 2))
        assert store.session.records() == [record(round) for round in range(1, newest + 1)]
        assert server_value(store.session.load(newest, "server")) == newest
        partial = store.unfinished_round()
        if told.partial and newest == 2:
            assert partial is not None
        if partial:
            assert server_value(store.load_unfinished(partial, "client/0/state")) == 300
        waiting = [command.id for command in store.commands()]
        if told.posted:
            reply = answer(after, told.posted)
            assert (reply is None) == (newest < 4)
            assert waiting == ([told.posted] if reply is None else [])
        commit(store, newest + 1)
    assert [finding for finding in verify(after) if finding.severity == "damage"] == []


@pytest.mark.long
def test_a_power_cut_at_every_system_call_loses_no_fork_no_unfinished_round_and_no_command(
    tmp_path: Path, parent: Path
) -> None:
    cut, dice, struck = 0, random.Random(0), True
    while struck:
        (tmp_path / str(cut)).mkdir()
        struck = cut_the_power(tmp_path / str(cut), parent, cut, dice)
        cut += 1
    # Four commits of eight changes each at the least, the folders, and what lies between.
    assert cut > 100
