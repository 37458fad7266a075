"""An uplink in flight survives a checkpoint and arrives in the next round."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import checkpoints
import simulator
from checkpoints import Damaged, Store, UnsupportedVersion
from checkpoints.manifests import Manifest
from checkpoints.schema import ObjectRef, Prefix, seal
from simulator.config import Config
from simulator.engine.builder import Built
from simulator.engine.client_states import InFlight, State
from simulator.engine.progress import Event, RoundFinished, unobserved
from simulator.metrics import by_client
from simulator.runners import Job, Work, carry_out
from simulator.sessions import metadata, states
from simulator.sessions.committing import Commits
from simulator.sessions.history import history_entry
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations
from tests.federations import bits

pytestmark = pytest.mark.usefixtures("generated_images")


CONFIG = federations.config("lg_fedavg", rounds=4, wire={"noise": 0.5}, checkpoint={"every": 3})
KEPT = [1, 3, 4]
"""The checkpoints of a session that was stored after round 1 and then ran to its end."""


def with_one_in_flight(parts: Built) -> State:
    """Round 1 ends while the client that it did not select has an uplink in flight, dispatched as number 9."""
    start = parts.engine.initial_state()
    after = parts.engine.round(start, unobserved)
    [late] = {0, 1, 2, 3}.difference(after.record["participants"])
    hooks = parts.engine._hooks
    received = hooks.downlink(1, start.server, parts.federation.clients[late])
    work = Work(hooks, 1, {late: Job(start.clients[late], received)}, dispatch=9)
    [update] = carry_out(parts.engine._runner, work)
    return replace(after, in_flight=(InFlight(update, 9, received),))


def stored(parts: Built, state: State, folder: Path) -> None:
    document = metadata.of_new(CONFIG, parts, None, in_flight=bool(state.in_flight))
    with Store.create(folder, document, metadata.retention(CONFIG)) as store:
        Commits(store, 0).commit(state, [history_entry(CONFIG, 1)], [])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that was stopped after round 1 with one uplink in flight."""
    folder = tmp_path_factory.mktemp("in-flight") / "s"
    parts = federations.built(CONFIG)
    stored(parts, with_one_in_flight(parts), folder)
    return folder


@pytest.fixture
def session(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "s"))


def finish(folder: Path) -> Path:
    Session.resume(folder, folder.parent).run()
    assert checkpoints.verify(folder) == []
    return folder


def late_of(folder: Path) -> int:
    [client] = CheckedReader(folder).manifest(1).in_flight or {}
    return int(client)


def event(folder: Path, kind: str) -> Mapping[str, Any]:
    [found] = [each for each in CheckedReader(folder).events() if each["event"] == kind]
    return found


def test_an_uplink_in_flight_is_aggregated_once_it_arrives() -> None:
    """Its client is not selected again meanwhile. It sends in round 2, and its model is the one it trained."""
    parts = federations.built(CONFIG)
    state = with_one_in_flight(parts)
    [late] = state.in_flight
    after = parts.engine.round(state, unobserved)
    without = parts.engine.round(replace(state, in_flight=()), unobserved)
    assert late.client.id not in after.record["participants"]
    assert after.record["bytes"]["per_client_up"][late.client.id] > 0
    assert federations.bits(after.clients[late.client.id]) == federations.bits(late.update.tensors)
    assert federations.bits(after.server) != federations.bits(without.server)


def test_a_resumed_session_ends_as_one_that_was_not_stopped(session: Path) -> None:
    parts = federations.built(CONFIG)
    state = with_one_in_flight(parts)
    for _ in range(3):
        state = parts.engine.round(state, unobserved)
    finish(session)
    reader = CheckedReader(session)
    assert reader.rounds() == KEPT
    again = states.restore(reader, reader.manifest(), parts)
    assert federations.state_bits(again) == federations.state_bits(state)


@pytest.mark.long
@pytest.mark.parametrize("at_round", [1, 2])
def test_a_fork_takes_uplinks_in_flight_along(session: Path, at_round: int) -> None:
    """At round 1 it copies them. For round 2, it runs the round in which they arrive again."""
    finish(session)
    made = simulator.fork(session, session.parent / "fork", session.parent, at_round)
    assert made.replayed == at_round - 1
    reader = CheckedReader(session.parent / "fork")
    assert (reader.manifest().in_flight is None) == (at_round == 2)
    assert reader.document["format"] == (3 if at_round == 1 else 2)
    finish(reader.folder)
    assert federations.committed(reader.folder) == federations.committed(session)


@pytest.mark.parametrize("part", ["state", "uplink", "received"])
def test_damage_to_an_uplink_in_flight_is_named(session: Path, part: str) -> None:
    name = f"client/{late_of(session)}/{part}"
    damaged = session / CheckedReader(session).manifest().states[name].name
    *sound, last = damaged.read_bytes()
    damaged.write_bytes(bytes([*sound, last ^ 1]))
    [finding] = checkpoints.verify(session)
    assert (finding.severity, finding.message.startswith(f"round 1, {name}")) == ("damage", True)
    with pytest.raises(Damaged, match=name):
        Session.resume(session, session.parent)


