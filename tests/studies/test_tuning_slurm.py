"""`htfl-sim tune --on slurm`: its scripts, and its tasks, with a stand-in for sbatch that runs them at once."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from simulator.base.errors import ConfigError
from simulator.studies import tuning
from simulator.studies.executor import Launch
from simulator.studies.tuning import tune, tuned
from simulator.studies.tuning_slurm import prepare, run_task, sizes
from tests.cli.conftest import TINY, call
from tests.reliability.sessions import COMMAND
from tests.studies.test_tuning import SMALL, in_process, rounds_of

ONE = replace(SMALL, methods=("standalone",), keys=("training.lr",))
ASKED = ("tune", "t", *TINY, "--set", "data.split=2:1:1", "--over", "method=standalone", "--no-baseline",
         "--rounds", "2", "--budget", "2", "--halving", "2", "--key", "training.lr", "--seeds", "0")  # fmt: skip
SBATCH = """#!/bin/bash
# Runs each task at once, and prints the number of the job.
for each in "$@"; do case $each in --array=*) last=${each##*-};; esac; done
echo "$@" >> submitted
for task in $(seq 0 "${last%%%*}"); do
    SLURM_ARRAY_TASK_ID=$task SLURM_CPUS_PER_TASK=1 bash "${@: -2:1}" "${@: -1}" >> tasks 2>&1
done
echo "$(wc -l < submitted);cluster"
"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Two methods, 4 trials by two to rounds 1, 2, and 4, and two final seeds.
        ({}, [8, 4, 2, 4]),
        ({"tuning_seeds": (100, 101)}, [16, 8, 4, 4]),
        ({"halving": None}, [8, 4]),
        ({"halving": None, "sampler": "tpe", "budget": 12}, [10, 20, 24, 4]),
        # 12 trials by two to 4 rounds: 12 to round 1, 6 to round 2, and 3 to round 4.
        ({"sampler": "tpe", "budget": 12}, [10, 20, 24, 12, 6, 4]),
    ],
)
def test_the_points_of_each_step_are_known_before(
    changes: dict[str, Any], expected: list[int], tmp_path: Path
) -> None:
    assert sizes(tmp_path / "t", replace(SMALL, **changes)) == expected


def test_the_scripts_name_every_step_and_wait_for_the_one_before(tmp_path: Path) -> None:
    done = call(*ASKED, "--on", "slurm", "--jobs", "8", "--sessions-dir", tmp_path)
    assert done.code == 0, done.err
    task, submit = tmp_path / "t" / "slurm.sh", tmp_path / "t" / "slurm-submit.sh"
    assert f"bash {submit}" in done.err
    assert f'tune {tmp_path / "t"} --step "$1" --point "$SLURM_ARRAY_TASK_ID"' in task.read_text()
    lines = [line for line in submit.read_text().splitlines() if line.startswith("job=")]
    after = '--dependency="afterany:${job%%;*}" '
    assert lines == [
        f"job=$(sbatch --parsable --array=0-1%8 {task} 0)",
        f"job=$(sbatch --parsable --array=0-0%8 {after}{task} 1)",
        f"job=$(sbatch --parsable --array=0-0%8 {after}{task} 2)",
    ]
    assert {each.name for each in checkpoints.groups(tmp_path)} == {"t"}
    for each in (task, submit):
        assert subprocess.run(["bash", "-n", each], check=False).returncode == 0
    refused = call("tune", "t", "--step", "1", "--point", "0", "--sessions-dir", tmp_path)
    assert refused.code == 2 and "Step 0 of t has 2 unfinished points" in refused.err
    assert call("tune", "t", "--step", "1", "--sessions-dir", tmp_path).code == 2


def test_tasks_in_any_order_end_as_a_study_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("here", "slurm"):
        (tmp_path / home).mkdir()
    with monkeypatch.context() as patch:
        in_process(patch)
        assert not tune(tmp_path / "here" / "t", ONE, Launch(tmp_path)).reason
    folder, launch = tmp_path / "slurm" / "t", Launch(tmp_path)
    prepare(folder, ONE, launch, None, gpus=False)
    counts = sizes(folder, ONE)
    assert counts == [4, 2, 1, 2]
    for step, count in enumerate(counts):
        if step:
            with pytest.raises(ConfigError, match=f"step {step + 1} needs their scores"):
                run_task(folder, step + 1, 0, launch)
        for number in [*reversed(range(count)), 0, count]:  # one again, and one too many
            assert run_task(folder, step, number, launch) == 0
    assert tuned(folder) == tuned(tmp_path / "here" / "t") and tuned(folder)[0].final is not None
    assert rounds_of(folder) == rounds_of(tmp_path / "here" / "t")


def test_a_trial_that_a_divergence_stopped_is_over(tmp_path: Path) -> None:
    base = {**ONE.base, "training": {"batch_size": 8, "on_divergence": "stop"}}
    asked = replace(
        ONE, base=base, rounds=2, budget=2, halving=None, ranges=("training.lr=log:1e29:1e30",), seeds=(0,)
    )
    folder, launch = tmp_path / "t", Launch(tmp_path)
    prepare(folder, asked, launch, None, gpus=False)
    for step, number in ((0, 0), (0, 1), (1, 0)):
        assert run_task(folder, step, number, launch) == 0
    assert tuned(folder)[0].values == {} and tuning.Trials(folder, asked).score
    assert min(rounds_of(folder).values()) < 2


@pytest.mark.slow
def test_all_steps_submitted_at_once_end_with_the_table(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").write_text(SBATCH)
    (tmp_path / "bin" / "sbatch").chmod(0o755)
    there = {"PATH": f"{tmp_path / 'bin'}:{COMMAND.parent}:{os.environ['PATH']}"}
    assert call(*ASKED, "--on", "slurm", "--sessions-dir", tmp_path).code == 0
    for _ in range(2):  # again: nothing is left to do
        subprocess.run(
            ["bash", tmp_path / "t" / "slurm-submit.sh"], cwd=tmp_path, env=os.environ | there, check=True
        )
        assert sorted(rounds_of(tmp_path / "t").values()) == [1, 2, 2], (tmp_path / "tasks").read_text()
    assert (tmp_path / "submitted").read_text().count("--dependency=afterany:") == 4
    told = call("tune", "t", "--sessions-dir", tmp_path)
    assert told.code == 0 and "standalone" in told.out
