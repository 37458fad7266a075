"""A study of a user's own models, figures and partition: named as `run` takes them, kept, and held to."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import htfl_sim as hs
from checkpoints import SessionReader
from simulator.base.errors import ConfigError, SessionError
from simulator.config.user_files import Files
from simulator.studies.executor import Launch
from simulator.studies.folder import read_points
from simulator.studies.point import main as run_point
from simulator.studies.study import StudySpec
from simulator.studies.sweep import plan
from tests import federations
from tests.cli.conftest import TINY, Cli, cli, sessions
from tests.own import METRIC, MODEL, another_process, written

__all__ = ["another_process", "cli", "sessions"]
pytestmark = pytest.mark.filterwarnings("error")
ASKED = ("t", *(each for each in TINY if "group" not in each), "--rounds=1", "--over=method=standalone,fd")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path, "mynets.py", MODEL)


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    return written(tmp_path, "right.py", METRIC)


@pytest.fixture
def lifeline() -> Iterator[int]:
    """The end of a pipe that a point's process watches."""
    theirs, mine = os.pipe()
    yield theirs
    os.close(mine)
    os.close(theirs)


@pytest.fixture
def asked(sessions: Path, model: Path, metric: Path) -> Path:
    """A study that was asked for with a model and a figure, and none of whose points has run."""
    sessions.mkdir()
    text = [
        'preset = "quickstart"',
        "[config]",
        "rounds = 1",
        "training = { epochs = 1 }",
        'data = { limit = 200, partition = "iid" }',
        f'federation = {{ clients = 4, group = ["tiny_mlp", "{model}:Net@last"] }}',
        f'evaluation = {{ metrics = ["{metric}"] }}',
        'runtime = { workers = 1, device = "cpu" }',
    ]
    text += ["[over]", 'method = ["standalone", "fd"]']
    file = written(sessions, "t.toml", "\n".join(text))
    plan(sessions / "t", StudySpec.read(file)).open().close("stopped")
    return sessions / "t"


def test_a_study_keeps_the_files_with_their_sha256_and_names_what_is_in_them(
    asked: Path, model: Path, metric: Path
) -> None:
    study = StudySpec.read(asked / "study.toml")
    assert study.files == Files(models=(str(model),), metrics=(str(metric),))
    assert study.config["federation"]["group"] == ["tiny_mlp", "mynets:Net@last"]
    assert study.config["evaluation"]["metrics"] == ["right"]
    for point in read_points(asked):
        assert [(file["kind"], file["name"]) for file in point.files] == [
            ("model", "mynets.py"),
            ("metric", "right.py"),
        ]


def test_a_point_is_run_with_them_as_run_would(
    asked: Path, cli: Cli, sessions: Path, model: Path, metric: Path, lifeline: int, another_process: Any
) -> None:
    another_process()
    options = list(Launch(sessions, files=StudySpec.read(asked / "study.toml").files).options())
    assert options[2:] == ["--model", str(model), "--metric", str(metric)]
    assert run_point([str(asked), "fd", *options, "--lifeline", str(lifeline)]) == 0
    words = (
        "--model=tiny_mlp",
        f"--model={model}:Net@last",
        f"--metric={metric}",
        "--method=fd",
        "--rounds=1",
    )
    alone = cli("run", *ASKED[1:-2], *words, "--session=alone")
    assert alone.code == 0, alone.err
    assert federations.committed(asked / "fd") == federations.committed(sessions / "alone")
    assert SessionReader(asked / "fd").records()[-1]["evaluation"]["test"]["metrics"].keys() == {"right"}


def test_another_file_is_refused_by_the_study_and_by_the_process_of_a_point(
    asked: Path, cli: Cli, model: Path, metric: Path, lifeline: int, another_process: Any, capfd: Any
) -> None:
    another_process()
    written(metric.parent, "right.py", METRIC + "\n")
    named = ("--model", model, "--metric", metric)
    refused = cli("sweep", "t", *named)
    assert refused.code == 4
    assert "the metric file right.py is not the one that study t was made with" in refused.err
    another_process()
    words = ["--data-dir", ".", "--model", str(model), "--metric", str(metric), "--lifeline", str(lifeline)]
    assert run_point([str(asked), "fd", *words]) == 4
    assert "the metric file right.py is not the one" in capfd.readouterr().err
    assert not (asked / "fd").exists()
    another_process()
    metric.unlink()
    assert "cannot read the metric" in cli("sweep", "t", *named).err


