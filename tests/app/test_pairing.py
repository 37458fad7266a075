"""The partner of the session shown, found and read by the thread that reads files."""

from pathlib import Path

import pytest
from textual.message import Message

from tests import sessions
from tests.app.panels.stage import read
from tui.app import watch
from tui.app.messages import PairRead
from tui.app.watch import Pairing


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    monkeypatch.setattr(watch, "SEARCH_SECONDS", 0.0)
    return []


def names(told: list[Message]) -> list[str | None]:
    return [each.pair and each.pair.partner.name for each in told if isinstance(each, PairRead)]


def test_a_partner_is_told_once_and_again_when_it_grows(tmp_path: Path, told: list[Message]) -> None:
    run = read(sessions.make(tmp_path / "run", clients=2, rounds=3))
    alone = sessions.make(tmp_path / "alone", clients=2, rounds=2, method="standalone", state="stopped")
    reader = Pairing(told.append)
    for _ in range(3):
        reader.look(run)
    assert names(told) == ["alone"]
    with (alone / "ledger.jsonl").open("a") as ledger:
        ledger.write(sessions.line(3, 2))
    reader.look(run)
    assert isinstance(told[-1], PairRead) and told[-1].pair is not None
    assert told[-1].pair.other.round == 3 and names(told) == ["alone", "alone"]


def test_one_that_appears_and_goes_is_told(tmp_path: Path, told: list[Message]) -> None:
    run = read(sessions.make(tmp_path / "run", clients=2, rounds=3))
    reader = Pairing(told.append)
    reader.look(run)
    alone = sessions.make(tmp_path / "alone", clients=2, rounds=3, method="standalone")
    reader.look(run)
    alone.rename(tmp_path.parent / f"{tmp_path.name}-away")
    reader.look(run)
    reader.look(run)
    assert names(told) == [None, "alone", None]


def test_a_preferred_partner_comes_before_the_best(tmp_path: Path, told: list[Message]) -> None:
    run = read(sessions.make(tmp_path / "run", clients=2, rounds=3))
    sessions.make(tmp_path / "long", clients=2, rounds=3, method="standalone")
    short = sessions.make(tmp_path / "short", clients=2, rounds=1, of=3, method="standalone", state="stopped")
    reader = Pairing(told.append)
    reader.look(run)
    reader.prefer(short)
    reader.look(run)
    assert names(told) == ["long", "short"]
