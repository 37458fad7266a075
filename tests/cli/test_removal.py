"""`rm` and `rename`: sessions go or move only when somebody said so, and never while they run."""

import shutil
from pathlib import Path

import checkpoints
from checkpoints import Store
from simulator.results.analysis.reproduction import command_lines
from tests.cli.conftest import Cli
from tests.cli.test_bad_input import assert_refused


def test_a_session_is_removed_whole_when_that_is_said(cli: Cli, done: Path) -> None:
    other = Path(shutil.copytree(done, done.parent / "other"))
    result = cli("rm", "done", "--yes")
    assert result.code == 0 and f"removed {done}" in result.err
    assert not done.exists() and list(done.parent.iterdir()) == [other]


def test_without_anybody_to_ask_nothing_is_removed(cli: Cli, done: Path) -> None:
    result = cli("rm", "done")
    assert result.code == 2 and "Add --yes" in result.err and "finished" in result.err
    assert checkpoints.verify(done) == []


def test_of_several_none_is_removed_while_one_of_them_is_run(cli: Cli, done: Path) -> None:
    other = Path(shutil.copytree(done, done.parent / "other"))
    with Store.open(done, retention=checkpoints.Retention(last=3)):
        assert_refused(
            cli("rm", "other", "done", "--yes"), 4, "is run by process", "Stop it first: `htfl-sim stop"
        )
    assert done.is_dir() and other.is_dir()


def test_a_damaged_session_can_be_removed_too(cli: Cli, done: Path) -> None:
    (done / "session.json").write_text("{")
    assert cli("rm", "done", "--yes").code == 0
    assert not done.exists()


def test_a_folder_that_is_no_session_is_left_alone(cli: Cli, done: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    assert_refused(cli("rm", tmp_path / "precious", "--yes"), 4, "is not a session", "nothing was removed")
    link = done.parent / "link"
    link.symlink_to(done)
    assert_refused(cli("rm", "link", "--yes"), 4, "nothing was removed")
    assert (tmp_path / "precious" / "file").read_text() == "mine" and done.is_dir()


def test_a_fork_stays_sound_when_its_parent_is_removed(cli: Cli, done: Path) -> None:
    assert cli("fork", "done", "--at-round=3", "--session=child", "--rounds=5").code == 0
    assert cli("rm", "done", "--yes").code == 0
    assert cli("verify", "child").code == 0


def test_a_fork_finds_its_renamed_parent(cli: Cli, done: Path) -> None:
    assert cli("fork", "done", "--at-round=3", "--session=child", "--rounds=5").code == 0
    result = cli("rename", "done", "origin")
    assert result.code == 0 and result.out == "renamed done to origin\n"
    assert not done.exists() and checkpoints.verify(done.parent / "origin") == []
    assert "origin at round 3" in cli("show", "child").out
    listed = {each["name"]: each["parent"] for each in cli("sessions", "--json").json()}
    assert listed["child"]["name"] == "origin" and listed["origin"] is None
    (line,) = command_lines(done.parent / "child")
    assert "htfl-sim fork origin --at-round 3" in line


def test_no_session_takes_the_name_of_another_one(cli: Cli, done: Path) -> None:
    other = Path(shutil.copytree(done, done.parent / "other"))
    assert_refused(cli("rename", "done", "other"), 2, "is there already", "Choose another name")
    assert_refused(cli("rename", "done", "../up"), 2, "'../up' is not a session name")
    with Store.open(done, retention=checkpoints.Retention(last=3)):
        assert_refused(cli("rename", "done", "new"), 4, "is run by process", "Stop it first: `htfl-sim stop")
    assert done.is_dir() and other.is_dir()


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


def test_a_folder_in_use_is_kept(cli: Cli, done: Path) -> None:
    with checkpoints.in_private(done.parent / "new") as private:
        assert "kept" in cli("rm", "--leftovers", "--yes").err
        assert private.is_dir()


def test_rm_takes_sessions_or_leftovers(cli: Cli, done: Path) -> None:
    assert_refused(cli("rm"), 2, "--leftovers")
    assert_refused(cli("rm", "done", "--leftovers", "--yes"), 2, "by itself")
    assert done.is_dir()
