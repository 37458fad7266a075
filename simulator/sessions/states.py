"""States as the store keeps them: tensors of the server and of clients that took part; others are drawn."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import checkpoints
from checkpoints import (
    Damaged,
    Manifest,
    ObjectRef,
    SessionUnreadable,
    Store,
    TensorSpec,
    UnfinishedRound,
    checked,
)
from simulator.base.documents import Entry, Finished, Initial, Note
from simulator.base.errors import SessionError
from simulator.base.record import Flight
from simulator.base.tensors import Tensors, on_device, on_host
from simulator.engine.builder import Built
from simulator.engine.client_states import (
    Beginning,
    ClientStates,
    InFlight,
    Known,
    Loader,
    State,
    initial_model,
)
from simulator.methods.hooks import Hooks
from simulator.models.federation import Federation
from simulator.runners.base import Job, LocalUpdate
from simulator.runners.local import prepare
from simulator.sessions.reader import CheckedReader
from simulator.training.flops import FlopCache
from simulator.training.loop import steps
from simulator.training.trainer import TrainingContext


def name_of(client: int) -> str:
    return f"client/{client}"


@dataclass(frozen=True)
class Stored:
    """A client's state in a checkpoint: read, hashed and compared with what it must look like when it is asked for."""

    session: checkpoints.SessionReader
    round: int
    ref: ObjectRef
    beginning: Beginning
    """Of the method in force, whose states look like this."""

    def __call__(self, client: int) -> Tensors:
        """The tensors, on the device. Raises Damaged when the bytes are not what was written."""
        expected = specs(self.beginning.shape_of(client))
        found = self.session.load_object(self.round, name_of(client), self.ref, expected)
        return on_device(found, self.beginning.federation.device)


def restore(session: CheckedReader, manifest: Manifest, built: Built, *, exact: bool = True) -> State:
    """The state of a checkpoint; names, shapes and dtypes must be those of `built`'s models and method.

    All objects are hashed now, and clients' read when asked for. `exact`: raise SessionError where clients that have
    not taken part would begin otherwise. Raises SessionUnreadable or Damaged.
    """
    start = built.engine.initial_state()
    server = session.load(manifest.round, "server", specs(start.server))
    beginning = start.clients.beginning
    kept: dict[int, Loader] = {}
    for client in range(len(start.clients)):
        name = name_of(client)
        if name in manifest.states:
            session.check(manifest, name, thorough=True, expected=specs(beginning.shape_of(client)))
            kept[client] = Stored(session, manifest.round, manifest.states[name], beginning)
        elif manifest.initial is None:
            session.load(manifest.round, name)  # says that it is not there
    if manifest.initial is not None:
        beginning = recorded_beginning(session, manifest.initial, built, exact=exact)
    return State(
        manifest.round,
        on_device(server, built.federation.device),
        ClientStates(beginning, start.clients.cache, {}, kept),
        manifest.record,
        Known.of(session.records()[: manifest.round - 1]),
        in_flight(session, manifest, built, start.clients.beginning),
    )


def noted(update: LocalUpdate) -> Finished:
    """What is noted of a finished client beside its tensors."""
    losses: list[list[str | float]] = [[phase, loss] for phase, loss in update.losses.items()]
    # in order: sealed JSON sorts the keys of an object
    return {"losses": losses, "flops": update.flops, "seconds": update.seconds}


def read_back(
    built: Built, client: int, dispatch: int, note: Finished, tensors: Tensors, uplink: Tensors
) -> LocalUpdate:
    """A finished client's update, on the device, from its note and tensors, with its data in round `dispatch`."""
    return LocalUpdate(
        client=built.federation.at(dispatch).clients[client],
        tensors=on_device(tensors, built.federation.device),
        uplink=on_device(uplink, built.federation.device),
        losses={str(phase): float(loss) for phase, loss in note["losses"]},
        finite=True,
        flops=note["flops"],
        seconds=note.get("seconds"),
    )


def in_flight(
    session: CheckedReader, manifest: Manifest, built: Built, beginning: Beginning
) -> tuple[InFlight, ...]:
    """The updates of a checkpoint whose uplinks wait for a later round, in client order. Raises Damaged."""
    found = []
    for number, note in sorted((manifest.in_flight or {}).items(), key=lambda each: int(each[0])):
        client = int(number)
        whose = f"{session.folder}, round {manifest.round}: the uplink in flight of client {client}"
        if client >= len(built.federation.clients):
            raise Damaged(f"{whose} has no client: there are {len(built.federation.clients)}.")
        state, uplink, received = (
            session.load(manifest.round, f"{name_of(client)}/{part}", expected)
            for part, expected in (
                ("state", specs(beginning.shape_of(client))),
                ("uplink", None),  # its shapes may differ from round to round
                ("received", None),
            )
        )
        if not all(tensor.isfinite().all() for tensor in (*state.values(), *uplink.values())):
            raise Damaged(f"{whose} holds numbers that are not finite.")
        update = read_back(built, client, note["dispatch"], note, state, uplink)
        flight = Flight(**note["flight"]) if "flight" in note else None
        sent = on_device(received, built.federation.device)
        found.append(InFlight(update, note["dispatch"], sent, flight, note.get("down", 0)))
    return tuple(found)


