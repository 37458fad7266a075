"""A run's state as the store keeps it: one named set of tensors for the server and one for each client."""

from collections.abc import Mapping

import torch
from torch import Tensor

import checkpoints
from checkpoints import Manifest, TensorSpec
from simulator.engine import State
from simulator.tensors import Tensors


def by_name(state: State) -> dict[str, Tensors]:
    """The state's parts: 'server', 'client/0', 'client/1' …"""
    return {"server": state.server} | {f"client/{k}": tensors for k, tensors in enumerate(state.clients)}


def restore(session: checkpoints.SessionReader, manifest: Manifest, like: State, device: torch.device) -> State:
    """The state of a checkpoint, on the device; names, shapes and dtypes must be those of `like`.

    Raises SessionUnreadable when a state is not there, Damaged when its bytes are not what was written.
    """
    loaded = {
        name: {
            key: value.to(device) for key, value in session.load(manifest.round, name, specs(tensors)).items()
        }
        for name, tensors in by_name(like).items()
    }
    clients = tuple(loaded[f"client/{client}"] for client in range(len(like.clients)))
    return State(manifest.round, loaded["server"], clients, manifest.record)


def specs(tensors: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
    """What each tensor must look like when it is read back."""
    return {name: TensorSpec.of(tensor) for name, tensor in tensors.items()}
