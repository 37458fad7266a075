"""Weight sharing by hand: models in which every number is the same, and clients that 'train' to a given one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from simulator import methods
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, floating
from simulator.engine.builder import Built
from simulator.engine.client_states import State
from simulator.methods import Method, Uplink
from simulator.methods.fedavg import FedAvg
from simulator.models.federation import ClientInfo, Federation
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.trainer import TrainingContext
from tests import federations


def method(
    name: str,
    architectures: Sequence[str],
    samples: Sequence[int] | None = None,
    training: TrainingConfig | None = None,
    **options: object,
) -> Any:
    """That method over clients of these architectures and sample counts."""
    return of(name, federations.federation(architectures, samples, training=training), **options)


def of(name: str, federation: Federation, **options: object) -> Any:
    """That method over this federation."""
    return methods.get(name)(federations.config(name, method=options).method, federation)


class Working(NamedTuple):
    """A client of a tiny federation in a round, which has received what the server has to send before any uplink."""

    parts: Built
    method: Any
    state: State
    local: LocalClient


def working(
    name: str, client: int = 0, round: int = 1, *, receives: bool = True, options: Any = None, **sections: Any
) -> Working:
    """See `Working`. `options` are the method's."""
    parts = federations.built(federations.config(name, method=options or {}, **sections))
    state = parts.engine.initial_state()
    local = federations.local(parts, client, state.clients[client], round)
    if receives:
        parts.method.receive(local, parts.method.downlink(round, state.server, local.info))
    return Working(parts, parts.method, state, local)


def filled(tensors: Mapping[str, Tensor], value: float) -> Tensors:
    """The same names and shapes with `value` in every floating-point entry, on the CPU."""
    return {
        name: torch.full(tensor.shape, value, dtype=tensor.dtype)
        if tensor.is_floating_point()
        else torch.zeros(tensor.shape, dtype=tensor.dtype)
        for name, tensor in tensors.items()
    }


def start(method: FedAvg, client: int) -> Tensors:
    """A client's state before round 1, its model all zeros."""
    info = method.federation.clients[client]
    model = filled(method.federation.architecture_of(info).state_dict(), 0.0)
    return {f"model/{name}": tensor for name, tensor in model.items()} | method.init_client(info)


def at_work(method: FedAvg, client: int, tensors: Mapping[str, Tensor], round: int = 1) -> LocalClient:
    """The client, with as many blank images as it has samples."""
    federation = method.federation
    info = federation.clients[client]
    shape = federation.spec
    images = torch.zeros(info.samples, shape.height, shape.width, shape.channels)
    everyone = [torch.arange(info.samples if k == client else 0) for k in range(len(federation.clients))]
    data = federations.pixels(images, torch.zeros(info.samples, dtype=torch.int64), everyone, 2)
    return LocalClient(TrainingContext(federation, data, FlopCache()), info, round, tensors)


def trained_to(
    method: FedAvg, client: int, server: Mapping[str, Tensor], tensors: Mapping[str, Tensor], value: float
) -> tuple[Tensors, Uplink]:
    """The client's new state and its uplink when training has left `value` in all of its model."""
    info = method.federation.clients[client]
    local = at_work(method, client, tensors)
    method.receive(local, method.downlink(1, server, info))
    with torch.no_grad():
        for tensor in floating(local.nets.model.state_dict()).values():
            tensor.fill_(value)
    uplink = method.uplink(local)
    return local.tensors(), Uplink(info, uplink)


def weights(federation: Federation, client: ClientInfo) -> set[str]:
    """Names of the client's parameters: what is trained, without running statistics."""
    return {name for name, _ in federation.architecture_of(client).named_parameters()}


def sent(method: Method, client: int, weight: float = 1.0, **payload: Any) -> Uplink:
    """A client's uplink of these tensors or lists. Labels and counts are int32; `head__bias` stands for head/bias."""
    whole = {name: torch.int32 if name in WHOLE else None for name in payload}
    tensors = {k.replace("__", "/"): torch.as_tensor(each, dtype=whole[k]) for k, each in payload.items()}
    return Uplink(method.federation.clients[client], tensors, weight)


WHOLE = ("labels", "counts")


def wide(*rows: Sequence[float], width: int = 8) -> Tensor:
    """Vectors of tiny models' features, of which only the first numbers are not zero."""
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows])
