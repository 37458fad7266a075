"""One owner, whose heart beats by itself: others are told who holds the session, and the dead hold nothing."""

import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from checkpoints import Locked, SessionReader, Store, files, lock
from checkpoints.schema import seal
from tests.checkpoints.disk import Failing
from tests.checkpoints.helpers import commit, make
from tests.processes import FORKED


def hold(folder: Path, conversation: Connection) -> None:
    with Store.open(folder):
        conversation.send(os.getpid())
        conversation.recv()


def leave_note(folder: Path, **facts: Any) -> None:
    """The note of an owner that never closed; by default one on this machine, in this boot."""
    note = {
        "host": socket.gethostname(),
        "boot_id": lock.boot_id(),
        "pid": 1,
        "start_time": 1.0,
        "since": "2026-01-01T00:00:00.000Z",
        "heartbeat": 5,
        "closed": False,
        "state": "running",
    }
    (folder / "owner.json").write_bytes(seal(note | facts))


@pytest.mark.long
def test_a_second_process_is_told_who_holds_the_session_until_it_lets_go(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    mine, its = FORKED.Pipe()
    child = FORKED.Process(target=hold, args=(folder, its))
    child.start()
    pid = mine.recv()

    with pytest.raises(Locked, match=rf"process {pid} on {socket.gethostname()} since \d{{4}}-"):
        Store.open(folder)
    with pytest.raises(Locked):
        Store.open(folder, steal=True)
    assert SessionReader(folder).state() == "running"

    mine.send("let go")
    child.join()
    Store.open(folder).close()


def test_the_same_process_cannot_open_a_session_twice(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}), pytest.raises(Locked, match=f"process {os.getpid()}"):
        Store.open(tmp_path / "s")


def test_an_owner_holds_a_session_while_it_may_live(tmp_path: Path) -> None:
    folder, parent = make(tmp_path / "s", rounds=1), os.getppid()
    started = psutil.Process(parent).create_time()
    lives = {"pid": parent, "start_time": started}  # its lock file was removed
    elsewhere = {"host": "elsewhere", "boot_id": "another"}
    another_of_its_number = {"pid": parent, "start_time": started - 60}
    before_the_machine_started_again = lives | {"boot_id": "another"}
    for facts in (another_of_its_number, before_the_machine_started_again):
        leave_note(folder, **facts)
        Store.open(folder).close()
    for facts, said in (
        (lives, f"process {parent} .*still running"),
        (elsewhere, r"process 1 on elsewhere since 2026-01-01.*--steal"),
    ):
        leave_note(folder, **facts)
        with pytest.raises(Locked, match=said):
            Store.open(folder)
    Store.open(folder, steal=True).close()


def test_half_a_note_left_by_a_power_cut_locks_nobody_out(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    (folder / "owner.json").write_bytes(b'{"host":')

    assert SessionReader(folder).state() == "interrupted"
    Store.open(folder).close()


def test_watching_does_not_keep_an_owner_out(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    leave_note(folder, pid=2**22 + 1)
    watching = threading.Event()

    def watch() -> None:
        while not watching.is_set():
            lock.is_held(folder)

    watchers = [threading.Thread(target=watch) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(10):
            with Store.open(folder) as store:
                assert store.round == 1
    finally:
        watching.set()
        for watcher in watchers:
            watcher.join()


@pytest.fixture(autouse=True)
def quick(no_pulse: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PULSE_SECONDS", 0.01)
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.01)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def beats(folder: Path) -> int:
    note = SessionReader(folder).owner()
    assert note is not None
    return int(note["heartbeat"])


def has_heart(folder: Path) -> bool:
    return any(thread.name == f"heartbeat of {folder}" for thread in threading.enumerate())


def test_the_note_moves_and_keeps_its_facts_while_the_owner_says_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        store.heartbeat("paused", round=3)
        before = beats(folder)
        until(lambda: beats(folder) > before + 3)
        note = SessionReader(folder).owner() or {}
        assert (note["state"], note["progress"], note["closed"]) == ("paused", {"round": 3}, False)


def test_nothing_is_written_after_the_release_and_no_thread_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    store = Store.create(folder, {})
    assert has_heart(folder)
    store.close("finished")
    note = (folder / "owner.json").read_bytes()

    until(lambda: not has_heart(folder))
    assert (folder / "owner.json").read_bytes() == note
    assert SessionReader(folder).state() == "finished"


def test_an_opening_that_fails_leaves_no_heart_beating(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    (folder / "tmp" / "folder").mkdir()

    with pytest.raises(Exception, match="did not make"):
        Store.open(folder)
    until(lambda: not has_heart(folder))


def test_a_beat_that_the_disk_refuses_is_kept_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        with monkeypatch.context() as patch:
            patch.setattr(files, "os", failing := Failing({"replace"}, 0, errno.ENOSPC))
            until(lambda: failing.struck)
        before = beats(folder)
        until(lambda: beats(folder) > before)
        commit(store, 1)


def test_an_owner_that_was_displaced_while_it_slept_leaves_the_new_owners_note_alone(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}):
        leave_note(folder, host="elsewhere", boot_id="another", heartbeat=9)
        note = (folder / "owner.json").read_bytes()
        time.sleep(0.1)
        assert (folder / "owner.json").read_bytes() == note
    assert (folder / "owner.json").read_bytes() == note


@pytest.mark.long
def test_a_sleeping_owner_elsewhere_is_not_displaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock file is removed, as if the flock did not reach here; only the note tells that the owner lives."""
    monkeypatch.setattr(lock, "WATCH_SECONDS", 0.5)
    folder = tmp_path / "s"
    with Store.create(folder, {}):
        monkeypatch.setattr(lock, "host", lambda: "elsewhere")
        monkeypatch.setattr(lock, "boot_id", lambda: "another")
        (folder / "lock").unlink()

        with pytest.raises(Locked, match="its heartbeat still moves"):
            Store.open(folder, steal=True)


def test_a_session_is_alive_as_long_as_somebody_owns_it(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}):
        assert SessionReader(folder).alive()
    assert not SessionReader(folder).alive()

    leave_note(folder, pid=2**22 + 1)  # died here
    assert not SessionReader(folder).alive()
    leave_note(folder, host="elsewhere", boot_id="another")
    assert SessionReader(folder).alive()
    leave_note(folder, host="elsewhere", boot_id="another", closed=True)
    assert not SessionReader(folder).alive()
    (folder / "owner.json").write_bytes(seal({})[:-5])
    assert not SessionReader(folder).alive()