def test_a_partition_file_is_one_of_them_by_its_content(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    parts = [{"train": [*range(k, 80, 4)], "test": [*range(100 + k, 140, 4)]} for k in range(4)]
    file = written(tmp_path, "indices.json", json.dumps(parts))
    study = StudySpec.of_toml(
        {
            "preset": "quickstart",
            "config": {
                "data": {"partition": "indices", "indices": "indices.json"},
                "federation": {"clients": 4},
            },
            "over": {"seed": [0, 1]},
        },
        tmp_path / "mine.toml",
    )
    assert study.config["data"]["indices"] == str(file)
    planned = plan(sessions / "t", study)
    planned.open().close("stopped")
    assert [each["kind"] for each in planned.points[0].files] == ["partition"]
    written(tmp_path, "indices.json", json.dumps([*parts[:3], parts[0]]))
    with pytest.raises(SessionError, match=r"the partition file indices\.json is not the one that study t"):
        plan(sessions / "t")
    file.unlink()
    with pytest.raises(SessionError, match=r"need the partition file indices\.json, which is missing"):
        plan(sessions / "t")


def test_an_axis_may_be_of_files(model: Path, tmp_path: Path) -> None:
    study = StudySpec.of_toml(
        {"preset": "quickstart", "over": {"federation": {"group": [["mynets.py:Net@last"], ["cnn5"]]}}},
        tmp_path / "mine.toml",
    )
    assert study.over == {"federation.group": (["mynets:Net@last"], ["cnn5"])}
    assert study.files.models == (str(model),)
    assert [point.name for point in plan(tmp_path / "t", study).points] == [
        "groupmynets_Net_last",
        "groupcnn5",
    ]


def test_a_dry_run_counts_such_models_and_tells_which_cannot_be(cli: Cli, model: Path, metric: Path) -> None:
    words = (*ASKED, f"--model={model}:Net@last", f"--metric={metric}", "--dry-run", "--json")
    told = cli("sweep", *words)
    assert told.code == 0, told.err
    assert all(each["flops"] > 0 for each in told.json()["points"])
    wrong = cli("sweep", *ASKED, f"--model={model}:Nett@last", "--dry-run")
    assert wrong.code == 2 and "mynets.py has no model 'Nett'" in wrong.err and "'Net'" in wrong.err


@pytest.mark.long
def test_points_branch_off_a_session_that_has_them(
    cli: Cli, sessions: Path, model: Path, metric: Path, lifeline: int, another_process: Any
) -> None:
    words = (f"--model={model}:Net@last", f"--metric={metric}", "--method=standalone", "--rounds=1")
    assert cli("run", *ASKED[1:-2], *words, "--session=main").code == 0
    another_process()
    branch = ("sweep", "b", "--from=main@1", "--rounds=2", "--over=training.lr=0.1,0.2")
    assert "add --model mynets.py" in cli(*branch, "--dry-run").err
    told = cli(*branch, f"--model={model}", f"--metric={metric}", "--dry-run")
    assert told.code == 0, told.err
    study = StudySpec(
        origin="main@1", over={"training.lr": (0.1,)}, config={"rounds": 2},
        files=Files(models=(str(model),), metrics=(str(metric),)),
    )  # fmt: skip
    plan(sessions / "b", study).open().close("stopped")
    another_process()
    options = Launch(sessions, files=study.files).options()
    assert run_point([str(sessions / "b"), "lr0.1", *options, "--lifeline", str(lifeline)]) == 0
    assert SessionReader(sessions / "b" / "lr0.1").records()[-1]["round"] == 2


def test_from_python_a_file_that_only_this_process_has_loaded_is_asked_for(
    tmp_path: Path, model: Path
) -> None:
    cfg = hs.preset(federation__group=[f"{model}:Net@last"], method="standalone", rounds=1)
    assert cfg.federation.group == ("mynets:Net@last",)
    with pytest.raises(ConfigError, match=r'needs the model file mynets\.py, .* models = \["mynets\.py"\]'):
        hs.sweep(tmp_path / "t", cfg, {"seed": [0]})


@pytest.mark.slow
def test_from_the_command_line_and_from_python_it_is_the_same_study(
    cli: Cli, sessions: Path, model: Path, metric: Path, tmp_path: Path, another_process: Any
) -> None:
    words = ("--model=tiny_mlp", f"--model={model}:Net@last", f"--metric={metric}")
    swept = cli("sweep", *ASKED, *words)
    assert swept.code == 0, swept.err
    first = SessionReader(sessions / "t" / "fd")
    config = {key: each for key, each in first.document["config"].items() if key != "method"}
    study = hs.sweep(
        tmp_path / "face",
        hs.config({**config, "method": {"name": "standalone"}}),
        {"method": ["standalone", "fd"]},
        models=[model],
        metrics=[metric],
    )
    for name in study.points:
        assert federations.committed(study.path / name) == federations.committed(sessions / "t" / name)
    another_process()
    again = hs.sweep(tmp_path / "face", models=[model], metrics=[metric])
    assert repr(again) == repr(study)
