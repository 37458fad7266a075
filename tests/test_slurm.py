"""The script in docs/slurm, run by bash with stand-ins for what Slurm provides."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

import checkpoints
from tests import federations
from tests.reliability.sessions import COMMAND, configuration, finish, rounds, wait_until

SCRIPT = Path(__file__).parents[1] / "docs" / "slurm" / "htfl-sim.sbatch"
STANDS_IN = {
    "srun": '#!/bin/sh\nexec "$@"\n',
    "scontrol": '#!/bin/sh\necho "$@" >> "$REQUEUED"\n',
}


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """The environment of job 7, named 'job'."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in STANDS_IN.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return os.environ | {
        "PATH": f"{folder}:{COMMAND.parent}:{os.environ['PATH']}",
        "HTFL_SESSIONS": str(tmp_path),
        "HTFL_GRACE": "0.5",
        "REQUEUED": str(tmp_path / "requeued"),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NAME": "job",
    }


def job(folder: Path, slurm: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(["bash", SCRIPT, *arguments], cwd=folder, env=slurm, stdout=log, stderr=log)


@pytest.mark.slow
def test_a_job_at_its_limit_stops_queues_itself_again_and_ends_as_one_left_alone(
    tmp_path: Path, slurm: dict[str, str]
) -> None:
    config = configuration(tmp_path, "fedlora", 4000)
    first = job(tmp_path, slurm, "--config", config, "--workers", "1")
    wait_until(lambda: rounds(tmp_path / "job") >= 2, first)
    first.send_signal(signal.SIGUSR1)
    assert first.wait(timeout=600) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"

    session = checkpoints.SessionReader(tmp_path / "job")
    assert [event["reason"] for event in session.events() if event["event"] == "stopped"] == ["SIGTERM"]
    done = session.rounds()[-1]
    # The second start of the job resumes; the run is made to be near its end.
    checkpoints.post(tmp_path / "job", "switch", {"method": None, "set": [f"rounds={done + 2}"]})
    again = job(tmp_path, slurm, "--config", config, "--workers", "1")
    assert again.wait(timeout=600) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "requeued").read_text() == "requeue 7\n" and session.state() == "finished"

    finish(tmp_path, "run", "--config", config, "--session", "alone", "--rounds", str(done + 2))
    assert federations.committed(tmp_path / "job") == federations.committed(tmp_path / "alone")


@pytest.mark.long
def test_a_job_that_is_cancelled_stops_with_a_checkpoint_and_does_not_come_back(
    tmp_path: Path, slurm: dict[str, str]
) -> None:
    config = configuration(tmp_path, "fedlora", 4000)
    process = job(tmp_path, slurm, "--config", config, "--workers", "1")
    wait_until(lambda: rounds(tmp_path / "job") >= 1, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=600) == 143, (tmp_path / "log").read_text()
    assert checkpoints.SessionReader(tmp_path / "job").state() == "stopped"
    assert not (tmp_path / "requeued").exists()


@pytest.mark.long
def test_a_job_that_cannot_run_fails_with_the_runs_exit_code(tmp_path: Path, slurm: dict[str, str]) -> None:
    assert job(tmp_path, slurm, "--method", "fedlorra").wait(timeout=600) == 2
    assert "'fedlora'" in (tmp_path / "log").read_text()
    assert not (tmp_path / "requeued").exists()
