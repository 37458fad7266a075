"""Every system call of a commit fails once, for real: what was committed before stands."""

import errno
from pathlib import Path

import pytest

from checkpoints import DiskError, Retention, SessionReader, SessionUnreadable, Store, files, verify
from tests.checkpoints.disk import Failing
from tests.checkpoints.helpers import KEEP_ALL, commit, make, record, server_value, weights

CHANGES = {"write", "replace", "link", "mkdir"}


def break_second_commit(
    folder: Path, names: set[str], nth: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[bool, str]:
    """Commit round 1, then round 2 with the n-th of the calls failing; whether it came to that, and the error."""
    with monkeypatch.context() as patch:
        store = Store.create(folder, {}, Retention(last=1))
        commit(store, 1)
        failing = Failing(names, nth, code)
        patch.setattr(files, "os", failing)
        message = ""
        try:
            commit(store, 2)
        except DiskError as error:
            message = str(error)
            with pytest.raises(SessionUnreadable, match="after a failure"):
                commit(store, 3)
    store.close()
    return failing.struck, message


def assert_a_whole_round_stands(folder: Path) -> None:
    session = SessionReader(folder)
    newest = session.rounds()[-1]
    assert newest in (1, 2)
    assert server_value(session.load(newest, "server")) == newest
    assert session.records() == [record(round) for round in range(1, newest + 1)]
    with Store.open(folder, retention=KEEP_ALL) as store:
        assert store.round == newest
        commit(store, newest + 1)
    assert [finding for finding in verify(folder) if finding.severity == "damage"] == []
    assert list(folder.glob("tmp/*")) == []


def test_a_full_disk_at_any_write_leaves_a_whole_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nth, struck = 0, True
    while struck:
        folder = tmp_path / str(nth)
        struck, message = break_second_commit(folder, CHANGES, nth, errno.ENOSPC, monkeypatch)
        assert bool(message) == struck
        if struck:
            assert "no space left" in message
            assert str(folder) in message
        assert_a_whole_round_stands(folder)
        nth += 1
    # Two changed objects, the manifest and the ledger line are written; three are renamed or linked.
    assert nth > 7


def test_an_object_that_does_not_fit_says_how_many_bytes_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.create(tmp_path / "s", {})
    monkeypatch.setattr(files, "os", Failing({"write"}, 0, errno.ENOSPC))

    # 1,000 x 2 float32 and an int64 are 8,008 bytes; the header comes on top.
    with pytest.raises(DiskError, match=r"8,[12]\d\d bytes were needed"):
        store.put(weights(1, size=1000))
    store.close()


def test_a_failed_flush_is_never_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nth, struck = 0, True
    while struck:
        folder = tmp_path / str(nth)
        struck, message = break_second_commit(folder, {"fsync"}, nth, errno.EIO, monkeypatch)
        assert bool(message) == struck
        if struck:
            assert "htfl-sim verify" in message
            assert SessionReader(folder).state() != "stopped"
        assert_a_whole_round_stands(folder)
        nth += 1
    assert nth > 6


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


def test_a_failing_heartbeat_or_event_leaves_the_commits_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("heartbeat", "event"):
        folder = tmp_path / name
        with monkeypatch.context() as patch:
            store = Store.create(folder, {})
            commit(store, 1)
            patch.setattr(files, "os", Failing({"write"}, 0, errno.ENOSPC))
            with pytest.raises(DiskError):
                getattr(store, name)("paused")
            store.close()
        assert_a_whole_round_stands(folder)
