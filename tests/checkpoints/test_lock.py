"""One owner: others are told who holds the session, and the dead hold nothing."""

import os
import socket
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from checkpoints import Locked, SessionReader, Store, lock
from checkpoints.schema import seal
from tests.checkpoints.helpers import make
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
    """By number and start: of a process that lives, of one that was given a dead one's number, of another machine."""
    folder, parent = make(tmp_path / "s", rounds=1), os.getppid()
    started = psutil.Process(parent).create_time()
    for facts, said in (
        (
            {"pid": parent, "start_time": started},
            f"process {parent} .*still running",
        ),  # its lock file was removed
        ({"pid": parent, "start_time": started - 60}, None),
        (
            {"boot_id": "another", "pid": parent, "start_time": started},
            None,
        ),  # from before the machine started again
        ({"host": "elsewhere", "boot_id": "another"}, r"process 1 on elsewhere since 2026-01-01.*--steal"),
    ):
        leave_note(folder, **facts)
        if said:
            with pytest.raises(Locked, match=said):
                Store.open(folder)
        else:
            Store.open(folder).close()
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
