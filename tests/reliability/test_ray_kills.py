"""kill -9 of actors, of drivers, of raylets and of a node: a run on Ray ends as one in process that was left alone."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import checkpoints
from simulator.base import rng
from tests import federations
from tests.reliability.sessions import COMMAND, AnyProcess, configuration, finish, messages, rounds, start

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

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


def wait(true: Callable[[], bool], driver: AnyProcess, folder: Path) -> None:
    """Until it holds, while the driver runs."""
    deadline = time.monotonic() + 600
    while not true():
        assert driver.poll() is None, messages(folder)
        assert time.monotonic() < deadline, messages(folder)
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_whose_actors_and_drivers_are_killed_thirty_times_ends_as_one_left_alone(
    tmp_path: Path,
) -> None:
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
        wait(lambda done=done: rounds(session) > done, driver, tmp_path)
        wait(lambda driver=driver: bool(actors(driver)), driver, tmp_path)
        time.sleep(float(draw.uniform(0, 0.5)))
        at_work = actors(driver)
        if number % 3 < 2:
            at_work[int(draw.integers(len(at_work)))].kill()
            continue
        driver.kill()
        assert driver.wait() == -signal.SIGKILL, messages(tmp_path)
        driver, deadline = None, time.monotonic() + 600
        while not gone(at_work):
            assert time.monotonic() < deadline, "actors outlive their driver"
            time.sleep(0.1)
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
        wait(lambda: rounds(tmp_path / "s") > 1, driver, tmp_path)
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
        wait(lambda done=done: rounds(session) > done, driver, tmp_path)
        time.sleep(float(draw.uniform(0, 0.3)))
        started = psutil.Process(driver.pid).children(recursive=True)
        raylet(driver).kill()
        assert driver.wait(timeout=600) == 1, messages(tmp_path)
        assert "Traceback" not in messages(tmp_path)
        deadline = time.monotonic() + 600
        while not gone(started):
            assert time.monotonic() < deadline, f"these outlive their driver: {started}"
            time.sleep(0.1)
    finish(tmp_path, "resume", "killed")

    assert federations.committed(session) == federations.committed(tmp_path / "alone")
    assert checkpoints.verify(session) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_loses_a_node_goes_on_with_the_other(tmp_path: Path) -> None:
    """Two nodes of one core each, on this machine; the one without the cluster's head is killed within a round."""
    from ray.cluster_utils import Cluster

    config = configuration(tmp_path, "fedlora", 40)
    finish(tmp_path, "run", "--config", config, "--session", "alone")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        node = cluster.add_node(num_cpus=1)
        where = ("--runner", "ray", "--set", f"runtime.address={cluster.address}")
        driver = start(tmp_path, "run", "--config", config, "--session", "lost", *where)
        session = tmp_path / "lost"
        wait(lambda: rounds(session) >= 3, driver, tmp_path)
        [event] = [each for each in checkpoints.SessionReader(session).events() if each["event"] == "nodes"]
        assert [each["workers"] for each in event["nodes"]] == [1, 1]
        cluster.remove_node(node, allow_graceful=False)
        assert driver.wait(timeout=600) == 0, messages(tmp_path)
    finally:
        cluster.shutdown()
    assert federations.committed(session) == federations.committed(tmp_path / "alone")
    told = [
        each["message"] for each in checkpoints.SessionReader(session).events() if each["event"] == "warning"
    ]
    assert any("died at work on client" in message for message in told)
