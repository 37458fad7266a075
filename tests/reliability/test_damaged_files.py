"""Damaged, torn and hostile files: found before they are used, named, and never silent; and nothing else stops."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import htfl_sim as hs
from checkpoints import Damaged, SessionReader
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.overview import read_overviews
from simulator.studies.folder import Status
from tests.cli.conftest import Cli, assert_refused, rewrite
from tests.federations import committed
from tests.reliability.fuzz import close, write_ledger


def flip(path: Path, at: float) -> None:
    """One bit of a file, `at` of the way through."""
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 16
    path.write_bytes(data)


@pytest.mark.parametrize(("state", "at"), [("server", 0.02), ("client/2", 1.0)])
def test_a_flipped_bit_is_named_with_an_older_round(cli: Cli, done: Path, state: str, at: float) -> None:
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
def test_a_changed_digit_is_shown_as_damage(cli: Cli, done: Path, round: int, kept: int) -> None:
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
    assert rebuilt in str(feed.run.error) and not feed.run.records
    status = Status("done", 3).read(done)
    assert (status.state, status.round, status.accuracy) == ("failed", 0, None) and rebuilt in status.reason
    _, (fault,) = read_overviews([done])
    assert rebuilt in fault.error


ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": lambda folder: os.mkfifo(folder / "session.json"),
    "a loop of links": lambda folder: (folder / "session.json").symlink_to("session.json"),
    "a folder": lambda folder: (folder / "session.json").mkdir(),
    "no JSON": lambda folder: (folder / "session.json").write_bytes(b"\x00\x9b31m"),
    "a hole": lambda folder: (folder / "session.json").open("wb").truncate(3 << 30),
    "manifests alone": lambda folder: (folder / "manifests").mkdir(),
    "a link for manifests": lambda folder: (
        (folder / "session.json").write_bytes(b"{}"),
        (folder / "manifests").symlink_to("/dev"),
    ),
}


@pytest.mark.long
def test_an_odd_neighbour_is_listed_with_its_reason_and_stops_nothing(cli: Cli, done: Path) -> None:
    for number, make in enumerate(ODD.values()):
        odd = done.parent / f"odd{number}"
        odd.mkdir()
        make(odd)
        assert_refused(cli("show", odd.name), 4, odd.name)
        feed = Feed(odd)  # as the app reads it
        assert feed.poll() and feed.run.error
    listed = cli("sessions", "--json")
    assert listed.code == 0
    by_name = {each["name"]: each for each in listed.json()}
    assert by_name.pop("done")["state"] == "finished"
    assert len(by_name) == len(ODD)
    assert all(each["state"] == "damaged" and each["error"] for each in by_name.values())
    assert cli("show", "done").code == 0
    assert cli("fork", "done", "--at-round=1", "--session=other").code == 0


@pytest.mark.long
def test_damaged_events_are_said_and_the_rest_of_a_session_is_shown(cli: Cli, done: Path) -> None:
    lines = (done / "events.jsonl").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"checkpoint", b"checkpoimt")
    (done / "events.jsonl").write_bytes(b"".join(lines))
    page = cli("show", "done")
    assert page.code == 0 and "damaged: events.jsonl line 2" in page.out and "accuracy" in page.out
    found = cli("show", "done", "--json").json()
    assert len(found["events"]) == len(lines) - 1 and len(found["event_faults"]) == 1
    assert found["record"]["round"] == 3
    verified = cli("verify", "done")
    assert verified.code == 4 and "events.jsonl line 2 is damaged" in verified.out
    assert cli("switch", "done", "fedlora", "--set=rounds=4").code == 0
    assert cli("resume", "done").code == 0, "what is only told keeps nothing from going on"


@pytest.mark.long
def test_settings_that_no_session_has_are_damage_and_no_mistake_of_the_user(cli: Cli, done: Path) -> None:
    config = SessionReader(done).document["config"]
    wrong = (
        ("data", "partition", "by feeling"),
        ("runtime", "workers", -1),
        ("federation", "group", "nobody"),
    )
    for section, key, value in wrong:
        rewrite(done, config=config | {section: config[section] | {key: value}})
        assert_refused(cli("resume", "done"), 4, "done", "settings are not valid")


@pytest.mark.long
def test_a_ledger_that_is_sealed_and_says_anything_is_damage_to_a_resume(cli: Cli, done: Path) -> None:
    """What clients were last measured at is read from the records of all rounds, not from the newest alone."""
    lines = SessionReader(done).records()
    lines[0]["evaluation"] = {"test": "as good as it gets"}
    write_ledger(done, lines)
    close(done)
    assert_refused(cli("resume", "done", "--rounds=5"), 4, "the record of round 1 is none of its own")
