"""Sessions of many clients of whom few take part: what is written of the others, and what becomes of them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import simulator
from checkpoints import SessionReader
from checkpoints.schema import seal
from simulator.base.errors import SessionError
from simulator.config import Config
from simulator.results.inspection import checkpoint
from simulator.sessions import metadata, states
from simulator.sessions.session import Session
from tests import federations
from tests.methods.mine import Write, load, mine

pytestmark = pytest.mark.usefixtures("generated_images")


__all__ = ["load", "mine"]


def config(method: str = "fedmrl", **sections: Any) -> Config:
    """Eight clients, of whom two take part in a round: after three rounds two at least have never done so.

    FedMRL keeps beside each model a projection that is drawn for the client, and a small network.
    """
    federation = {"clients": 8, "participation": 0.25, "group": "tiny"}
    return federations.config(method, **{"federation": federation, "data": {"min_samples": 1}, **sections})


def done(folder: Path, settings: Config | None = None) -> Path:
    Session.create(settings or config(), folder, folder.parent).run()
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a session, which a test leaves as it is; all of its checkpoints are kept."""
    with federations.on_images(federations.generated()):
        return done(tmp_path_factory.mktemp("out_of_core") / "s")


@pytest.fixture
def newest(tmp_path: Path, made: Path) -> Path:
    """A copy of it with its newest checkpoint alone, for a test to do with as it likes."""
    folder = Path(shutil.copytree(made, tmp_path / "s"))
    checkpoints.prune(folder, checkpoints.Retention(last=1))
    return folder


def took_part(session: SessionReader, upto: int | None = None) -> set[int]:
    return {client for record in session.records()[:upto] for client in record["participants"]}


def restored(folder: Path, round: int | None = None) -> states.State:
    session = SessionReader(folder)
    settings, _ = metadata.current(session, {})
    return states.restore(session, session.manifest(round), federations.built(settings))


# What is written


def test_a_checkpoint_says_what_other_clients_began_with(made: Path, newest: Path) -> None:
    session = SessionReader(made)
    for round in session.rounds():
        manifest = session.manifest(round)
        assert manifest.states.keys() == {"server"} | {
            f"client/{client}" for client in took_part(session, round)
        }
        assert manifest.initial is not None
        assert {key: manifest.initial[key] for key in ("models", "beside")} == {"models": 7, "beside": 7}
        assert manifest.initial["method"] == session.document["config"]["method"]
    assert checkpoints.verify(made) == []
    objects = list((newest / "objects").rglob("*.safetensors"))
    assert len(objects) == 1 + len(took_part(session)) < 9


def test_where_all_take_part_earlier_programs_read_the_session(made: Path, tmp_path: Path) -> None:
    full = {"clients": 4, "participation": 1.0, "group": "tiny"}
    everybody = done(tmp_path / "all", config("standalone", rounds=1, federation=full))
    for folder, version, name in ((everybody, 1, "000001.json"), (made, 2, "000003.json")):
        assert SessionReader(folder).document["format"] == version
        raw = json.loads((folder / "manifests" / name).read_bytes())
        assert ("initial" in raw) == (version == 2)


@pytest.mark.long
def test_in_a_session_of_format_1_everybody_is_in_the_manifest(made: Path, tmp_path: Path) -> None:
    """As of an old one that was stopped before its first checkpoint."""
    Session.create(config(), tmp_path / "s", tmp_path).close()
    document = SessionReader(tmp_path / "s").document
    (tmp_path / "s" / "session.json").write_bytes(seal({**document, "format": 1}))
    with Session.resume(tmp_path / "s", tmp_path) as session:
        session.run()
    manifest = SessionReader(tmp_path / "s").manifest()
    assert manifest.initial is None
    assert len(manifest.states) == 9
    assert federations.state_bits(restored(tmp_path / "s")) == federations.state_bits(restored(made))


# What is read


def test_a_client_that_took_part_is_as_its_checkpoint_has_it_and_another_as_it_began(made: Path) -> None:
    state = restored(made)
    begun = federations.built(config()).engine.initial_state().clients
    alone = federations.run(federations.built(config()).engine, 3)
    assert federations.state_bits(state) == federations.state_bits(alone)
    never = set(range(8)) - took_part(SessionReader(made))
    assert len(never) >= 2
    assert all(federations.bits(state.clients[each]) == federations.bits(begun[each]) for each in never)


@pytest.mark.long
def test_what_a_checkpoint_holds_is_not_in_memory(tmp_path: Path) -> None:
    """Also not a state that a round left as it was: a step too small for float32 moves nothing, and the client's object
    is the one it had.
    """
    still = {"federation": {"clients": 2, "group": "tiny"}, "training": {"lr": 1e-38}}
    for name, sections in (("moves", {}), ("stays", still)):
        settings = config("standalone", **sections, runtime={"cache": 0})
        with Session.create(settings, tmp_path / name, tmp_path) as session:
            session.run()
            assert session._state.clients.changed == session._state.clients.cache._kept == {}
    manifests = [SessionReader(tmp_path / "stays").manifest(round) for round in (2, 3)]
    assert manifests[0].states["client/0"] == manifests[1].states["client/0"]


