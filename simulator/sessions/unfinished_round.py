"""The finished clients of an unfinished round, as they are kept in the session and taken up again."""

from collections.abc import Sequence
from dataclasses import replace

from checkpoints import SessionUnreadable, Store, TensorSpec, UnfinishedRound
from simulator.base.documents import Entry, Finished, check_unfinished
from simulator.base.off_device import on_host
from simulator.engine.builder import Built
from simulator.engine.client_states import State
from simulator.methods.hooks import Hooks
from simulator.runners.base import Job, LocalUpdate
from simulator.runners.local import prepare
from simulator.sessions.states import noted, read_back, specs
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache
from simulator.training.loop import steps


def save(store: Store, round: int, history: Sequence[Entry], updates: Sequence[LocalUpdate]) -> None:
    """Keep these updates of a round; whoever diverged is trained again. Raises DiskError."""
    states, notes = {}, {}
    for update in updates:
        if update.diverged is None:
            client = update.client.id
            states[f"client/{client}/state"] = store.put(on_host(update.tensors))
            states[f"client/{client}/uplink"] = store.put(on_host(update.uplink))
            notes[str(client)] = noted(update)
    store.save_unfinished_round(round, {"history": list(history), "clients": notes}, states)


def load(store: Store, history: Sequence[Entry], state: State, built: Built) -> dict[int, LocalUpdate]:
    """The kept updates of the round after `state`, by client; none if the round is begun with other settings.

    A note that this program did not write, or tensors that are not this round's, are no reason to refuse the session:
    its clients are trained again.
    """
    unfinished = store.unfinished_round()
    try:
        if unfinished is None:
            return {}
        kept = check_unfinished(unfinished.note)
        if kept["history"] != list(history):
            return {}
        return {
            int(number): _update(store, unfinished, int(number), note, state, built)
            for number, note in kept["clients"].items()
        }
    except (SessionUnreadable, ValueError, IndexError) as fault:
        store.warn(f"The finished clients of round {state.round + 1} are trained again: {fault}")
        return {}


def _update(
    store: Store,
    unfinished: UnfinishedRound,
    client: int,
    note: Finished,
    state: State,
    built: Built,
) -> LocalUpdate:
    tensors = store.load_unfinished(unfinished, f"client/{client}/state", specs(state.clients[client]))
    expected = uplink_specs(client, state, built)
    uplink = store.load_unfinished(unfinished, f"client/{client}/uplink", expected)
    # Whoever diverged is not kept.
    if not all(tensor.isfinite().all() for tensor in (*tensors.values(), *uplink.values())):
        raise ValueError(f"what client {client} left holds numbers that are not finite.")
    return read_back(built, client, state.round + 1, note, tensors, uplink)


def uplink_specs(client: int, state: State, built: Built) -> dict[str, TensorSpec] | None:
    """What the client's uplink of the next round looks like: that of a client which took one step of each phase.

    None where a plugin's hooks do not bear that; what was kept is then taken as it is.
    """
    round = state.round + 1
    hooks = Hooks(built.method, built.federation).at(round)
    context = TrainingContext(built.federation, built.data, FlopCache()).at(round)
    info = context.federation.clients[client]
    try:
        payload = {name: tensor.clone() for name, tensor in hooks.downlink(round, state.server, info).items()}
        prepared = prepare(hooks, context, info, round, Job(state.clients[client], payload))
        for phase in prepared.phases:
            with hooks.training(phase, round, info):
                next(steps(prepared.local, replace(phase, collect_after=0)), None)
        uplink, _ = hooks.uplink(prepared.local, state.clients[client])
    except Exception:
        return None
    return specs(uplink)
