"""`htfl-sim sweep`: what it refuses before anything runs, and a study of two points, each a process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoints import SessionReader
from simulator.base.errors import ConfigError
from simulator.base.nested import flattened
from simulator.studies.study import StudySpec, shipped_file, shipped_studies
from tests import federations
from tests.cli.conftest import TINY, Cli, assert_refused, cli, sessions

__all__ = ["cli", "sessions"]
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.long
def test_a_sweep_runs_every_point_as_run_would_and_again_runs_nothing(cli: Cli, sessions: Path) -> None:
    result = cli("sweep", "t", *TINY, "--rounds=2", "--over=method=standalone,fedgh", "--jobs=2", "--json")
    assert result.code == 0, result.err
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert {line["point"] for line in lines if line["state"] == "finished"} == {"t/standalone", "t/fedgh"}
    for method in ("standalone", "fedgh"):
        assert cli("run", *TINY, "--rounds=2", f"--method={method}", f"--session={method}").code == 0
        assert federations.committed(sessions / "t" / method) == federations.committed(sessions / method)
    before = (sessions / "t" / "fedgh" / "events.jsonl").read_bytes()
    again = cli("sweep", "t")
    assert (again.code, "2 of 2 points finished" in again.err) == (0, True)
    assert (sessions / "t" / "fedgh" / "events.jsonl").read_bytes() == before

    assert {"t/standalone", "t/fedgh"} < {each["name"] for each in cli("sessions", "--json").json()}
    assert cli("show", "t/fedgh", "--json").json()["name"] == "t/fedgh"
    assert cli("verify", "t/fedgh").code == 0
    assert_refused(cli("show", "t"), 2, "'t' is a study", "t/fedgh")
    for command in ("pause", "stop"):
        assert_refused(cli(command, "t"), 4, "No process runs the study t", "htfl-sim sweep t")
    assert_refused(cli("resume", "t"), 2, "htfl-sim sweep t")


def test_a_study_that_cannot_be_is_refused_before_anything_runs(cli: Cli, sessions: Path) -> None:
    for line, sentences in (
        (["--over=training.lrr=1,2"], ["unknown key 'training.lrr'", "Did you mean 'training.lr'"]),
        (["--over=seed"], ["'seed' is not an axis", "--over seed=0..2"]),
        ([], ["needs an axis"]),
        (["--preset={method}_htm6", "--over=method=fedgh"], ["unknown preset 'fedgh_htm6'", "fedgh_htm5"]),
        (["--over=method=standalone,inco_avg"], ["point inco_avg", "needs nested architectures", "client 0"]),
        (["--from=gone@3", "--over=seed=1"], ["gone"]),
        (["--from=gone", "--over=seed=1"], ["'gone' names no round", "t3/fedlora-s0@50"]),
        (["--preset=quickstart", "--config=x.toml", "--over=seed=1"], ["--preset and --config"]),
        (["fedgh_eta_thet"], ["no study file 'fedgh_eta_thet'", "Did you mean 'fedgh_eta_theta'"]),
        (["--on=rya", "--over=method=standalone"], ["--on rya is unknown", "Did you mean 'ray'"]),
    ):
        where = [] if "--from=gone@3" in line else [*TINY]
        result = cli("sweep", "t", *line, *where)
        assert result.code in (2, 4), result.err
        assert_refused(result, result.code, *sentences)
        assert not (sessions / "t").exists()
    named = ("no study 'fedgh_noniidd'", "Did you mean 'fedgh_noniid", "--over")
    assert_refused(cli("sweep", "fedgh_noniidd"), 4, *named)


@pytest.mark.long
def test_settings_that_differ_between_points_are_said_before_anything_runs(cli: Cli, sessions: Path) -> None:
    """FedGH's preset has batches of 32, Standalone's of 64."""
    line = ["sweep", "t", "--preset={method}_htm5", "--dataset=digits", "--rounds=1", *TINY, "--dry-run"]
    line += ["--over=method=standalone,fedgh", "--over=seed=0,1"]
    said = "Rows differ in training.batch_size: 32 (fedgh), 64 (standalone)."
    assert cli(*line).out.splitlines()[0] == said
    assert cli(*line, "--json").json()["notes"] == [said]
    shared = cli(*line, "--settings-from=standalone_htm5", "--json").json()
    assert shared["notes"] == [] and len(shared["points"]) == 4
    assert cli(*line, "--over=training.batch_size=8", "--json").json()["notes"] == []


@pytest.mark.long
def test_the_cost_of_a_study_is_counted_as_its_ledger_will_have_it(cli: Cli, sessions: Path) -> None:
    """FedGH's server trains, FedProto collects, FedL2G-l has phases of its own."""
    methods = ("standalone", "fedgh", "fedproto", "fedl2g_l")
    options = [*TINY, "--set=data.limit=400", "--rounds=1", "--set=training.epochs=3"]
    cost = cli("sweep", "t", *options, f"--over=method={','.join(methods)}", "--dry-run", "--json").json()
    assert [(each["point"], each["rounds"]) for each in cost["points"]] == [
        (f"t/{each}", 1) for each in methods
    ]
    assert not (sessions / "t").exists() and cost["seconds"] > 0
    for method, each in zip(methods, cost["points"], strict=True):
        assert cli("run", *options, f"--method={method}", f"--session={method}").code == 0
        record = SessionReader(sessions / method).records()[0]
        assert each["flops"] == record["flops"]["total"]


