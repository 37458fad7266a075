"""kill -9 at any instant: a real `htfl-sim run`, killed and resumed again and again, differs by its clock alone."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from simulator import methods
from simulator.base import rng
from simulator.base.nested import read_toml
from simulator.config import Config
from simulator.contract import Subject
from simulator.engine.progress import Event, RoundFinished
from simulator.metrics import by_client
from simulator.sessions.session import Session
from tests import federations
from tests.reliability.sessions import AnyProcess, configuration, events, finish, messages, start

ROUNDS_A_KILL = 8
"""Rounds enough that every kill finds the run unfinished: a kill comes within three commits and two rounds."""


def kill(process: AnyProcess, session: Path, seen: int, wait_for: int, delay: float) -> None:
    """SIGKILL once `wait_for` more events than `seen` have been written, and `delay` seconds after that."""
    deadline = time.monotonic() + 600
    while events(session) < seen + wait_for and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    assert process.wait() == -signal.SIGKILL, messages(session.parent)


def assert_swept(session: Path) -> None:
    """A crash may leave files in tmp/; the next opening removes them."""
    checkpoints.Store.open(session).close()
    assert list((session / "tmp").iterdir()) == []


def check(folder: Path, method: str, kills: int, machines: Sequence[str] = (), *more: str) -> None:
    """Kill and resume; with `machines`, on one after the other, where the next one has to steal the session."""
    folder.mkdir(exist_ok=True)
    config = configuration(folder, method, kills * ROUNDS_A_KILL, *more, group=Subject(method).group)
    finish(folder, "run", "--config", config, "--session", "alone")
    records = checkpoints.SessionReader(folder / "alone").records()
    seconds = sum(record["timing"]["seconds"] for record in records) / len(records)

    draw = rng.numpy_stream(0, f"tests/kill/{method}")
    session = folder / "killed"
    for number in range(kills):
        begin = ["resume", "killed"] if number else ["run", "--config", config, "--session", "killed"]
        steal = ["--steal"] if machines and number else []
        seen = events(session)
        machine = machines[number % len(machines)] if machines else None
        process = start(folder, *begin, *steal, machine=machine)
        kill(process, session, seen, int(draw.integers(1, 4)), float(draw.uniform(0, 2 * seconds)))
    if not machines:
        assert_swept(session)
    finish(folder, "resume", "killed", *steal)

    assert federations.committed(session) == federations.committed(folder / "alone")
    assert checkpoints.verify(session) == []
    assert list((session / "tmp").iterdir()) == []


def test_a_run_that_was_killed_ends_as_one_left_alone(tmp_path: Path) -> None:
    check(tmp_path, "fedlora", kills=1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_run_killed_ten_times_ends_as_one_left_alone(tmp_path: Path) -> None:
    for method in methods.names():
        check(tmp_path / method, method, kills=10)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_killed_a_hundred_times_ends_as_one_left_alone(tmp_path: Path) -> None:
    check(tmp_path, "fedssa", kills=100)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_killed_a_hundred_times_on_two_machines_in_turn_ends_as_one_left_alone(tmp_path: Path) -> None:
    check(tmp_path, "fedssa", kills=100, machines=("one", "other"))


SCHEDULES = {
    "buffered": 'schedule = "buffered", buffer = 2',
    "asynchronous": 'schedule = "asynchronous"',
    "deadline": 'schedule = "deadline", deadline_quantile = 0.5, late = "next"',
}


def check_in_flight(folder: Path, method: str, kills: int, schedule: str) -> None:
    """The same of records that depend on who has trained, while first uplinks are in flight for many rounds."""
    devices = [
        f"[d{seconds}]\ngflops = 1e9\ndown_mbps = 1e9\nup_mbps = 1e9\nlatency_s = {seconds}\n"
        "compute_watts = 4\nradio_watts = 2\nidle_watts = 1\n"
        for seconds in (1, 2, 60, 400)
    ]
    (folder / "devices.toml").write_text("\n".join(devices), encoding="utf-8")
    more = (
        'system = { devices = ["d1", "d2", "d60", "d400"], jitter = 0.5, '
        f'device_file = "{folder}/devices.toml", {SCHEDULES[schedule]} }}',
        'cka = { every = 1, model = "local" }',
        'evaluation = { clients = 2, initial = "skip" }',
    )
    check(folder, method, kills, (), *more)
    records = checkpoints.SessionReader(folder / "killed").records()
    sent = {client for record in records for client in record["participants"]}
    assert by_client.trained(records[: len(records) // 8]) < sent


@pytest.mark.long
def test_a_run_that_was_killed_with_uplinks_in_flight_ends_as_one_left_alone(tmp_path: Path) -> None:
    check_in_flight(tmp_path, "fedavg", 1, "buffered")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("method", "schedule"), [("fedavg", "buffered"), ("fedssa", "asynchronous"), ("fedproto", "deadline")]
)
def test_a_run_killed_thirty_times_in_flight_ends_alike(method: str, schedule: str, tmp_path: Path) -> None:
    check_in_flight(tmp_path, method, 30, schedule)


# Commands among the kills


def commanded(folder: Path, kills: int, seed: int) -> None:
    """Kills at random moments with a pause, a resume or a switch just before each."""
    settings = configuration(folder, "fedlora", kills * ROUNDS_A_KILL)
    session, draw = folder / "killed", rng.numpy_stream(seed, "tests/kill/commands")
    rates = (number / 1000 for number in range(1, 2 * kills + 1))
    posted = []
    for number in range(kills):
        begin = ["resume", "killed"] if number else ["run", "--config", settings, "--session", "killed"]
        seen = events(session)
        process = start(folder, *begin)
        while events(session) < seen + 1:
            time.sleep(0.001)
        for kind in draw.choice(["pause", "resume", "switch", "checkpoint"], int(draw.integers(1, 3))):
            change = {"method": None, "set": [f"training.lr={next(rates)}"]}
            posted.append(checkpoints.post(session, str(kind), change if kind == "switch" else None))
        time.sleep(float(draw.uniform(0, 0.5)))
        process.kill()
        assert process.wait() == -signal.SIGKILL, messages(folder)
    assert_swept(session)
    finish(folder, "resume", "killed")

    answers = {each.id: checkpoints.answer(session, each.id) for each in posted}
    assert all(answers.values()), "a command was lost"
    assert list((session / "control" / "inbox").iterdir()) == []
    history = checkpoints.SessionReader(session).manifest().history[1:]
    applied = {id for id, answer in answers.items() if answer and answer.outcome == "applied"}
    switches = [each.id for each in posted if each.kind == "switch" and each.id in applied]
    assert [entry["command"] for entry in history] == switches
    assert federations.committed(session) == federations.committed(replayed(folder, settings, history))
    assert checkpoints.verify(session) == []


def replayed(folder: Path, settings: str, history: list[dict[str, Any]]) -> Path:
    """A run that nobody kills, switched at the same rounds."""
    again = folder / "again"
    session = Session.create(Config.read(read_toml(Path(settings))), again, folder)

    def switch_before(round: int) -> None:
        for entry in (each for each in history if each["from_round"] == round):
            rate = entry["settings"]["training"]["lr"]
            checkpoints.post(again, "switch", {"method": None, "set": [f"training.lr={rate}"]})

    def observe(event: Event) -> None:
        if isinstance(event, RoundFinished):
            switch_before(event.record["round"] + 1)

    switch_before(1)
    session.run(observe)
    return again


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_commanded_and_killed_twenty_times_does_each_command_once(tmp_path: Path) -> None:
    commanded(tmp_path, kills=20, seed=0)
