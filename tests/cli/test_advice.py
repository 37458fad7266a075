"""Errors that say what to type: the command, typed as it stands, works."""

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import checkpoints
import htfl_sim
import simulator
import tui
from checkpoints import SessionReader
from tests.cli.conftest import TINY, Cli, Result, flip, rewrite
from tui.cli import app

PLACES = {"NEW": "new", "METHOD": "fedprox", "R": "2"}
"""What a reader puts in place of the words in capitals."""
ROOMS = (checkpoints, simulator, htfl_sim, tui)
COMMAND = re.compile(r"`htfl-sim ([^`]+)`")


def advised(result: Result, place: int = 0) -> list[str]:
    """The arguments of a command that an error names in backticks."""
    assert result.code and result.err.splitlines()[-1].startswith("error: "), result.err
    words = shlex.split(COMMAND.findall(result.err.splitlines()[-1])[place])
    return [PLACES.get(word, word) for word in words]


def follow(cli: Cli, result: Result, place: int = 0) -> Result:
    """Type the command that an error names."""
    arguments = advised(result, place)
    followed = cli(*arguments)
    assert followed.code == 0, (arguments, followed.err)
    return followed


# What is wrong with a session


def newest_object(session: Path) -> Path:
    return session / SessionReader(session).manifest().states["client/2"].name


@pytest.mark.parametrize("harm", ["object", "no object", "manifest", "no manifest", "no manifests"])
def test_a_damaged_session_goes_on_by_the_fork_that_the_error_names(cli: Cli, done: Path, harm: str) -> None:
    file = newest_object(done) if "object" in harm else done / "manifests" / "000003.json"
    if harm.startswith("no "):
        for path in file.parent.iterdir() if harm == "no manifests" else [file]:
            path.unlink()
    else:
        flip(file)
    if harm == "object":
        follow(cli, cli("fork", "done", "--at-round=3", "--session=x", "--rounds=5"))
        shutil.rmtree(done.parent / "new")
    follow(cli, cli("resume", "done", "--rounds=4"))
    assert cli("resume", "new").code == 0
    assert len(SessionReader(done.parent / "new").records()) == 3


def test_a_half_made_fork_can_be_removed_as_the_error_says(cli: Cli, done: Path) -> None:
    rewrite(done, parent={"id": "1", "name": "gone", "round": 2})
    for path in (done / "manifests").iterdir():
        path.unlink()
    for name in ("events.jsonl", "ledger.jsonl"):
        (done / name).write_bytes(b"")
    (done / "owner.json").unlink()
    remove = advised(cli("resume", "done"))
    assert cli(*remove, "--yes").code == 0 and not done.exists()


def test_a_round_before_a_forks_own_is_had_from_its_parent(cli: Cli, done: Path) -> None:
    assert cli("fork", "done", "--at-round=3", "--session=child", "--rounds=4").code == 0
    assert cli("resume", "child").code == 0
    follow(cli, cli("fork", "child", "--at-round=2", "--session=x"))
    shutil.rmtree(done)
    refused = cli("fork", "child", "--at-round=2", "--session=y")
    assert "done is gone" in refused.err
    [kept] = re.findall(r"kept: (\d+)", refused.err)
    assert cli("fork", "child", f"--at-round={kept}", "--session=y", "--rounds=5").code == 0


def test_rounds_that_cannot_be_run_again_bit_for_bit_are_said_with_those_kept(cli: Cli, done: Path) -> None:
    assert cli("prune", "done", "--keep-last=1", "--no-keep-best").code == 0
    environment = SessionReader(done).document["environment"]
    rewrite(done, environment=environment | {"cpu": "another processor"})
    refused = cli("fork", "done", "--at-round=2", "--session=x")
    assert "Add --allow-inexact" in refused.err and "kept: 3" in refused.err
    assert cli("fork", "done", "--at-round=2", "--session=x", "--allow-inexact").code == 0
    assert cli("fork", "done", "--at-round=3", "--rounds=4", "--session=y").code == 0


# What a session cannot do


@pytest.mark.long
def test_too_few_rounds_are_answered_with_more_or_a_fork(cli: Cli, done: Path) -> None:
    refused = cli("resume", "done", "--rounds=2")
    follow(cli, refused)
    assert cli("resume", "done", *re.findall(r"--rounds \d+", refused.err)[0].split()).code == 0


def test_a_setting_that_a_resume_does_not_take_is_left_by_a_switch_or_a_fork(cli: Cli, done: Path) -> None:
    assert cli("switch", "done", "--set=rounds=14").code == 0
    for key in ("training.lr=0.5", "rounds=13", "method.mu=0.5", "cka.every=3"):
        follow(cli, cli("resume", "done", f"--set={key}"))
    follow(cli, cli("resume", "done", "--set=seed=5"))
    assert advised(cli("resume", "done", "--set=data.alpha=0.5")) == ["run"]  # it is fixed


@pytest.mark.long
@pytest.mark.parametrize("command", ["pause", "stop"])
def test_a_finished_session_is_extended_as_the_error_says(cli: Cli, done: Path, command: str) -> None:
    follow(cli, cli(command, "done"))
    assert SessionReader(done).rounds()[-1] == 13


