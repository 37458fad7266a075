"""An owner that was displaced while it slept writes nothing when it wakes, whatever it was about to do."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Displaced, Retention, SessionReader, SessionUnreadable, Store, lock, post, verify
from tests.checkpoints.helpers import commit, damaged, make, record, save_unfinished_round
from tests.checkpoints.test_lock import leave_note
from tests.reliability.sessions import contents

ELSEWHERE = {"host": "elsewhere", "boot_id": "another"}
OBJECTS = ("objects",)
"""They displace nothing: their names are their contents."""


@pytest.fixture(autouse=True)
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder where an flock does not reach from one owner to the other, as from machine to machine."""
    monkeypatch.setattr(lock.fcntl, "flock", lambda *_: None)


def asleep(folder: Path) -> Store:
    """The owner of a session of three rounds, with an unfinished one, and a command that waits."""
    store = Store.create(folder, {}, Retention(last=2))
    for round in (1, 2, 3):
        commit(store, round)
    save_unfinished_round(store, 4)
    post(folder, "stop")
    return store


@pytest.fixture
def sleeper(tmp_path: Path) -> Store:
    return asleep(tmp_path / "s")


def displace(folder: Path) -> Store:
    """Another owner of the session, as if it ran elsewhere: here it has the sleeper's own process number."""
    return Store.open(folder, retention=Retention(last=2))


DEEDS: dict[str, Callable[[Store], Any]] = {
    "commit": lambda store: commit(store, 4),
    "append": lambda store: store.append(record(4)),
    "answer": lambda store: store.answer(store.commands()[0], "applied"),
    "event": lambda store: store.event("paused"),
    "heartbeat": lambda store: store.heartbeat("paused"),
    "prune": lambda store: store.prune(Retention(last=1)),
    "save an unfinished round": lambda store: save_unfinished_round(store, 4, clients=2),
}


def test_a_displaced_owner_is_told_by_whom_and_writes_nothing(tmp_path: Path) -> None:
    for deed in DEEDS:
        sleeper = asleep(tmp_path / deed)
        with displace(sleeper.folder):
            before = contents(sleeper.folder, OBJECTS)
            with pytest.raises(
                Displaced, match=rf"displaced by process {os.getpid()} on .*; nothing was written"
            ):
                DEEDS[deed](sleeper)
            sleeper.close()
            assert contents(sleeper.folder, OBJECTS) == before
        assert damaged(sleeper.folder) == set()


def test_a_round_that_was_retired_meanwhile_is_never_linked_again(sleeper: Store) -> None:
    """Also where the note of the new owner is not seen in time, as on a share that shows it late."""
    with displace(sleeper.folder) as owner:
        for round in (4, 5, 6, 7):
            commit(owner, round)
        sleeper._owner.check = lambda: None  # type: ignore[method-assign]
        with pytest.raises(SessionUnreadable, match=r"changed it|written by another program"):
            commit(sleeper, 4)
        sleeper.close()
        commit(owner, 8)
    assert SessionReader(sleeper.folder).rounds() == [7, 8]
    assert damaged(sleeper.folder) == set()


