"""Power is cut, and system calls fail at any moment: the last commit is there, whole."""

import errno
import random
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from checkpoints import (
    DiskError,
    Retention,
    SessionReader,
    SessionUnreadable,
    Store,
    answer,
    files,
    post,
    verify,
)
from tests.checkpoints.disk import Failing, PowerCut, Recording
from tests.checkpoints.helpers import (
    commit,
    make,
    record,
    save_unfinished_round,
    server_value,
    weights,
)


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
def test_a_power_cut_at_every_system_call_loses_nothing(tmp_path: Path, parent: Path) -> None:
    cut, dice, struck = 0, random.Random(0), True
    while struck:
        (tmp_path / str(cut)).mkdir()
        struck = cut_the_power(tmp_path / str(cut), parent, cut, dice)
        cut += 1
    # Four commits of eight changes each at the least, the folders, and what lies between.
    assert cut > 100


# Calls that fail


@pytest.mark.long
@pytest.mark.parametrize(
    ("calls", "code", "says"),
    [
        ({"write", "replace", "link", "mkdir", "unlink"}, errno.ENOSPC, "no space left"),
        ({"fsync"}, errno.EIO, "htfl-sim verify"),
    ],
)
def test_a_disk_that_refuses_any_call_loses_nothing(
    tmp_path: Path, parent: Path, calls: set[str], code: int, says: str
) -> None:
    nth, struck = 0, True
    while struck:
        base, told, disk = tmp_path / str(nth), Told(), Failing(calls, nth, code)
        base.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "os", disk)
            try:
                live(base / "s", parent, told)
            except DiskError as error:
                assert says in str(error)
        if (base / "s").exists():
            shutil.copytree(
                base / "s", base / "after"
            )  # its owner is in this process, and still holds its lock
        assert_nothing_told_is_lost(base / "after", told)
        struck, nth = disk.struck, nth + 1
    assert told.answered and nth > 30


def test_an_object_that_does_not_fit_says_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.create(tmp_path / "s", {})
    monkeypatch.setattr(files, "os", Failing({"write"}, 0, errno.ENOSPC))

    # 1,000 x 2 float32 and an int64 are 8,008 bytes; the header comes on top.
    with pytest.raises(DiskError, match=r"8,[12]\d\d bytes were needed"):
        store.put(weights(1, size=1000))
    store.close()


def test_after_a_failure_a_checkpoint_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_cannot_be_written_is_not_half_posted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
