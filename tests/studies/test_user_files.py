"""A study of a user's own models, figures and partition: named as `run` takes them, kept, and held to."""

import json
import os
from collections.abc import Callable, Iterator
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
def files(tmp_path: Path) -> Files:
    """A model and a figure."""
    model, metric = written(tmp_path, "mynets.py", MODEL), written(tmp_path, "right.py", METRIC)
    return Files(models=(str(model),), metrics=(str(metric),))


@pytest.fixture
def point_of() -> Iterator[Callable[[Path, str, Files], int]]:
    """Runs a point as a process of its own would, with the end of a pipe that it watches."""
    theirs, mine = os.pipe()
    yield lambda study, name, files: run_point(
        [str(study), name, Launch(study.parent, files=files).to_json(lifeline=theirs)]
    )
    os.close(mine)
    os.close(theirs)


@pytest.fixture
def asked(sessions: Path, files: Files) -> Path:
    """A study that was asked for with them, and none of whose points has run."""
    sessions.mkdir()
    text = f"""preset = "quickstart"
[config]
rounds = 1
training = {{ epochs = 1 }}
data = {{ limit = 200, partition = "iid" }}
federation = {{ clients = 4, group = ["tiny_mlp", "{files.models[0]}:Net@last"] }}
evaluation = {{ metrics = ["{files.metrics[0]}"] }}
runtime = {{ workers = 1, device = "cpu" }}
[over]
method = ["standalone", "fd"]
"""
    plan(sessions / "t", StudySpec.read(written(sessions, "t.toml", text))).open().close("stopped")
    return sessions / "t"


def test_a_study_keeps_the_files_with_their_sha256_and_their_names(asked: Path, files: Files) -> None:
    study = StudySpec.read(asked / "study.toml")
    assert study.files == files
    assert study.config["federation"]["group"] == ["tiny_mlp", "mynets:Net@last"]
    assert study.config["evaluation"]["metrics"] == ["right"]
    listed = [[(file["kind"], file["name"]) for file in point.files] for point in read_points(asked)]
    assert listed == [[("model", "mynets.py"), ("metric", "right.py")]] * 2


def test_a_point_runs_with_them(
    asked: Path, cli: Cli, sessions: Path, files: Files, point_of: Any, another_process: Any
) -> None:
    another_process()
    assert point_of(asked, "fd", files) == 0
    own = [f"--model={files.models[0]}:Net@last", f"--metric={files.metrics[0]}", "--method=fd"]
    alone = cli("run", *ASKED[1:-2], "--model=tiny_mlp", *own, "--rounds=1", "--session=alone")
    assert alone.code == 0, alone.err
    assert federations.committed(asked / "fd") == federations.committed(sessions / "alone")
    assert SessionReader(asked / "fd").records()[-1]["evaluation"]["test"]["metrics"].keys() == {"right"}


def test_another_file_is_refused_by_the_study_and_by_the_process_of_a_point(
    asked: Path, cli: Cli, files: Files, point_of: Any, another_process: Any, capfd: Any
) -> None:
    another_process()
    metric = written(Path(files.metrics[0]).parent, "right.py", METRIC + "\n")
    named = ("--model", files.models[0], "--metric", metric)
    refused = cli("sweep", "t", *named)
    assert refused.code == 4
    assert "the metric file right.py is not the one that study t was made with" in refused.err
    another_process()
    assert point_of(asked, "fd", files) == 4
    assert "the metric file right.py is not the one" in capfd.readouterr().err
    assert not (asked / "fd").exists()
    another_process()
    metric.unlink()
    assert "cannot read the metric" in cli("sweep", "t", *named).err


def test_a_partition_file_is_one_of_them_by_its_content(sessions: Path, tmp_path: Path) -> None:
    parts = [{"train": [*range(k, 80, 4)], "test": [*range(100 + k, 140, 4)]} for k in range(4)]
    file = written(tmp_path, "indices.json", json.dumps(parts))
    config = {"data": {"partition": "indices", "indices": "indices.json"}, "federation": {"clients": 4}}
    raw = {"preset": "quickstart", "config": config, "over": {"seed": [0, 1]}}
    study = StudySpec.of_toml(raw, tmp_path / "mine.toml")
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


