"""What a round starts from: the state of the server, and of the clients that are asked for.

A client that never took part is drawn anew from its keyed streams. What a round changed is in memory until a checkpoint
holds it, and is read from there after that. A cache of bounded size keeps what was asked for last.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from simulator.base import rng
from simulator.base.documents import Draws
from simulator.base.record import Flight, Record
from simulator.base.tensors import Tensors, named, of_module, on_device, total_bytes
from simulator.methods.hooks import Hooks
from simulator.metrics import by_client
from simulator.models.federation import ClientInfo, Federation
from simulator.runners.base import LocalUpdate
from simulator.selection import History, history

Loader = Callable[[int], Tensors]
"""Makes or reads a client's state when it is asked for: the same tensors every time, on any thread."""

MODEL = "model/"
"""How the names of the client's own model begin; the others are those of what the method keeps beside it."""


def initial_model(federation: Federation, client: int, seed: int) -> Tensors:
    """The model that a client begins with, on the CPU, from its stream under this seed."""
    stream = rng.torch_stream(seed, "client/model", client=client)
    return named("model", of_module(federation.build(federation.clients[client].architecture, stream)))


@dataclass(frozen=True, eq=False)
class Beginning:
    """How clients begin: each with a model of its own, and with what the method keeps beside it."""

    federation: Federation
    hooks: Hooks
    seed: int
    """Of the models. A fork under another seed keeps those that its parent began with."""

    def __call__(self, client: int) -> Tensors:
        """The state of a client before it first takes part."""
        drawn = initial_model(self.federation, client, self.seed)
        return on_device(drawn, self.federation.device) | self.beside(client)

    def beside(self, client: int) -> Tensors:
        """What the method keeps beside the client's model, before it first takes part."""
        begun = self.hooks.init_client(self.federation.clients[client])
        return on_device(begun, self.federation.device)

    def shape_of(self, client: int) -> Tensors:
        """A state of the names, shapes and dtypes that the client's states have; the model has no values."""
        model = self.federation.architecture_of(self.federation.clients[client])
        return named("model", of_module(model)) | self.beside(client)

    def facts(self) -> Draws:
        """What the draws follow from, besides the federation itself, as plain JSON values."""
        return {
            "models": self.seed,
            "beside": self.federation.seed_of_draws(initial=True),
            "method": self.hooks.method.config.model_dump(mode="json"),
        }


@dataclass(frozen=True)
class TakenOver:
    """A state that another method left: the client's model stays, beside it stands what this method begins with."""

    before: Loader
    beginning: Beginning

    def __call__(self, client: int) -> Tensors:
        return models_of(self.before(client)) | self.beginning.beside(client)


