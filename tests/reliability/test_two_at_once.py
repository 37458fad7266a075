"""Two openers, commands, and forks at once: one owns, one fork is made, and each command is done once."""

import signal
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import simulator
from checkpoints import SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.engine.progress import Event, RoundStarted
from simulator.sessions.session import Session
from tests import federations
from tests.processes import FORKED
from tests.reliability.sessions import configuration, contents, finish, messages, running, wait_until


@pytest.mark.slow
def test_of_two_processes_that_resume_a_session_at_the_same_moment_one_does(tmp_path: Path) -> None:
    config = configuration(tmp_path, "fedlora", 1)
    finish(tmp_path, "run", "--config", config, "--session", "s")
    checkpoints.post(tmp_path / "s", "switch", {"method": None, "set": ["rounds=100000"]})
    with running(tmp_path, "resume", "s") as one, running(tmp_path, "resume", "s") as another:
        both = [one, another]
        wait_until(lambda: any(process.poll() is not None for process in both))
        (loser,) = [process for process in both if process.poll() is not None]
        (owner,) = [process for process in both if process is not loser]
        wait_until(lambda: checkpoints.SessionReader(tmp_path / "s").rounds()[-1] >= 3, owner)
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(timeout=600) == -signal.SIGTERM
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
    with running(tmp_path, "run", "--config", config, "--session", "s") as run:
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
    reader = checkpoints.SessionReader(session)
    answers = [checkpoints.answer(session, path.stem) for path in (session / "control" / "done").iterdir()]
    assert [each and each.outcome for each in answers] == ["applied", "applied"]
    asked = [entry["command"] for entry in reader.manifest().history[1:]]
    assert sorted(asked) == sorted(each.id for each in answers if each), "each once"
    last = reader.manifest().history[-1]
    assert (last["method"]["name"], last["settings"]["training"]["lr"]) == ("fedssa", 0.002)
    assert list((session / "control" / "inbox").iterdir()) == []


MADE, REFUSED = 0, 4


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished session that keeps its last checkpoint only: a fork of an earlier round runs it again."""
    folder = tmp_path_factory.mktemp("parent") / "p"
    settings = {"checkpoint": {"keep_last": 1, "keep_best": False}}
    with federations.on_images(federations.generated()):
        Session.create(federations.config("fedavg", rounds=3, **settings), folder, folder.parent).run()
    return folder


def fork_at_once(parent: Path, folder: Path, at_round: int, barrier: Barrier) -> None:
    barrier.wait()
    try:
        with federations.on_images(federations.generated()):
            simulator.fork(parent, folder, folder.parent, at_round, assignments=["rounds=9"])
    except (SessionUnreadable, ConfigError):
        raise SystemExit(REFUSED) from None


def of_forks_at_once_one_is_made(parent: Path, base: Path, at_round: int, count: int) -> None:
    barrier = FORKED.Barrier(count)
    arguments = (parent, base / "x", at_round, barrier)
    forks = [FORKED.Process(target=fork_at_once, args=arguments) for _ in range(count)]
    for each in forks:
        each.start()
    for each in forks:
        each.join()
    assert sorted(each.exitcode for each in forks) == [MADE] + [REFUSED] * (count - 1)
    assert [path.name for path in base.iterdir()] == ["x"], "something was left, or removed"
    made = checkpoints.SessionReader(base / "x")
    assert made.rounds() == [at_round]
    assert federations.committed(base / "x")[0] == federations.committed(parent)[0][:at_round]
    assert checkpoints.verify(base / "x") == []


@pytest.mark.long
@pytest.mark.usefixtures("generated_images")
def test_of_four_forks_into_one_name_one_is_made_and_stays(tmp_path: Path, parent: Path) -> None:
    of_forks_at_once_one_is_made(parent, tmp_path, 3, count=4)


@pytest.mark.usefixtures("generated_images")
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_of_eight_forks_into_one_name_one_is_made_twenty_times(tmp_path: Path, parent: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        of_forks_at_once_one_is_made(parent, tmp_path / str(number), 3 - number % 2, count=8)


@pytest.mark.long
@pytest.mark.usefixtures("generated_images")
def test_a_session_begun_under_the_name_of_a_fork_stays(tmp_path: Path, parent: Path) -> None:
    begun: dict[str, bytes] = {}

    def begin_and_finish(event: Event) -> None:
        if isinstance(event, RoundStarted) and event.round == 1:
            Session.create(federations.config(rounds=1), tmp_path / "x", tmp_path).run()
            begun.update(contents(tmp_path / "x"))

    with pytest.raises(SessionUnreadable, match="is there already"):
        simulator.fork(parent, tmp_path / "x", tmp_path, 2, observe=begin_and_finish)
    assert begun
    assert contents(tmp_path / "x") == begun
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