def test_a_name_that_is_taken_is_resumed_or_is_no_session(cli: Cli, done: Path, sessions: Path) -> None:
    follow(cli, cli("run", *TINY, "--session=done"))
    follow(cli, cli("fork", "done", "--at-round=1", "--session=done"))
    (sessions / "thesis").mkdir()
    (sessions / "thesis" / "text").write_text("mine")
    refused = cli("run", *TINY, "--session=thesis")
    assert "not a session" in refused.err and not COMMAND.search(refused.err)


def test_a_lost_switch_is_posted_again_as_the_warning_says(cli: Cli, done: Path) -> None:
    checkpoints.post(done, "switch", {"method": "fedprox", "set": ["rounds=4"]})
    shutil.rmtree(done / "control")
    resumed = cli("resume", "done")
    words = [PLACES.get(word, word) for word in shlex.split(COMMAND.findall(resumed.err)[0])]
    assert cli(*words, "--set=rounds=4").code == 0
    assert cli("resume", "done").code == 0 and len(SessionReader(done).records()) == 4


@pytest.mark.parametrize(
    "command",
    [
        ["fork", "done", "--at-round=3", "--session=x"],
        ["switch", "done", "fedprox"],
        ["fork", "done", "--at-round=3", "--session=x", "--rounds=9", "--set=until=0.01"],
        ["switch", "done", "--set=rounds=9", "--set=until=0.01"],
    ],
)
def test_the_rounds_that_are_wanting_are_added_as_the_error_says(
    cli: Cli, done: Path, command: list[str]
) -> None:
    refused = cli(*command)
    assert refused.code == 2
    [addition] = re.findall(r"(?:Add rounds:|Add) (--(?:rounds|set) [\w=]+)", refused.err)
    assert cli(*command, *addition.split()).code == 0


@pytest.mark.long
@pytest.mark.parametrize("command", [["prune", "done"], ["tag", "done", "a"]])
def test_a_session_of_a_dead_machine_is_taken_over_as_the_error_says(
    cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    leave_open(done, monkeypatch)
    monkeypatch.setattr("htfl_sim.steering.SILENT_SECONDS", 0.3)
    refused = cli(*command)
    assert "--steal`" in refused.err
    follow(cli, refused)
    assert cli(*command).code == 0


def test_a_resume_of_a_dead_machines_session_takes_over_with_the_option_that_the_error_names(
    cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_open(done, monkeypatch)
    refused = cli("resume", "done")
    assert "add --steal" in refused.err
    follow(cli, refused)
    assert cli("resume", "done", "--steal").code == 0


def leave_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an owner on another machine leaves it when it dies."""
    monkeypatch.setattr("checkpoints.lock.WATCH_SECONDS", 0.01)
    monkeypatch.setattr("checkpoints.lock.SETTLE_SECONDS", 0.01)
    with monkeypatch.context() as there:
        for name in ("host", "machine_id", "boot_id"):
            there.setattr(f"checkpoints.lock.{name}", lambda: "elsewhere")
        owner = checkpoints.lock.Ownership.acquire(folder)  # type: ignore[attr-defined]
        owner.claim()
        owner.let_go()


def test_a_study_of_a_dead_machine_is_taken_over_as_the_error_says(
    cli: Cli, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("sweep", "t", *TINY, "--set=rounds=1", "--over=seed=0", "--on=slurm").code == 0
    assert cli("sweep", "t", "--point=0").code == 0
    leave_open(sessions / "t", monkeypatch)
    follow(cli, cli("sweep", "t"))


def test_a_study_is_begun_and_extended_as_the_errors_say(cli: Cli) -> None:
    """For Slurm, so that it is written and no point is run."""
    begin = advised(cli("sweep", "t"))
    assert cli(*begin, *TINY, "--dry-run").code == 0
    assert cli("sweep", "t", *TINY, "--set=rounds=1", "--over=seed=0", "--on=slurm").code == 0
    more = ("sweep", "t", "--over=seed=0,1", "--on=slurm")
    assert "Use --extend" in cli(*more).err
    assert cli(*more, "--extend").code == 0
    for command in ("pause", "resume"):
        assert cli(*advised(cli(command, "t")), "--on=slurm").code == 0


# Every command that any text names


def commands() -> Iterator[tuple[str, str]]:
    """The commands in backticks in all texts of the program, and where; what is put in at run time reads {}."""
    for room in ROOMS:
        for path in sorted(Path(room.__path__[0]).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for command in COMMAND.findall(_text(node)):
                    yield f"{path.name}:{getattr(node, 'lineno', 0)}", command


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) if isinstance(part, ast.Constant) else "{}" for part in parts)
    return ""


@pytest.mark.long
def test_every_command_that_is_named_is_one() -> None:
    root = typer.main.get_command(app)
    known: dict[str, set[str]] = {
        name: {option for each in command.params for option in each.opts}
        for name, command in root.commands.items()  # type: ignore[attr-defined]
    }
    named = list(commands())
    assert len(named) > 40
    for where, command in named:
        name, *words = command.split()
        if name == "{}":
            continue
        assert name in known, f"{where}: there is no command '{name}'"
        unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in known[name]]
        assert not unknown, f"{where}: `htfl-sim {command}`: there is no {unknown}"
