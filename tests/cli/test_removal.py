"""`rm` and `rename`: sessions go or move only when somebody said so, and never while they run."""

import json
import shutil
from pathlib import Path

import checkpoints
from checkpoints import Store
from simulator.config import Config
from simulator.results.analysis.reproduction import command_lines
from simulator.sessions.session import Session
from tests import federations
from tests.cli.conftest import TINY, Cli, assert_refused


def test_a_session_is_removed_whole_when_that_is_said(cli: Cli, done: Path) -> None:
    other = Path(shutil.copytree(done, done.parent / "other"))
    asked = cli("rm", "done")  # nobody is there to answer
    assert asked.code == 2 and "Add --yes" in asked.err and "finished" in asked.err
    assert checkpoints.verify(done) == []
    result = cli("rm", "done", "--yes")
    assert result.code == 0 and f"removed {done}" in result.err
    assert not done.exists() and list(done.parent.iterdir()) == [other]


RUN = "is run by process", "Stop it first: `htfl-sim stop"


def test_a_session_that_runs_is_neither_removed_nor_renamed(cli: Cli, done: Path) -> None:
    other = Path(shutil.copytree(done, done.parent / "other"))
    with Store.open(done, retention=checkpoints.Retention(last=3)):
        assert_refused(cli("rm", "other", "done", "--yes"), 4, *RUN)
        assert_refused(cli("rename", "done", "new"), 4, *RUN)
    assert_refused(cli("rename", "done", "other"), 2, "is there already", "Choose another name")
    assert done.is_dir() and other.is_dir()
    (done / "session.json").write_text("{")  # a damaged one can be removed too
    assert cli("rm", "done", "--yes").code == 0 and not done.exists()


def test_a_folder_that_is_no_session_is_left_alone(cli: Cli, done: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    assert_refused(cli("rm", tmp_path / "precious", "--yes"), 4, "is not a session", "nothing was removed")
    link = done.parent / "link"
    link.symlink_to(done)
    assert_refused(cli("rm", "link", "--yes"), 4, "nothing was removed")
    assert (tmp_path / "precious" / "file").read_text() == "mine" and done.is_dir()


def test_a_fork_finds_its_renamed_parent_and_stays_sound_without_it(cli: Cli, done: Path) -> None:
    assert cli("fork", "done", "--at-round=3", "--session=child", "--rounds=5").code == 0
    result = cli("rename", "done", "origin")
    assert result.code == 0 and result.out == "renamed done to origin\n"
    assert not done.exists() and checkpoints.verify(done.parent / "origin") == []
    assert "origin at round 3" in cli("show", "child").out
    listed = {each["name"]: each["parent"] for each in cli("sessions", "--json").json()}
    assert listed["child"]["name"] == "origin" and listed["origin"] is None
    (line,) = command_lines(done.parent / "child")
    assert "htfl-sim fork origin --at-round 3" in line
    assert cli("rm", "origin", "--yes").code == 0 and cli("verify", "child").code == 0


def test_leftovers_are_listed_with_all_and_removed_by_one_command(cli: Cli, done: Path) -> None:
    left = Path(shutil.copytree(done, done.parent / ".gone.0123456789abcdef.new"))
    assert [each["name"] for each in cli("sessions", "--json").json()] == ["done"]
    assert "1 leftover" in cli("sessions").err
    listed = {each["name"]: each["state"] for each in cli("sessions", "--all", "--json").json()}
    assert listed == {"done": "finished", left.name: "leftover"}
    assert left.name in cli("sessions", "--all", "--size").out

    assert_refused(cli("rm", "--leftovers"), 2, "--yes")
    result = cli("rm", "--leftovers", "--yes")
    assert result.code == 0 and f"removed {left}" in result.err
    assert list(done.parent.iterdir()) == [done]
    assert "no leftovers" in cli("rm", "--leftovers").err
    with checkpoints.in_private(done.parent / "new") as private:
        assert "kept" in cli("rm", "--leftovers", "--yes").err
        assert private.is_dir()  # it is in use


# `htfl-sim tag`, `htfl-sim note`, `run --tag`, `sessions --tag`, and tag:NAME where sessions are named


def listed(cli: Cli, *tags: str) -> list[str]:
    return [each["name"] for each in cli("sessions", "--json", *(f"--tag={tag}" for tag in tags)).json()]


def test_a_marked_run_is_found_and_has_the_same_bits(cli: Cli, sessions: Path) -> None:
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
    (done / "tags.json").write_text("no JSON")
    assert listed(cli) == ["done"]
    (fault,) = cli("verify", "done", "--json").json()["findings"]
    assert fault["path"] == "tags.json"


def test_the_owner_of_a_session_writes_the_tags_that_are_asked_for(done: Path, sessions: Path) -> None:
    config = Config.read(checkpoints.SessionReader(done).document["config"]).with_(rounds=1)
    asked: list[tuple[dict[str, object], str]] = [
        ({"add": ["paper", "old"], "remove": ["old"]}, "applied"),
        ({"add": [], "remove": [], "note": "fine"}, "applied"),
        ({}, "refused"),
        ({"add": ["\x1b"], "remove": []}, "refused"),
        ({"add": [3], "remove": []}, "refused"),
        ({"add": [], "remove": [], "note": 3}, "refused"),
        ({"add": [], "remove": [], "note": "two\nlines"}, "refused"),
    ]
    with Session.create(config, sessions / "live", sessions) as live:
        posted = [checkpoints.post(live.folder, "tag", arguments) for arguments, _ in asked]
        live.run()
    answers = [checkpoints.answer(sessions / "live", each.id) for each in posted]
    assert [each and each.outcome for each in answers] == [outcome for _, outcome in asked]
    assert answers[0] is not None and answers[0].message == "paper"
    assert checkpoints.marks_of(sessions / "live") == (("paper",), "fine")


def test_a_tag_that_was_asked_of_a_process_that_died_is_set_by_the_next(cli: Cli, done: Path) -> None:
    checkpoints.post(done, "tag", {"add": ["late"], "remove": []})
    assert cli("resume", "done", "--rounds=4").code == 0
    assert checkpoints.tags_of(done) == ("late",)
