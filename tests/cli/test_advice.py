"""Errors that say what to type: the command, typed as it stands, works."""

import ast
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import typer

import checkpoints
import htfl_sim
import simulator
import tui
from checkpoints import SessionReader
from tests.cli.conftest import TINY, Cli, Result
from tests.cli.test_bad_input import flip, rewrite
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


def damage_newest_object(session: Path) -> None:
    flip(session / SessionReader(session).manifest().states["client/2"].name)


def lose_newest_object(session: Path) -> None:
    (session / SessionReader(session).manifest().states["client/2"].name).unlink()


def damage_newest_manifest(session: Path) -> None:
    flip(session / "manifests" / "000003.json")


def lose_newest_manifest(session: Path) -> None:
    (session / "manifests" / "000003.json").unlink()


def lose_all_manifests(session: Path) -> None:
    for path in (session / "manifests").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "harm",
    [
        damage_newest_object,
        lose_newest_object,
        damage_newest_manifest,
        lose_newest_manifest,
        lose_all_manifests,
    ],
    ids=lambda harm: harm.__name__,
)
def test_a_damaged_session_goes_on_by_the_fork_that_the_error_names(
    cli: Cli, done: Path, harm: Callable[[Path], None]
) -> None:
    harm(done)
    follow(cli, cli("resume", "done", "--rounds=4"))
    assert cli("resume", "new").code == 0
    assert len(SessionReader(done.parent / "new").records()) == 3


def test_a_fork_of_a_damaged_round_names_a_fork_that_works(cli: Cli, done: Path) -> None:
    damage_newest_object(done)
    follow(cli, cli("fork", "done", "--at-round=3", "--session=x", "--rounds=5"))


def test_a_half_made_fork_can_be_removed_as_the_error_says(cli: Cli, done: Path) -> None:
    rewrite(done, parent={"id": "1", "name": "gone", "round": 2})
    lose_all_manifests(done)
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


@pytest.mark.parametrize("key", ["training.lr=0.5", "rounds=13", "method.mu=0.5", "cka.every=3"])
def test_a_setting_that_a_resume_does_not_take_is_left_by_a_switch(cli: Cli, done: Path, key: str) -> None:
    assert cli("switch", "done", "--set=rounds=14").code == 0
    follow(cli, cli("resume", "done", f"--set={key}"))


def test_another_seed_takes_a_fork(cli: Cli, done: Path) -> None:
    follow(cli, cli("resume", "done", "--set=seed=5"))


def test_a_setting_that_is_fixed_is_not_said_to_be_switched(cli: Cli, done: Path) -> None:
    assert advised(cli("resume", "done", "--set=data.alpha=0.5")) == ["run"]


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


# Settings of a run

RUN = ("run", "--set=federation.group=tiny", "--set=training.epochs=1", "--dry-run")


@pytest.mark.parametrize("clients", [3, 7, 9, 11, 13, 97])
def test_the_least_participation_selects_somebody(cli: Cli, clients: int) -> None:
    few = (*RUN, f"--clients={clients}", "--set=data.partition=iid", "--set=data.split=global")
    refused = cli(*few, "--set=federation.participation=0.0001")
    [least] = re.findall(r"at least (\S+)\.", refused.err)
    assert cli(*few, f"--set=federation.participation={least}").code == 0


CROWDED = {
    "iid": ["--clients=300", "--set=data.partition=iid"],
    "iid of few": ["--clients=40", "--set=data.partition=iid", "--set=data.limit=200"],
    "dirichlet": ["--clients=120", "--set=data.partition=dirichlet", "--set=data.min_samples=1"],
    "extended_dirichlet": [
        "--clients=110",
        "--set=data.partition=extended_dirichlet",
        "--set=data.classes_per_client=5",
        "--set=data.min_samples=1",
    ],
    "inner_dirichlet": ["--clients=300", "--set=data.partition=inner_dirichlet"],
    "lognormal": [
        "--clients=100",
        "--set=data.partition=iid",
        "--set=data.quantity=lognormal",
        "--set=data.sigma=1",
        "--set=data.min_samples=3",
    ],
    "shards": ["--clients=600", "--set=data.partition=shards"],
    "pfllib": [
        "--clients=300",
        "--set=data.partition=pathological",
        "--set=data.quantity=pfllib",
        "--set=federation.group=tiny_cnn",
    ],
    "pathological": ["--clients=500", "--set=data.partition=pathological", "--set=data.classes_per_client=3"],
}


@pytest.mark.parametrize("crowded", CROWDED.values(), ids=CROWDED)
def test_each_way_to_give_clients_enough_samples_works(cli: Cli, crowded: list[str]) -> None:
    refused = cli(*RUN, *crowded)
    assert refused.code == 3 and "too few for 3 parts" in refused.err
    ways = re.findall(r"--set \S+=\w+", refused.err)
    for way in ways:
        tried = cli(*RUN, *crowded, *way.split())
        assert tried.code == 0, (way, tried.err)
    assert "use fewer clients" in refused.err and cli(*RUN, *crowded, "--clients=5").code == 0
    assert ("raise data.limit" in refused.err) == any("data.limit" in each for each in crowded)
    if "data.limit" in refused.err:
        assert cli(*RUN, *crowded, "--set=data.limit=1797").code == 0