def of_clients(
    session: CheckedReader, manifest: Manifest, built: Built, *, exact: bool = True
) -> Callable[[int], Tensors]:
    """A client's state of a checkpoint, on the device, whatever tensors it has; raises like `restore`."""
    began = manifest.initial and recorded_beginning(session, manifest.initial, built, exact=exact)

    def state(client: int) -> Tensors:
        name = name_of(client)
        if began and name not in manifest.states:
            return began(client)
        return on_device(session.load(manifest.round, name), built.federation.device)

    return state


def in_memory(state: State) -> State:
    """The state with all that a checkpoint holds of it read now."""
    held = {client: state.clients[client] for client in state.clients.begun()}
    return replace(state, clients=state.clients.after(held))


def recorded_beginning(
    session: CheckedReader, initial: Initial, built: Built, *, exact: bool = True
) -> Beginning:
    """How the clients began that a manifest does not name. Raises SessionError unless that is so here (`exact`)."""
    if exact:
        check_draws(session, initial, built.federation)
    own = built.engine.beginning(initial["models"])
    if {**own.facts(), "sha256": initial["sha256"]} == initial:
        return own
    # Under another seed, or other settings of the method, than those in force now.
    federation, kind = replace(built.federation, seed=initial["beside"], init_seed=None), type(built.method)
    if initial["method"]["name"] != kind.name:
        raise Damaged(f"{session.folder}: its clients began with another method than {kind.name}.")
    try:
        method = kind(kind.Config.model_validate(initial["method"]), federation)
    except ValueError as fault:
        raise Damaged(f"{session.folder}: what its clients began with is no {kind.name}: {fault}.") from fault
    return Beginning(federation, Hooks(method, federation), initial["models"])


def check_draws(session: CheckedReader, initial: Initial, federation: Federation) -> None:
    """Raise SessionError unless clients' models are drawn here as they were when the manifest was written."""
    if digest(federation, initial["models"]) != initial["sha256"]:
        raise SessionError(
            f"{session.folder}: the models that clients begin with are not those it was made with: another version of "
            "a library draws others, or the pretrained weights changed. Go back to those, or use `allow_inexact=True`."
        )


def digest(federation: Federation, seed: int) -> str:
    """SHA-256 (hex) of the models that the first client of every architecture begins with, under this seed."""
    found = hashlib.sha256()
    for client in federation.of_each:
        for name, tensor in initial_model(federation, client.id, seed).items():
            found.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
            found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def specs(tensors: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
    """What each tensor must look like when it is read back."""
    return {name: TensorSpec.of(tensor) for name, tensor in tensors.items()}


def save_unfinished(
    store: Store, round: int, history: Sequence[Entry], updates: Sequence[LocalUpdate]
) -> None:
    """Keep these updates of a round; whoever diverged is trained again. Raises DiskError."""
    states, notes = {}, {}
    for update in updates:
        if update.diverged is None:
            client = update.client.id
            states[f"client/{client}/state"] = store.put(on_host(update.tensors))
            states[f"client/{client}/uplink"] = store.put(on_host(update.uplink))
            notes[str(client)] = noted(update)
    store.save_unfinished_round(round, {"history": list(history), "clients": notes}, states)


def load_unfinished(
    store: Store, history: Sequence[Entry], state: State, built: Built
) -> dict[int, LocalUpdate]:
    """The kept updates of the next round, by client; none if its settings are others, or they are not this round's."""
    unfinished = store.unfinished_round()
    try:
        if unfinished is None:
            return {}
        kept = checked(Note, unfinished.note)
        if kept["history"] != list(history):
            return {}
        return {
            int(number): _unfinished_update(store, unfinished, int(number), note, state, built)
            for number, note in kept["clients"].items()
        }
    except (SessionUnreadable, ValueError, IndexError) as fault:
        store.warn(f"The finished clients of round {state.round + 1} are trained again: {fault}")
        return {}


def _unfinished_update(
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
    """What the client's next uplink looks like: that after one step of each phase. None: a plugin fails there."""
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
