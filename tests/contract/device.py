"""What every built-in method promises besides: its rounds stay on the device. An imitated device finds out."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from simulator import contract
from simulator.base.tensors import Tensors, WayOff
from simulator.contract import Broken, Promise, Subject
from simulator.contract.promises import bits
from simulator.data.datasets import data_folder
from simulator.engine.builder import build
from simulator.engine.client_states import State
from simulator.engine.progress import unobserved
from simulator.engine.round import Engine
from tests.contract.imitation import CUDA, OnDevice, imitated_device

PINNED = 2**16
"""Bytes through which a checkpoint's tensors pass: some need several portions."""
STEPS = 2
"""Training steps of each client on the imitated device: the first makes what the second finds."""


def _stays(subject: Subject) -> None:
    before = subject.first
    config = subject.config(
        federation={"participation": 1.0},
        training={"precision": "float32", "epochs": None, "steps": STEPS},
        runtime={"runner": "sequential"},
    )
    parts = build(config, data_folder(None))
    with imitated_device() as device:
        federation = replace(parts.federation, device=CUDA)
        data = replace(
            parts.data,
            inputs=parts.data.inputs.to(CUDA),
            labels=parts.data.labels.to(CUDA),
            public=parts.data.public and parts.data.public.to(CUDA),
            clients=tuple(
                replace(each, train=each.train.to(CUDA), eval=each.eval.to(CUDA), test=each.test.to(CUDA))
                for each in parts.data.clients
            ),
        )
        method, sent = type(parts.method)(parts.method.config, federation), list[Tensors]()
        method.downlink = _noting(method.downlink, sent)  # type: ignore[method-assign]
        method.uplink = _noting(method.uplink, sent)  # type: ignore[method-assign]
        engine = Engine(config, federation, data, method)
        start = engine.initial_state()
        clients = {client: _moved(tensors) for client, tensors in enumerate(before.clients)}
        start = replace(before, server=_moved(before.server), clients=start.clients.after(clients))
        end = engine.round(start, unobserved)
        off = WayOff(torch.cuda.Stream(CUDA), torch.empty(PINNED, dtype=torch.uint8, pin_memory=True))
        saved = [off(tensors) for tensors in _parts(end)]  # as a checkpoint does
        if device.faults:
            raise Broken("; ".join(map(str, device.faults)))
        for tensors in [*_parts(end), *sent]:
            for name, tensor in tensors.items():
                if tensor.device != CUDA:
                    raise Broken(f"'{name}' is on the host after round 2")
    for number, (tensors, copied) in enumerate(zip(_parts(end), saved, strict=True)):
        if bits(_values(tensors)) != bits(copied):
            whose = f"client {number - 1}" if number else "the server"
            raise Broken(f"a checkpoint has other tensors of {whose}")


STAYS = Promise("a whole round stays on its device, and no training step waits for the device", _stays)
PROMISES = [*contract.PROMISES, STAYS]


def _parts(state: State) -> list[Tensors]:
    return [state.server, *state.clients]


def _values(tensors: Tensors) -> Tensors:
    """The values of tensors on the imitated device, where no operation reads them."""
    return {name: tensor.held for name, tensor in tensors.items() if isinstance(tensor, OnDevice)}


def _moved(tensors: Mapping[str, Tensor]) -> Tensors:
    return {name: tensor.to(CUDA) for name, tensor in tensors.items()}


def _noting(hook: Callable[..., Tensors], sent: list[Tensors]) -> Callable[..., Tensors]:
    """The hook, which also adds its payloads to `sent`."""

    def noted(*given: Any) -> Tensors:
        sent.append(hook(*given))
        return sent[-1]

    return noted
