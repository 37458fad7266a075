"""The local update of one client: receive, train each phase, upload. And how its model answers when evaluated."""

import contextlib
from collections.abc import Iterable, Mapping
from itertools import chain

import torch
from torch import Tensor, nn

from simulator.federation import ClientInfo
from simulator.methods.base import Method
from simulator.rng import drawing_from
from simulator.runners.base import LocalUpdate
from simulator.sections import TrainingConfig
from simulator.training.client import LocalClient
from simulator.training.context import TrainingContext
from simulator.training.phase import Nets, Phase


def update(
    method: Method,
    context: TrainingContext,
    info: ClientInfo,
    round: int,
    tensors: Mapping[str, Tensor],
    payload: Mapping[str, Tensor],
) -> LocalUpdate:
    """Client k's part of round t, from its state and the downlink's payload to its new state and its uplink."""
    settings = context.federation.training
    local = LocalClient(context, info, round, tensors)
    method.receive(local, payload)
    losses = {phase.name: _train(local, phase, settings) for phase in method.phases(local)}
    uplink = method.uplink(local)
    kept = local.tensors()
    sound = [tensor.isfinite().all() for tensor in (*kept.values(), *uplink.values())]
    return LocalUpdate(
        client=info,
        tensors=kept,
        uplink=uplink,
        # The host looks at values here, after the last step, and nowhere before.
        losses={name: float(loss) for name, loss in losses.items()},
        finite=bool(torch.stack(sound).all()),
        flops=local.flops,
    )


def evaluate(
    method: Method,
    context: TrainingContext,
    info: ClientInfo,
    round: int,
    tensors: Mapping[str, Tensor],
    payload: Mapping[str, Tensor] | None,
    batch_size: int,
) -> tuple[int, int]:
    """Correct answers and samples on the client's test split, after `payload`, if any, has been received."""
    local = LocalClient(context, info, round, tensors)
    if payload is not None:
        method.receive(local, payload)
    local.nets.eval()
    test = context.data.clients[info.id].test
    correct = torch.zeros((), dtype=torch.int64, device=test.device)
    with torch.no_grad():
        for indices in test.split(batch_size):
            x, y = context.data.batch(indices)
            correct += (method.predict(local.nets, local.state, x).argmax(1) == y).sum()
    return int(correct), len(test)


def _train(local: LocalClient, phase: Phase, settings: TrainingConfig) -> Tensor:
    """Train the phase's modules in place; the mean loss over all its steps, still on the device."""
    _freeze_all_but(local.nets, phase.trains)
    trained = list(chain.from_iterable(local.nets[name].parameters() for name in phase.trains))
    lr = phase.lr or settings.lr
    optimizer = _optimizer(trained, settings, lr)
    corrected: list[Tensor] = [
        local.nets.get_parameter(name.replace("/", ".", 1)) for name in phase.correction
    ]
    corrections = list(phase.correction.values())
    draws = drawing_from(local.stream(f"draws/{phase.name}", local.federation.device))
    losses = torch.zeros((), device=local.federation.device)
    for batch in local.batches(phase):
        optimizer.zero_grad(set_to_none=True)
        with local.step(phase.name, len(batch.y)):
            with draws:
                loss = phase.loss(local.nets, phase.state, batch)
            loss.backward()
        optimizer.step()
        if corrected:
            with torch.no_grad():
                torch._foreach_add_(corrected, corrections, alpha=-lr)
        losses += loss.detach() * len(batch.y)
    return losses / (local.epochs(phase) * len(local.samples(phase)))


def _freeze_all_but(nets: Nets, trained: Iterable[str]) -> None:
    """Frozen modules neither move nor update their statistics, but gradients pass through them."""
    for name, module in nets.named_children():
        module.train(name in trained).requires_grad_(name in trained)


def _optimizer(parameters: list[nn.Parameter], settings: TrainingConfig, lr: float) -> torch.optim.Optimizer:
    match settings.optimizer:
        case "sgd":
            return torch.optim.SGD(
                parameters, lr, momentum=settings.momentum, weight_decay=settings.weight_decay, fused=True
            )
        case "adam":
            return torch.optim.Adam(parameters, lr, weight_decay=settings.weight_decay, fused=True)


def device_stream(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """A stream of its own for this thread's work on a CUDA device; nothing on a CPU."""
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else contextlib.nullcontext()
