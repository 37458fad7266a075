"""Every system call of steering fails once, for real: rounds, finished clients and commands stand."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints import DiskError, SessionReader, SessionUnreadable, Store, answer, files, post, verify
from tests.checkpoints.disk import Failing
from tests.checkpoints.helpers import (
    KEEP_ALL,
    commit,
    make,
    record,
    save_unfinished_round,
    server_value,
    weights,
)

CHANGES = {"write", "replace", "link", "mkdir", "unlink"}


def save(store: Store, parent: Path) -> None:
    save_unfinished_round(store, 2, clients=2)


def reply(store: Store, parent: Path) -> None:
    for command in store.commands():
        store.answer(command, "applied", round=1)


def commit_after_append(store: Store, parent: Path) -> None:
    store.append(record(2))
    commit(store, 2)


def take(store: Store, parent: Path) -> None:
    for ref in SessionReader(parent).manifest(3).states.values():
        store.import_object(parent, ref)
    store.commit(2, {"server": store.put(weights(2))}, record(2), [], [])


def begin(folder: Path) -> Store:
    """A session of one round, one client of the second, and a command."""
    store = Store.create(folder, {}, KEEP_ALL)
    commit(store, 1)
    save_unfinished_round(store, 2)
    post(folder, "pause")
    return store


def assert_all_stands(folder: Path, command: str) -> None:
    with Store.open(folder, retention=KEEP_ALL) as store:
        newest = store.round
        assert newest in (1, 2)
        assert server_value(store.session.load(newest, "server")) == newest
        assert store.session.records() == [record(round) for round in range(1, newest + 1)]
        partial = store.unfinished_round()
        assert (partial is not None) == (newest == 1)
        if partial:
            assert server_value(store.load_unfinished(partial, "client/0/state")) == 200
        waiting = [each.id for each in store.commands()]
        assert waiting == ([] if answer(folder, command) else [command])
        commit(store, newest + 1)
    assert [finding for finding in verify(folder) if finding.severity == "damage"] == []
    assert list(folder.glob("tmp/*")) == []


@pytest.mark.parametrize("action", [save, reply, commit_after_append, take])
@pytest.mark.parametrize(
    ("calls", "code", "says"),
    [(CHANGES, errno.ENOSPC, "no space left"), ({"fsync"}, errno.EIO, "htfl-sim verify")],
)
def test_a_disk_that_refuses_any_call_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: Callable[[Store, Path], None],
    calls: set[str],
    code: int,
    says: str,
) -> None:
    parent = make(tmp_path / "parent", rounds=3)
    nth, struck = 0, True
    while struck:
        folder = tmp_path / str(nth)
        store = begin(folder)
        (command,) = [path.stem for path in (folder / "control" / "inbox").iterdir()]
        with monkeypatch.context() as patch:
            patch.setattr(files, "os", failing := Failing(calls, nth, code))
            try:
                action(store, parent)
            except DiskError as error:
                assert says in str(error)
                with pytest.raises(SessionUnreadable, match="after a failure"):
                    store.commands()
            struck = failing.struck
        store.close()
        assert_all_stands(folder, command)
        nth += 1
    assert nth > 3


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_command_that_cannot_be_written_is_not_half_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    folder = make(tmp_path / "s", rounds=1)
    for call in ("open", "write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            # session.json takes two openings, looking at the inbox three.
            patch.setattr(files, "os", failing := Failing({call}, 0 if call != "open" else 5, code))
            with pytest.raises(DiskError, match=str(folder)):
                post(folder, "pause")
            assert failing.struck
        assert list((folder / "control" / "inbox").iterdir()) == []
