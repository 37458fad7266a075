"""Points on Ray: the sessions of points run here, whether their nodes share the study's folder or not."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import checkpoints
from checkpoints import Group, SessionReader
from simulator.config import Config
from simulator.config.user_files import Files
from simulator.data.datasets import data_folder
from simulator.sessions.session import Session
from simulator.studies.executor import Launch
from simulator.studies.folder import Status
from simulator.studies.study import StudySpec
from simulator.studies.sweep import Plan, SweepResult, plan, sweep
from tests import federations
from tests.own import METRIC, written
from tests.reliability.sessions import configuration, finish, messages, rounds, start, wait_until

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

from simulator.runners.ray import cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
OVER = {"method": ("standalone", "fedgh")}
Committed = tuple[list[dict[str, Any]], dict[str, str]]


@pytest.fixture(scope="module", autouse=True)
def _ray_stays_for_all_tests() -> Iterator[None]:
    started = cluster.connect(cluster.LOCAL, cluster.Needs(1, 0), actors=2)
    yield
    if started:
        cluster.disconnect()


def config(rounds: int = 2, **sections: Any) -> dict[str, Any]:
    """Four tiny models on 300 digits, three of them a round."""
    return {
        "rounds": rounds,
        "data": {"limit": 300},
        "federation": {"clients": 4, "participation": 0.75, "group": "tiny"},
        "training": {"batch_size": 16, "epochs": 1},
        "runtime": {"device": "cpu"},
        "method": {"name": "standalone"},
        **sections,
    }


def asked(folder: Path, rounds: int = 2, **sections: Any) -> Plan:
    return plan(folder, StudySpec(config=config(rounds, **sections), over=OVER))


def run(planned: Plan, on: str = "ray", **about: Any) -> SweepResult:
    launch = Launch(data_folder(None).absolute(), files=planned.study.files)
    return sweep(planned, launch, on=on, **about)


def alone(planned: Plan, folder: Path) -> dict[str, Committed]:
    """What every point comes to when it is run in this process, left alone."""
    for point in planned.points:
        Session.create(Config.read(point.config), folder / point.name, data_folder(None)).run()
    return {point.name: federations.committed(folder / point.name) for point in planned.points}


def committed(planned: Plan) -> dict[str, Committed]:
    assert all(checkpoints.verify(planned.folder / point.name) == [] for point in planned.points)
    return {point.name: federations.committed(planned.folder / point.name) for point in planned.points}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no node shared the study's folder: they look for a file that is not in it."""

    @contextmanager
    def shown(group: Group) -> Iterator[str]:
        yield "tmp/shown.elsewhere"

    monkeypatch.setattr(Group, "shown", shown)


@pytest.fixture(params=["shared", "brought back"])
def wherever(request: pytest.FixtureRequest) -> str:
    """With a folder that all nodes share, and with one that none does."""
    if request.param == "brought back":
        request.getfixturevalue("elsewhere")
    return str(request.param)


def lodgings() -> set[Path]:
    """The private folders on nodes; all nodes are this machine."""
    return set(Path(tempfile.gettempdir()).glob("htfl-sim-point-*"))


