"""`run` and `resume` in full: what they write where, and what a signal leaves behind."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import checkpoints
from checkpoints import SessionReader
from simulator.base.errors import ConfigError
from simulator.base.sections import WATCHERS, section_of
from simulator.studies import executor
from simulator.studies.folder import Status
from tests.cli.conftest import TINY, Cli
from tests.processes import Process
from tests.reliability.sessions import wait_until
from tui.cli import running
from tui.common import errors

pytestmark = pytest.mark.filterwarnings("error")


def test_a_run_prints_the_ledger_alone_on_stdout_and_the_rest_on_stderr(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, "--rounds=4", "--session=x", "--json")
    assert result.code == 0 and "\x1b" not in result.err
    records = SessionReader(sessions / "x").records()
    assert list(map(json.loads, result.out.splitlines())) == records
    assert [record["round"] for record in records] == [1, 2, 3, 4]
    lines = [line for line in result.err.splitlines() if line.startswith("round ")]
    assert [line.split("  ")[0] for line in lines] == [f"round {n}/4" for n in range(1, 5)]
    accuracy, traffic = r"accuracy [\d.]+ % \(best [\d.]+ %, r\d\)", r"↑ [\d.]+ KiB ↓ [\d.]+ KiB"
    assert re.fullmatch(rf"round 4/4  {accuracy}  loss \d\.\d{{4}}  {traffic}  [\d.]+ s", lines[3])
    best = max(records, key=lambda record: record["accuracy"]["mean"])
    assert f"best      {100 * best['accuracy']['mean']:.1f} % in round {best['round']}" in result.err
    assert "finished  round 4 of 4" in result.err
    assert "htfl-sim show x" in result.err
    assert re.search(r"memory    [\d.,]+ [MG]iB at most\n", result.err)
    assert cli("run", *TINY, "--rounds=1", "--session=y").out == ""


def test_the_start_says_in_one_line_what_was_read_and_warns(cli: Cli, tmp_path: Path) -> None:
    rows = "".join(f"{n},{n * 7 % 5},{n % 2}\n" for n in range(40))
    (tmp_path / "t.csv").write_text("n,x,y\n" + rows)
    given = ("--dataset", str(tmp_path / "t.csv"), "--set=data.target=y", "--set=data.partition=iid")
    small = ("--clients=2", "--rounds=1", "--set=federation.group=tiny_table")
    for more in ((), ("--dry-run",)):
        result = cli("run", *given, *small, *more)
        assert re.search(r"^read +40 samples, 2 classes, 2 features$", result.out + result.err, re.MULTILINE)
        assert "warning: Column 'n' numbers the rows (0, 1, …)" in result.err


def test_the_most_memory_is_that_of_the_round_that_took_most() -> None:
    def said(*rounds: dict[str, int]) -> str | None:
        return running.memory([{"timing": timing} for timing in rounds])

    assert said({"memory": 3 << 20}, {"memory": 5 << 20}, {"memory": 4 << 20}) == "5.0 MiB at most"
    two = {"memory": 2 << 20, "gpu_memory": 7 << 30}, {"memory": 1 << 20, "gpu_memory": 3 << 30}
    assert said(*two) == "2.0 MiB at most, and 7.0 GiB of tensors on the GPU"
    assert said({}) is said() is None  # as earlier versions wrote it


def test_progress_draws_bars_when_asked_to(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    result = cli("run", *TINY, "--rounds=1", "--session=x", "--progress")
    assert "round 1/1" not in result.err
    assert re.search(r"rounds +━+ 1/1", result.err)


def test_a_run_in_which_every_client_diverged_has_no_score(cli: Cli, sessions: Path) -> None:
    """Its clients keep their first models, whose accuracy is no result."""
    run = ("--rounds=2", "--session=x", "--method=standalone", "--set=training.lr=1e30")
    done = cli("run", *TINY, *run, "--set=training.batch_size=8")
    page = cli("show", "x")
    for text in (done.err, page.out):
        assert "no model has learned anything, so there is no score" in " ".join(text.split())
        assert "mean over clients" not in text and "% in round" not in text
    assert cli("show", "x", "--json").json()["diverged"]["untrained"] == 1
    point = Status("x", 2).read(sessions / "x")
    assert (point.untrained, point.accuracy, point.best) == (True, None, None)
    exported = cli("export", "x", "--out=x.csv")
    assert "warning: x has no score, because every client diverged in every round. Accuracies" in exported.err


def test_a_run_without_a_name_gets_one_that_says_what_runs_and_when(cli: Cli, sessions: Path) -> None:
    assert cli("run", *TINY, "--rounds=1", "--method=fedavg").code == 0
    (made,) = sessions.iterdir()
    assert re.fullmatch(r"quickstart-fedavg-\d{8}-\d{6}", made.name)
    assert SessionReader(made).document["config"]["preset"] == "quickstart"


def test_a_run_in_a_profile_is_named_after_it_and_remembers_it(cli: Cli, sessions: Path) -> None:
    line = "--preset=fedssa_htm5 --dataset=digits --rounds=1 --set=federation.group=tiny --clients=4"
    small = ["--set=training.epochs=1", "--set=training.augment=[]"]
    result = cli("run", *line.split(), *small, "--profile=authors")
    assert result.code == 0, result.err
    (made,) = sessions.iterdir()
    assert re.fullmatch(r"fedssa_htm5-authors-digits-\d{8}-\d{6}", made.name)
    config = SessionReader(made).document["config"]
    assert (config["preset"], config["profile"]) == ("fedssa_htm5", "authors")
    assert config["training"]["batch_size"] == 512


def test_sessions_dir_comes_before_the_environment(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    result = cli("run", *TINY, "--rounds=1", "--session=x", "--sessions-dir", tmp_path / "other")
    assert (tmp_path / "other" / "x" / "session.json").is_file() and not sessions.exists()
    assert f"htfl-sim show x --sessions-dir {tmp_path / 'other'}" in result.err


def test_resuming_a_finished_session_says_so_and_changes_no_round(cli: Cli, done: Path) -> None:
    before = (done / "ledger.jsonl").read_bytes()
    result = cli("resume", "done", "--json")
    assert (result.code, result.out) == (0, "")
    assert "finished: round 3 was its last" in result.err
    assert (done / "ledger.jsonl").read_bytes() == before
    assert SessionReader(done).state() == "finished"
    assert cli("resume", done, "--sessions-dir=elsewhere").code == 0  # by its path


@pytest.mark.long
def test_sigterm_and_sigint_end_with_a_checkpoint_to_resume_from(cli: Cli, sessions: Path) -> None:
    options = [*TINY, "--rounds=2000", "--session=x"]
    assert stopped(["run", *options], after="round 2/", by=signal.SIGTERM) == -signal.SIGTERM
    first = SessionReader(sessions / "x").rounds()[-1]
    assert first >= 2 and SessionReader(sessions / "x").state() == "stopped"

    assert stopped(["resume", "x", "--json"], after=f"round {first + 2}/", by=signal.SIGINT) == -signal.SIGINT
    session = SessionReader(sessions / "x")
    second = session.rounds()[-1]
    assert second >= first + 2
    assert [record["round"] for record in session.records()] == list(range(1, second + 1))
    reasons = [event["reason"] for event in session.events() if event["event"] == "stopped"]
    assert reasons == ["SIGTERM", "SIGINT"]
    assert cli("verify", "x").code == 0


@pytest.mark.slow
def test_records_that_nobody_reads_any_more_stop_the_run_with_a_checkpoint(cli: Cli, sessions: Path) -> None:
    command = [sys.executable, "-c", "import sys, tui.cli; sys.exit(tui.cli.main())", "run", *TINY, "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, "--rounds=2000", "--session=x"], stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout and process.stderr
        assert json.loads(process.stdout.readline())["round"] == 1
        process.stdout.close()
        messages = process.stderr.read()
    assert process.returncode == 141
    assert "Traceback" not in messages and "htfl-sim resume x" in messages
    session = SessionReader(sessions / "x")
    assert session.state() == "stopped" and session.rounds()[-1] == len(session.records()) < 2000


def stopped(arguments: list[str], *, after: str, by: signal.Signals) -> int:
    """Run a command in a process of its own, signal it once a line begins with `after`; its exit code."""
    log = Path(f"{arguments[0]}.log")
    process = Process(arguments, log)
    wait_until(lambda: log.exists() and f"\n{after}" in log.read_text(encoding="utf-8"), process)
    process.send_signal(by)
    code = process.wait(timeout=600)
    said = log.read_text(encoding="utf-8")
    assert "Traceback" not in said and "htfl-sim resume x" in said
    return code


# `run --watch`: the watchers of a run, with their options, and how it ends if one stops it


PLATEAU = "--watch=plateau:rounds=2,gain=0.99"
"""No round is 99 pp better than the first one, so this tells of a plateau after round 3."""


def test_what_a_watcher_notices_is_a_line_and_a_part_of_the_record(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, PLATEAU, "--rounds=4", "--session=s", "--json")
    assert result.code == 0
    first, second, third, fourth = map(json.loads, result.out.splitlines())
    assert not any("watch" in record for record in (first, second, fourth))
    (notice,) = third["watch"]
    best = f"{100 * first['accuracy']['mean']:.1f} % (round 1)"
    words = f"mean accuracy has not exceeded {best} by more than 99 pp for 2 rounds"
    assert notice == {"watcher": "plateau", "message": words, "clients": []}
    assert f"watch: plateau after round 3: {words}\n" in result.err
    (line,) = (line for line in cli("show", "s").out.splitlines() if " noticed " in line)
    assert "round=3  plateau: mean accuracy has not exceeded" in line


def test_a_run_that_a_watcher_stops_ends_with_code_10_and_can_be_resumed(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, f"{PLATEAU},action=stop", "--rounds=4", "--session=s")
    assert result.code == errors.WATCHED == executor.WATCHED == 10
    assert "; the run stops\n" in result.err
    assert "round 3 of 4, by watcher plateau: mean accuracy has not exceeded" in result.err
    assert cli("resume", "s").code == 0
    assert checkpoints.SessionReader(sessions / "s").state() == "finished"


def test_without_a_name_all_watchers_look(cli: Cli, sessions: Path) -> None:
    assert cli("run", *TINY, "--watch", "--rounds=1", "--session=s").code == 0
    watch = checkpoints.SessionReader(sessions / "s").document["config"]["watch"]
    assert watch["watchers"] == list(WATCHERS)
    assert cli("run", *TINY, "--rounds=1", "--session=t", "--watch").code == 0


def test_words_are_options_of_the_section() -> None:
    assert section_of([]) == {}
    assert section_of(["plateau:rounds=20,action=stop", "collapse:action=log", "losing:action=pause"]) == {
        "watchers": ["plateau", "collapse", "losing"],
        "plateau_rounds": 20,
        "stop": ["plateau"],
        "pause": ["losing"],
    }
    assert section_of(["all:action=pause"]) == {"watchers": list(WATCHERS), "pause": list(WATCHERS)}


USE = "rounds=VALUE or gain=VALUE or action=pause or action=stop."
WORDS = {
    "platau": "there is no watcher 'platau'. Did you mean 'plateau'?",
    "x": "there is no watcher 'x'. Known: falling, divergence, plateau, collapse, losing, all.",
    "plateau:round=3": f"'round=3' is no option of 'plateau'. Use {USE}",
    "collapse:action=end": "'action=end' is no option of 'collapse'. Use share=VALUE or",
    "all:rounds=3": "'rounds=3' is no option of 'all'. Use action=pause or action=stop.",
}


def test_words_without_a_meaning_are_refused() -> None:
    for word, fault in WORDS.items():
        with pytest.raises(ConfigError) as refused:
            section_of([word])
        assert str(refused.value).startswith(f"`watch`: {fault}")
