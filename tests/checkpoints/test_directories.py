"""Forks, hidden folders of killed commands, other names, tags, and notes."""

import errno
import os
import shutil
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
from checkpoints import (
    Damaged,
    Locked,
    Retention,
    SessionReader,
    SessionUnreadable,
    Store,
    files,
    prune,
    verify,
)
from checkpoints.schema import seal
from tests.checkpoints.disk import Failing
from tests.checkpoints.helpers import commit, make, record, server_value
from tests.processes import FORKED
from tests.reliability.sessions import contents

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


def test_a_fork_and_its_parent_outlive_each_others_pruning(parent: Path, tmp_path: Path) -> None:
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


def test_a_fork_interrupted_while_it_was_made_is_refused(parent: Path, tmp_path: Path) -> None:
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


# Hidden folders and other names


def make_and_wait(folder: Path, pipe: Connection) -> None:
    """In a process of its own: begin to make a session, say so, and wait."""
    with checkpoints.in_private(folder) as private:
        Store.create(private, {"config": {}}).close()
        pipe.send(private.name)
        pipe.recv()


def remove_and_wait(folder: Path, pipe: Connection) -> None:
    """In a process of its own: begin to remove a session, say so, and wait."""

    def wait(private: Path) -> None:
        pipe.send(private.name)
        pipe.recv()

    shutil.rmtree = wait  # type: ignore[assignment]
    checkpoints.remove(folder)


@pytest.mark.parametrize("work", [make_and_wait, remove_and_wait])
def test_the_folder_of_a_killed_command_can_be_removed(tmp_path: Path, work: object) -> None:
    if work is remove_and_wait:
        make(tmp_path / "s")
    here, there = FORKED.Pipe()
    process = FORKED.Process(target=work, args=(tmp_path / "s", there), daemon=True)
    process.start()
    name = here.recv()

    [busy] = checkpoints.leftovers(tmp_path)
    assert (busy.path.name, busy.in_use) == (name, True)
    with pytest.raises(Locked, match="is in use by"):
        checkpoints.remove_leftover(busy)

    process.kill()
    process.join()
    [left] = checkpoints.leftovers(tmp_path)
    assert (left.path.name, left.in_use) == (name, False)
    checkpoints.remove_leftover(left)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_go_while_a_session_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal comes between the making of the folder and its lock."""
    mkdir, times = os.mkdir, iter(range(100))

    def mkdir_and_remove(path: str | Path, *about: int, **more: int) -> None:
        mkdir(path, *about, **more)
        if Path(path).name.endswith(".new") and next(times) == 0:
            checkpoints.remove_leftover(checkpoints.leftovers(tmp_path)[0])

    monkeypatch.setattr(os, "mkdir", mkdir_and_remove)
    assert checkpoints.verify(make(tmp_path / "s")) == []
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_what_is_left_in_a_group_is_listed_and_links_are_not(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "points.json").write_text("[]")
    for name in ("study/.a.0123456789abcdef.new", ".b.0123456789abcdef.new", ".c", "d.0123456789abcdef.new"):
        (tmp_path / name).mkdir()
    (tmp_path / ".e.0123456789abcdef.new").symlink_to(tmp_path / "study")
    (tmp_path / ".f.0123456789abcdef.new").write_text("")
    assert [left.path.name for left in checkpoints.leftovers(tmp_path)] == [
        ".b.0123456789abcdef.new",
        ".a.0123456789abcdef.new",
    ]


def test_a_folder_of_another_machine_can_be_stolen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = make(tmp_path / "s").rename(tmp_path / ".s.0123456789abcdef.new")
    monkeypatch.setattr("checkpoints.lock.is_elsewhere", lambda note: True)
    [found] = checkpoints.leftovers(tmp_path)
    with pytest.raises(Locked, match="add `steal=True`"):
        checkpoints.remove_leftover(found)
    checkpoints.remove_leftover(found, steal=True)
    assert not left.exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session of two rounds that nobody runs."""
    return make(tmp_path / "s", rounds=2)


def test_who_runs_a_session_keeps_its_name(folder: Path) -> None:
    with Store.open(folder), pytest.raises(Locked):
        checkpoints.rename(folder, "t")
    assert folder.is_dir()


def test_a_name_that_is_taken_stays_with_what_has_it(folder: Path, tmp_path: Path) -> None:
    taken = [make(tmp_path / "a", rounds=1), *(tmp_path / name for name in "bcd")]
    taken[1].mkdir()
    taken[2].write_text("mine")
    taken[3].symlink_to(tmp_path / "nowhere")
    for place in taken:
        with pytest.raises(SessionUnreadable, match="is there already"):
            checkpoints.rename(folder, place.name)
        assert folder.is_dir() and os.path.lexists(place)


