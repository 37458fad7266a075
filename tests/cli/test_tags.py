"""`htfl-sim tag`, `htfl-sim note`, `run --tag`, `sessions --tag`, and tag:NAME where sessions are named."""

import json
from pathlib import Path

import checkpoints
from simulator.config import Config
from simulator.sessions.session import Session
from tests import federations
from tests.cli.conftest import TINY, Cli
from tests.cli.test_bad_input import assert_refused


def listed(cli: Cli, *tags: str) -> list[str]:
    return [each["name"] for each in cli("sessions", "--json", *(f"--tag={tag}" for tag in tags)).json()]


def test_a_run_is_marked_and_found_and_its_bits_are_those_of_one_that_is_not(
    cli: Cli, sessions: Path
) -> None:
    run = ("run", *TINY, "--rounds=1", "--method=standalone")
    assert cli(*run, "--session=a", "--tag=paper", "--tag=t3").code == 0
    assert cli(*run, "--session=b").code == 0
    assert checkpoints.tags_of(sessions / "a") == ("paper", "t3")
    assert federations.committed(sessions / "a") == federations.committed(sessions / "b")
    assert cli("tag", "b", "paper", "base").code == 0
    assert listed(cli, "paper") == ["a", "b"] and listed(cli, "paper", "base") == ["b"]
    assert listed(cli, "nothing") == []
    assert "paper, t3" in cli("sessions").out and "tags" in cli("show", "a").out
    assert json.loads(cli("show", "a", "--json").out)["tags"] == ["paper", "t3"]
    assert cli("tag", "a", "--remove=paper", "--json").json() == {"session": "a", "tags": ["t3"]}

    table = cli("compare", "tag:paper", "tag:t3", "--format=csv")
    assert table.code == 0 and len(table.out.splitlines()) == 3, table.err
    assert_refused(cli("compare", "tag:papr"), 4, "no session in", "marked 'papr'. Did you mean 'paper'")


def test_a_note_is_written_shown_listed_and_removed(cli: Cli, done: Path) -> None:
    assert cli("note", "done").out == "done: no note\n"
    assert cli("note", "done", "the lr of the paper").out == "done: the lr of the paper\n"
    assert cli("note", "done", "--json").json() == {"session": "done", "note": "the lr of the paper"}
    assert "the lr of the paper" in cli("show", "done").out
    (found,) = cli("sessions", "--json").json()
    assert found["note"] == "the lr of the paper"
    assert_refused(cli("note", "done", "two\nlines"), 2, "a note is one line without control characters")
    assert cli("note", "done", "").out == "done: no note\n"


def test_what_is_no_tag_is_refused_before_anything_is_written(cli: Cli, sessions: Path, done: Path) -> None:
    for words in (("run", *TINY, "--session=a", "--tag=two words"), ("tag", "done", "\x1b[2J")):
        assert_refused(cli(*words), 2, "is not a tag: use up to 40 letters")
    assert not (sessions / "a").exists() and not (done / "tags.json").exists()


def test_a_listing_shows_a_session_whose_tags_are_damaged(cli: Cli, done: Path) -> None:
    (done / "tags.json").write_text("no JSON")
    assert listed(cli) == ["done"]
    (found,) = cli("verify", "done", "--json").json()["findings"]
    assert found["path"] == "tags.json"


def test_the_owner_of_a_session_writes_the_tags_that_are_asked_for(done: Path, sessions: Path) -> None:
    config = Config.read(checkpoints.SessionReader(done).document["config"]).with_(rounds=1)
    with Session.create(config, sessions / "live", sessions) as live:
        good = checkpoints.post(live.folder, "tag", {"add": ["paper", "old"], "remove": ["old"]})
        noted = checkpoints.post(live.folder, "tag", {"add": [], "remove": [], "note": "fine"})
        bad = [
            checkpoints.post(live.folder, "tag", arguments)
            for arguments in (
                {},
                {"add": ["\x1b"], "remove": []},
                {"add": [3], "remove": []},
                {"add": [], "remove": [], "note": 3},
                {"add": [], "remove": [], "note": "two\nlines"},
            )
        ]
        live.run()
    answer = checkpoints.answer(sessions / "live", good.id)
    assert answer is not None and (answer.outcome, answer.message) == ("applied", "paper")
    for each in bad:
        answer = checkpoints.answer(sessions / "live", each.id)
        assert answer is not None and answer.outcome == "refused"
    answer = checkpoints.answer(sessions / "live", noted.id)
    assert answer is not None and answer.outcome == "applied"
    assert checkpoints.marks_of(sessions / "live") == (("paper",), "fine")


def test_a_tag_that_was_asked_of_a_process_that_died_is_set_by_the_next(cli: Cli, done: Path) -> None:
    checkpoints.post(done, "tag", {"add": ["late"], "remove": []})
    assert cli("resume", "done", "--rounds=4").code == 0
    assert checkpoints.tags_of(done) == ("late",)
