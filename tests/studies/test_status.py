"""How far points are, and how long the rest will take: derived by hand."""

from pathlib import Path

from simulator.studies.folder import Status, time_left
from tests import sessions


def test_a_point_is_as_far_as_its_session_s_files_say(tmp_path: Path) -> None:
    waiting = Status("p", rounds=20)
    assert waiting.read(tmp_path / "p") == waiting, "it has none yet"
    sessions.make(tmp_path / "p", rounds=12, of=20, state="stopped")
    read = waiting.read(tmp_path / "p")
    assert (read.state, read.round, read.rounds, read.seconds) == ("stopped", 12, 20, (2.5,))
    assert read.accuracy is not None and read.best is not None and read.left == 8 * 2.5


def test_a_damaged_session_is_a_point_that_failed_with_its_reason(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "p", rounds=2)
    (folder / "session.json").write_text("{")
    read = Status("p", rounds=2).read(folder)
    assert read.state == "failed" and "session.json" in read.reason


def test_points_that_have_not_begun_take_what_the_others_do() -> None:
    for statuses, jobs, seconds in (
        ([Status("a", 10)], 1, None),  # nothing has been timed
        ([Status("a", 10, "running", 4, seconds=(1.0, 3.0))], 1, 6 * 2.0),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 1, 6 * 2.0 + 10 * 2.0),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 2, (6 * 2.0 + 10 * 2.0) / 2),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 9, (6 * 2.0 + 10 * 2.0) / 2),
        # four rounds took 8 s of simulated time, and 6 s are left: three rounds
        ([Status("a", 10, "running", 4, seconds=(2.0,), until_time=14.0, simulated=8.0)], 1, 3 * 2.0),
        ([Status("a", 10, "failed", 4, seconds=(2.0,)), Status("b", 5)], 1, 5 * 2.0),
        ([Status("a", 10, "finished", 10, seconds=(2.0,))], 1, 0.0),
    ):
        assert time_left(statuses, jobs) == seconds
