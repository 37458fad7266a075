"""What a method takes over at a switch from the one before it."""

from collections.abc import Iterable, Mapping

import torch

from simulator.base.tensors import Tensors
from simulator.methods.hooks import Hooks
from simulator.models.federation import ClientInfo


def keeps_the_same(
    hooks: Hooks, server: Tensors, before: Hooks, left: Tensors, clients: Iterable[ClientInfo]
) -> bool:
    """Whether server and clients keep the same tensors, by name and shape, as with the settings before."""
    return _shapes(server) == _shapes(left) and all(
        _shapes(hooks.init_client(client)) == _shapes(before.init_client(client)) for client in clients
    )


def adoption(server: Tensors, adopted: Tensors) -> str:
    """What a method's server took over at a switch, in words."""
    taken = dict.fromkeys(name.split("/")[0] for name in adopted)
    missing = [name for name in server if name not in adopted]
    # Of a part taken over in part, what is missing by its full name: head/bias.
    fresh = dict.fromkeys(name if name.split("/")[0] in taken else name.split("/")[0] for name in missing)
    said = [f"takes over {', '.join(taken)}"] * bool(taken) + [f"starts {', '.join(fresh)} afresh"] * bool(
        fresh
    )
    return " and ".join(said) or "has nothing to take over"


def _shapes(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
