"""--partition, --model and --metric on the command line: recorded with their bytes, and held to on a resume."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import htfl_sim as hs
from checkpoints import SessionReader
from simulator.results.analysis import reproduction
from simulator.results.analysis.overview import read_overview
from simulator.results.figures.accuracy import names_of
from tests.cli.conftest import TINY, Cli
from tests.own import METRIC, MODEL, another_process, written

__all__ = ["another_process"]

RUN = ("run", *TINY, "--rounds=2", "--method=standalone", "--session=mine")
OF_GROUP = tuple(each for each in RUN if "group" not in each)
OF_PARTS = tuple(each for each in RUN if "limit" not in each and "partition" not in each)
HALF = ("--clients=6", "--set=federation.participation=0.5")
SELECTION = (
    "def select(candidates, number, round, draws):\n    return [each.id for each in candidates[:number]]\n"
)
PYTHON = {
    "model": ("mynets.py", MODEL),
    "metric": ("right.py", METRIC),
    "selection": ("mypick.py", SELECTION),
}


def recorded(sessions: Path) -> list[tuple[str, str]]:
    return [(file["kind"], file["name"]) for file in SessionReader(sessions / "mine").document["files"]]


def last(sessions: Path) -> dict[str, Any]:
    return SessionReader(sessions / "mine").records()[-1]


@pytest.fixture
def given(cli: Cli, sessions: Path, tmp_path: Path, another_process: Any) -> dict[str, str]:
    """The options for a model, a metric, and a selection of a user, by kind, after a run with them."""
    given = {kind: f"--{kind}={written(tmp_path, *file)}" for kind, file in PYTHON.items()}
    model, *others = given.values()
    result = cli(*OF_GROUP, *HALF, "--model=tiny_mlp", f"{model}:Net@last", *others)
    assert result.code == 0, result.err
    return given


@pytest.mark.usefixtures("given")
def test_a_model_a_metric_and_a_selection_run_and_are_recorded(cli: Cli, sessions: Path) -> None:
    config = SessionReader(sessions / "mine").document["config"]
    assert config["federation"]["group"] == ["tiny_mlp", "mynets:Net@last"]
    assert config["evaluation"]["metrics"] == ["right"] and config["selection"]["strategy"] == "mypick"
    assert recorded(sessions) == [(kind, name) for kind, (name, _) in PYTHON.items()]
    tested = last(sessions)["evaluation"]["test"]
    assert tested["metrics"]["right"]["per_client"] == pytest.approx(tested["accuracy"]["per_client"])
    assert last(sessions)["participants"] == [0, 1, 2]
    shown = cli("show", "mine").out
    assert "mynets:Net@last" in shown
    [line] = [each for each in shown.splitlines() if each.startswith("selection")]
    assert line.split() == ["selection", "strategy=mypick"]
    held_out = shown[shown.index("Held-out parts after round 2") :].splitlines()
    assert held_out[1].split() == ["part", "accuracy", "loss", "f1", "right"]
    assert [line.split()[0] for line in held_out[2:4]] == ["test", "eval"]
    assert "--selection mypick.py" in " ".join(reproduction.command_lines(sessions / "mine"))


def test_a_session_goes_on_when_its_files_of_python_are_given_again(
    cli: Cli, given: dict[str, str], sessions: Path, tmp_path: Path, another_process: Any
) -> None:
    for kind, (name, content) in PYTHON.items():
        another_process()
        refused = cli("resume", "mine", "--rounds=3", *(each for key, each in given.items() if key != kind))
        assert refused.code == 4 and f"made with the {kind} file {name}" in refused.err
        assert f"add --{kind} {name}" in refused.err
        another_process()
        written(tmp_path, name, content + "\n")
        changed = cli("resume", "mine", "--rounds=3", *given.values())
        assert changed.code == 4 and f"{kind} file {name} is not the one this session was" in changed.err
        written(tmp_path, name, content)
    another_process()
    assert cli("partition", "mine").code == 0
    measured = cli("checkpoint", "mine", "--cka", given["model"], "--json")
    assert measured.code == 0 and measured.json()["order"][-1] == "features", measured.err
    resumed = cli("resume", "mine", "--rounds=3", *given.values())
    assert resumed.code == 0 and last(sessions)["round"] == 3, resumed.err
    forked = cli("fork", "mine", "--at-round=1", "--session=other", "--run", *given.values())
    assert forked.code == 0, forked.err


@pytest.mark.long
def test_commands_that_load_models_take_the_model_file_and_others_do_not_need_it(
    cli: Cli, sessions: Path, tmp_path: Path, another_process: Any
) -> None:
    model = written(tmp_path, "mynets.py", MODEL)
    assert cli(*OF_GROUP, f"--model={model}:Net@last").code == 0
    for command in (
        ("plot", "tsne", "mine", "--out=tsne.png"),
        ("export", "mine", "--weights=client/0", "--out=models"),
    ):
        another_process()
        refused = cli(*command)
        assert refused.code == 4 and "add --model mynets.py" in refused.err
        assert cli(*command, f"--model={model}").code == 0
    another_process()
    for command in (("plot", "partition", "mine", "--out=p.png"), ("report", "mine", "--out=r.html")):
        result = cli(*command)
        assert result.code == 0, result.err


def test_the_same_in_toml(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    written(tmp_path, "mynets.py", MODEL)
    written(tmp_path, "right.py", METRIC)
    settings = f"""
        rounds = 1
        method.name = "standalone"
        data = {{ limit = 200, partition = 'iid' }}
        federation = {{ clients = 4, group = ["tiny_mlp", "{tmp_path}/mynets.py:Net@last"] }}
        evaluation.metrics = ["{tmp_path}/right.py"]
        runtime = {{ workers = 1, device = 'cpu' }}
    """
    assert cli("run", "--config", written(tmp_path, "mine.toml", settings), "--session=mine").code == 0
    assert recorded(sessions) == [("model", "mynets.py"), ("metric", "right.py")]


def test_a_partition_of_ones_own_is_run_and_held_to(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    parts = [{"train": [*range(k, 80, 4)], "test": [*range(100 + k, 140, 4)]} for k in range(4)]
    file = written(tmp_path, "indices.json", json.dumps(parts))
    result = cli(*OF_PARTS, "--partition", file)
    assert result.code == 0, result.err
    data = SessionReader(sessions / "mine").document["config"]["data"]
    assert (data["partition"], data["indices"]) == ("indices", str(file))
    assert recorded(sessions) == [("partition", "indices.json")]
    assert last(sessions)["evaluation"].keys() == {"test"}

    parts[0]["train"].append(99)
    assert_held_to(cli, file, "partition", json.dumps(parts))


def assert_held_to(cli: Cli, file: Path, kind: str, changed: str) -> None:
    """The session resumes neither with other bytes nor without the file."""
    written(file.parent, file.name, changed)
    refused = cli("resume", "mine", "--rounds=4")
    assert refused.code == 4 and f"the {kind} file {file.name} is not the one" in refused.err
    file.unlink()
    gone = cli("resume", "mine", "--rounds=4")
    assert gone.code == 4 and f"put it back to {file}" in gone.err


def of_each(values: str) -> str:
    return "".join(f"{k},{values}\n" for k in range(4))


@pytest.mark.parametrize(
    ("key", "kind", "text", "more"),
    [
        ("trace", "trace", f"client,device\n{of_each('phone')}", ()),
        ("device_file", "devices", "", ("--set=system.devices=phone",)),
        (
            "availability_file",
            "availability",
            f"client,from,to\n{of_each('0,1e9')}",
            ("--set=system.devices=phone", "--set=system.availability=intervals"),
        ),
    ],
)
def test_files_of_the_clock_are_held_to(
    cli: Cli, sessions: Path, tmp_path: Path, key: str, kind: str, text: str, more: tuple[str, ...]
) -> None:
    file = written(tmp_path, "own.txt", text)
    result = cli(*RUN, f"--set=system.{key}={file}", *more)
    assert result.code == 0, result.err
    assert recorded(sessions) == [(kind, "own.txt")]
    assert cli("resume", "mine", "--rounds=3").code == 0

    assert_held_to(cli, file, kind, text + "# other\n")


@pytest.mark.long
def test_a_metric_may_be_switched_on(cli: Cli, sessions: Path, tmp_path: Path, another_process: Any) -> None:
    metric = written(tmp_path, "right.py", METRIC)
    assert cli(*RUN).code == 0
    on = ("--set=rounds=3", '--set=evaluation.metrics=["right"]', "--metric", metric)
    said = cli("switch", "mine", "standalone", *on)
    assert said.code == 0, said.err
    assert cli("resume", "mine", "--metric", metric).code == 0
    assert "right" in last(sessions)["evaluation"]["test"]["metrics"]
    another_process()
    assert "add --metric right.py" in cli("resume", "mine", "--rounds=4").err
    further = ("--at-round=2", "--rounds=3", "--session=other", "--run")
    forked = cli("fork", "mine", *further, "--metric", metric)
    assert forked.code == 0, forked.err

    off = ("--set=rounds=4", "--set=evaluation.metrics=[]", "--metric", metric)
    assert cli("switch", "mine", "standalone", *off).code == 0
    assert cli("resume", "mine", "--metric", metric).code == 0
    another_process()
    without = cli("resume", "mine", "--rounds=5")
    assert without.code == 0, without.err


@pytest.mark.long
def test_a_study_may_compare_selections(
    cli: Cli, sessions: Path, tmp_path: Path, another_process: Any
) -> None:
    last_ones = "def select(candidates, number, round, draws):\n    return [each.id for each in candidates][-number:]\n"
    file = written(tmp_path, "mypick.py", last_ones)
    run = [each for each in RUN[1:] if not each.startswith("--session")]
    some = ("--set=federation.participation=0.5", f"--over=selection.strategy=utility,{file}")
    result = cli("sweep", "study", *run, *some)
    assert result.code == 0, result.err
    chosen = {
        SessionReader(each.parent).document["config"]["selection"]["strategy"]
        for each in (sessions / "study").glob("*/session.json")
    }
    assert chosen == {"utility", "mypick"}


def test_a_bad_file_is_refused_before_anything_is_written(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    file = written(tmp_path, "indices.json", json.dumps([{"train": [1], "test": [1]}] * 4))
    result = cli(*OF_PARTS, "--partition", file)
    assert result.code == 3 and "sample 1 is in both train and test" in result.err
    assert "cannot read the model" in cli(*OF_GROUP, "--model", f"{tmp_path}/gone.py:Net").err
    model = written(tmp_path, "mynets.py", MODEL.replace("32 * 32", "64"))
    wrong = cli(*OF_GROUP, "--model", f"{model}:Net@last")
    assert wrong.code == 2 and "given images of 1×32×32, failed, line 11" in wrong.err
    assert not (sessions / "mine").exists()


def test_a_metric_of_ones_own_is_in_every_table_and_in_python(
    cli: Cli, sessions: Path, tmp_path: Path, another_process: Any
) -> None:
    """`right` is the accuracy, computed by a file of the user's."""
    metric = written(tmp_path, "right.py", METRIC)
    assert cli(*RUN, f"--metric={metric}").code == 0
    for table, rows in (("rounds", 2), ("clients", 8)):
        text = cli("export", "mine", f"--what={table}").out
        found = list(csv.DictReader(io.StringIO(text)))
        assert len(found) == rows
        assert [float(row["test_right"]) for row in found] == pytest.approx(
            [float(row["accuracy"]) for row in found]
        )
        assert all(row["eval_right"] for row in found)
    assert hs.open(sessions / "mine").clients()["test_right"].notna().all()
    [row] = cli("compare", "mine", "--json").json()["rows"]
    assert row["own"]["right"]["mean"] == pytest.approx(row["last"]["mean"])
    assert "right" in cli("compare", "mine").out
    assert cli("plot", "metrics", "mine", "--out", tmp_path / "figure.svg").code == 0
    assert names_of([read_overview(sessions / "mine")]) == ["eval_right", "test_right"]