def test_data_with_no_test_set_are_not_said_to_have_one(cli: Cli, tmp_path: Path) -> None:
    images = np.zeros((60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", images=images, labels=np.arange(60) % 5)
    refused = cli(*RUN, "--dataset=own.npz", "--clients=10", "--set=data.partition=iid")
    assert "too few for 3 parts" in refused.err and "global" not in refused.err


OTHER = {
    "a device": (["--device=cuda"], "Use --device cpu", "--device=cpu"),
    "tf32": (["--set=training.precision=tf32"], "use float32", "--set=training.precision=float32"),
    "stacks of one": (
        ["--clients=2", "--set=runtime.runner=stacked", "--set=data.limit=200"],
        "use --set runtime.runner=parallel",
        "--set=runtime.runner=parallel",
    ),
    "a metric": (["--set=evaluation.metrics=['top2']"], "Add --metric top2.py", "--metric=top2.py"),
    "too many domains": (
        ["--dataset=digits_domains", "--set=data.domains_per_client=9", "--set=data.partition=iid"],
        "use at most 5",
        "--set=data.domains_per_client=5",
    ),
    "domains of nobody": (
        [
            "--dataset=digits_domains",
            "--clients=4",
            "--set=data.domains_per_client=1",
            "--set=data.partition=iid",
        ],
        "use at least 5 clients",
        "--clients=5",
    ),
    "no domains": (
        ["--set=data.domains_per_client=1", "--set=data.partition=iid"],
        "use digits_domains",
        "--dataset=digits_domains",
    ),
    "too many classes": (
        ["--set=data.partition=pathological", "--set=data.classes_per_client=11"],
        "use at most 10",
        "--set=data.classes_per_client=10",
    ),
    "clients of one image": (
        ["--clients=100", "--set=data.partition=iid", "--set=data.split=global", "--set=data.limit=125"],
        "larger data.limit",
        "--set=data.limit=1000",
    ),
    "batches of one image": (
        ["--set=training.batch_size=1"],
        "training.batch_size to 2 or more",
        "--set=training.batch_size=2",
    ),
    "more clients than images": (
        ["--clients=200", "--set=data.partition=iid", "--set=data.split=global", "--set=data.limit=100"],
        "Use at most 80 clients",
        "--clients=20",
    ),
    "a class for too many": (
        ["--clients=300", "--set=data.classes_per_client=8", "--set=data.partition=pathological"],
        "a smaller data.classes_per_client",
        "--set=data.classes_per_client=2",
    ),
    "a minimum": (
        ["--clients=300", "--set=data.partition=dirichlet", "--set=data.split=global"],
        "Use at most 144 clients",
        "--clients=144",
    ),
    "a lower minimum": (
        ["--clients=300", "--set=data.partition=dirichlet", "--set=data.split=global"],
        "lower data.min_samples",
        "--set=data.min_samples=3",
    ),
    "a minimum of log-normal sizes": (
        [
            "--clients=200",
            "--set=data.partition=iid",
            "--set=data.quantity=lognormal",
            "--set=data.split=global",
        ],
        "lower data.min_samples",
        "--set=data.min_samples=4",
    ),
    "a minimum of each class": (
        ["--clients=180", "--set=data.partition=extended_dirichlet"],
        "a smaller data.min_samples",
        "--set=data.min_samples=6",
    ),
    "too many shards": (
        ["--clients=20", "--set=data.partition=shards", "--set=data.shards_per_client=100"],
        "a smaller data.shards_per_client",
        "--set=data.shards_per_client=2",
    ),
    "domains of several shards": (
        ["--dataset=digits_domains", "--set=data.partition=shards", "--set=data.domains_per_client=2"],
        "use domains_per_client 1",
        "--set=data.domains_per_client=1",
    ),
    "no step": (["--set=training.schedule=step"], "needs lr_step", "--set=training.lr_step=2"),
    "a rate of another schedule": (
        ["--set=training.lr_min=0.001"],
        "belongs to schedule 'cosine'; set that",
        "--set=training.schedule=cosine",
    ),
    "adam's momentum": (
        ["--set=training.optimizer=adam", "--set=training.momentum=0.5"],
        "change the optimizer",
        "--set=training.optimizer=sgd",
    ),
    "a part that there is not": (
        ["--set=data.split=8:2", "--set=evaluation.parts=['eval']"],
        "as 8:1:1",
        "--set=data.split=8:1:1",
    ),
}


@pytest.mark.parametrize(("arguments", "said", "remedy"), OTHER.values(), ids=OTHER)
def test_a_setting_that_an_error_names_works(
    cli: Cli, tmp_path: Path, arguments: list[str], said: str, remedy: str
) -> None:
    (tmp_path / "top2.py").write_text("def metric(scores, labels): return 1.0\n")
    refused = cli(*RUN, *arguments)
    assert refused.code in (2, 3) and said in refused.err
    followed = cli(*RUN, *arguments, remedy)
    assert followed.code == 0, followed.err


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