def test_an_axis_may_be_of_files(files: Files, tmp_path: Path) -> None:
    over = {"federation": {"group": [["mynets.py:Net@last"], ["cnn5"]]}}
    study = StudySpec.of_toml({"preset": "quickstart", "over": over}, tmp_path / "mine.toml")
    assert study.over == {"federation.group": (["mynets:Net@last"], ["cnn5"])}
    assert study.files.models == files.models
    points = plan(tmp_path / "t", study).points
    assert [point.name for point in points] == ["groupmynets_Net_last", "groupcnn5"]


def test_a_dry_run_counts_such_models_and_tells_which_cannot_be(cli: Cli, files: Files) -> None:
    [model], [metric] = files.models, files.metrics
    words = (*ASKED, f"--model={model}:Net@last", f"--metric={metric}", "--dry-run", "--json")
    told = cli("sweep", *words)
    assert told.code == 0, told.err
    assert all(each["flops"] > 0 for each in told.json()["points"])
    wrong = cli("sweep", *ASKED, f"--model={model}:Nett@last", "--dry-run")
    assert wrong.code == 2 and "mynets.py has no model 'Nett'" in wrong.err and "'Net'" in wrong.err


@pytest.mark.long
def test_points_branch_off_with_them(
    cli: Cli, sessions: Path, files: Files, point_of: Any, another_process: Any
) -> None:
    own = [f"--model={files.models[0]}", f"--metric={files.metrics[0]}"]
    words = [f"{own[0]}:Net@last", own[1], "--method=standalone", "--rounds=1", "--session=main"]
    assert cli("run", *ASKED[1:-2], *words).code == 0
    another_process()
    branch = ("sweep", "b", "--from=main@1", "--rounds=2", "--over=training.lr=0.1,0.2")
    assert "add --model mynets.py" in cli(*branch, "--dry-run").err
    told = cli(*branch, *own, "--dry-run")
    assert told.code == 0, told.err
    study = StudySpec(origin="main@1", over={"training.lr": (0.1,)}, config={"rounds": 2}, files=files)
    plan(sessions / "b", study).open().close("stopped")
    another_process()
    assert point_of(sessions / "b", "lr0.1", study.files) == 0
    assert SessionReader(sessions / "b" / "lr0.1").records()[-1]["round"] == 2


def test_a_file_that_only_this_process_has_loaded_is_asked_for(tmp_path: Path, files: Files) -> None:
    cfg = hs.preset(federation__group=[f"{files.models[0]}:Net@last"], method="standalone", rounds=1)
    assert cfg.federation.group == ("mynets:Net@last",)
    with pytest.raises(ConfigError, match=r'needs the model file mynets\.py, .* models = \["mynets\.py"\]'):
        hs.sweep(tmp_path / "t", cfg, {"seed": [0]})


@pytest.mark.slow
def test_from_the_command_line_and_from_python_it_is_the_same_study(
    cli: Cli, sessions: Path, files: Files, tmp_path: Path, another_process: Any
) -> None:
    own: Any = {"models": files.models, "metrics": files.metrics}
    words = ("--model=tiny_mlp", f"--model={files.models[0]}:Net@last", f"--metric={files.metrics[0]}")
    swept = cli("sweep", *ASKED, *words)
    assert swept.code == 0, swept.err
    config = dict(SessionReader(sessions / "t" / "fd").document["config"]) | {
        "method": {"name": "standalone"}
    }
    study = hs.sweep(tmp_path / "face", hs.config(config), {"method": ["standalone", "fd"]}, **own)
    for name in study.points:
        assert federations.committed(study.path / name) == federations.committed(sessions / "t" / name)
    another_process()
    assert repr(hs.sweep(tmp_path / "face", **own)) == repr(study)
