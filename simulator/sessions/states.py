"""A run's state as the store keeps it: one named set of tensors for the server and one for each client."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

import checkpoints
from checkpoints import Manifest, TensorSpec
from simulator.engine import State
from simulator.tensors import Tensors


def by_name(state: State) -> dict[str, Tensors]:
    """The state's parts: 'server', 'client/0', 'client/1' …"""
    return {"server": state.server} | {f"client/{k}": tensors for k, tensors in enumerate(state.clients)}


def restore(
    session: checkpoints.SessionReader, manifest: Manifest, like: State, device: torch.device
) -> State:
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
    taught = trained(session.records()[: manifest.round])
    return State(manifest.round, loaded["server"], clients, manifest.record, taught)


def trained(records: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    """The clients that took part in one of these rounds and did not diverge in it."""
    return frozenset(
        client
        for record in records
        for client in record["participants"]
        if client not in record.get("diverged", ())
    )


def specs(tensors: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
    """What each tensor must look like when it is read back."""
    return {name: TensorSpec.of(tensor) for name, tensor in tensors.items()}
