"""A fork shares its parent's objects and lines, owes it nothing afterwards, and is whole or not there."""

import errno
from pathlib import Path

import pytest

from checkpoints import Damaged, Retention, SessionReader, SessionUnreadable, Store, files, prune, verify
from tests.checkpoints.disk import Failing
from tests.checkpoints.helpers import commit, make, record, server_value

LINE = b'{"round":%d}\n'


def fork(parent: Path, folder: Path, round: int) -> Path:
    manifest = SessionReader(parent).manifest(round)
    lines = (parent / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    about = {"parent": {"name": parent.name, "round": round}}
    pinned = Retention(last=1, pinned=frozenset({round}))
    with Store.create(folder, about, pinned, ledger=b"".join(lines[: round - 1])) as store:
        for ref in manifest.states.values():
            store.import_object(parent, ref)
        store.commit(round, manifest.states, manifest.record, manifest.history, [])
    return folder


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("objects/??/*")}


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return make(tmp_path / "parent", rounds=3)


def test_a_fork_is_its_parent_up_to_the_round(parent: Path, tmp_path: Path) -> None:
    session = SessionReader(fork(parent, tmp_path / "fork", 2))

    assert session.parent == {"name": "parent", "round": 2}
    assert session.records() == [record(1), record(2)]
    assert session.manifest(2).states == SessionReader(parent).manifest(2).states
    assert session.manifest(2).ledger == SessionReader(parent).manifest(2).ledger
    assert verify(session.folder) == []
    assert SessionReader(parent).parent is None


def test_a_fork_outlives_the_pruning_of_its_parent_and_the_parent_that_of_its_fork(
    parent: Path, tmp_path: Path
) -> None:
    child = fork(parent, tmp_path / "fork", 2)

    prune(parent, Retention(last=1))
    assert SessionReader(parent).rounds() == [3]
    assert server_value(SessionReader(child).load(2, "server")) == 2
    with Store.open(child, retention=Retention(last=1)) as store:
        commit(store, 3)
        commit(store, 4)
    assert verify(parent) == verify(child) == []


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP])
def test_where_files_cannot_have_two_names_the_objects_are_copied(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with monkeypatch.context() as patch:
        # session.json is linked first, then three objects.
        for nth in (1, 2, 3):
            patch.setattr(files, "os", failing := Failing({"link"}, nth, code))
            child = fork(parent, tmp_path / str(nth), 2)
            assert failing.struck
            shared = inodes(child).items() & inodes(parent).items()
            assert len(shared) == 2
            assert verify(child) == []
            assert list(child.glob("tmp/*")) == []


def test_an_object_that_is_there_already_is_taken_once(parent: Path, tmp_path: Path) -> None:
    ref = SessionReader(parent).manifest(1).states["server"]
    with Store.create(tmp_path / "s", {}) as store:
        store.import_object(parent, ref)
        store.import_object(parent, ref)
        (tmp_path / "s" / ref.name).unlink()
        (tmp_path / "s" / ref.name).write_bytes(b"cut sho")
        store.import_object(parent, ref)
        store.commit(0, {"server": ref}, None, [], [])
        assert server_value(store.session.load(0, "server")) == 1
    assert server_value(SessionReader(parent).load(1, "server")) == 1


def test_a_damaged_object_of_the_parent_is_named_and_not_taken(parent: Path, tmp_path: Path) -> None:
    ref = SessionReader(parent).manifest(2).states["server"]
    path = parent / ref.name
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    with Store.create(tmp_path / "s", {}) as store:
        with pytest.raises(Damaged, match=f"{parent}: {ref.name} is damaged"):
            store.import_object(parent, ref)
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(Damaged, match="links are not followed"):
            store.import_object(parent, ref)
        with pytest.raises(ValueError, match="not put into this session"):
            store.commit(0, {"server": ref}, None, [], [])


def test_a_fork_interrupted_while_it_was_made_is_not_taken_for_a_run_from_the_beginning(
    parent: Path, tmp_path: Path
) -> None:
    Store.create(tmp_path / "s", {"parent": {"round": 2}}, ledger=LINE % 1).close()

    with pytest.raises(SessionUnreadable, match="interrupted while it was made"):
        Store.open(tmp_path / "s")


NOT_THE_FIRST = [
    LINE % 2,
    LINE % 1 + LINE % 3,
    LINE % 1 + LINE % 1,
    (LINE % 1)[:-1],
    b"\n",
    LINE % 1 + b"x\n",
    b'{"a":1}\n',
]


def test_a_ledger_that_is_not_the_first_rounds_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    for lines in NOT_THE_FIRST:
        with pytest.raises(Damaged, match=r"ledger\.jsonl"):
            Store.create(tmp_path / "s", {}, ledger=lines)
        assert not (tmp_path / "s").exists()


def test_after_inherited_lines_only_later_rounds_are_committed(parent: Path, tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, ledger=LINE % 1 + LINE % 2) as store:
        assert store.round == 2
        with pytest.raises(ValueError, match="round 1 comes after round 2"):
            commit(store, 1)
        commit(store, 3)
    assert [each["round"] for each in SessionReader(tmp_path / "s").records()] == [1, 2, 3]
