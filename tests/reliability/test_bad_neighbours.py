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

Make = Callable[[Path], object]


def a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "session.json")


def a_loop_of_links(folder: Path) -> None:
    (folder / "session.json").symlink_to("session.json")


def a_folder(folder: Path) -> None:
    (folder / "session.json").mkdir()


def no_json(folder: Path) -> None:
    (folder / "session.json").write_bytes(b"\x00\x9b31m")


def a_hole_of_three_gigabytes(folder: Path) -> None:
    (folder / "session.json").touch()
    os.truncate(folder / "session.json", 3 << 30)


def manifests_alone(folder: Path) -> None:
    (folder / "manifests").mkdir()


def a_link_for_manifests(folder: Path) -> None:
    (folder / "session.json").write_bytes(b"{}")
    (folder / "manifests").symlink_to("/dev")


ODD = (
    a_pipe,
    a_loop_of_links,
    a_folder,
    no_json,
    a_hole_of_three_gigabytes,
    manifests_alone,
    a_link_for_manifests,
)


@pytest.mark.parametrize("make", ODD)
def test_an_odd_neighbour_is_listed_with_its_reason_and_stops_nothing(
    cli: Cli, done: Path, make: Make
) -> None:
    odd = done.parent / "odd"
    odd.mkdir()
    make(odd)
    listed = cli("sessions", "--json")
    assert listed.code == 0
    by_name = {each["name"]: each for each in listed.json()}
    assert by_name["done"]["state"] == "finished"
    assert by_name["odd"]["state"] == "damaged" and by_name["odd"]["error"]
    assert cli("show", "done").code == 0
    assert_refused(cli("show", "odd"), 4, "odd")
    assert cli("fork", "done", "--at-round=1", "--session=other").code == 0
    feed = Feed(odd)  # as the app reads it
    assert feed.poll() and feed.run.error


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


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("data", "partition", "by feeling"), ("runtime", "workers", -1), ("federation", "group", "nobody")],
)
def test_settings_that_no_session_has_are_damage_and_no_mistake_of_the_user(
    cli: Cli, done: Path, section: str, key: str, value: object
) -> None:
    config = SessionReader(done).document["config"]
    rewrite(done, config=config | {section: config[section] | {key: value}})
    assert_refused(cli("resume", "done"), 4, "done", "settings are not valid")


def test_a_ledger_that_is_sealed_and_says_anything_is_damage_to_a_resume(cli: Cli, done: Path) -> None:
    """What clients were last measured at is read from the records of all rounds, not from the newest alone."""
    lines = SessionReader(done).records()
    lines[0]["evaluation"] = {"test": "as good as it gets"}
    write_ledger(done, lines)
    close(done)
    assert_refused(cli("resume", "done", "--rounds=5"), 4, "the record of round 1 is none of its own")
