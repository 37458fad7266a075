"""Looking at sessions: all bytes of one, what is new in one, and what many came to last."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import checkpoints
from checkpoints import (
    Damaged,
    Growth,
    Retention,
    SessionFollower,
    SessionReader,
    Store,
    canonical,
    changed_stamp,
    first_record,
    is_session,
    last_record,
    post,
    reader,
    session_folders,
    size_on_disk,
    verify,
)
from tests.checkpoints.helpers import KEEP_ALL, commit, damaged, make, record, save_unfinished_round


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed session with every kind of file, retired rounds, and a last round that has no checkpoint."""
    folder = tmp_path_factory.mktemp("verify") / "s"
    with Store.create(folder, {"config": {"seed": 7}}, Retention(last=2)) as store:
        store.event("started")
        for round in range(1, 5):
            commit(store, round)
        save_unfinished_round(store, 5)
        post(folder, "pause")
        (command,) = store.commands()
        store.answer(command, "applied", "paused", round=4)
        store.append(record(5))
    post(folder, "switch", {"method": "fedgh"})
    return folder


def test_a_sound_session_has_no_damage(session: Path) -> None:
    assert [(finding.path, finding.severity) for finding in verify(session)] == [("ledger.jsonl", "note")]


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_flipped_bit_anywhere_is_found(session: Path, data: st.DataObject) -> None:
    files = sorted(path for path in session.rglob("*") if path.is_file() and path.stat().st_size)
    path = data.draw(st.sampled_from(files))
    whole = path.read_bytes()
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    path.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
    try:
        assert path.relative_to(session).as_posix() in damaged(session)
    finally:
        path.write_bytes(whole)


