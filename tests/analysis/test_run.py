"""A session at one moment: its methods, its models, its rounds."""

from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints import Damaged, SessionUnreadable
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions


def test_the_methods_are_those_of_the_ledger_and_the_one_that_is_next(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=6, clients=2, switch=(4, "fedssa")))
    assert run.methods == ((1, "fedlora"), (5, "fedssa"))
    asked = {"event": "switched", "round": 6, "method": "fedgh"}
    assert replace(run, events=(*run.events, asked)).methods[-1] == (7, "fedgh")


def test_a_session_without_a_round_has_the_method_it_will_begin_with(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=0, of=5, clients=2, state="stopped"))
    assert (run.round, run.rounds, run.methods) == (0, 5, ((1, "fedlora"),))


def test_client_i_has_model_i_mod_x_of_its_group(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "s", rounds=1, clients=7))
    assert run.models == ["cnn1", "cnn2", "cnn3", "cnn4", "cnn5", "cnn1", "cnn2"]


def test_clients_of_whom_the_settings_do_not_say_have_an_unknown_model() -> None:
    ledger = Ledger.of([sessions.record(1, 3)])
    assert SessionData(Path("s"), ledger=ledger).models == ["?", "?", "?"]
    config = {"federation": {"clients": 2, "group": ["cnn1", "mine"]}}
    assert SessionData(Path("s"), config=config, ledger=ledger).models == ["cnn1", "mine", "?"]


def test_records_are_asked_for_by_round() -> None:
    run = SessionData(Path("s"), ledger=Ledger.of([sessions.record(round, 1) for round in (1, 2)]))
    assert [run.record(1), run.record(None)] == [*run.records]
    assert run.record(0) is run.record(3) is None


def test_reading_what_is_no_session_or_no_longer_one_raises(tmp_path: Path) -> None:
    with pytest.raises(SessionUnreadable, match="is not a session"):
        read(tmp_path)
    folder = sessions.make(tmp_path / "s", rounds=2, clients=2)
    (folder / "ledger.jsonl").write_bytes(b"{}\n" * 3)
    with pytest.raises(Damaged):
        read(folder)