POINTS = {
    "fedlora_noniid": 2 * 5,  # FedLoRA and FedProto, 2 to 10 classes
    "fedlora_noniid_cifar100": 2 * 6,  # 10 to 100 classes
    "fedlora_participation": 2 * 6,  # C of 0.1 to 1
    "fedlora_participation_cifar100": 2 * 6,
    "fedlora_mu_hidden": 5 * 4,  # μ of 0.5 to 0.9, widths of 20 to 80
    "fedlora_mu_hidden_cifar100": 5 * 4,
    "fedssa_noniid": 2 * 5,
    "fedssa_noniid_cifar100": 2 * 6,
    "fedssa_participation": 2 * 6,
    "fedssa_participation_cifar100": 2 * 6,
    "fedgh_noniid": 3 * 5,  # FedGH, LG-FedAvg, FedProto
    "fedgh_noniid_cifar100": 3 * 6,
    "fedgh_participation": 3 * 6,
    "fedgh_participation_cifar100": 3 * 6,
    "fedgh_eta_theta": 7,  # 0.001 to 1
    "fedgh_eta_theta_cifar100": 7,
    "fedl2g_l_eta_s": 5,
    "fedl2g_f_eta_s": 5,
    "fedl2g_epochs": 8 * 3,  # all methods of Table 3, E of 5, 10, 20
    "inco_batch_size": 2 * 5,
    "inco_batch_size_cinic10": 2 * 5,
    "inco_noise": 2 * 4,
    "inco_noise_cinic10": 2 * 4,
}
"""Points for each seed."""


def test_every_shipped_study_has_its_points_each_with_settings_that_are_valid() -> None:
    assert set(shipped_studies()) == set(POINTS)
    for name, count in POINTS.items():
        study = StudySpec.read(shipped_file(name))
        points = study.points(Path("nowhere"))
        assert len(points) == len({point.name for point in points}) == 3 * count, name
        assert study.over["seed"] == (0, 1, 2) and study.title
        for point in points:
            flat = flattened(point.config)
            axes = {"method.name" if key == "method" else key: value for key, value in point.axes.items()}
            assert axes == {key: flat[key] for key in axes}, point.name
    with pytest.raises(ConfigError, match="Did you mean 'inco_noise'"):
        shipped_file("inco_noiz")


def test_the_settings_of_the_figures_are_those_that_the_papers_name() -> None:
    for name in ("fedlora_noniid", "fedssa_participation", "fedlora_mu_hidden_cifar100"):
        config = StudySpec.read(shipped_file(name)).points(Path("nowhere"))[0].config
        assert config["federation"] == config["federation"] | {"clients": 100, "group": "htm5"}
    gh = StudySpec.read(shipped_file("fedgh_eta_theta")).points(Path("nowhere"))[0].config
    assert (gh["training"]["lr"], gh["federation"]["clients"]) == (0.1, 10)


def test_reading_and_running_studies_loads_no_torch() -> None:
    needed = ("sweep", "executor", "slurm", "ray_node", "board", "study", "folder")
    script = f"""
import importlib, sys
for name in {[f"simulator.studies.{each}" for each in needed]} + ["tui.cli.sweep", "tui.cli.progress"]:
    importlib.import_module(name)
    assert "torch" not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", script], check=True)
