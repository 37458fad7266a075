"""Two openers, and two commands at once: one process owns a session; every command is done once and answered."""

import signal
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from tests.processes import FORKED
from tests.reliability.sessions import configuration, finish, messages, start, wait_until


@pytest.mark.slow
def test_of_two_processes_that_resume_a_session_at_the_same_moment_one_does(tmp_path: Path) -> None:
    config = configuration(tmp_path, "fedlora", 1)
    finish(tmp_path, "run", "--config", config, "--session", "s")
    checkpoints.post(tmp_path / "s", "switch", {"method": None, "set": ["rounds=100000"]})
    both = [start(tmp_path, "resume", "s") for _ in range(2)]
    try:
        wait_until(lambda: any(process.poll() is not None for process in both))
        (loser,) = [process for process in both if process.poll() is not None]
        (owner,) = [process for process in both if process is not loser]
        wait_until(lambda: checkpoints.SessionReader(tmp_path / "s").rounds()[-1] >= 3, owner)
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(timeout=600) == -signal.SIGTERM
    finally:
        for process in both:
            process.kill()
            process.wait()
    # Before the lock: "needs no resume" (2). In the race for it: locked (4).
    assert loser.returncode in (2, 4)
    assert f"process {owner.pid} on " in messages(tmp_path) and "Traceback" not in messages(tmp_path)
    assert checkpoints.verify(tmp_path / "s") == []


def post(folder: Path, arguments: dict[str, Any], barrier: Barrier) -> None:
    barrier.wait()
    checkpoints.post(folder, "switch", arguments)


@pytest.mark.long
def test_two_commands_posted_at_the_same_instant_are_each_done_once_and_answered(tmp_path: Path) -> None:
    session = tmp_path / "s"
    config = configuration(tmp_path, "fedlora", 100_000)
    run = start(tmp_path, "run", "--config", config, "--session", "s")
    try:
        wait_until(lambda: (session / "session.json").exists(), run)
        wait_until(lambda: checkpoints.SessionReader(session).rounds() != [], run)
        barrier = FORKED.Barrier(2)
        changes = [{"method": "fedssa", "set": []}, {"method": None, "set": ["training.lr=0.002"]}]
        posters = [FORKED.Process(target=post, args=(session, each, barrier)) for each in changes]
        for poster in posters:
            poster.start()
        for poster in posters:
            poster.join()
        wait_until(lambda: len(list((session / "control" / "done").iterdir())) == 2, run)
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=600) == -signal.SIGTERM
    finally:
        run.kill()
        run.wait()
    reader = checkpoints.SessionReader(session)
    answers = [checkpoints.answer(session, path.stem) for path in (session / "control" / "done").iterdir()]
    assert [each and each.outcome for each in answers] == ["applied", "applied"]
    asked = [entry["command"] for entry in reader.manifest().history[1:]]
    assert sorted(asked) == sorted(each.id for each in answers if each), "each once"
    last = reader.manifest().history[-1]
    assert (last["method"]["name"], last["settings"]["training"]["lr"]) == ("fedssa", 0.002)
    assert list((session / "control" / "inbox").iterdir()) == []
