"""A run and its directory: made, stopped, resumed, refused."""

from pathlib import Path
from typing import Any

import pytest

import checkpoints
from checkpoints import limits
from simulator import methods
from simulator.base.errors import ConfigError, MethodError
from simulator.config import Config
from simulator.engine.progress import Event, RoundFinished
from simulator.metrics import cka_matrices
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import RunOutcome, Session
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


def config(**sections: Any) -> Config:
    return federations.config("lg_fedavg", rounds=6, **sections)


class After:
    """Asks for a stop once so many rounds have finished: an observer, and the `stop` that goes with it."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def observe(self, event: Event) -> None:
        self.left -= isinstance(event, RoundFinished)

    def stop(self) -> str | None:
        return "SIGTERM" if self.left <= 0 else None


def run_for(rounds: int, session: Session) -> RunOutcome:
    after = After(rounds)
    return session.run(after.observe, after.stop)


def alone(tmp_path: Path, config: Config) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What a run that nobody disturbs commits."""
    Session.create(config, tmp_path / "alone", tmp_path).run()
    return federations.committed(tmp_path / "alone")


def test_a_run_commits_every_round_and_finishes(tmp_path: Path) -> None:
    with Session.create(config(), tmp_path / "s", tmp_path) as session:
        assert (session.round, session.finished, session.record) == (0, False, None)
        assert session.run() == RunOutcome("finished", 6)
        assert (session.round, session.finished) == (6, True)
    reader = checkpoints.SessionReader(tmp_path / "s")
    assert [record["round"] for record in reader.records()] == [1, 2, 3, 4, 5, 6]
    assert reader.manifest().round == 6
    assert reader.document["config"] == config().to_json()
    assert [event["event"] for event in reader.events() if event["event"] != "checkpoint"] == [
        "started",
        "stopped",
    ]
    assert checkpoints.verify(tmp_path / "s") == []


def test_the_observer_hears_of_a_round_after_it_is_committed(tmp_path: Path) -> None:
    committed: list[tuple[int, int]] = []

    def observe(event: Event) -> None:
        if isinstance(event, RoundFinished):
            committed.append(
                (event.record["round"], checkpoints.SessionReader(tmp_path / "s").manifest().round)
            )

    Session.create(config(), tmp_path / "s", tmp_path).run(observe)
    assert committed == [(round, round) for round in range(1, 7)]


@pytest.mark.long
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_stop_between_checkpoints_writes_one(tmp_path: Path, rounds: int) -> None:
    """With a checkpoint every second round."""
    sparse = config(checkpoint={"every": 2})
    run_for(rounds, Session.create(sparse, tmp_path / "s", tmp_path))
    assert checkpoints.SessionReader(tmp_path / "s").manifest().round == rounds
    Session.resume(tmp_path / "s", tmp_path).run()
    assert federations.committed(tmp_path / "s") == alone(tmp_path, sparse)


def test_a_finished_session_resumed_has_nothing_left_to_do(tmp_path: Path) -> None:
    before = alone(tmp_path, config())
    session = Session.resume(tmp_path / "alone", tmp_path)
    assert session.finished
    assert session.run() == RunOutcome("finished", 6)
    assert federations.committed(tmp_path / "alone") == before


def test_the_best_round_is_kept_beside_the_last(tmp_path: Path) -> None:
    Session.create(config(checkpoint={"keep_last": 1}), tmp_path / "s", tmp_path).run()
    reader = checkpoints.SessionReader(tmp_path / "s")
    means = [record["accuracy"]["mean"] for record in reader.records()]
    kept = reader.rounds()
    assert 6 in kept
    assert max(means[round - 1] for round in kept) == max(means)
    assert len(kept) <= 2


# What is refused


def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("text")
    with pytest.raises(ConfigError, match="exists already and is not a session"):
        Session.create(config(), tmp_path / "s", tmp_path)
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["thesis.tex"]


def test_a_configuration_that_cannot_run_leaves_no_folder(tmp_path: Path) -> None:
    direct = federations.config(
        "fedlora", method={"structure": "direct"}, federation={"group": ["cnn1", "cnn3"]}
    )
    images = federations.generated(side=32)
    with federations.on_images(images), pytest.raises(ConfigError, match="method 'fedlora' cannot run here"):
        Session.create(direct, tmp_path / "s", tmp_path)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("hook", ["init_server", "init_client", "downlink"])
def test_a_refused_run_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    monkeypatch.setattr(methods.get("lg_fedavg"), hook, lambda *about: None)
    with pytest.raises(MethodError), Session.create(config(), tmp_path / "s", tmp_path) as session:
        session.run()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_began_stays_when_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Session.create(config(), tmp_path / "earlier", tmp_path).close()
    with Session.create(config(), tmp_path / "s", tmp_path) as session:
        session.run(upto=1)
        monkeypatch.setattr(methods.get("lg_fedavg"), "downlink", lambda *about: None)
        with pytest.raises(MethodError):
            session.run()
    with pytest.raises(MethodError), Session.resume(tmp_path / "earlier", tmp_path) as session:
        session.run()
    assert checkpoints.SessionReader(tmp_path / "s").rounds() == [1]
    assert checkpoints.verify(tmp_path / "earlier") == []


def test_samples_without_room_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with 4,000 classes of long names."""
    Session.create(config(), tmp_path / "whole", tmp_path).close()
    monkeypatch.setattr(limits, "SESSION", (tmp_path / "whole" / "session.json").stat().st_size - 10)
    Session.create(config(), tmp_path / "s", tmp_path).close()
    assert "samples" not in CheckedReader(tmp_path / "s").document


def test_settings_without_room_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION", 4_000)
    long = config(federation={"group": ["tiny_cnn"] * 1_000})
    with pytest.raises(
        ConfigError, match=r"session\.json would have 1\d,\d\d\d bytes.* in the section federation\."
    ):
        Session.create(long, tmp_path / "s", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_an_older_session_compares_as_many_as_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three layers of four clients are 48 numbers; where 12 fit, two clients are compared. A new session is refused."""
    measured = config(cka={"every": 1})
    with Session.create(measured, tmp_path / "s", tmp_path) as session:
        session.run(upto=1)
    monkeypatch.setattr(cka_matrices, "NUMBERS", 12)
    with Session.resume(tmp_path / "s", tmp_path) as session:
        session.run()
    rows = [len(record["cka"]["matrix"]["fc2"]) for record in CheckedReader(tmp_path / "s").records()]
    assert rows == [4, 2, 2, 2, 2, 2]
    with pytest.raises(ConfigError, match=r"Use cka\.clients=2"):
        Session.create(measured, tmp_path / "new", tmp_path)