SPOILS = """
def metric(scores, labels):
    value = (scores.argmax(1) == labels).double().mean()
    scores.zero_()
    return value
"""


def test_a_metric_that_changes_what_it_is_given_changes_no_other(
    cli: Cli, sessions: Path, tmp_path: Path, another_process: Any
) -> None:
    spoils, right = written(tmp_path, "a_spoils.py", SPOILS), written(tmp_path, "right.py", METRIC)
    assert cli(*RUN, f"--metric={spoils}", f"--metric={right}").code == 0
    measured = last(sessions)["evaluation"]["test"]["metrics"]
    assert measured["a_spoils"] == measured["right"]


BAD = "import sys, torch\n{}\ndef metric(scores, labels):\n    {}\n    return 0.0\n"
LEAVES = "leaves.py", "SystemExit: it called sys.exit(0)"
METRICS = [
    (BAD.format("sys.exit(0)", "pass"), *LEAVES),
    (BAD.format("", "sys.exit(0)"), *LEAVES),
    (METRIC, "f1.py", "f1.py has the name of a built-in metric. Rename the file."),
    (None, "pipe.py", "pipe.py: it is a pipe. Name a regular file."),
    (
        BAD.format("", "torch.set_default_dtype(torch.float64)"),
        "wide.py",
        "The metric wide.py changes torch's default dtype",
    ),
]


@pytest.mark.parametrize(("code", "name", "said"), METRICS)
def test_a_metric_that_cannot_be_is_refused(
    cli: Cli, sessions: Path, tmp_path: Path, another_process: Any, code: str | None, name: str, said: str
) -> None:
    if code is None:
        os.mkfifo(tmp_path / name)
    else:
        written(tmp_path, name, code)
    result = cli(*RUN, f"--metric={tmp_path / name}")
    assert result.code == 2 and name in result.err and said in result.err
    assert not (sessions / "mine").exists() and torch.get_default_dtype() == torch.float32
