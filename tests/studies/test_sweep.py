"""`htfl-sim sweep`: what it refuses before anything runs, and a study of two points, each a process."""

import json
from pathlib import Path

import pytest

from tests import federations
from tests.cli.conftest import TINY, Cli, cli, sessions
from tests.cli.test_bad_input import assert_refused

__all__ = ["cli", "sessions"]
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.long
def test_a_sweep_runs_every_point_as_run_would_and_asked_for_again_runs_nothing(
    cli: Cli, sessions: Path
) -> None:
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
    ):
        where = [] if "--from=gone@3" in line else [*TINY]
        result = cli("sweep", "t", *where, *line)
        assert result.code in (2, 4), result.err
        assert_refused(result, result.code, *sentences)
        assert not (sessions / "t").exists()


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


def test_a_study_that_is_not_there_has_its_nearest_named(cli: Cli) -> None:
    assert_refused(
        cli("sweep", "fedgh_noniidd"), 4, "no study 'fedgh_noniidd'", "Did you mean 'fedgh_noniid", "--over"
    )


def test_a_name_that_is_neither_study_nor_file_has_its_nearest_named(cli: Cli) -> None:
    assert_refused(cli("sweep", "t", "no_such_file"), 2, "there is no study file 'no_such_file'")