class StateCache:
    """The states that were asked for last, one of a client, up to a number of bytes. Any thread may ask."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._guard = threading.Lock()
        self._kept: OrderedDict[int, tuple[Loader, Tensors]] = OrderedDict()
        self._bytes = 0

    def get(self, loader: Loader, client: int) -> Tensors:
        """What the loader gives for the client, loaded unless it is kept."""
        with self._guard:
            if client in self._kept and self._kept[client][0] == loader:
                self._kept.move_to_end(client)
                return self._kept[client][1]
        # Not under the guard: others go on meanwhile. Two that ask for the same get equal tensors.
        tensors = loader(client)
        self.put(loader, client, tensors)
        return tensors

    def put(self, loader: Loader, client: int, tensors: Tensors) -> None:
        """Keep what the loader would give, in place of what was kept of the client."""
        size = total_bytes(tensors)
        with self._guard:
            self._drop(client)
            if size <= self.size:
                self._kept[client] = loader, tensors
                self._bytes += size
            while self._bytes > self.size:
                self._drop(next(iter(self._kept)))

    def forget(self, clients: Iterable[int]) -> None:
        """Let go of what is kept of these clients: they have new states."""
        with self._guard:
            for client in clients:
                self._drop(client)

    def _drop(self, client: int) -> None:
        if client in self._kept:
            self._bytes -= total_bytes(self._kept.pop(client)[1])


@dataclass(frozen=True, eq=False)
class ClientStates:
    """The state of every client, by its number. It never changes: a round makes another."""

    beginning: Beginning
    cache: StateCache
    changed: Mapping[int, Tensors] = field(default_factory=dict)
    """The states that no checkpoint holds yet, in memory."""
    kept: Mapping[int, Loader] = field(default_factory=dict)
    """Where those of other clients come from that are no longer as they began."""

    def __len__(self) -> int:
        return len(self.beginning.federation.clients)

    def __iter__(self) -> Iterator[Tensors]:
        return (self[client] for client in range(len(self)))

    def __getitem__(self, client: int) -> Tensors:
        if not 0 <= client < len(self):
            raise IndexError(f"there is no client {client}")
        if client in self.changed:
            return self.changed[client]
        return self.cache.get(self.kept.get(client, self.beginning), client)

    def begun(self) -> list[int]:
        """The clients that are no longer as they began, ascending."""
        return sorted(self.changed.keys() | self.kept.keys())

    def after(self, updates: Mapping[int, Tensors]) -> "ClientStates":
        """The states after a round that gave some clients new ones."""
        self.cache.forget(updates)
        others = {client: loader for client, loader in self.kept.items() if client not in updates}
        return ClientStates(self.beginning, self.cache, {**self.changed, **updates}, others)

    def written(self, loaders: Mapping[int, Loader]) -> "ClientStates":
        """The same states, of which a checkpoint holds these now: they are let go, and read when they are asked for."""
        for client, loader in loaders.items():
            if client in self.changed:
                self.cache.put(loader, client, self.changed[client])
        rest = {client: tensors for client, tensors in self.changed.items() if client not in loaders}
        return ClientStates(self.beginning, self.cache, rest, {**self.kept, **loaders})

    def taken_over(self, beginning: Beginning) -> "ClientStates":
        """The same models, with what another method begins with beside them."""
        changed = {
            client: models_of(tensors) | beginning.beside(client) for client, tensors in self.changed.items()
        }
        kept = {client: TakenOver(loader, beginning) for client, loader in self.kept.items()}
        return ClientStates(beginning, self.cache, changed, kept)


@dataclass(frozen=True)
class InFlight:
    """A client's update whose uplink the server has not received."""

    update: LocalUpdate
    dispatch: int
    """The number that keys its random draws."""
    received: Mapping[str, Tensor]
    """What the client was sent, if the wire adds noise, or a stale uplink counts as a difference from it."""
    flight: Flight | None = None
    """Its times on the clock, if there is one."""
    down: int = 0
    """Bytes that the client was sent."""

    @property
    def client(self) -> ClientInfo:
        return self.update.client


@dataclass(frozen=True)
class Known:
    """What the records up to a round say of the clients. It has no other source, so a resumed run knows the same."""

    trained: frozenset[int] = frozenset()
    """The clients that have the state they trained in a round (`by_client.arrived`)."""
    standing: Mapping[str, Any] | None = None
    """The last figures of every client (`by_client.standing`); None before round 1."""
    history: History = field(default_factory=dict)
    """What the server knows of the clients' earlier rounds."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Known":
        """What these records say, from round 1 on."""
        known = cls()
        for record in records:
            known = known.after(record)
        return known

    def after(self, record: Record) -> "Known":
        """The same after one more record."""
        return Known(
            self.trained.union(by_client.arrived(record)),
            by_client.standing([record], self.standing),
            history.after(self.history, record),
        )


@dataclass(frozen=True)
class State:
    """Everything a round starts from: the server's and every client's tensors, uplinks in flight, and the records."""

    round: int
    server: Tensors
    clients: ClientStates
    record: Record | None
    before: Known = field(default_factory=Known)
    """What the records before the last one say."""
    in_flight: Sequence[InFlight] = ()
    """Updates that arrive in a later round, in client order. Synchronous training has none."""

    @cached_property
    def known(self) -> Known:
        """What all records say, the last one as it is written."""
        return self.before if self.record is None else self.before.after(self.record)


def models_of(tensors: Mapping[str, Tensor]) -> Tensors:
    """Of a client's state its own model, under the names it has there."""
    return {name: tensor for name, tensor in tensors.items() if name.startswith(MODEL)}