def rewrite(session: Path, **changes: Any) -> None:
    """Change the manifest of round 1 as whoever can seal it could."""
    path = session / "manifests" / "000001.json"
    document = json.loads(path.read_bytes())
    del document["sha256"]
    path.write_bytes(seal(document | changes))


def test_uplinks_of_no_client_or_of_another_model_are_refused(session: Path) -> None:
    manifest = CheckedReader(session).manifest()
    assert manifest.in_flight is not None
    [(late, note)] = manifest.in_flight.items()
    rewrite(session, in_flight={"4": note})
    with pytest.raises(Damaged, match="round 1: the uplink in flight of client 4 has no client: there are 4"):
        Session.resume(session, session.parent)
    named = {name: vars(ref) for name, ref in manifest.states.items()}
    other = named[f"client/{(int(late) + 1) % 4}"]
    rewrite(session, in_flight=manifest.in_flight, states=named | {f"client/{late}/state": other})
    with pytest.raises(Damaged, match=f"client/{late}/state"):
        Session.resume(session, session.parent)


def test_a_switch_drops_uplinks_in_flight_if_it_changes_the_method(session: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(session, tmp_path / "other"))
    late = late_of(session)
    for folder, switch, drops in (
        (session, {"method": "fedgh"}, True),
        (other, {"method": None, "set": ["training.lr=0.05"]}, False),
    ):
        checkpoints.post(folder, "switch", switch)
        finish(folder)
        told, second = event(folder, "switched"), CheckedReader(folder).records()[1]
        assert told.get("dropped_uplinks", 0) == drops
        assert told["adopted"].endswith("; drops 1 uplink in flight") == drops
        assert (late in second["participants"]) == drops
        assert drops or second["bytes"]["per_client_up"][late] > 0


@pytest.mark.long
def test_a_fork_with_another_method_drops_uplinks_in_flight(session: Path) -> None:
    simulator.fork(session, session.parent / "fork", session.parent, 1, method="fedgh")
    fork = CheckedReader(session.parent / "fork")
    assert event(fork.folder, "forked")["dropped_uplinks"] == 1
    assert (fork.manifest().in_flight, fork.document["format"]) == (None, 2)
    finish(fork.folder)


