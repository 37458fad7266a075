"""Sweeps as processes: stopped, killed, steered, at the same time; what they leave is what undisturbed runs leave."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from checkpoints import GroupReader, SessionReader
from tests import federations
from tests.reliability.sessions import AnyProcess, configuration, finish, messages, rounds, start, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
LONG = 40
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
METHODS = ("standalone", "fedgh")
Committed = tuple[list[dict[str, Any]], dict[str, str]]
FAILING = """
from simulator.methods import register
from simulator.methods.standalone import Standalone

@register("failing")
class Failing(Standalone):
    def phases(self, local):
        raise RuntimeError("it cannot be")
"""


@contextmanager
def sweeping(folder: Path, *arguments: str, before: tuple[str, ...] = ()) -> Iterator[AnyProcess]:
    """A sweep at work; it is killed if the test leaves it, and then its points stop by themselves."""
    process = start(folder, "sweep", *arguments, before=before)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def asked(folder: Path, rounds: int = LONG) -> list[str]:
    """The words for a study 't' of two methods."""
    config = configuration(folder, "standalone", rounds)
    return ["t", "--config", config, "--over", "method=standalone,fedgh", "--no-progress"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Committed]:
    """What an undisturbed run of each point comes to."""
    folder = tmp_path_factory.mktemp("alone")
    config = configuration(folder, "standalone", LONG)
    for method in METHODS:
        finish(folder, "run", "--config", config, "--method", method, "--session", method)
    return {method: federations.committed(folder / method) for method in METHODS}


def workers_of(process: AnyProcess) -> list[int]:
    """The processes that a sweep has started."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


@pytest.mark.parametrize("on", [["--jobs", "2"], ["--on", "ray", "--workers", "1"]], ids=["here", "ray"])
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_points_stop_with_their_sweep_and_the_next_goes_on(
    tmp_path: Path, alone: dict[str, Committed], by: signal.Signals, on: list[str]
) -> None:
    """A Ctrl-C reaches every process of the terminal's, also those that Ray started. A killed sweep leaves points."""
    if "ray" in on:
        pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    with sweeping(tmp_path, *asked(tmp_path), *on, before=("setsid",)) as process:
        wait_until(lambda: sum(rounds(tmp_path / "t" / name) for name in METHODS) >= 3, process)
        if by == signal.SIGINT:
            os.killpg(process.pid, by)
        else:
            process.send_signal(by)
        assert process.wait(timeout=600) == -by, messages(tmp_path)
    if by != signal.SIGKILL:
        begun = [SessionReader(path) for path in checkpoints.sessions(tmp_path / "t")]
        stopped = [session for session in begun if session.state() == "stopped"]
        assert stopped and {session.state() for session in begun} <= {"stopped", "finished"}
        assert {session.events()[-1]["reason"] for session in stopped} == {"SIGTERM"}
        said = messages(tmp_path)
        assert f"stopped by {by.name}, every point with a checkpoint" in said and "Traceback" not in said
        assert ("htfl-sim sweep t --on ray" in said) == ("ray" in on)
    finish(tmp_path, "sweep", "t", *on)
    for name in METHODS:
        assert federations.committed(tmp_path / "t" / name) == alone[name]
        assert checkpoints.verify(tmp_path / "t" / name) == []


def test_a_killed_point_does_not_stop_the_others(tmp_path: Path, alone: dict[str, Committed]) -> None:
    """A second sweep of the study is refused while one runs."""
    with sweeping(tmp_path, *asked(tmp_path)) as process:
        wait_until(lambda: rounds(tmp_path / "t" / "standalone") >= 1, process)
        assert start(tmp_path, "sweep", "t").wait(timeout=600) == 4
        assert "is in use by process" in messages(tmp_path)
        (child,) = workers_of(process)
        os.kill(child, signal.SIGKILL)
        assert process.wait(timeout=600) == 8
    assert "t/standalone failed: killed by SIGKILL" in messages(tmp_path)
    assert SessionReader(tmp_path / "t" / "fedgh").state() == "finished"
    finish(tmp_path, "sweep", "t")
    assert federations.committed(tmp_path / "t" / "standalone") == alone["standalone"]