def test_only_a_sessions_own_folder_is_renamed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(folder)
    for other in ("precious", "link"):
        with pytest.raises(SessionUnreadable, match="nothing was renamed"):
            checkpoints.rename(tmp_path / other, "t")


# Tags and notes


def test_words_are_added_and_removed_and_a_note_stays_until_another_one_replaces_it(folder: Path) -> None:
    mark, note = checkpoints.mark, "the lr of the paper, 10 clients"
    assert checkpoints.marks_of(folder) == ((), "")
    assert mark(folder, ["table-3", "paper"]).tags == ("paper", "table-3")
    assert mark(folder, ["paper", "old"], remove=["table-3", "absent"], note=note) == (("old", "paper"), note)
    assert checkpoints.marks_of(folder) == (("old", "paper"), note)
    assert mark(folder, [], remove=["old", "paper"]) == ((), note)
    assert mark(folder, [], note="π ≈ 3").note == "π ≈ 3"
    assert mark(folder, [], note="") == ((), "")


NO_NOTES = [("two\nlines", "control characters"), ("\x1b[2J", "control characters"), ("x" * 1001, "has 1001")]


def test_a_note_is_one_line_of_at_most_a_thousand_letters(folder: Path) -> None:
    for text, fault in NO_NOTES:
        assert checkpoints.check_note("x" * 1000) == "x" * 1000
        with pytest.raises(ValueError, match=fault):
            checkpoints.mark(folder, ["paper"], note=text)
        assert not (folder / "tags.json").exists()


MARKED = ("tags.json", "owner.json")


def test_what_a_killed_session_has_after_its_checkpoint_stays_and_so_does_its_state(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", {})
    commit(store, 1)
    store.append(record(2))  # of a round without a checkpoint of its own, which the next opening cuts off
    store._owner.let_go()
    reader, before = checkpoints.SessionReader(tmp_path / "s"), contents(tmp_path / "s", MARKED)
    assert checkpoints.mark(tmp_path / "s", ["killed"]).tags == ("killed",)
    assert (reader.state(), len(reader.records())) == ("interrupted", 2)
    assert contents(tmp_path / "s", MARKED) == before


def test_who_does_not_own_a_session_writes_no_tags(folder: Path) -> None:
    with Store.open(folder) as owner:
        with pytest.raises(Locked):
            checkpoints.mark(folder, ["paper"])
        assert owner.tag(["mine"]).tags == ("mine",)
    assert checkpoints.tags_of(folder) == ("mine",)


@pytest.mark.long
@given(st.text(max_size=60))
def test_a_tag_is_a_short_plain_word(text: str) -> None:
    plain = 0 < len(text) <= 40 and text[0].isalnum() and text.isascii()
    plain = plain and all(each.isalnum() or each in "._-" for each in text)
    if plain:
        assert checkpoints.check_tag(text) == text
    else:
        with pytest.raises(ValueError, match="is not a tag: use up to 40 letters"):
            checkpoints.check_tag(text)


def test_there_are_at_most_fifty(folder: Path) -> None:
    checkpoints.mark(folder, [f"t{number}" for number in range(50)])
    with pytest.raises(ValueError, match="at most 50 tags"):
        checkpoints.mark(folder, ["one-more"])
    assert len(checkpoints.tags_of(folder)) == 50


OF_STRANGERS = [
    b"{}\n",
    *[seal({"tags": tags}) for tags in ("paper", [3], ["\x1b[2J"], ["x" * 41], [f"t{n}" for n in range(51)])],
    *[seal({"tags": [], "note": note}) for note in (3, "\x1b[2Jcleared", "x" * 1001)],
    seal({"tags": ["paper"]}).replace(b"paper", b"papers"),
]


def test_a_stranger_s_file_is_damage_and_the_next_tag_replaces_it(folder: Path) -> None:
    for content in OF_STRANGERS:
        (folder / "tags.json").write_bytes(content)
        with pytest.raises(Damaged, match=r"tags\.json"):
            checkpoints.tags_of(folder)
        assert [(each.path, each.severity) for each in checkpoints.verify(folder)] == [
            ("tags.json", "damage")
        ]
        assert checkpoints.mark(folder, ["paper"]).tags == ("paper",)
        assert checkpoints.verify(folder) == []


def test_a_link_or_a_folder_in_its_place_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(seal({"tags": ["theirs"]}))
    (folder / "tags.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged):
        checkpoints.tags_of(folder)
    with Store.open(folder) as owner:
        with pytest.raises(ValueError, match="not a plain file"):
            owner.tag(["paper"])
        (folder / "tags.json").unlink()
        (folder / "tags.json").mkdir()
        with pytest.raises(ValueError, match="not a plain file"):
            owner.tag(["paper"])
        owner.event("warning", message="it goes on")
    assert (tmp_path / "elsewhere").read_bytes() == seal({"tags": ["theirs"]})