def workers() -> list[psutil.Process]:
    """The processes of points at work on this machine, begun by this test's Ray."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any("simulator.studies.point" in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_points_equal_runs_here_and_finished_ones_are_left_alone(tmp_path: Path, wherever: str) -> None:
    seen: set[str] = set()

    def observe(statuses: Sequence[Status]) -> None:
        seen.update(f"{status.name} {status.state} {status.round}" for status in statuses)

    planned, before = asked(tmp_path / "t"), lodgings()
    outcome = run(planned, observe=observe, jobs=1)
    assert [status.state for status in outcome.statuses] == ["finished", "finished"], outcome
    assert committed(planned) == alone(planned, tmp_path / "alone")
    assert {"standalone starting 0", "fedgh starting 0"} < seen
    assert lodgings() <= before and not SessionReader(planned.folder / "fedgh").alive()
    events = (planned.folder / "fedgh" / "events.jsonl").read_bytes()
    assert [status.state for status in run(planned).statuses] == ["finished", "finished"]
    assert (planned.folder / "fedgh" / "events.jsonl").read_bytes() == events


def after_rounds(rounds: int, then: Callable[[], None]) -> Callable[[Sequence[Status]], None]:
    """An observer that does something, once, when both points together have come so far."""
    done: list[bool] = []

    def observe(statuses: Sequence[Status]) -> None:
        if not done and sum(status.round for status in statuses) >= rounds:
            done.append(True)
            then()

    return observe


def test_a_stop_reaches_points_on_nodes_and_any_sweep_goes_on(tmp_path: Path, wherever: str) -> None:
    planned, stopped, others = asked(tmp_path / "t", rounds=60), threading.Event(), lodgings()
    for on in ("ray", "here", "ray"):
        stopped.clear()
        before = sum(status.round for status in now(planned))
        outcome = run(
            planned,
            on,
            observe=after_rounds(before + 3, stopped.set),
            stop=lambda: "SIGTERM" if stopped.is_set() else None,
        )
        assert outcome.reason == "SIGTERM" and outcome.failed == []
        sessions = [SessionReader(path) for path in checkpoints.sessions(planned.folder)]
        assert {session.state() for session in sessions} <= {"stopped", "finished"}
        assert sum(status.round for status in now(planned)) >= before + 3
    assert run(planned).failed == []
    assert committed(planned) == alone(planned, tmp_path / "alone")
    assert lodgings() <= others


def now(planned: Plan) -> list[Status]:
    return [Status(point.name, point.rounds).read(planned.folder / point.name) for point in planned.points]


def test_a_killed_process_of_a_point_does_not_stop_the_others(tmp_path: Path, wherever: str) -> None:
    planned = asked(tmp_path / "t", rounds=40)
    outcome = run(planned, observe=after_rounds(3, lambda: workers()[0].kill()))
    [failed] = outcome.failed
    assert failed.reason.startswith("killed by SIGKILL")
    assert [status.state for status in outcome.statuses if status.name != failed.name] == ["finished"]
    assert run(planned).failed == []
    assert committed(planned) == alone(planned, tmp_path / "alone")


def test_a_point_whose_actor_is_killed_is_begun_again_and_that_is_said(tmp_path: Path, wherever: str) -> None:
    planned, reasons = asked(tmp_path / "t", rounds=40), set()

    def kill() -> None:
        actor = workers()[0].parent()
        assert actor is not None and "PointActor" in " ".join(actor.cmdline())
        actor.kill()

    first = after_rounds(3, kill)

    def observe(statuses: Sequence[Status]) -> None:
        reasons.update(status.reason for status in statuses)
        first(statuses)

    outcome = run(planned, observe=observe)
    assert outcome.failed == []
    assert any("died" in reason and reason.endswith("; it starts again") for reason in reasons)
    assert committed(planned) == alone(planned, tmp_path / "alone")


def test_a_point_whose_actors_keep_dying_is_given_up_after_three_and_the_others_go_on(tmp_path: Path) -> None:
    planned, killed = asked(tmp_path / "t", rounds=200), set()

    def observe(statuses: Sequence[Status]) -> None:
        for process in workers():
            if "standalone" in process.cmdline() and process.pid not in killed:
                killed.add(process.pid)
                actor = process.parent()
                assert actor is not None
                actor.kill()

    outcome = run(planned, observe=observe)
    [failed] = outcome.failed
    assert failed.name == "standalone" and failed.reason.endswith(", as 2 times before it")
    assert len(killed) == 3


def test_pause_and_resume_reach_points_on_nodes(tmp_path: Path, wherever: str) -> None:
    planned = asked(tmp_path / "t", rounds=80)
    at_rest: list[int] = []
    seen: list[int] = []

    def steer() -> None:
        study = planned.folder
        wait_for_answer(study, checkpoints.post(study, "pause"))
        for _ in range(2):
            time.sleep(3.0)  # what is seen lags behind by a second or two
            at_rest.append(seen[-1])
        checkpoints.post(study, "resume")

    steering = threading.Thread(target=steer)
    first = after_rounds(3, steering.start)

    def observe(statuses: Sequence[Status]) -> None:
        seen.append(sum(status.round for status in statuses))
        first(statuses)

    assert run(planned, observe=observe).failed == []
    steering.join()
    assert at_rest[0] == at_rest[1] < 160
    assert committed(planned) == alone(planned, tmp_path / "alone")


def wait_for_answer(study: Path, command: checkpoints.Command) -> None:
    deadline = time.monotonic() + 600
    while (found := checkpoints.answer(study, command.id)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert found.outcome == "applied"


def test_own_files_and_the_session_to_branch_off_go_along(tmp_path: Path, elsewhere: None) -> None:
    metric = written(tmp_path, "right.py", METRIC)
    files = Files(metrics=(str(metric),))
    files.load()
    raw = config(3, evaluation={"metrics": ["right"]}, method={"name": "fedlora"})
    Session.create(Config.read(raw), tmp_path / "parent", data_folder(None)).run()
    study = StudySpec(origin="parent@2", config={"rounds": 4}, over={"method.mu": (0.5, 0.7)}, files=files)
    planned = plan(tmp_path / "t", study)
    assert run(planned).failed == []
    here = plan(tmp_path / "here", study)
    assert run(here, "here").failed == []
    assert committed(planned) == committed(here)
    for point in planned.points:
        there, at_home = (SessionReader(each.folder / point.name) for each in (planned, here))
        assert there.parent == at_home.parent


def test_points_of_a_node_that_dies_are_begun_again_on_the_other(tmp_path: Path) -> None:
    """Of one core each; the one without the cluster's head is killed when both points are at work."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    config, points = configuration(tmp_path, "standalone", 60), ("standalone", "fedgh")
    try:
        node = cluster.add_node(num_cpus=1)
        asked = ["t", "--config", config, "--over", "method=standalone,fedgh", "--on", "ray", "--no-progress"]
        there = ["--set", f"runtime.address={cluster.address}", "--workers", "1"]
        sweeping = start(tmp_path, "sweep", *asked, *there)
        wait_until(lambda: all(rounds(tmp_path / "t" / name) >= 2 for name in points), sweeping)
        cluster.remove_node(node, allow_graceful=False)
        assert sweeping.wait(timeout=1200) == 0, messages(tmp_path)
    finally:
        cluster.shutdown()
    assert "; it starts again" in messages(tmp_path)
    for name in points:
        finish(tmp_path, "run", "--config", config, "--method", name, "--session", name)
        assert federations.committed(tmp_path / "t" / name) == federations.committed(tmp_path / name)
        assert checkpoints.verify(tmp_path / "t" / name) == []
