"""Runs in processes of their own: how they are begun, how their end is told, and that nothing is left of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer.main
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from htfl_sim.configuring import Choices
from simulator.config.user_files import Files
from tests import sessions
from tests.app.driving import drive, opened
from tui.app import runs
from tui.app.dialogs.run_forms import NewRun
from tui.app.messages import RunEnded, RunStarted
from tui.app.runs import LaunchOptions, LocalRuns, ProcessRun, _failure
from tui.cli import app as commands
from tui.cli.tui import _say_who_goes_on

CHOICES = Choices(
    preset="fedlora_htm5",
    profile="authors",
    dataset="digits",
    method="fedssa",
    rounds=7,
    clients=4,
    seed=3,
    device="cpu",
    workers=2,
    assignments=("method.mu=0.5", "training.epochs=2"),
    until=0.9,
    models=("cnn1", "mine.py:Net"),
    metrics=(Path("f1.py"),),
)


def parsed(arguments: tuple[str, ...]) -> dict[str, Any]:
    """What `htfl-sim` makes of them."""
    name, *given = arguments
    command = typer.main.get_command(commands).commands[name]  # type: ignore[attr-defined]
    context = command.make_context(name, given)
    return {key: value for key, value in context.params.items() if value not in (None, False, [], ())}


def test_a_new_run_s_process_is_told_all_that_the_form_and_the_command_line_said(tmp_path: Path) -> None:
    options = LaunchOptions(tmp_path, tmp_path / "data", files=Files(plugins=("/home/me/mine.py",)))
    said = parsed(options.new(NewRun(CHOICES, tmp_path / "one")).arguments)
    assert said == {
        "preset": "fedlora_htm5",
        "profile": "authors",
        "dataset": "digits",
        "method": "fedssa",
        "rounds": 7,
        "until": 0.9,
        "clients": 4,
        "seed": 3,
        "device": "cpu",
        "workers": 2,
        "assignments": ["method.mu=0.5", "training.epochs=2"],
        "models": ["cnn1", "mine.py:Net"],
        "metrics": [Path("f1.py")],
        "plugins": [Path("/home/me/mine.py")],
        "session": "one",
        "sessions_dir": tmp_path,
        "data_dir": str(tmp_path / "data"),
    }


def test_every_choice_is_said_to_the_process() -> None:
    one = {"file": Path("x.toml"), "partition": Path("p.json")}
    said = list(replace(CHOICES, **one).typed())
    for option in ("--config", "--partition"):
        assert said[said.index(option) + 1] in ("x.toml", "p.json")
    assert list(Choices().typed()) == []


def test_a_resume_s_process_is_told_rounds_files_and_whether_other_bits_will_do(tmp_path: Path) -> None:
    files = Files(("/m/a.py",), ("/m/b.py",), ("/m/c.py",))
    options = LaunchOptions(tmp_path, tmp_path / "data", workers=3, device="cpu", files=files)
    said = parsed(options.again(tmp_path / "one", 30, True).arguments)
    assert said == {
        "session": str(tmp_path / "one"),
        "rounds": 30,
        "workers": 3,
        "device": "cpu",
        "data_dir": str(tmp_path / "data"),
        "allow_inexact": True,
        "plugins": [Path("/m/a.py")],
        "models": [Path("/m/b.py")],
        "metrics": [Path("/m/c.py")],
    }


def ended(folder: Path, *arguments: str, under_way: list[bool] | None = None) -> list[Any]:
    """What is told of a process from its start to its end. under_way: whether it was active then."""
    told: list[Any] = []

    def tell(message: Any) -> None:
        told.append(message)
        if under_way is not None:
            under_way.append(run.is_active)

    run = ProcessRun(folder, arguments, tell)
    run.start()
    assert run.is_active or under_way is None
    run.join(600)
    assert not run.is_alive()
    return told


@pytest.mark.long
def test_why_a_process_failed_is_told_in_its_own_words_and_it_leaves_no_zombie(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    under_way: list[bool] = []
    (last,) = ended(tmp_path / "none", "resume", str(tmp_path / "none"), under_way=under_way)
    assert under_way == [False]  # what it told may be answered before its thread is gone
    assert isinstance(last, RunEnded)
    assert last.folder == tmp_path / "none"
    assert last.failure is not None
    assert last.failure.startswith(f"no session '{tmp_path / 'none'}' in sessions.")
    assert [each for each in psutil.Process().children() if each.status() == psutil.STATUS_ZOMBIE] == []
    assert capfd.readouterr() == ("", "")  # nothing of it comes into the app's terminal


def test_the_owner_of_a_session_is_the_process_that_runs_it(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "one", rounds=2, clients=2)
    assert runs._owner(folder) is None
    assert runs._owner(tmp_path / "none") is None
    with checkpoints.Store.open(folder):
        assert runs._owner(folder) == psutil.Process().pid


def test_a_process_that_cannot_be_had_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(runs, "Process", refuse)
    (last,) = ended(tmp_path / "none", "run")
    assert last == RunEnded(tmp_path / "none", "stopped", last.failure)
    assert "Resource temporarily unavailable" in last.failure


def test_what_a_process_did_not_say_is_told_by_how_it_ended() -> None:
    assert _failure(2, "session  one\nerror: no such preset.\n") == "no such preset."
    assert _failure(-9, "round 1/2 …") == "its process was stopped by SIGKILL."
    assert _failure(9, "") == "its process ended with exit code 9."


def test_leaving_the_app_says_whose_processes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LocalRuns, "running", True)
    monkeypatch.setattr(LocalRuns, "name", "one")
    monkeypatch.setattr(LocalRuns, "elsewhere", ["two", "three"])

    async def script(pilot: Pilot[str]) -> None:
        await pilot.press("q")
        said = str(pilot.app.screen.query_one(".text", Static).content)
        assert said.startswith("one runs in this process.")
        assert "two continues in its own process. three continues in its own process." in said

    drive(opened(tmp_path, None), script)
    _say_who_goes_on(["two"])
    assert "end it: htfl-sim stop two" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_in_a_process_of_its_own_owns_its_session_and_finishes_it(tmp_path: Path) -> None:
    options = LaunchOptions(tmp_path, tmp_path / "data")
    choices = Choices(rounds=2, clients=2, assignments=("data.limit=200",))
    beginning = options.new(NewRun(choices, tmp_path / "one"))
    began, last = ended(tmp_path / "one", *beginning.arguments)
    assert began == RunStarted(tmp_path / "one")
    assert last == RunEnded(tmp_path / "one", "finished")
    assert len(checkpoints.SessionReader(tmp_path / "one").records()) == 2
