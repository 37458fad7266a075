"""Many forks into one name, and a run that takes the name meanwhile: one session is made, and nobody's is removed."""

from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

import checkpoints
import simulator
from checkpoints import SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.engine.progress import Event, RoundStarted
from simulator.sessions.session import Session
from tests import federations
from tests.processes import FORKED
from tests.reliability.sessions import contents

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("generated_images")]

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


def test_of_four_forks_into_one_name_one_is_made_and_stays(tmp_path: Path, parent: Path) -> None:
    of_forks_at_once_one_is_made(parent, tmp_path, 3, count=4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_of_eight_forks_into_one_name_one_is_made_and_stays_twenty_times_over(
    tmp_path: Path, parent: Path
) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        of_forks_at_once_one_is_made(parent, tmp_path / str(number), 3 - number % 2, count=8)


def test_a_session_begun_under_the_name_while_a_fork_runs_rounds_again_stays_as_it_is(
    tmp_path: Path, parent: Path
) -> None:
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
