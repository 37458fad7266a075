"""What is only told, and what lies beside a session: damage there is said, and nothing else stops."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints import SessionReader
from simulator.results.analysis.feed import Feed
from tests.cli.conftest import Cli, assert_refused, rewrite
from tests.reliability.fuzz import close, write_ledger

pytestmark = pytest.mark.long

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


def test_a_ledger_that_is_sealed_and_says_anything_is_damage_to_a_resume(cli: Cli, done: Path) -> None:
    """What clients were last measured at is read from the records of all rounds, not from the newest alone."""
    lines = SessionReader(done).records()
    lines[0]["evaluation"] = {"test": "as good as it gets"}
    write_ledger(done, lines)
    close(done)
    assert_refused(cli("resume", "done", "--rounds=5"), 4, "the record of round 1 is none of its own")
