"""A session's checkpoints as its rounds go on: an object for every state that changed, then the manifest.

Clients that are as they began have no object, except in a session of format 1, whose manifests name everybody. A record
is made fit to be written: JSON has no NaN, and a line has a largest size.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, cast

import checkpoints
from checkpoints import Manifest, ObjectRef, Store, TooLarge, canonical, limits
from simulator.base.documents import Dispatched, Entry, Initial
from simulator.base.errors import ConfigError
from simulator.base.record import Record
from simulator.base.tensors import on_host
from simulator.engine.client_states import Beginning, Loader, State
from simulator.sessions.states import Stored, digest, name_of, noted


class Commits:
    """Writes the checkpoints of one run."""

    def __init__(self, store: Store, round: int) -> None:
        self.round = round
        """The round of the last checkpoint."""
        self._store = store
        self._refs: dict[str, ObjectRef] = {}
        self._initial: tuple[Beginning, Initial] | None = None

    def restored(self, manifest: Manifest) -> None:
        """Go on from a checkpoint, whose objects are the states'."""
        self.round, self._refs = manifest.round, dict(manifest.states)

    def taken_over(self) -> None:
        """Another method may keep other things beside every model."""
        self._refs = {}

    def put(
        self, state: State
    ) -> tuple[dict[str, ObjectRef], dict[str, ObjectRef], Initial | None, dict[str, Dispatched] | None]:
        """The objects of a state and of uplinks in flight, what clients without one begin with, and the uplinks' note.

        Of clients' states that are not in memory, one at a time is. Raises DiskError.
        """
        store, clients = self._store, state.clients
        everybody = store.session.document["format"] == 1
        refs = {"server": store.put(on_host(state.server))}
        for client in range(len(clients)) if everybody else clients.begun():
            name = name_of(client)
            stays = name in self._refs and client not in clients.changed
            refs[name] = self._refs[name] if stays else store.put(on_host(clients[client]))
        flying, notes = dict[str, ObjectRef](), dict[str, Dispatched]()
        for each in state.in_flight:
            client = each.update.client.id
            parts = {"state": each.update.tensors, "uplink": each.update.uplink, "received": each.received}
            for part, tensors in parts.items():
                flying[f"{name_of(client)}/{part}"] = store.put(on_host(tensors))
            note = cast(Dispatched, {**noted(each.update), "dispatch": each.dispatch})
            if each.flight is not None:
                note["flight"], note["down"] = each.flight.facts(), each.down
            notes[str(client)] = note
        beginning = clients.beginning
        if len(refs) > len(clients):  # the server has one, too: nobody is as they began
            return refs, flying, None, notes or None
        if self._initial is None or self._initial[0] is not beginning:
            initial: Initial = {**beginning.facts(), "sha256": digest(beginning.federation, beginning.seed)}
            self._initial = beginning, initial
        return refs, flying, self._initial[1], notes or None

    def commit(self, state: State, history: list[Entry], applied: Sequence[str]) -> State:
        """Make a checkpoint, and let go of what it holds: the same state comes back. Raises DiskError, TooLarge."""
        record = state.record
        assert record is not None
        began = time.perf_counter()
        refs, flying, initial, note = self.put(state)
        if self._store.round != state.round:  # the ledger has no line of it yet
            record["timing"]["checkpoint"] = time.perf_counter() - began
        self._store.commit(state.round, {**refs, **flying}, record, history, list(applied), initial, note)
        self._store.event("checkpoint", round=state.round)
        written: dict[int, Loader] = {
            client: Stored(self._store.session, state.round, refs[name_of(client)], state.clients.beginning)
            for client in state.clients.begun()
            if client in state.clients.changed or refs[name_of(client)] != self._refs.get(name_of(client))
        }
        self._refs, self.round = refs, state.round
        return replace(state, clients=state.clients.written(written))


def too_large(fault: TooLarge, record: Record, session: Path | None) -> ConfigError:
    """The refusal of a round that could not be read back, with what to change. session: that of the rounds before."""
    raw = canonical(record)
    if len(raw) < limits.RECORD and limits.values(raw) <= limits.RECORD_VALUES:
        remedies = {
            "A state": "Use a method or models (federation.group) that keep less.",
            "ledger.jsonl": "Start a new session with evaluation.metrics_for=changed, or a larger cka.every.",
        }
        return ConfigError(f"{fault} {remedies.get(fault.what, 'Use fewer federation.clients.')}")
    sizes = {part: len(canonical(value)) for part, value in record.items()}
    largest = max(sizes, key=sizes.__getitem__)
    return ConfigError(
        f"{fault} Its largest part is {largest} ({sizes[largest]:,} bytes). "
        f"{_remedy(largest, record, session)}"
    )


def _remedy(part: str, record: Record, session: Path | None) -> str:
    """What makes a part of a record smaller."""
    if part == "method_metrics":
        return "Let the method's aggregate() return fewer metrics."
    if part == "cka":
        settings = ["cka.every=0"]
    elif part == "evaluation" and any("classes" in each for each in record["evaluation"].values()):
        settings = ["evaluation.classes=false"]
    elif "clients" in record:  # it only names those that changed
        return "Start a new session with a smaller federation.participation."
    else:
        settings = ["evaluation.metrics_for=changed", "evaluation.initial=skip"]
    if session is None:
        return f"Use {' and '.join(f'`{each}`' for each in settings)}."
    name = checkpoints.name_of(session)
    given = " ".join(f"--set {each}" for each in settings)
    return f"Run `htfl-sim switch {name} {given}`, then `htfl-sim resume {name}`."


def finite(value: Any, where: str = "") -> tuple[Any, dict[str, float]]:
    """The value with null for every number that is not finite, and those numbers by their place, as 'loss.mean'."""
    match value:
        case float() if not isfinite(value):
            return None, {where: value}
        case list() if set(map(type, value)) == {int}:  # one look at each, since there may be thousands
            return value, {}
        case dict():
            parts = {
                key: finite(each, f"{where}.{key}" if where else str(key)) for key, each in value.items()
            }
            whole: Any = {key: part for key, (part, _) in parts.items()}
            lost = [each for _, each in parts.values()]
        case list() | tuple():
            items = [finite(each, f"{where}[{number}]") for number, each in enumerate(value)]
            whole, lost = [item for item, _ in items], [each for _, each in items]
        case _:
            return value, {}
    return whole, {place: number for each in lost for place, number in each.items()}


def with_finite_record(state: State) -> tuple[State, dict[str, float]]:
    """The state with such a record, and what it lost."""
    record, lost = finite(state.record)
    return (replace(state, record=record), lost) if lost else (state, lost)