def test_a_damaged_object_is_named_with_its_round_and_client(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    ref = SessionReader(folder).manifest(2).states["client/0"]
    (folder / ref.name).write_bytes((folder / ref.name).read_bytes()[:-1])

    (finding,) = verify(folder)
    assert (finding.path, finding.severity) == (ref.name, "damage")
    assert finding.message.startswith("round 2, client/0: ")
    with pytest.raises(Damaged, match=r"round 2, client/0: .*cut short.* go on from round 1"):
        SessionReader(folder).load(2, "client/0")


def test_a_missing_object_is_found_and_the_session_not_opened(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    ref = SessionReader(folder).manifest(2).states["client/1"]
    (folder / ref.name).unlink()

    (folder / "lock").write_bytes(b"\1")

    found = {finding.path: finding.message for finding in verify(folder)}
    assert found.keys() == {ref.name, "lock"}
    assert found[ref.name] == f"round 1, client/1 and 1 more: {ref.name} is missing."
    (folder / "lock").write_bytes(b"")
    # client/1 never changed, so no earlier round helps.
    with pytest.raises(Damaged, match=r"round 2, client/1: .*is missing\. .*No earlier checkpoint"):
        Store.open(folder)


def test_a_damaged_manifest_is_refused_and_an_older_round_offered(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    path = folder / "manifests" / "000002.json"
    path.write_bytes(path.read_bytes().replace(b"fedlora", b"fedlorA"))
    objects = sorted(folder.glob("objects/??/*"))

    assert "manifests/000002.json" in damaged(folder)
    for use in (Store.open, lambda folder: SessionReader(folder).load(None, "server")):
        with pytest.raises(Damaged, match=r"000002.json is damaged.* go on from round 1"):
            use(folder)
    assert sorted(folder.glob("objects/??/*")) == objects


def test_strange_files_are_noted(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    strange = ["notes.txt", "manifests/1.json", "objects/x.bin", "objects/ab/short.safetensors"]
    strange += ["partial/client-3", "control/inbox/pause.json", "control/done/x"]
    (folder / "objects" / "ab").mkdir(exist_ok=True)
    for name in strange:
        (folder / name).write_text("x")

    findings = verify(folder)

    assert {finding.severity for finding in findings} == {"note"}
    assert sorted(finding.path for finding in findings) == sorted(strange)


def test_a_live_session_can_be_verified_between_any_two_steps(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, KEEP_ALL) as store:
        for round in range(1, 4):
            store.put({})
            save_unfinished_round(store, round)
            assert damaged(tmp_path / "s") == set()
            commit(store, round)
            store.heartbeat(round=round)
            post(tmp_path / "s", "checkpoint")
            assert damaged(tmp_path / "s") == set()


def test_an_unfinished_round_that_follows_no_checkpoint_is_noted(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(record(1))
        save_unfinished_round(store, 2)
    assert ("partial/000002.json", "note") in {(each.path, each.severity) for each in verify(tmp_path / "s")}


# Following: each change is told once, and each line is read once


def append(folder: Path, *rounds: int, end: bytes = b"\n") -> None:
    with (folder / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b"\n".join(canonical(record(round)) for round in rounds) + end)


def test_at_first_every_part_is_new_and_then_nothing_is(tmp_path: Path) -> None:
    follower = SessionFollower(SessionReader(make(tmp_path / "s", rounds=1)))
    parts = "document ledger events owner inbox tags checkpoints"
    assert list(follower.changes()) == parts.split()
    assert list(follower.changes()) == []
    checkpoints.post(follower.session.folder, "pause")
    assert list(follower.changes()) == ["inbox"]


def test_a_part_written_while_it_is_looked_at_is_told_again(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    follower = SessionFollower(SessionReader(folder))
    for part in follower.changes():
        if part == "ledger":
            append(folder, 2)
    assert list(follower.changes()) == ["ledger"]


def test_lines_are_read_once_and_a_torn_one_when_it_is_whole(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=0)
    follower = SessionFollower(SessionReader(folder))
    assert follower.new_records() == Growth([], anew=True)
    append(folder, 1, 2)
    assert follower.new_records() == Growth([record(1), record(2)], anew=False)
    assert follower.new_records() == Growth([], anew=False)
    append(folder, 3, end=b'\n{"accuracy":')
    assert follower.new_records() == Growth([record(3)], anew=False)
    whole = canonical(record(4)).removeprefix(b'{"accuracy":')
    with (folder / "ledger.jsonl").open("ab") as ledger:
        ledger.write(whole + b"\n")
    assert follower.new_records() == Growth([record(4)], anew=False)


@pytest.mark.parametrize("shorter", [True, False])
def test_another_ledger_is_read_from_its_beginning(shorter: bool, tmp_path: Path) -> None:
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
    for name, line, said in (
        ("spelling", b'{ "round": 2 }\n', "ledger.jsonl is damaged"),
        ("order", canonical(record(3)) + b"\n", "line 2 of the ledger is of round 3"),
    ):
        folder = make(tmp_path / name, rounds=1)
        follower = SessionFollower(SessionReader(folder))
        follower.new_records()
        with (folder / "ledger.jsonl").open("ab") as ledger:
            ledger.write(line)
        with pytest.raises(Damaged, match=rf"{folder}: {said}"):
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


# Listing many sessions


def test_a_session_that_lost_its_session_file_is_listed_and_other_folders_are_not(tmp_path: Path) -> None:
    for name in ("b", "a"):
        make(tmp_path / name, rounds=1)
    (tmp_path / "a" / "session.json").unlink()
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").touch()
    assert session_folders(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert [is_session(tmp_path / name) for name in ("a", "b", "notes")] == [False, True, False]
    assert session_folders(tmp_path / "nowhere") == []


@pytest.mark.parametrize("tail", [5, 1 << 16])
def test_the_last_record_is_read_from_the_end_however_long_it_is(
    tail: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TAIL", tail)
    for rounds, last in ((3, record(3)), (0, None)):
        assert last_record(SessionReader(make(tmp_path / str(rounds), rounds=rounds)), None) == last


def test_the_newest_checkpoint_makes_up_for_a_ledger_that_is_gone_or_torn(tmp_path: Path) -> None:
    for number, harm in enumerate([b"", b"torn"]):
        folder = make(tmp_path / str(number), rounds=2)
        (folder / "ledger.jsonl").write_bytes(harm)
        assert last_record(SessionReader(folder), SessionReader(folder).manifest()) == record(2)
        (folder / "ledger.jsonl").unlink()
        assert last_record(SessionReader(folder), SessionReader(folder).manifest()) == record(2)


def changed(folder: Path, round: int) -> None:
    """Change one digit in a line of the ledger: an accuracy of 0.5 becomes 0.9."""
    lines = (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    lines[round - 1] = lines[round - 1].replace(b"0.5", b"0.9")
    (folder / "ledger.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("round", [1, 3])
def test_a_changed_line_is_named_until_an_opening_rebuilds_it(round: int, tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=3)
    changed(folder, round)
    session = SessionReader(folder)
    for read in (session.records, session.lines, lambda: last_record(session, session.newest())):
        with pytest.raises(Damaged, match=rf"line {round} of ledger.jsonl, .* `htfl-sim resume {folder}`"):
            read()
    Store.open(folder, retention=KEEP_ALL).close()
    assert last_record(session, session.newest()) == record(3)


def test_a_changed_line_behind_the_newest_checkpoint_is_noticed(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, KEEP_ALL) as store:
        commit(store, 1)
        store.append(record(2))
    session = SessionReader(tmp_path / "s")
    assert last_record(session, session.newest()) == record(2)
    changed(tmp_path / "s", 2)
    for read in (session.records, lambda: last_record(session, session.newest())):
        with pytest.raises(Damaged, match="changed after its owner left it"):
            read()


def test_a_session_whose_newest_checkpoint_is_gone_has_no_newest(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=3)
    (folder / "manifests" / "000003.json").unlink()
    with pytest.raises(Damaged, match="checkpoint of round 3 is missing"):
        SessionReader(folder).newest()
    assert SessionReader(folder).manifest().round == 2, "a fork can go on from it"


@pytest.mark.parametrize("tail", [5, 1 << 16])
@pytest.mark.parametrize("first", [1, 2, 7, 9, 10])
def test_the_first_record_of_a_kind_is_found_in_a_few_lines(
    tail: int, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TAIL", tail)
    folder, seen = make(tmp_path / "s", rounds=9), list[int]()

    def holds(line: Mapping[str, Any]) -> bool:
        seen.append(line["round"])
        return bool(line["round"] >= first)

    found = first_record(SessionReader(folder), holds)
    assert found == (record(first) if first < 10 else None)
    assert len(seen) <= 4  # 9 lines by halves


def test_a_line_that_is_being_written_is_no_record(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    with (folder / "ledger.jsonl").open("ab") as file:
        file.write(b'{"round": 3')
    assert first_record(SessionReader(folder), lambda line: True) == record(1)
    assert first_record(SessionReader(folder), lambda line: False) is None


def test_size_on_disk_counts_files_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "s" / "deep").mkdir(parents=True)
    (tmp_path / "s" / "a").write_bytes(b"12345")
    (tmp_path / "s" / "deep" / "b").write_bytes(b"123")
    (tmp_path / "big").write_bytes(b"0" * 1000)
    (tmp_path / "s" / "link").symlink_to(tmp_path / "big")
    assert size_on_disk(tmp_path / "s") == 8
