"""`htfl-sim sweep --on slurm`: the array script, and its tasks run by bash with stand-ins for what Slurm provides."""

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
from tests.reliability.sessions import configuration, finish, rounds, start, wait_until

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


def test_a_point_that_a_study_does_not_have_is_refused_with_those_that_it_has(cli: Cli) -> None:
    assert cli(*ASKED).code == 0
    result = cli("sweep", "t", "--point=2")
    assert result.code == 2 and "study t has the points 0 to 1, and no point 2" in result.err


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

    def gres(device: str | None, gpus: bool) -> bool:
        return "--gres=gpu:1" in slurm.script(tmp_path, [point], Launch(tmp_path, device=device), "", gpus)

    assert [gres("cuda", False), gres("cpu", True), gres(None, True), gres(None, False)] == [
        True,
        False,
        True,
        False,
    ]


def test_written_again_a_script_keeps_what_its_user_has_made_of_it_but_for_the_tasks(
    cli: Cli, sessions: Path
) -> None:
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


def test_points_that_htfl_sim_did_not_write_are_told_in_a_sentence(cli: Cli, sessions: Path) -> None:
    assert cli(*ASKED).code == 0
    for command in (("sweep", "t"), ("compare", "t")):
        for content in (
            b"[" * 100_000,
            b'[{"name": "a", "axes": {}, "config": {"rounds": 2}}]',
            b'[{"name": "a", "axes": {}, "config": {"rounds": 2, "method": 3, "runtime": []}}]',
        ):
            (sessions / "t" / "points.json").write_bytes(content)
            refused = cli(*command)
            assert refused.code == 4
            assert "points.json" in refused.err and "Restore it from a backup." in refused.err


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
    for words, code, sentences in (
        (["--point=2"], 2, ["has the points 0 to 1, and no point 2"]),
        (["--point=0", "--jobs=2"], 2, ["--point runs a point of a study as it is listed"]),
        (["--point=0", "--rounds=5"], 2, ["--point runs a point of a study as it is listed"]),
        (["--point=0", "--on=ray"], 2, ["--point runs a point of a study as it is listed"]),
    ):
        assert cli(*ASKED).code == 0
        assert_refused(cli("sweep", "t", *words), code, *sentences)


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
def test_tasks_killed_and_stopped_at_their_limit_end_as_runs_left_alone_when_submitted_again(
    tmp_path: Path,
) -> None:
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
        job = subprocess.run(
            ["bash", tmp_path / "u" / "slurm.sh"],
            env=os.environ | {"SLURM_CPUS_PER_TASK": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert job.returncode == 0 and "standalone" in job.stdout, job.stderr
    assert sorted(rounds(each) for each in checkpoints.sessions(tmp_path / "u")) == [1, 2, 2]
