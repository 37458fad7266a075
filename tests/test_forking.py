"""Forks: a new session from any round of another, bit-identical when nothing is changed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import simulator
from simulator import methods
from simulator.base.errors import ConfigError, MethodError, SessionError
from simulator.config import Config
from simulator.engine.progress import Event, RoundStarted
from simulator.sessions import metadata
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations
from tests.operators import Operator, finished

pytestmark = pytest.mark.usefixtures("generated_images")


def config(**sections: Any) -> Config:
    return federations.config("lg_fedavg", rounds=6, **{"checkpoint": {"keep_last": 2}, **sections})


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rounds, of which the checkpoints of the last two and of the best are kept."""
    folder = tmp_path_factory.mktemp("forking") / "parent"
    with federations.on_images(federations.generated()):
        Session.create(config(), folder, folder.parent).run()
    return folder


@pytest.fixture
def parent(original: Path, tmp_path: Path) -> Path:
    """A copy of it, for a test to do with as it likes."""
    return Path(shutil.copytree(original, tmp_path / "parent"))


def forked(parent: Path, at_round: int, name: str = "child", **settings: Any) -> Path:
    folder = parent.parent / name
    simulator.fork(parent, folder, parent.parent, at_round, **settings)
    return folder


def lost(parent: Path) -> int:
    """A round whose checkpoint is no longer kept."""
    kept = checkpoints.SessionReader(parent).rounds()
    return next(round for round in range(1, 6) if round not in kept)


def finish(folder: Path) -> Path:
    Session.resume(folder, folder.parent).run()
    assert checkpoints.verify(folder) == []
    return folder


# Nothing changed


@pytest.mark.long
@pytest.mark.parametrize("at_round", [0, 2, 5])
def test_an_unchanged_fork_of_any_round_ends_as_its_parent_did(parent: Path, at_round: int) -> None:
    child = finish(forked(parent, at_round))
    assert federations.committed(child) == federations.committed(parent)


def test_a_kept_round_is_shared_and_not_computed_again(parent: Path) -> None:
    seen: list[Event] = []
    child = forked(parent, 5, observe=seen.append)
    assert seen == []
    for name, ref in checkpoints.SessionReader(child).manifest().states.items():
        assert (child / ref.name).samefile(parent / ref.name), name


def test_a_round_that_is_not_kept_is_computed_again_from_the_nearest_before(tmp_path: Path) -> None:
    Session.create(
        config(checkpoint={"keep_last": 1, "keep_every": 2, "keep_best": False}), tmp_path / "p", tmp_path
    ).run()
    seen: list[Event] = []
    fork = simulator.fork(tmp_path / "p", tmp_path / "c", tmp_path, 5, observe=seen.append)
    assert [event.round for event in seen if isinstance(event, RoundStarted)] == [5]
    assert fork.replayed == 1
    assert federations.committed(finish(tmp_path / "c")) == federations.committed(tmp_path / "p")


@pytest.mark.long
def test_a_live_session_can_be_forked(tmp_path: Path) -> None:
    folder = tmp_path / "p"

    def fork_after_round_3(event: Event) -> None:
        if finished(3)(event):
            simulator.fork(folder, tmp_path / "c", tmp_path, 3)

    Session.create(config(), folder, tmp_path).run(fork_after_round_3)
    assert federations.committed(finish(tmp_path / "c")) == federations.committed(folder)


@pytest.mark.long
def test_a_fork_of_a_fork_knows_its_parent(parent: Path, tmp_path: Path) -> None:
    child = finish(forked(parent, 4))
    grandchild = finish(forked(child, 5, "grandchild"))
    document = checkpoints.SessionReader(grandchild).document
    assert document["parent"] == {
        "id": checkpoints.SessionReader(child).document["id"],
        "name": "child",
        "round": 5,
    }
    assert federations.committed(grandchild) == federations.committed(parent)


@pytest.mark.long
def test_a_fork_keeps_its_first_checkpoint_to_compute_from(parent: Path) -> None:
    child = finish(forked(parent, 1, assignments=["rounds=12"]))
    assert 1 in checkpoints.SessionReader(child).rounds()
    again = forked(child, 3, "again")
    assert checkpoints.SessionReader(again).manifest().round == 3


# Something changed


def test_a_fork_with_another_method_switches_there(parent: Path) -> None:
    child = forked(parent, 4, method="fedssa", assignments=["method.mu_0=0.3"])
    reader = checkpoints.SessionReader(child)
    assert reader.document["config"]["method"]["name"] == "fedssa"
    history = reader.manifest().history
    assert [(entry["from_round"], entry["method"]["name"]) for entry in history] == [
        (1, "lg_fedavg"),
        (5, "fedssa"),
    ]
    assert history[-1]["adopted"] == "takes over head"
    finish(child)
    assert [record["method"] for record in reader.records()] == ["lg_fedavg"] * 4 + ["fedssa"] * 2


@pytest.mark.long
def test_a_fork_with_another_method_is_the_parent_switched_there(parent: Path, tmp_path: Path) -> None:
    switched = tmp_path / "switched"
    operator = Operator(switched, (finished(3), "switch", {"method": "fedgh", "set": []}))
    Session.create(config(), switched, tmp_path).run(operator)
    child = finish(forked(parent, 3, method="fedgh"))
    assert federations.committed(child) == federations.committed(switched)


