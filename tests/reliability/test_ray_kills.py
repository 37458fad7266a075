"""kill -9 of actors, of drivers, of raylets and of a node: a run on Ray ends as one in process that was left alone."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import checkpoints
from simulator.base import rng
from simulator.contract import Subject
from simulator.engine.progress import ClientStarted, EvaluationStarted, Event, Warned
from simulator.engine.round import Engine
from tests import federations
from tests.reliability.sessions import (
    COMMAND,
    AnyProcess,
    configuration,
    finish,
    messages,
    rounds,
    start,
    wait_until,
)

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

ON_RAY = ("--runner", "ray", "--workers", "2")
KILLS = 30
ROUNDS_A_KILL = 6
"""Rounds enough that every kill finds the run unfinished: one comes within two rounds or so of the one before."""


def actors(driver: AnyProcess) -> list[psutil.Process]:
    """The processes in which the driver's clients are computed."""
    found = []
    for child in psutil.Process(driver.pid).children(recursive=True):
        try:
            if any(part.startswith("ray::Actor") for part in child.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def raylet(driver: AnyProcess) -> psutil.Process:
    """Ray's own process on the driver's machine."""
    [found] = [
        child for child in psutil.Process(driver.pid).children(recursive=True) if child.name() == "raylet"
    ]
    return found


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them is left."""
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_on_ray_killed_thirty_times_ends_as_one_left_alone(tmp_path: Path) -> None:
    """Every third kill takes the driver, and with it all that Ray started; the others an actor, which is replaced."""
    draw = rng.numpy_stream(0, "tests/kill/ray")
    config = configuration(tmp_path, "fedlora", KILLS * ROUNDS_A_KILL)
    finish(tmp_path, "run", "--config", config, "--session", "alone")
    session, driver = tmp_path / "killed", None
    for number in range(KILLS):
        if driver is None:
            begin = ["resume", "killed"] if number else ["run", "--config", config, "--session", "killed"]
            driver = start(tmp_path, *begin, *ON_RAY)
        done = rounds(session)
        wait_until(lambda done=done: rounds(session) > done, driver)
        wait_until(lambda driver=driver: bool(actors(driver)), driver)
        time.sleep(float(draw.uniform(0, 0.5)))
        at_work = actors(driver)
        if number % 3 < 2:
            at_work[int(draw.integers(len(at_work)))].kill()
            continue
        driver.kill()
        assert driver.wait() == -signal.SIGKILL, messages(tmp_path)
        driver = None
        wait_until(lambda at_work=at_work: gone(at_work))  # no actor outlives its driver
    finish(tmp_path, "resume", "killed", "--runner", "parallel")

    assert federations.committed(session) == federations.committed(tmp_path / "alone")
    assert checkpoints.verify(session) == []
    warnings = [each for each in checkpoints.SessionReader(session).events() if each["event"] == "warning"]
    assert any("died at work on client" in each["message"] for each in warnings)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_ray_would_print_of_a_killed_actor_is_not_among_the_records(tmp_path: Path) -> None:
    """Ray prints it on standard output, whatever becomes of the logs; the session's own warning says what happened."""
    config = configuration(tmp_path, "fedlora", 12)
    begin = [COMMAND, "run", "--config", config, "--session", "s", "--sessions-dir", str(tmp_path), "--json"]
    with (tmp_path / "records").open("wb") as records, (tmp_path / "log").open("wb") as log:
        driver = subprocess.Popen([*begin, *ON_RAY], stdin=subprocess.DEVNULL, stdout=records, stderr=log)
        wait_until(lambda: rounds(tmp_path / "s") > 1, driver)
        actors(driver)[0].kill()
        assert driver.wait(timeout=600) == 0, messages(tmp_path)
    lines = (tmp_path / "records").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["round"] for line in lines] == list(range(1, 13))
    assert "worker died or was killed" not in messages(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_driver_whose_raylet_is_killed_ends_with_it_and_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    """Three times, at moments drawn within a round; then it is left alone, on Ray."""
    draw = rng.numpy_stream(0, "tests/kill/raylet")
    config = configuration(tmp_path, "fedlora", 12)
    finish(tmp_path, "run", "--config", config, "--session", "alone")
    session = tmp_path / "killed"
    for number in range(3):
        begin = ["resume", "killed"] if number else ["run", "--config", config, "--session", "killed"]
        driver = start(tmp_path, *begin, *ON_RAY)
        done = rounds(session)
        wait_until(lambda done=done: rounds(session) > done, driver)
        time.sleep(float(draw.uniform(0, 0.3)))
        started = psutil.Process(driver.pid).children(recursive=True)
        raylet(driver).kill()
        assert driver.wait(timeout=600) == 1, messages(tmp_path)
        assert "Traceback" not in messages(tmp_path)
        wait_until(lambda started=started: gone(started))
    finish(tmp_path, "resume", "killed")

    assert federations.committed(session) == federations.committed(tmp_path / "alone")
    assert checkpoints.verify(session) == []


# A node of two whose raylet is killed -9 while it computes clients

SOON = {"health_check_period_ms": 1000, "health_check_failure_threshold": 4}
"""A cluster that finds out in seconds that a node is gone whose port is closed, and not in a quarter of a minute."""


class Silence:
    """The end of the node that is not the head's, in round 2: its actor stands still, and its raylet is killed."""

    def __init__(self, engine: Engine, nodes: Any, moment: type[Event]) -> None:
        self._engine, self._nodes, self._moment = engine, nodes, moment
        self.halted: list[int] = []
        self.warnings: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.message)
        if isinstance(event, self._moment) and event.round == 2 and not self.halted:
            [node] = self._nodes.worker_nodes
            members = self._engine._runner._pool._joined.values()
            [actor] = [facts.pid for facts in members if facts.node == node.node_id]
            os.kill(actor, signal.SIGSTOP)
            self.halted.append(actor)
            [raylet] = node.all_processes["raylet"]
            os.kill(raylet.process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", [ClientStarted, EvaluationStarted])
@pytest.mark.parametrize("held", ["sequential", "stacked"])
def test_a_node_that_falls_silent_at_work_loses_nothing(held: str, moment: type[Event]) -> None:
    """As a machine that loses its power: who computed there sends nothing, not even that he ended."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": SOON}
    cluster = Cluster(initialize_head=True, head_node_args=head)  # two nodes of one core each
    cluster.add_node(num_cpus=1)
    subject = Subject("fedlora")
    there = {"runner": "ray", "address": cluster.address, "workers": 2, "inner": held}
    everybody = {"federation": {"clients": 8, "participation": 1.0}}
    engine = subject.built(**everybody, runtime=there).engine
    assert [place["workers"] for place in engine.open()] == [1, 1]
    silence = Silence(engine, cluster, moment)
    here = subject.built(**everybody, runtime={"runner": held}).engine
    try:
        lost, alone = federations.run(engine, 3, silence), federations.run(here, 3)
    finally:
        engine.close()
        here.close()
        for pid in filter(psutil.pid_exists, silence.halted):
            os.kill(pid, signal.SIGKILL)
        ray.shutdown()
        cluster.shutdown()
    assert federations.state_bits(lost) == federations.state_bits(alone)
    assert federations.untimed(lost.record) == federations.untimed(alone.record)
    assert any("died at work on client" in warning for warning in silence.warnings)
