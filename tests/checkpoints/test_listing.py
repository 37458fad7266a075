"""Listing many sessions: which there are, and what each came to last, without reading all of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checkpoints import (
    Damaged,
    SessionReader,
    Store,
    first_record,
    is_session,
    last_record,
    reader,
    session_folders,
    size_on_disk,
)
from tests.checkpoints.helpers import KEEP_ALL, commit, make, record


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
    folder = make(tmp_path / "s", rounds=3)
    assert last_record(SessionReader(folder), None) == record(3)


def test_a_round_without_a_checkpoint_is_the_last_one_all_the_same(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, KEEP_ALL) as store:
        commit(store, 1)
        store.append(record(2))
        assert last_record(SessionReader(tmp_path / "s"), store.session.manifest()) == record(2)


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
def test_a_changed_line_is_no_record_and_is_named_until_the_next_opening_rebuilds_it(
    round: int, tmp_path: Path
) -> None:
    folder = make(tmp_path / "s", rounds=3)
    changed(folder, round)
    session = SessionReader(folder)
    for read in (session.records, session.lines, lambda: last_record(session, session.newest())):
        with pytest.raises(Damaged, match=rf"line {round} of ledger.jsonl, .* `htfl-sim resume {folder}`"):
            read()
    Store.open(folder, retention=KEEP_ALL).close()
    assert last_record(session, session.newest()) == record(3)


def test_a_changed_line_behind_the_newest_checkpoint_is_noticed_by_the_note_of_a_closed_owner(
    tmp_path: Path,
) -> None:
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


def test_before_the_first_round_there_is_no_record(tmp_path: Path) -> None:
    assert last_record(SessionReader(make(tmp_path / "s", rounds=0)), None) is None


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
