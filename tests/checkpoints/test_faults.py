"""Every system call fails once, for real: rounds, finished clients, and commands stand."""

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


def test_an_object_that_does_not_fit_says_how_many_bytes_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.create(tmp_path / "s", {})
    monkeypatch.setattr(files, "os", Failing({"write"}, 0, errno.ENOSPC))

    # 1,000 x 2 float32 and an int64 are 8,008 bytes; the header comes on top.
    with pytest.raises(DiskError, match=r"8,[12]\d\d bytes were needed"):
        store.put(weights(1, size=1000))
    store.close()


def test_after_a_failure_the_newest_checkpoint_is_read_in_full_when_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    with monkeypatch.context() as patch:
        store = Store.create(folder, {})
        commit(store, 1)
        patch.setattr(files, "os", Failing({"fsync"}, 0, errno.EIO))
        with pytest.raises(DiskError):
            store.event("paused")
        store.close()
    path = folder / SessionReader(folder).manifest().states["server"].name
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    with pytest.raises(SessionUnreadable, match="round 1, server"):
        Store.open(folder)


def test_a_second_writer_of_a_round_is_stopped_by_its_manifest(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", {})
    commit(store, 1)
    other = make(tmp_path / "other", rounds=2) / "manifests" / "000002.json"
    (tmp_path / "s" / "manifests" / "000002.json").write_bytes(other.read_bytes())

    with pytest.raises(SessionUnreadable, match="round 2 was written by another program"):
        commit(store, 2)
    with pytest.raises(SessionUnreadable, match="after a failure"):
        commit(store, 3)
    store.close()
    assert (tmp_path / "s" / "manifests" / "000002.json").read_bytes() == other.read_bytes()


CHANGES = {"write", "replace", "link", "mkdir", "unlink"}


def save(store: Store, parent: Path) -> None:
    save_unfinished_round(store, 2, clients=2)


def reply(store: Store, parent: Path) -> None:
    store.event("paused")
    store.heartbeat("paused")
    for command in store.commands():
        store.answer(command, "applied", round=1)


def commit_next(store: Store, parent: Path) -> None:
    commit(store, 2)


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


@pytest.mark.long
@pytest.mark.parametrize("action", [save, reply, commit_next, commit_after_append, take])
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


def test_a_command_that_cannot_be_written_is_not_half_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "s", rounds=1)
    for code in (errno.ENOSPC, errno.EROFS):
        for call in ("open", "write", "fsync", "replace"):
            with monkeypatch.context() as patch:
                # session.json takes two openings, looking at the inbox three.
                patch.setattr(files, "os", failing := Failing({call}, 0 if call != "open" else 5, code))
                with pytest.raises(DiskError, match=str(folder)):
                    post(folder, "pause")
                assert failing.struck
            assert list((folder / "control" / "inbox").iterdir()) == []