def test_a_program_without_uplinks_in_flight_refuses(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints.layout.FORMATS", (1, 2))
    for use in (CheckedReader, Store.open, checkpoints.verify):
        with pytest.raises(UnsupportedVersion, match="format 3; this program reads formats 1 to 2"):
            use(session)


def test_a_session_of_an_earlier_format_takes_no_uplinks_in_flight(tmp_path: Path) -> None:
    parts = federations.built(CONFIG)
    with Store.create(tmp_path / "s", metadata.of_new(CONFIG, parts, None)) as store:
        assert store.session.document["format"] == 2
        with pytest.raises(ValueError, match="only a session of format 3 can hold uplinks in flight"):
            Commits(store, 0).commit(with_one_in_flight(parts), [history_entry(CONFIG, 1)], [])
        assert CheckedReader(tmp_path / "s").rounds() == []


def test_a_checkpoint_without_uplinks_in_flight_has_the_bytes_it_always_had() -> None:
    """The digest is that of the manifest that version 0.1.0 wrote."""
    manifest = Manifest(
        1,
        [{"from_round": 1}],
        {"server": ObjectRef("0" * 64, 8), "client/3": ObjectRef("a" * 64, 16)},
        {"round": 1, "accuracy": 0.5},
        Prefix(0, "e" * 64),
        ["c"],
        {"models": 7},
    )
    sealed = json.loads(manifest.to_bytes())["sha256"]
    assert sealed == "8f2862398bc0b5fd67fc691bbf959184f213d9d999dcb5bff77e469345ac0cf6"


def test_clients_have_trained_that_did_not_diverge_and_whose_uplinks_arrived() -> None:
    """Without a clock also those that send nothing, and client 3, sent off before, once it is carried or dropped. On
    the clock, clients 0 and 1 are still in flight, and client 7 was sent off in an earlier round.
    """
    plain: dict[str, Any] = {"participants": [0, 1, 2], "bytes": {"per_client_up": [8, 0, 0, 0]}}
    fates = {2: "lost", 3: "used", 4: "late", 5: "stale", 7: "dropped"}
    flights = [{"client": client, "fate": fate} for client, fate in fates.items()]
    clocked = plain | {"participants": list(range(7)), "diverged": [6], "time": {"flights": flights}}
    for record, arrived in (
        (plain, [0, 1, 2]),
        (plain | {"diverged": [1]}, [0, 2]),
        (plain | {"bytes": {"per_client_up": [8, 0, 0, 8]}}, [0, 1, 2, 3]),
        (plain | {"bytes": {"per_client_up": {"3": 8}}}, [0, 1, 2, 3]),
        (plain | {"dropped": [3]}, [0, 1, 2, 3]),
        (clocked, [3, 4, 5, 7]),
    ):
        assert by_client.arrived(record) == arrived
    assert by_client.trained([plain | {"diverged": [1, 2]}, clocked]) == {0, 3, 4, 5, 7}


# A state that is read back is the one that was carried on

SCHEDULES: dict[str, dict[str, Any] | None] = {
    "no clock": None,
    "synchronous": {},
    "deadline": {"schedule": "deadline", "deadline_quantile": 0.5},
    "late": {"schedule": "deadline", "deadline_quantile": 0.5, "late": "next"},
    "over_selection": {"schedule": "over_selection", "select": 4},
    "buffered": {"schedule": "buffered", "buffer": 2, "max_staleness": 1},
    "asynchronous": {"schedule": "asynchronous"},
}
CHANGES: list[dict[str, Any]] = [
    {"method": None, "set": ["training.lr=1e30"]},  # everybody diverges
    {"method": None, "set": ["wire.drop=0.1", "cka.untrained=true"]},  # uplinks in flight stay
    {"method": "fedprox", "set": ["training.lr=0.05"]},  # they are dropped
]
LEAVES = [{"round": 2, "event": "leave", "clients": [1]}, {"round": 4, "event": "join", "clients": [1]}]


def contents(state: State) -> dict[str, Any]:
    """Every field of a state, so that two compare."""
    told = {name: getattr(state, name) for name in ("round", "record", "before", "known")}
    flying = [
        {
            **vars(each),
            "update": {**vars(each.update), "tensors": bits(each.update.tensors), "uplink": None},
            "losses": list(each.update.losses.items()),
            "uplink": list(bits(each.update.uplink).items()),
            "received": list(bits(each.received).items()),
        }
        for each in state.in_flight
    ]
    begun = (state.clients.begun(), state.clients.beginning.facts())
    orders = [
        list(state.server),
        *map(list, state.clients),
        *(list(each.update.tensors) for each in state.in_flight),
    ]
    told |= {"in_flight": flying, "begun": begun, "orders": orders}
    assert vars(state).keys() <= {*told, "server", "clients"}
    return told | federations.state_bits(state)


def lived(config: Config, folder: Path, changes: Sequence[Any], stops: Sequence[int]) -> None:
    """Run a session with a change after each round, and stops after so many questions of the gate.

    After each round, the state that goes on is compared with the one that the checkpoint gives back.
    """
    session = Session.create(config, folder, folder.parent)
    for round, change in enumerate(changes, 1):
        if change is not None:
            checkpoints.post(folder, "switch", {**change, "at_round": round})

    def observe(event: Event) -> None:
        if isinstance(event, RoundFinished):
            reader = CheckedReader(folder)
            read = states.restore(reader, reader.manifest(), session._built)
            assert contents(read) == contents(session._state)

    for questions in (*stops, 10**6):
        asked = iter(range(questions))
        outcome = session.run(
            observe, stop=lambda left=asked: None if next(left, None) is not None else "SIGINT"
        )
        if outcome.state == "finished":
            break
        session = Session.resume(folder, folder.parent)
    assert outcome.state == "finished"


@pytest.mark.long
@pytest.mark.parametrize("schedule", SCHEDULES)
@settings(max_examples=2, deadline=None, derandomize=True, phases=(Phase.generate,))
@given(data=st.data())
def test_a_state_read_back_is_the_one_carried_on(schedule: str, data: st.DataObject) -> None:
    """With uplinks that are lost, late, stale, and partial, with divergence, absent clients, and switches."""
    system = SCHEDULES[schedule]
    sections: dict[str, Any] = {}
    if system is not None:
        on, partial = data.draw(st.floats(0.05, 1)), data.draw(st.sampled_from(["lose", "send"]))
        there = {"availability": "markov", "availability_on": on, "availability_off": 0.1, "partial": partial}
        there = data.draw(st.sampled_from([there, {}]))
        devices = {"devices": ["phone", "laptop", "phone", "jetson", "phone"]}
        sections["system"] = {**devices, "jitter": data.draw(st.floats(0, 2)), **there, **system}
    timeline = data.draw(st.sampled_from([[], LEAVES]))
    share = 0.6 if schedule == "over_selection" else data.draw(st.sampled_from([0.6, 1.0]))
    config = federations.config(
        "fedavg",
        seed=data.draw(st.integers(0, 10**6)),
        rounds=5,
        federation={"clients": 5, "participation": share, "timeline": timeline},
        wire={
            "drop": data.draw(st.sampled_from([0.0, 0.3])),
            "noise": data.draw(st.sampled_from([0.0, 0.1])),
        },
        evaluation={
            "clients": data.draw(st.sampled_from([2, "all", "participants"])),
            "initial": data.draw(st.sampled_from(["all", "skip"])),
            "metrics_for": data.draw(st.sampled_from(["all", "changed"])),
        },
        selection={"strategy": data.draw(st.sampled_from(["random", "utility"]))},
        cka={"every": 1, "layers": ["fc2"], "probe": 16},
        **sections,
    )
    changes = [data.draw(st.sampled_from([None, None, *CHANGES])) for _ in range(4)]
    stops = data.draw(st.lists(st.integers(1, 30), max_size=3))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lived(config, folder / "alone", changes, ())
        lived(config, folder / "stopped", changes, stops)
        assert federations.committed(folder / "stopped") == federations.committed(folder / "alone")