def test_an_owner_that_wakes_late_undoes_its_link(sleeper: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def sleep_before_the_link(*names: Any, **options: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        other = lock.Ownership.acquire(sleeper.folder)
        other.claim()
        other.let_go()
        link(*names, **options)
        assert SessionReader(sleeper.folder).rounds() == [2, 3, 4]

    monkeypatch.setattr(os, "link", sleep_before_the_link)
    with pytest.raises(Displaced):
        commit(sleeper, 4)
    sleeper.close()
    assert SessionReader(sleeper.folder).rounds() == [2, 3]
    with displace(sleeper.folder) as owner:
        commit(owner, 4)
    assert damaged(sleeper.folder) == set()


def test_a_manifest_of_an_owner_killed_right_after_such_a_link_is_found_and_removed(tmp_path: Path) -> None:
    """Its record's clock is another, so the ledger that the newest checkpoint vouches for does not have it."""
    folder = make(tmp_path / "s", rounds=4, retention=Retention(last=2))
    other = make(tmp_path / "other", rounds=1)
    with Store.open(other) as store:
        store.commit(2, {}, record(2, score=0.1), [], [])
    (folder / "manifests" / "000002.json").write_bytes((other / "manifests" / "000002.json").read_bytes())

    (finding,) = verify(folder)
    assert (finding.path, finding.severity) == ("manifests/000002.json", "damage")
    assert "displaced" in finding.message
    with Store.open(folder, retention=Retention(last=2)) as store:
        assert "000002.json is not of this session's course" in store.take_warnings()[0]
        commit(store, 5)
    assert verify(folder) == []


def test_a_line_that_a_displaced_owner_got_in_is_not_built_upon(sleeper: Store) -> None:
    """No check can come between the last look and the write itself; the next look finds it."""
    owner = displace(sleeper.folder)
    with (sleeper.folder / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"round":4}\n')
    with pytest.raises(SessionUnreadable, match=r"ledger\.jsonl has .* another program changed it"):
        commit(owner, 4)
    owner.close()
    with displace(sleeper.folder) as again:
        assert [each["round"] for each in again.session.records()] == [1, 2, 3]
        commit(again, 4)
    assert damaged(sleeper.folder) == set()


def test_a_note_that_a_displaced_owner_wrote_over_the_new_one_is_put_right(sleeper: Store) -> None:
    """It was stopped between its look and its rename."""
    stale = (sleeper.folder / "owner.json").read_bytes()
    with displace(sleeper.folder) as owner:
        (sleeper.folder / "owner.json").write_bytes(stale)
        commit(owner, 4)
        assert (sleeper.folder / "owner.json").read_bytes() != stale
        with pytest.raises(Displaced):
            commit(sleeper, 4)
        sleeper.close()
        commit(owner, 5)
    assert damaged(sleeper.folder) == set()


def test_of_two_that_take_over_at_once_one_gives_way(sleeper: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper.close()
    leave_note(sleeper.folder, **ELSEWHERE)
    settle, second = lock.time.sleep, []

    def let_the_other_in(seconds: float) -> None:
        monkeypatch.setattr(lock.time, "sleep", settle)
        monkeypatch.setattr(lock, "_refuse_living", lambda *_: True)
        second.append(displace(sleeper.folder))

    first = lock.Ownership.acquire(sleeper.folder, steal=True)
    monkeypatch.setattr(lock.time, "sleep", let_the_other_in)
    with pytest.raises(Displaced):
        first.claim()
    first.let_go()
    commit(second[0], 4)
    second[0].close()
    assert damaged(sleeper.folder) == set()


def test_who_took_the_session_while_it_was_looked_at_is_not_taken_over(sleeper: Store) -> None:
    sleeper.close()
    late = lock.Ownership.acquire(sleeper.folder)
    with displace(sleeper.folder), pytest.raises(SessionUnreadable, match="was taken by process"):
        late.claim()
    late.let_go()


def test_an_earlier_version_that_steals_the_session_displaces_too(sleeper: Store) -> None:
    """Its notes have no epoch."""
    leave_note(sleeper.folder, **ELSEWHERE)
    with pytest.raises(Displaced, match="process 1 on elsewhere"):
        commit(sleeper, 4)
    sleeper.close()


def test_without_locks_the_note_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", unsupported)
    folder = make(tmp_path / "s", rounds=1)
    with Store.open(folder) as store:
        commit(store, 2)
    leave_note(folder, **ELSEWHERE)
    with pytest.raises(SessionUnreadable, match="--steal`"):
        Store.open(folder)


def test_an_owner_that_may_live_is_watched_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of this machine, whose start since then looks alike, or a container's process: its heart beats."""
    folder = make(tmp_path / "s", rounds=1)
    for facts in ({"boot_id": "another"}, {"process_space": "pid:[1]"}):
        leave_note(folder, **facts, heartbeat=5)
        with monkeypatch.context() as patch:
            patch.setattr(lock.time, "sleep", lambda _, facts=facts: leave_note(folder, **facts, heartbeat=6))
            with pytest.raises(SessionUnreadable, match="its heartbeat still moves"):
                Store.open(folder)
    leave_note(folder, boot_id="another", machine_id="another")  # it bears this one's name only
    with pytest.raises(SessionUnreadable, match=r"on another machine\. .*: `htfl-sim resume \S+ --steal`"):
        Store.open(folder)


@pytest.mark.parametrize("call", ["link", "replace"])
def test_a_call_tried_again_is_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """NFS says that the name exists, or that there is nothing to rename: it is ours."""
    real = getattr(os, call)

    def twice(*names: Any, **options: Any) -> None:
        real(*names, **options)
        real(*names, **options)

    with Store.create(tmp_path / "s", {}) as store:
        monkeypatch.setattr(os, call, twice)
        commit(store, 1)
    assert verify(tmp_path / "s") == []


def test_a_note_of_control_characters_is_no_note(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    leave_note(folder, host="\x1b[2J\x9b31m", boot_id="another")
    assert SessionReader(folder).state() == "interrupted"
    (finding,) = verify(folder)
    assert finding.message == "owner.json is not an owner's note: host is not as it should be."
