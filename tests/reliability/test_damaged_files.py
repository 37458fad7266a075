"""Damaged, torn and hostile files: found before they are used, named, and never silent, by the commands themselves."""

import re
from pathlib import Path

import pytest

import htfl_sim as hs
from checkpoints import Damaged, SessionReader
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.overview import read_overviews
from simulator.studies.folder import Status
from tests.cli.conftest import Cli, assert_refused
from tests.federations import committed


def flip(path: Path, at: float) -> None:
    """One bit of a file, `at` of the way through."""
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 16
    path.write_bytes(data)


@pytest.mark.parametrize(("state", "at"), [("server", 0.02), ("client/2", 1.0)])
def test_a_bit_flipped_object_is_found_named_and_an_older_round_offered(
    cli: Cli, done: Path, state: str, at: float
) -> None:
    name = SessionReader(done).manifest().states[state].name
    flip(done / name, at)
    assert_refused(cli("resume", "done"), 4, "round 3", name)
    assert_refused(cli("resume", "done"), 4, state, "go on from round 2")
    assert cli("fork", "done", "--at-round=2", "--session=child", "--run").code == 0


def test_a_torn_last_ledger_line_is_rebuilt_and_said(cli: Cli, done: Path) -> None:
    before = committed(done)
    whole = (done / "ledger.jsonl").read_bytes()
    (done / "ledger.jsonl").write_bytes(whole[:-40])
    assert cli("show", "done", "--round=3", "--json").json()["round"] == 3
    assert committed(done) == before, "a reader fills in what is missing"
    assert cli("resume", "done").code == 0
    assert (done / "ledger.jsonl").read_bytes() == whole
    assert any(event["event"] == "warning" for event in SessionReader(done).events())


def change_a_digit(session: Path, round: int) -> None:
    """Have a line of the ledger say that the mean accuracy was 90 % or more."""
    lines = (session / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    lines[round - 1], found = re.subn(rb'(?<="mean":0\.)\d', b"9", lines[round - 1], count=1)
    assert found
    (session / "ledger.jsonl").write_bytes(b"".join(lines))


@pytest.mark.long
@pytest.mark.parametrize(("round", "kept"), [(3, 3), (1, 1)])
def test_a_changed_digit_of_the_ledger_is_shown_as_damage_and_never_as_a_result(
    cli: Cli, done: Path, round: int, kept: int
) -> None:
    """Also where the checkpoint of the changed round is no longer kept, so that nothing can rebuild it."""
    assert cli("prune", "done", f"--keep-last={kept}", "--no-keep-best").code == 0
    change_a_digit(done, round)
    rebuilt = f"line {round} of ledger.jsonl" if kept == 3 or round == 3 else "is damaged before round 3"
    for words in (
        "show",
        "compare",
        "plot accuracy --out a.svg",
        "export",
        "report --out a.html",
        "why --client 1",
    ):
        assert_refused(cli(*words.split(), "done"), 4, "done", rebuilt)
    listed = cli("sessions")
    assert "damaged" in listed.out and rebuilt in listed.err and "%" not in listed.out
    assert rebuilt in cli("verify", "done").out
    with pytest.raises(Damaged, match=rebuilt):
        hs.open(done).records()
    feed = Feed(done)
    feed.poll()
    assert rebuilt in str(feed.run.error) and not feed.run.ledger.records
    status = Status("done", 3).read(done)
    assert (status.state, status.round, status.accuracy) == ("failed", 0, None) and rebuilt in status.reason
    _, (fault,) = read_overviews([done])
    assert rebuilt in fault.error
