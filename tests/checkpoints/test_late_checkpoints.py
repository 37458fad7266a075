"""A round that has its line in the ledger can be given its checkpoint afterwards."""

from pathlib import Path

import pytest

from checkpoints import Retention, SessionReader, Store, verify
from tests.checkpoints.helpers import KEEP_ALL, commit, record, server_value, weights


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


def test_only_the_last_round_gets_a_late_checkpoint(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        store.append(record(1))
        store.append(record(2))
        with pytest.raises(ValueError, match="round 1 comes after round 2"):
            commit(store, 1)


def test_a_late_checkpoint_retires_older_ones(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}, Retention(last=1)) as store:
        commit(store, 1)
        store.append(record(2))
        commit(store, 2)
        assert store.session.rounds() == [2]
        assert verify(tmp_path / "s") == []
