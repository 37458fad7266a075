"""Following a session: each change is told once, and each line of the ledger is read once."""

from pathlib import Path

import pytest

import checkpoints
from checkpoints import (
    Damaged,
    Growth,
    SessionFollower,
    SessionReader,
    Store,
    canonical,
    changed_stamp,
)
from tests.checkpoints.helpers import KEEP_ALL, commit, make, record


def append(folder: Path, *rounds: int, end: bytes = b"\n") -> None:
    with (folder / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b"\n".join(canonical(record(round)) for round in rounds) + end)


def test_at_first_every_part_is_new_and_then_nothing_is(tmp_path: Path) -> None:
    follower = SessionFollower(SessionReader(make(tmp_path / "s", rounds=1)))
    assert list(follower.changes()) == [
        "document",
        "ledger",
        "events",
        "owner",
        "inbox",
        "tags",
        "checkpoints",
    ]
    assert list(follower.changes()) == []


def test_a_part_that_is_written_is_told_once(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    follower = SessionFollower(SessionReader(folder))
    list(follower.changes())
    checkpoints.post(folder, "pause")
    assert list(follower.changes()) == ["inbox"]
    with Store.open(folder, retention=KEEP_ALL) as store:
        list(follower.changes())
        commit(store, 2)
        assert {"ledger", "checkpoints"} <= set(follower.changes())
    assert "owner" in list(follower.changes())


def test_a_part_written_while_it_is_looked_at_is_told_again(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    follower = SessionFollower(SessionReader(folder))
    for part in follower.changes():
        if part == "ledger":
            append(folder, 2)
    assert list(follower.changes()) == ["ledger"]


def test_lines_are_read_once_and_a_torn_one_when_it_is_whole(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    follower = SessionFollower(SessionReader(folder))
    assert follower.new_records() == Growth([record(1), record(2)], anew=True)
    assert follower.new_records() == Growth([], anew=False)
    append(folder, 3, end=b'\n{"accuracy":')
    assert follower.new_records() == Growth([record(3)], anew=False)
    whole = canonical(record(4)).removeprefix(b'{"accuracy":')
    with (folder / "ledger.jsonl").open("ab") as ledger:
        ledger.write(whole + b"\n")
    assert follower.new_records() == Growth([record(4)], anew=False)


def test_lines_after_the_first_look_are_not_skipped_however_it_began(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=0)
    follower = SessionFollower(SessionReader(folder))
    assert follower.new_records() == Growth([], anew=True)
    append(folder, 1, 2)
    assert follower.new_records() == Growth([record(1), record(2)], anew=False)


@pytest.mark.parametrize("shorter", [True, False])
def test_a_ledger_in_place_of_the_one_before_is_read_from_its_beginning(
    shorter: bool, tmp_path: Path
) -> None:
    folder = make(tmp_path / "s", rounds=2)
    follower = SessionFollower(SessionReader(folder))
    follower.new_records()
    ledger, scratch = folder / "ledger.jsonl", folder / "new"
    lines = ledger.read_bytes().splitlines(keepends=True)
    if shorter:
        ledger.write_bytes(lines[0])
    else:
        scratch.write_bytes(b"".join(lines))
        scratch.replace(ledger)
    assert follower.new_records() == Growth([record(1), record(2)], anew=True)  # its checkpoint has round 2


def test_a_line_that_its_checkpoint_had_before_the_ledger_does_not_count_twice(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    ledger = folder / "ledger.jsonl"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole.splitlines(keepends=True)[0])
    follower = SessionFollower(SessionReader(folder))
    assert follower.new_records() == Growth([record(1), record(2)], anew=True)
    with ledger.open("ab") as file:
        file.write(whole.splitlines(keepends=True)[1])
    assert follower.new_records() == Growth([record(1), record(2)], anew=True)
    assert follower.new_records() == Growth([], anew=False)


def test_a_new_line_that_is_not_what_was_written_is_damage_and_names_the_session(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    follower = SessionFollower(SessionReader(folder))
    follower.new_records()
    with (folder / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{ "round": 2 }\n')
    with pytest.raises(Damaged, match=rf"{folder}: ledger.jsonl is damaged"):
        follower.new_records()


def test_a_stamp_changes_with_every_command_round_and_beat(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    before = changed_stamp(folder)
    assert changed_stamp(folder) == before
    checkpoints.post(folder, "pause")
    after = changed_stamp(folder)
    assert after != before
    append(folder, 2)
    assert changed_stamp(folder) not in (before, after)
