"""A run that ends when its clients are good enough: `until`."""

from pathlib import Path
from typing import Any

import pytest

import checkpoints
import simulator
from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.engine import newcomers
from simulator.engine.drawing import drawn
from simulator.sessions import history, metadata
from simulator.sessions.session import RunOutcome, Session
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


ROUNDS = 12


def config(**sections: Any) -> Config:
    return federations.config(rounds=ROUNDS, **sections)


def records_of(folder: Path, **sections: Any) -> list[dict[str, Any]]:
    """The records of a run of all rounds."""
    with federations.on_images(federations.generated()):
        Session.create(config(**sections), folder / "s", folder).run()
    return checkpoints.SessionReader(folder / "s").records()


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return records_of(tmp_path_factory.mktemp("course"))


def means(course: list[dict[str, Any]]) -> list[float]:
    return [record["accuracy"]["mean"] for record in course]


def first_above(course: list[dict[str, Any]], accuracy: float) -> int:
    return next(number for number, mean in enumerate(means(course), 1) if mean >= accuracy)


def goal_between(course: list[dict[str, Any]]) -> float:
    """An accuracy that is reached somewhere after the second round and before the last."""
    wanted = [mean for mean in means(course)[2:-1] if mean > max(means(course)[:2])]
    return wanted[0]


def test_a_run_ends_at_its_goal_or_last_round() -> None:
    for until, round, mean, finished in (
        (0.0, 3, 1.0, False), (0.9, 3, 0.9, True), (0.9, 3, 0.8999, False), (0.9, 12, 0.1, True),
        (0.9, 3, None, False),
    ):  # fmt: skip
        assert history.finished(config(until=until), round, {"accuracy": {"mean": mean}}) == finished


def test_it_ends_after_the_first_round_that_reaches_the_goal(tmp_path: Path, course: Any) -> None:
    until = goal_between(course)
    last = first_above(course, until)
    with Session.create(config(until=until), tmp_path / "s", tmp_path) as session:
        outcome = session.run()
        assert session.finished
    assert outcome == RunOutcome(
        "finished", last, f"mean accuracy {means(course)[last - 1]:.1%} has reached until = {until:g}"
    )
    reader = checkpoints.SessionReader(tmp_path / "s")
    assert reader.state() == "finished"
    assert list(map(federations.untimed, reader.records())) == list(map(federations.untimed, course[:last]))


@pytest.mark.long
def test_a_higher_goal_goes_on_to_what_it_would_have_been_from_the_start(tmp_path: Path, course: Any) -> None:
    folder = tmp_path / "s"
    Session.create(config(until=goal_between(course)), folder, tmp_path).run()
    metadata.extend(checkpoints.SessionReader(folder), None, 0.0)
    assert Session.resume(folder, tmp_path).run() == RunOutcome("finished", ROUNDS)
    records = checkpoints.SessionReader(folder).records()
    assert list(map(federations.untimed, records)) == list(map(federations.untimed, course))


def test_a_goal_that_is_reached_already_is_refused(tmp_path: Path, course: Any) -> None:
    folder = tmp_path / "s"
    Session.create(config(until=goal_between(course)), folder, tmp_path).run()
    with pytest.raises(ConfigError, match=r"has reached until = .*`until=0`"):
        metadata.extend(checkpoints.SessionReader(folder), 50)
    with pytest.raises(ConfigError, match="The fork would end at once"):
        simulator.fork(folder, tmp_path / "fork", tmp_path, first_above(course, goal_between(course)))


@pytest.mark.long
def test_a_goal_set_while_it_runs_ends_the_run(tmp_path: Path, course: Any) -> None:
    until = goal_between(course)
    session = Session.create(config(), tmp_path / "s", tmp_path)
    checkpoints.post(tmp_path / "s", "switch", {"method": None, "set": [f"until={until}"]})
    assert session.run().round == first_above(course, until)


PHONES = {"devices": "phone"}


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The simulated time after each of twelve rounds on phones."""
    records = records_of(tmp_path_factory.mktemp("ends"), system=PHONES)
    return [record["time"]["ends"] for record in records]


def test_a_simulated_time_is_a_number_of_seconds_or_has_a_unit() -> None:
    spans = {"90s": 90, "30m": 1800, "2h": 7200, "1.5h": 5400, "1d": 86400, " 2 h ": 7200, ".5m": 30}
    for span, seconds in spans.items():
        for given in (span, seconds, str(seconds)):
            assert config(system=PHONES, until_time=given).until_time == seconds
    for wrong in ("2x", "", "h", "-1h", "1h30m", "inf", "nan", -1.0, float("inf")):
        with pytest.raises(ConfigError, match="until_time"):
            config(system=PHONES, until_time=wrong)


def test_a_simulated_time_needs_a_clock() -> None:
    with pytest.raises(ConfigError, match=r"this run has no clock.*system\.devices=phone"):
        config(until_time="2h")


def test_it_ends_after_the_round_that_reaches_the_simulated_time(tmp_path: Path, ends: list[float]) -> None:
    halfway = (ends[3] + ends[4]) / 2
    with Session.create(config(system=PHONES, until_time=halfway), tmp_path / "s", tmp_path) as session:
        assert session.run().round == 5
        assert "has reached until_time" in str(session.goal_reached)
    assert checkpoints.SessionReader(tmp_path / "s").state() == "finished"


@pytest.mark.long
def test_a_later_time_goes_on_and_zero_runs_all_rounds(tmp_path: Path, ends: list[float]) -> None:
    folder = tmp_path / "s"
    Session.create(config(system=PHONES, until_time=ends[1]), folder, tmp_path).run()
    metadata.extend(checkpoints.SessionReader(folder), None, until_time=f"{ends[3]!r}s")
    assert Session.resume(folder, tmp_path).run().round == 4
    with pytest.raises(ConfigError, match=r"no round is left for it: .*`until_time=0` to run all rounds"):
        metadata.extend(checkpoints.SessionReader(folder), 50)
    with pytest.raises(ConfigError, match="The fork would end at once"):
        simulator.fork(folder, tmp_path / "fork", tmp_path, 4)
    metadata.extend(checkpoints.SessionReader(folder), None, until_time=0)
    assert Session.resume(folder, tmp_path).run() == RunOutcome("finished", ROUNDS)
    found = [record["time"]["ends"] for record in checkpoints.SessionReader(folder).records()]
    assert found == ends


@pytest.mark.long
def test_unseen_clients_are_measured_after_the_round_that_reaches_the_simulated_time() -> None:
    given = config(system=PHONES, until_time="1m", federation={"unseen": 0.25})
    assert [newcomers.due(given, 2, 0.5, seconds) for seconds in (None, 59.9, 60.0)] == [False, False, True]


def test_rounds_drawn_without_training_end_at_the_simulated_time(ends: list[float]) -> None:
    settings = config(system=PHONES, until_time=ends[4])
    assert [each["round"] for each in drawn(settings, federations.built(settings))] == [1, 2, 3, 4, 5]


def test_rounds_cannot_be_drawn_without_a_clock_or_with_evaluation_that_counts() -> None:
    counts = {"devices": "phone", "count_evaluation": True}
    for system, why in ((None, "no clock to draw"), (counts, "which clients a round evaluates")):
        config = federations.config(**({} if system is None else {"system": system}))
        with pytest.raises(ConfigError, match=why):
            next(drawn(config, federations.built(config)))
