"""Values for comparison bit for bit: tensors, states, records, sessions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simulator.base.record import Record
from simulator.engine.client_states import State
from simulator.sessions.reader import CheckedReader

Bits = dict[str, tuple[str, tuple[int, ...], bytes]]


def bits(tensors: Mapping[str, Tensor]) -> Bits:
    """Names, dtypes, shapes, and bytes, so that two states compare bit for bit, NaN or not."""
    return {
        name: (
            str(tensor.dtype),
            tuple(tensor.shape),
            tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
        for name, tensor in tensors.items()
    }


def state_bits(state: State) -> dict[str, Any]:
    """Every tensor of the server and the clients, bit for bit."""
    return {"server": bits(state.server), "clients": [bits(tensors) for tensors in state.clients]}


def untimed(record: Record | None) -> dict[str, Any]:
    """A ledger record without the part that may differ between equal runs."""
    return {key: value for key, value in (record or {}).items() if key != "timing"}


def committed(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A session's ledger without timing, and the object hash of every state after its last checkpoint."""
    session = CheckedReader(folder)
    states = {name: ref.sha256 for name, ref in session.manifest().states.items()}
    return [untimed(record) for record in session.records()], states