@pytest.mark.long
@pytest.mark.parametrize("at_round", [3, 5])
def test_a_switched_run_can_be_forked_before_and_after_its_switch(tmp_path: Path, at_round: int) -> None:
    """A fork before the switch goes on without it, one after it has it; rounds run again switch as the parent did."""
    plain, switched = tmp_path / "plain", tmp_path / "switched"
    settings = config(checkpoint={"keep_last": 1, "keep_best": False})
    operator = Operator(switched, (finished(3), "switch", {"method": "fedssa", "set": []}))
    Session.create(settings, switched, tmp_path).run(operator)
    Session.create(settings, plain, tmp_path).run()
    child = tmp_path / "child"
    made = simulator.fork(switched, child, tmp_path, at_round)
    assert made.parent_changed == (3 if at_round <= 3 else None)
    finish(child)
    assert federations.committed(child) == federations.committed(plain if at_round <= 3 else switched)


@pytest.mark.long
def test_a_fork_with_another_seed_keeps_the_partition_and_what_went_before(parent: Path) -> None:
    child = finish(forked(parent, 3, assignments=["seed=99"]))
    before, after = (checkpoints.SessionReader(folder) for folder in (parent, child))
    assert before.document["data_fingerprint"] == after.document["data_fingerprint"]
    assert after.document["config"]["seed"] == {"all": 99, "data": before.document["config"]["seed"]}
    records = [[federations.untimed(record) for record in reader.records()] for reader in (before, after)]
    assert records[0][:3] == records[1][:3]
    assert all(ours != theirs for ours, theirs in zip(records[0][3:], records[1][3:], strict=True))


def test_a_fork_cannot_have_other_data(parent: Path) -> None:
    with pytest.raises(ConfigError, match=r"'seed.data' cannot change in a fork"):
        forked(parent, 3, assignments=["seed.data=99"])


# Refused, with nothing left behind


@pytest.mark.parametrize(
    ("at_round", "settings", "why"),
    [
        (7, {}, "has no round 7; it has rounds 0 to 6"),
        (-1, {}, "has no round -1"),
        (3, {"method": "nosuch"}, "nosuch"),
        (3, {"method": "heteroavg"}, "needs nested architectures"),
        (3, {"assignments": ["data.alpha=0.3"]}, "'data' cannot change"),
        (3, {"assignments": ["federation.clients=9"]}, "'federation' cannot change"),
        (3, {"assignments": ["rounds=3"]}, "would be the fork's last"),
        (6, {}, "would be the fork's last"),
    ],
)
def test_what_cannot_be_is_refused(parent: Path, at_round: int, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        forked(parent, at_round, **settings)
    assert not (parent.parent / "child").exists()


@pytest.mark.long
def test_another_environment_runs_no_round_again(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.environment
    monkeypatch.setattr(metadata, "environment", lambda *about: real(*about) | {"torch": "1.0"})
    with pytest.raises(SessionError, match="would not be bit-identical"):
        forked(parent, lost(parent))
    forked(parent, 5)


def test_rounds_that_give_other_results_are_refused(parent: Path) -> None:
    """As on a machine whose arithmetic differs in a way that no version number tells."""
    with pytest.MonkeyPatch.context() as patch:
        real = checkpoints.SessionReader.records

        def altered(self: checkpoints.SessionReader) -> list[dict[str, Any]]:
            return [record | {"loss": record["loss"] | {"mean": 0.0}} for record in real(self)]

        patch.setattr(checkpoints.SessionReader, "records", altered)
        with pytest.raises(SessionError, match="gave other results than its ledger has"):
            forked(parent, lost(parent))


@pytest.mark.long
def test_rounds_are_compared_with_what_an_earlier_version_wrote(parent: Path) -> None:
    """It did not record the cross-entropy."""
    with pytest.MonkeyPatch.context() as patch:
        real = checkpoints.SessionReader.records

        def earlier(self: checkpoints.SessionReader) -> list[dict[str, Any]]:
            losses = [{key: record["loss"][key] for key in ("mean", "per_client")} for record in real(self)]
            return [record | {"loss": loss} for record, loss in zip(real(self), losses, strict=True)]

        patch.setattr(checkpoints.SessionReader, "records", earlier)
        assert len(CheckedReader(forked(parent, lost(parent))).records()) == lost(parent)


def test_a_fork_that_fails_leaves_nothing_behind(parent: Path) -> None:
    """As when the live parent retires the checkpoint at that very moment."""
    kept = checkpoints.SessionReader(parent).manifest(5)
    (parent / kept.states["client/0"].name).unlink()
    with pytest.raises(checkpoints.Damaged, match="missing"):
        forked(parent, 5)
    assert not (parent.parent / "child").exists()


@pytest.mark.long
def test_a_fork_whose_method_cannot_begin_is_refused(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods.get("fedproto"), "init_server", lambda self: None)
    with pytest.raises(MethodError, match=r"init_\w+\(\) of method 'fedproto' returned nothing"):
        forked(parent, 0, method="fedproto")
    assert [path.name for path in parent.parent.iterdir()] == ["parent"]


@pytest.mark.long
def test_two_switches_at_one_boundary_are_run_again_in_turn(tmp_path: Path) -> None:
    """FedLoRA between LG-FedAvg and FedSSA: FedSSA then has no head to take over."""
    folder = tmp_path / "p"
    operator = Operator(
        folder,
        (finished(3), "switch", {"method": "fedlora", "set": []}),
        (finished(3), "switch", {"method": "fedssa", "set": []}),
    )
    Session.create(config(checkpoint={"keep_last": 1, "keep_best": False}), folder, tmp_path).run(operator)
    assert [entry["from_round"] for entry in checkpoints.SessionReader(folder).manifest().history] == [
        1,
        4,
        4,
    ]
    child = finish(forked(folder, 5))
    assert federations.committed(child) == federations.committed(folder)
