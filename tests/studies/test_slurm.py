"""Scripts for Slurm, of studies and of a run, carried out by bash with stand-ins for what Slurm provides."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import checkpoints
from checkpoints import SessionReader
from simulator.config import Config
from simulator.data.datasets import data_folder
from simulator.sessions.session import Session
from simulator.studies import slurm
from simulator.studies.executor import Launch
from simulator.studies.folder import read_points
from simulator.studies.study import StudySpec
from tests import federations
from tests.cli.conftest import TINY, Cli, assert_refused, cli, sessions
from tests.reliability.sessions import COMMAND, configuration, finish, rounds, start, wait_until

__all__ = ["cli", "sessions"]
POINTS = ("standalone", "fedgh")
ASKED = ("sweep", "t", *TINY, "--rounds=2", "--over=method=standalone,fedgh", "--on=slurm")


def directives(script: Path) -> dict[str, str]:
    """What the script asks of Slurm."""
    lines = re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", script.read_text(), re.MULTILINE)
    return dict(lines)


def test_the_study_is_prepared_and_its_script_says_what_a_task_takes(cli: Cli, sessions: Path) -> None:
    result = cli(*ASKED, "--jobs=2", "--json")
    assert result.code == 0, result.err
    script = sessions / "t" / "slurm.sh"
    assert result.json()["submit"] == f"sbatch {script}" and result.json()["points"] == list(POINTS)
    assert checkpoints.is_group(sessions / "t") and checkpoints.sessions(sessions / "t") == []
    found = directives(script)
    assert (found["array"], found["cpus-per-task"], found["job-name"]) == ("0-1%2", "1", '"t"')
    assert (found["signal"], "requeue" in found, found["open-mode"]) == ("B:TERM@120", True, "append")
    assert (
        found["output"] == f'"{sessions / "t"}/slurm-logs/%a.log"'
        and (sessions / "t" / "slurm-logs").is_dir()
    )
    assert "gres" not in found
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_what_is_said_of_points_is_asked_of_slurm(cli: Cli, sessions: Path) -> None:
    for words, expected in (
        (["--set=runtime.threads_per_client=3", "--workers=2"], {"cpus-per-task": "6", "array": "0-1"}),
        (["--device=cpu"], {"gres": None}),
    ):
        name = f"t{len(words)}"
        assert cli("sweep", name, *ASKED[2:], *words).code == 0
        found = directives(sessions / name / "slurm.sh")
        assert {key: found.get(key) for key in expected} == expected


def test_points_that_compute_on_a_gpu_are_given_one(tmp_path: Path) -> None:
    [point] = StudySpec(config={"method": {"name": "standalone"}}, over={"seed": (0,)}).points(tmp_path)
    for device, gpus, asks in (
        ("cuda", False, True),
        ("cpu", True, False),
        (None, True, True),
        (None, False, False),
    ):
        text = slurm.script(tmp_path, [point], Launch(tmp_path, device=device), "", gpus)
        assert ("--gres=gpu:1" in text) == asks, (device, gpus)


def test_written_again_a_script_keeps_its_users_edits_but_for_the_tasks(cli: Cli, sessions: Path) -> None:
    """Also another encoding, and that it may be executed."""
    assert cli(*ASKED).code == 0
    script = sessions / "t" / "slurm.sh"
    edited = script.read_text().replace("##SBATCH --partition=", "#SBATCH --partition=long").encode()
    edited += "# für alle\n".encode("latin-1")
    script.write_bytes(edited)
    script.chmod(0o750)
    again = cli("sweep", "t", "--extend", "--over=method=standalone,fedgh,fd", "--on=slurm", "--jobs=5")
    assert again.code == 0 and "kept as it was, but for its line --array" in again.err
    assert script.read_bytes() == edited.replace(b"--array=0-1", b"--array=0-2%5")
    assert script.stat().st_mode & 0o777 == 0o750


def test_a_share_of_a_gpu_is_refused_since_slurm_gives_whole_ones(cli: Cli, sessions: Path) -> None:
    refused = cli(*ASKED, "--set=runtime.gpus_per_point=0.5")
    assert_refused(refused, 2, "Slurm gives every point a whole GPU", "runtime.gpus_per_point=1")
    assert not (sessions / "t").exists()


@pytest.mark.long
def test_a_task_runs_its_point_as_run_would_and_leaves_a_finished_one_alone(cli: Cli, sessions: Path) -> None:
    assert cli(*ASKED).code == 0
    for number, method in enumerate(POINTS):
        assert cli("sweep", "t", f"--point={number}", "--no-progress").code == 0
        assert cli("run", *TINY, "--rounds=2", f"--method={method}", f"--session={method}").code == 0
        assert federations.committed(sessions / "t" / method) == federations.committed(sessions / method)
    before = (sessions / "t" / "fedgh" / "events.jsonl").read_bytes()
    again = cli("sweep", "t", "--point=1")
    assert again.code == 0 and "t/fedgh is finished" in again.err
    assert (sessions / "t" / "fedgh" / "events.jsonl").read_bytes() == before


def test_a_point_that_is_not_listed_is_none_to_run(cli: Cli) -> None:
    assert cli(*ASKED).code == 0
    assert_refused(cli("sweep", "t", "--point=2"), 2, "study t has the points 0 to 1, and no point 2")
    for word in ("--jobs=2", "--rounds=5", "--on=ray"):
        refused = cli("sweep", "t", "--point=0", word)
        assert_refused(refused, 2, "--point runs a point of a study as it is listed")


@pytest.mark.long
def test_a_point_that_a_process_runs_is_left_to_it(cli: Cli, sessions: Path) -> None:
    assert cli(*ASKED).code == 0
    config = Config.read(read_points(sessions / "t")[1].config)
    with Session.create(config, sessions / "t" / "fedgh", data_folder(None)) as session:
        assert_refused(cli("sweep", "t", "--point=1"), 4, "in use by")
        session.run()


def task(folder: Path, number: int) -> subprocess.Popen[bytes]:
    """Task `number` of the array, as bash runs it."""
    variables = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_CPUS_PER_TASK": "1"}
    with (folder / "t" / "slurm-logs" / f"{number}.log").open("ab") as log:
        return subprocess.Popen(
            ["bash", folder / "t" / "slurm.sh"], env=os.environ | variables, stdout=log, stderr=log
        )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_tasks_killed_or_at_their_limit_end_as_runs_left_alone_once_submitted(tmp_path: Path) -> None:
    """Side by side: one is killed with SIGKILL, the other is sent SIGTERM as before its time limit."""
    config = configuration(tmp_path, "standalone", 60)
    finish(tmp_path, "sweep", "t", "--config", config, "--over", "method=standalone,fedgh", "--on", "slurm")
    first, second = (task(tmp_path, number) for number in range(2))
    for process, name in ((first, "standalone"), (second, "fedgh")):
        wait_until(lambda name=name: rounds(tmp_path / "t" / name) >= 1, process)  # type: ignore[misc]
    first.kill()
    second.send_signal(signal.SIGTERM)
    assert (first.wait(timeout=600), second.wait(timeout=600)) == (-signal.SIGKILL, -signal.SIGTERM)
    assert SessionReader(tmp_path / "t" / "fedgh").state() == "stopped"
    for number in range(2):
        assert task(tmp_path, number).wait(timeout=600) == 0, messages(tmp_path, number)
    assert task(tmp_path, 1).wait(timeout=600) == 0
    assert messages(tmp_path, 1).endswith("t/fedgh is finished.\n")
    for name in POINTS:
        finish(tmp_path, "run", "--config", config, "--method", name, "--session", name)
        assert federations.committed(tmp_path / "t" / name) == federations.committed(tmp_path / name)
        assert checkpoints.verify(tmp_path / "t" / name) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("by", ["a task elsewhere", "a sweep here"])
def test_the_point_of_a_node_that_died_is_taken_over(tmp_path: Path, by: str) -> None:
    """Its note says that it runs, on a machine that cannot be seen from here; only its heartbeat stands still."""
    config = configuration(tmp_path, "standalone", 60)
    asked = ("sweep", "t", "--config", config, "--over", "method=standalone")
    finish(tmp_path, *asked, "--on", "slurm")
    died = start(tmp_path, "sweep", "t", "--point", "0", "--no-progress", machine="b")
    wait_until(lambda: rounds(tmp_path / "t" / "standalone") >= 2, died)
    died.kill()
    died.wait()
    assert SessionReader(tmp_path / "t" / "standalone").alive(), "as far as can be seen"
    if by == "a sweep here":
        finish(tmp_path, "sweep", "t", "--no-progress")
    else:
        assert start(tmp_path, "sweep", "t", "--point", "0", machine="c").wait() == 0
    finish(tmp_path, "run", "--config", config, "--session", "alone")
    assert federations.committed(tmp_path / "t" / "standalone") == federations.committed(tmp_path / "alone")


def messages(folder: Path, number: int) -> str:
    return (folder / "t" / "slurm-logs" / f"{number}.log").read_text()


TUNED = ("tune", "u", *TINY, "--set=data.split=2:1:1", "--over=method=standalone", "--no-baseline", "--rounds=2",
         "--budget=2", "--halving=2", "--key=training.lr", "--seeds=0")  # fmt: skip


def test_a_tuning_study_is_one_job_with_the_cores_of_all_points_at_once(cli: Cli, sessions: Path) -> None:
    result = cli(*TUNED, "--on=slurm", "--jobs=3", "--workers=2", "--json")
    assert result.code == 0, result.err
    script = sessions / "u" / "slurm.sh"
    assert result.json() == {"study": "u", "script": str(script), "kept": False, "submit": f"sbatch {script}"}
    found = directives(script)
    assert (found["cpus-per-task"], "array" in found) == ("6", False)
    assert found["output"] == f'"{sessions / "u"}/slurm-logs/%j.log"'
    said = script.read_text()
    assert f'tune {sessions / "u"} --jobs 3 --workers "$((SLURM_CPUS_PER_TASK / 3))" ' in said
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    script.write_text(said.replace("##SBATCH --partition=", "#SBATCH --partition=long"))
    edited = script.read_text()
    again = cli("tune", "u", "--on=slurm")
    assert again.code == 0 and "kept as it was; remove it to have it anew" in again.err
    assert script.read_text() == edited


@pytest.mark.slow
def test_the_job_of_a_tuning_study_ends_with_its_table(tmp_path: Path) -> None:
    finish(tmp_path, *TUNED, "--on=slurm")
    for _ in range(2):  # again: nothing is left to do
        script, variables = tmp_path / "u" / "slurm.sh", os.environ | {"SLURM_CPUS_PER_TASK": "1"}
        job = subprocess.run(["bash", script], env=variables, capture_output=True, text=True, check=False)
        assert job.returncode == 0 and "standalone" in job.stdout, job.stderr
    assert sorted(rounds(each) for each in checkpoints.sessions(tmp_path / "u")) == [1, 2, 2]


# The script in docs/slurm, for a single run.

SCRIPT = Path(__file__).parents[2] / "docs" / "slurm" / "htfl-sim.sbatch"
STANDS_IN = {"srun": '#!/bin/sh\nexec "$@"\n', "scontrol": '#!/bin/sh\necho "$@" >> "$REQUEUED"\n'}


@pytest.fixture
def job_7(tmp_path: Path) -> dict[str, str]:
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


def job(folder: Path, variables: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            ["bash", SCRIPT, *arguments], cwd=folder, env=variables, stdout=log, stderr=log
        )


@pytest.mark.slow
def test_a_job_at_its_limit_queues_itself_again(tmp_path: Path, job_7: dict[str, str]) -> None:
    config = configuration(tmp_path, "fedlora", 4000)
    first = job(tmp_path, job_7, "--config", config, "--workers", "1")
    wait_until(lambda: rounds(tmp_path / "job") >= 2, first)
    first.send_signal(signal.SIGUSR1)
    assert first.wait(timeout=600) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"

    session = checkpoints.SessionReader(tmp_path / "job")
    assert [event["reason"] for event in session.events() if event["event"] == "stopped"] == ["SIGTERM"]
    done = session.rounds()[-1]
    # The second start of the job resumes; the run is made to be near its end.
    checkpoints.post(tmp_path / "job", "switch", {"method": None, "set": [f"rounds={done + 2}"]})
    again = job(tmp_path, job_7, "--config", config, "--workers", "1")
    assert again.wait(timeout=600) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "requeued").read_text() == "requeue 7\n" and session.state() == "finished"

    finish(tmp_path, "run", "--config", config, "--session", "alone", "--rounds", str(done + 2))
    assert federations.committed(tmp_path / "job") == federations.committed(tmp_path / "alone")


@pytest.mark.long
def test_a_cancelled_job_stops_and_does_not_come_back(tmp_path: Path, job_7: dict[str, str]) -> None:
    config = configuration(tmp_path, "fedlora", 4000)
    process = job(tmp_path, job_7, "--config", config, "--workers", "1")
    wait_until(lambda: rounds(tmp_path / "job") >= 1, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=600) == 143, (tmp_path / "log").read_text()
    assert checkpoints.SessionReader(tmp_path / "job").state() == "stopped"
    assert not (tmp_path / "requeued").exists()


@pytest.mark.long
def test_a_job_that_cannot_run_fails_with_the_runs_exit_code(tmp_path: Path, job_7: dict[str, str]) -> None:
    assert job(tmp_path, job_7, "--method", "fedlorra").wait(timeout=600) == 2
    assert "'fedlora'" in (tmp_path / "log").read_text()
    assert not (tmp_path / "requeued").exists()