def test_inspection_knows_clients_that_never_took_part(made: Path) -> None:
    state = restored(made)
    for model in checkpoint.of_clients(made, made.parent, None).clients:
        weights = {f"model/{name}": tensor for name, tensor in model.network.state_dict().items()}
        own = {key: value for key, value in state.clients[model.info.id].items() if key.startswith("model/")}
        assert federations.bits(weights) == federations.bits(own)
    features = checkpoint.cka(made, made.parent, untrained=True)["matrix"]["fc1"]
    assert None not in [value for row in features for value in row]


# What changes


def test_a_fork_under_another_seed_keeps_the_first_models(made: Path, tmp_path: Path) -> None:
    simulator.fork(made, tmp_path / "child", tmp_path, 2, assignments=["seed=8"])
    then, now = restored(made, 2), restored(tmp_path / "child")
    assert federations.state_bits(then) == federations.state_bits(now)
    assert SessionReader(tmp_path / "child").manifest().initial == SessionReader(made).manifest(2).initial


@pytest.mark.long
def test_a_fork_with_another_method_begins_clients_anew(made: Path, tmp_path: Path) -> None:
    simulator.fork(made, tmp_path / "child", tmp_path, 2, method="fedproto")
    then, now = restored(made, 2), restored(tmp_path / "child")
    prototypes = federations.built(config("fedproto")).engine.initial_state().clients
    for client in range(8):
        own = {key: value for key, value in then.clients[client].items() if key.startswith("model/")}
        beside = {key: value for key, value in prototypes[client].items() if not key.startswith("model/")}
        assert federations.bits(now.clients[client]) == federations.bits(own | beside)
    manifest = SessionReader(tmp_path / "child").manifest()
    assert manifest.initial is not None
    assert manifest.initial["method"]["name"] == "fedproto"


WEIGHED = """
from simulator.base.sections import MethodConfig

class Config(MethodConfig):
    weight: float = 1.0

def init_client(self, client):
    return {"w": torch.full((1,), self.config.weight)}
"""


@pytest.mark.long
def test_clients_begin_with_the_first_settings_of_a_method(mine: Write, tmp_path: Path) -> None:
    """A switch to other settings of the same method lets everybody keep what they kept."""
    mine(WEIGHED)
    with Session.create(config("mine"), tmp_path / "s", tmp_path) as session:
        session.run(upto=1)
        checkpoints.post(tmp_path / "s", "switch", {"method": None, "set": ["method.weight=2"]})
        session.run()
        kept = [tensors["w"].item() for tensors in session._state.clients]
    assert kept == [1.0] * 8
    assert [tensors["w"].item() for tensors in restored(tmp_path / "s").clients] == kept


# What is amiss


def resealed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The session's only manifest with something changed in it, and its seal as it must be then."""
    [path] = (folder / "manifests").iterdir()
    raw = json.loads(path.read_bytes())
    del raw["sha256"]
    change(raw)
    path.write_bytes(seal(raw))


def test_clients_that_would_begin_otherwise_here_are_refused_unless_that_is_allowed(newest: Path) -> None:
    resealed(newest, lambda raw: raw["initial"].update(sha256="0" * 64))
    with pytest.raises(
        SessionError, match=r"the models that clients begin with are not those.*allow_inexact=True"
    ):
        Session.resume(newest, newest.parent)
    Session.resume(newest, newest.parent, allow_inexact=True).close()


def test_a_manifest_must_say_how_clients_began(newest: Path) -> None:
    resealed(newest, lambda raw: raw.pop("initial"))
    with pytest.raises(checkpoints.SessionUnreadable, match="holds no state client/"):
        Session.resume(newest, newest.parent)


def test_a_manifest_that_says_it_in_other_words_is_damaged(newest: Path) -> None:
    [path] = (newest / "manifests").iterdir()
    whole, method = path.read_bytes(), {"name": "fedkd"}
    changes: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (lambda raw: raw.update(initial={}), "initial"),
        (lambda raw: raw.update(initial={"models": 7}), "initial"),
        (lambda raw: raw["initial"].update(models=-1, method=method), "initial"),
        (
            lambda raw: raw["initial"]["method"].update(name="fedproto"),
            "began with another method than fedmrl",
        ),
        (lambda raw: raw["initial"]["method"].update(d_1="wide"), "what its clients began with is no fedmrl"),
    ]
    for change, said in changes:
        path.write_bytes(whole)
        resealed(newest, change)
        with pytest.raises(checkpoints.Damaged, match=said):
            Session.resume(newest, newest.parent)
