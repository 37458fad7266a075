"""Tensors on their way between processes, and states that an actor keeps after it has returned them.

Their exact bytes, of any dtype, are in private memory after arrival. For a state that an actor keeps, the driver sends
a name in place of the tensors. The driver alone decides what an actor keeps. An actor works on its tasks in the order
in which they were sent, so the driver knows what is there when a task begins.
"""

import hashlib
import itertools
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simulator.base.tensors import Copies, Identity, Tensors, total_bytes

PAYLOADS = 32
"""Payloads that stay in the object store because another client may receive the same. Older ones are stored again."""

Packed = list[tuple[str, str, tuple[int, ...], NDArray[np.uint8]]]
"""Name, dtype, shape, and bytes of each tensor."""


class Message(dict[str, Tensor]):
    """Named tensors, which arrive as a plain dict of contiguous CPU tensors. Ray copies their bytes once, unpickled."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[[Packed], dict[str, Tensor]], tuple[Packed]]:
        packed = [
            (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), bytes_of(tensor))
            for name, tensor in self.items()
        ]
        return opened, (packed,)


def opened(packed: Packed) -> dict[str, Tensor]:
    """The tensors of a message, in memory that torch allocated: aligned as usual, and writable."""
    tensors = {}
    for name, dtype, shape, content in packed:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        bytes_of(tensor)[...] = content
        tensors[name] = tensor
    return tensors


def bytes_of(tensor: Tensor) -> NDArray[np.uint8]:
    """The tensor's values as bytes [n]. A contiguous tensor on the CPU shares its memory."""
    flat: NDArray[np.uint8] = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return flat


class Payloads:
    """The clients' payloads in the object store, equal ones once: copies of the same tensors, or equal hashes."""

    def __init__(self, put: Callable[[Message], Any]) -> None:
        self._put = put
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        """The references, by hash."""
        self._hashes: deque[tuple[Identity, bytes]] = deque(maxlen=PAYLOADS)
        """The hashes of the latest tensors."""

    def put(self, payload: Mapping[str, Tensor] | None) -> Any:
        if payload is None:
            return None
        key = self._hash(payload)
        if key not in self._kept:
            self._kept[key] = self._put(Message(payload))
        self._kept.move_to_end(key)
        while len(self._kept) > PAYLOADS:
            self._kept.popitem(last=False)
        return self._kept[key]

    def _hash(self, payload: Mapping[str, Tensor]) -> bytes:
        originals = payload.originals if isinstance(payload, Copies) else payload
        for identity, key in self._hashes:
            if identity.matches(originals):
                return key
        digest = hashlib.sha256()
        for name, tensor in payload.items():
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
            digest.update(bytes_of(tensor).data)
        self._hashes.append((Identity(originals), digest.digest()))
        return digest.digest()


LIMIT = 2**28
"""Bytes of states that an actor keeps for a run."""


class Kept(NamedTuple):
    task: int
    client: int


class Orders(NamedTuple):
    """What an actor does with the states that it keeps: drop some, and keep those of this task of a run's driver."""

    driver: str
    task: int
    dropped: tuple[Kept, ...]


class ActorStates:
    """The states that an actor keeps, by driver."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Kept, Tensors]] = defaultdict(dict)

    def begin(self, orders: Orders) -> None:
        for name in orders.dropped:
            self._kept[orders.driver].pop(name, None)

    def found(self, driver: str, state: Mapping[str, Tensor] | Kept) -> Mapping[str, Tensor]:
        return self._kept[driver][state] if isinstance(state, Kept) else state

    def keep(self, orders: Orders, client: int, tensors: Mapping[str, Tensor]) -> Tensors:
        """Keep a new state, laid out as a transfer would lay it out, and return it."""
        # In the CPU's memory, also when the actor computes on a GPU.
        laid_out = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        self._kept[orders.driver][Kept(orders.task, client)] = laid_out
        return laid_out

    def forget(self, driver: str) -> None:
        self._kept.pop(driver, None)


@dataclass(frozen=True)
class _Place:
    """Where a client's state is kept, and its size in bytes."""

    actor: Hashable
    name: Kept
    state: Identity
    """The tensors that it has become in the driver."""
    size: int


class KnownStates:
    """The driver's view: which actor keeps which client's state. Each client's state is kept at most once."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.driver = uuid.uuid4().hex
        self._limit = limit
        self._numbers = itertools.count(1)
        self._places: OrderedDict[int, _Place] = OrderedDict()
        """By client, the latest last."""
        self._sizes: dict[Hashable, int] = defaultdict(int)
        self._dropped: dict[Hashable, list[Kept]] = defaultdict(list)

    def at(self, actor: Hashable, client: int, state: Mapping[str, Tensor]) -> Kept | None:
        place = self._places.get(client)
        return place.name if place and place.actor is actor and place.state.matches(state) else None

    def keeper(self, client: int) -> Hashable | None:
        return self._places[client].actor if client in self._places else None

    def orders(self, actor: Hashable) -> Orders:
        """What the actor is told with its next task."""
        return Orders(self.driver, next(self._numbers), tuple(self._dropped.pop(actor, ())))

    def returned(self, actor: Hashable, task: int, client: int, state: Mapping[str, Tensor]) -> None:
        """Note a state that the actor has returned and keeps, as the tensors that it has become in the driver."""
        if client in self._places:
            self._drop(client)
        self._places[client] = _Place(actor, Kept(task, client), Identity(state), total_bytes(state))
        self._sizes[actor] += self._places[client].size
        for other in [each for each, place in self._places.items() if place.actor is actor]:
            if self._sizes[actor] <= self._limit:
                break
            self._drop(other)

    def abandoned(self, actor: Hashable, task: int, clients: Iterable[int]) -> None:
        """A task whose answer nobody needs. The actor drops what it keeps of it."""
        self._dropped[actor].extend(Kept(task, client) for client in clients)

    def lost(self, actor: Hashable) -> None:
        """The actor is dead, and everything that it kept is gone."""
        for client in [each for each, place in self._places.items() if place.actor is actor]:
            del self._places[client]
        self._sizes.pop(actor, None)
        self._dropped.pop(actor, None)

    def _drop(self, client: int) -> None:
        place = self._places.pop(client)
        self._sizes[place.actor] -= place.size
        self._dropped[place.actor].append(place.name)
