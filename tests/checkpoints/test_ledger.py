"""A ledger that was torn, cut or lost is rebuilt from the checkpoints, and otherwise refused by name."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import Damaged, Retention, SessionReader, Store, verify
from tests.checkpoints.helpers import KEEP_ALL, commit, make, record, server_value, weights


def assert_whole_again(folder: Path, rounds: int) -> None:
    expected = [record(round) for round in range(1, rounds + 1)]
    assert SessionReader(folder).records() == expected
    with Store.open(folder, retention=KEEP_ALL) as store:
        assert store.session.records() == expected
        assert "ledger.jsonl" in store.session.events()[-1]["message"]
    assert verify(folder) == []


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_ledger_cut_anywhere_is_rebuilt_when_all_checkpoints_are_kept(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = make(tmp_path_factory.mktemp("ledger") / "s", rounds=3)
    raw = (folder / "ledger.jsonl").read_bytes()
    cut = data.draw(st.integers(0, len(raw) - 1))
    (folder / "ledger.jsonl").write_bytes(raw[:cut])

    assert_whole_again(folder, rounds=3)


def test_a_line_that_was_made_longer_is_rebuilt_with_one_warning(tmp_path: Path) -> None:
    """The rebuilt ledger is shorter, and the bytes beyond its length are no line of their own."""
    folder = make(tmp_path / "s", rounds=3)
    raw = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(raw.replace(b"0.25", b"0.2500", 1))
    with Store.open(folder) as store:
        assert store.take_warnings() == [
            "ledger.jsonl was torn or altered; it was rebuilt from the checkpoints."
        ]
    assert (folder / "ledger.jsonl").read_bytes() == raw


def test_a_missing_ledger_is_rebuilt(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=2)
    (folder / "ledger.jsonl").unlink()

    assert any(finding.path == "ledger.jsonl" for finding in verify(folder))
    assert_whole_again(folder, rounds=2)


def test_an_altered_line_whose_checkpoint_is_gone_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=3, retention=Retention(last=1))
    raw = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(raw.replace(b"0.25", b"0.26", 1))

    for use in (Store.open, lambda path: SessionReader(path).records()):
        with pytest.raises(Damaged, match="is damaged before round 3"):
            use(folder)


def test_a_torn_event_line_is_cut_off_and_said(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"at":"20')

    assert [event["event"] for event in SessionReader(folder).events()] == ["started"]
    with Store.open(folder) as store:
        commit(store, 2)
    assert [event["event"] for event in SessionReader(folder).events()] == ["started", "warning"]
    assert verify(folder) == []


def test_a_round_gets_its_checkpoint_after_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}, KEEP_ALL) as store:
        for round in (1, 2, 3):
            store.append(record(round))
        commit(store, 3)
        commit(store, 4)

    session = SessionReader(folder)
    assert session.records() == [record(round) for round in (1, 2, 3, 4)]
    assert session.rounds() == [3, 4]
    # Two lines come before round 3's.
    line = len((folder / "ledger.jsonl").read_bytes()) // 4
    assert session.manifest(3).ledger.bytes == 2 * line
    with Store.open(folder) as store:
        assert store.round == 4
        assert server_value(store.session.load(3, "server")) == 3
    assert verify(folder) == []


def test_the_late_checkpoint_brings_the_record_that_was_appended(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(record(1))
        with pytest.raises(ValueError, match="record of round 1 is not the one in the ledger"):
            store.commit(1, {"server": store.put(weights(1))}, record(1, score=0.9), [], [])
        commit(store, 1)
        with pytest.raises(ValueError, match="round 1 comes after round 1"):
            commit(store, 1)
    assert SessionReader(tmp_path / "s").records() == [record(1)]