def test_a_point_that_fails_is_shown_with_its_reason_and_the_exit_code_says_so(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    words = ["t", "--config", configuration(tmp_path, "standalone", 2), "--over", "method=failing,standalone"]
    with sweeping(tmp_path, *words, "--plugin", str(tmp_path / "failing.py")) as process:
        assert process.wait(timeout=600) == 8
    assert "t/failing failed: " in messages(tmp_path) and "it cannot be" in messages(tmp_path)
    assert SessionReader(tmp_path / "t" / "standalone").state() == "finished"
    with sweeping(tmp_path, "t") as again:
        assert again.wait(timeout=600) == 8, "the plugin is part of the study"


def test_a_point_that_a_watcher_stops_counts_as_failed_and_a_second_sweep_finishes_it(tmp_path: Path) -> None:
    """No round is 99 pp better than the first one, so round 3 is on a plateau of 2 rounds."""
    watch = "watch={watchers=['plateau'], stop=['plateau'], plateau_rounds=2, plateau_gain=0.99}"
    words = ["t", "--config", configuration(tmp_path, "standalone", 4), "--over", "method=standalone"]
    with sweeping(tmp_path, *words, "--set", watch) as process:
        assert process.wait(timeout=600) == 8
    told = "stopped after round 3 by watcher plateau: mean accuracy has not exceeded"
    assert told in messages(tmp_path)
    finish(tmp_path, "sweep", "t")
    assert SessionReader(tmp_path / "t" / "standalone").state() == "finished"


def test_pause_resume_and_stop_take_a_study_s_name(tmp_path: Path) -> None:
    first = tmp_path / "t" / "standalone"
    with sweeping(tmp_path, *asked(tmp_path, 400)) as process:
        wait_until(lambda: rounds(first) >= 1, process)
        finish(tmp_path, "pause", "t")
        assert SessionReader(first).state() == "paused"
        reached = rounds(first)
        time.sleep(1.0)
        assert rounds(first) == reached
        assert start(tmp_path, "pause", "t").wait(timeout=600) == 2, "it is paused already"
        finish(tmp_path, "resume", "t")
        wait_until(lambda: rounds(first) > reached + 1, process)
        finish(tmp_path, "stop", "t")
        assert process.wait(timeout=600) == 0
    assert SessionReader(first).state() == "stopped" and not GroupReader(tmp_path / "t").alive()


def test_branching_off_a_round_equals_fork_and_run_by_hand(tmp_path: Path) -> None:
    config = configuration(tmp_path, "fedlora", 4)
    finish(tmp_path, "run", "--config", config, "--session", "parent")
    finish(tmp_path, "sweep", "t", "--from", "parent@2", "--over", "method.mu=0.5,0.7", "--rounds", "5")
    for mu in ("0.5", "0.7"):
        setting = ["--set", f"method.mu={mu}", "--rounds", "5"]
        finish(tmp_path, "fork", "parent", "--at-round", "2", "--session", f"m{mu}", *setting, "--run")
        assert federations.committed(tmp_path / "t" / f"mu{mu}") == federations.committed(tmp_path / f"m{mu}")


@pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason="needs Debian's dataset-fashion-mnist")
def test_a_study_killed_five_times_ends_as_undisturbed_runs_do(tmp_path: Path) -> None:
    """FedLoRA, Standalone, FedGH and FedSSA on Fashion-MNIST, 3 seeds: sweep and points are killed by turns."""
    methods, seeds = ("fedlora", "standalone", "fedgh", "fedssa"), range(3)
    small = ["--dataset", "fashion_mnist", "--rounds", "3", "--set", "data.limit=1500"]
    axes = ["--over", f"method={','.join(methods)}", "--over", "seed=0..2"]
    words = ["t", "--preset", "{method}_htm5", *small, *axes]

    def done() -> int:
        return sum(rounds(tmp_path / "t" / f"{method}-s{seed}") for method in methods for seed in seeds)

    for kill in range(5):
        before = done()
        with sweeping(tmp_path, *words, "--jobs", "2") as process:
            while done() <= before:
                assert process.poll() is None, messages(tmp_path)
                time.sleep(0.01)
            for victim in workers_of(process) if kill % 2 else [process.pid]:
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            if kill % 2:
                process.kill()
    finish(tmp_path, "sweep", "t", "--jobs", "2")
    for method, seed in itertools.product(methods, seeds):
        name = f"{method}-s{seed}"
        finish(tmp_path, "run", "--preset", f"{method}_htm5", *small, f"--seed={seed}", "--session", name)
        assert federations.committed(tmp_path / "t" / name) == federations.committed(tmp_path / name)
        assert checkpoints.verify(tmp_path / "t" / name) == []
