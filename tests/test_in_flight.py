"""An uplink in flight survives a checkpoint and arrives in the next round."""

from dataclasses import replace
from pathlib import Path

from checkpoints import Store
from simulator.engine.builder import Built
from simulator.engine.client_states import InFlight, State
from simulator.engine.progress import unobserved
from simulator.runners import Job, Work, synchronous
from simulator.sessions import metadata, states
from simulator.sessions.committing import Commits
from simulator.sessions.history import history_entry
from simulator.sessions.reader import CheckedReader
from tests import federations

CONFIG = federations.config("lg_fedavg", wire={"noise": 0.5})


def with_one_in_flight(parts: Built) -> State:
    """Round 1 ends while the client that it did not select has an uplink in flight, dispatched as number 9."""
    start = parts.engine.initial_state()
    after = parts.engine.round(start, unobserved)
    [late] = {0, 1, 2, 3}.difference(after.record["participants"])
    hooks = parts.engine._hooks
    received = hooks.downlink(1, start.server, parts.federation.clients[late])
    work = Work(hooks, 1, {late: Job(start.clients[late], received)}, dispatch=9)
    [update] = synchronous.carry_out(parts.engine._runner, work)
    return replace(after, in_flight=(InFlight(update, 9, received),))


def stored(parts: Built, state: State, folder: Path) -> None:
    with Store.create(folder, metadata.of_new(CONFIG, parts, None), metadata.retention(CONFIG)) as store:
        Commits(store, 0).commit(state, [history_entry(CONFIG, 1)], [])


def test_an_uplink_in_flight_arrives_with_the_same_bits_after_a_resume(tmp_path: Path) -> None:
    parts = federations.built(CONFIG)
    state = with_one_in_flight(parts)
    stored(parts, state, tmp_path / "s")
    reader = CheckedReader(tmp_path / "s")
    resumed = states.restore(reader, reader.manifest(), federations.built(CONFIG))
    [late], [before] = resumed.in_flight, state.in_flight
    assert (late.client.id, late.dispatch) == (before.client.id, 9)
    through, again = (parts.engine.round(each, unobserved) for each in (state, resumed))
    assert federations.state_bits(again) == federations.state_bits(through)
    assert federations.untimed(again.record) == federations.untimed(through.record)
    assert again.in_flight == ()


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


def test_a_checkpoint_without_uplinks_in_flight_does_not_mention_them(tmp_path: Path) -> None:
    parts = federations.built(CONFIG)
    stored(parts, federations.run(parts.engine, 1), tmp_path / "s")
    [manifest] = (tmp_path / "s").glob("**/000001.json")
    assert "in_flight" not in manifest.read_text(encoding="utf-8")
