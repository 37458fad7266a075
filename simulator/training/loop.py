"""The training loop: one phase, on a client or on the server, a step at a time."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from simulator.errors import HtflError, is_of_memory
from simulator.rng import drawing_from
from simulator.tensors import named, part
from simulator.training import optimizer
from simulator.training.phase import Nets, Phase, parts_of
from simulator.training.trainer import Trainer


class StepFailed(Exception):
    """A step of a phase raised an error, which is the cause of this one."""

    def __init__(self, phase: str, step: int, error: Exception) -> None:
        super().__init__(f"phase '{phase}', step {step}: {type(error).__name__}: {error}")
        self.phase = phase
        self.step = step


class Step(NamedTuple):
    """A step that has been taken: its loss and the terms of it, still on the device, and the batch's size."""

    loss: Tensor
    terms: Mapping[str, Tensor]
    size: int


def steps(trainer: Trainer, phase: Phase) -> Iterator[Step]:
    """Train the phase's modules in place, a step for every call of `next`.

    The host looks at no value here, so that a device is never waited for. Raises StepFailed.
    """
    freeze_all_but(trainer.nets, phase.trains)
    parameters = list(chain.from_iterable(_named_parameters(trainer.nets, name) for name in phase.trains))
    settings = trainer.federation.training
    lr = phase.lr or trainer.lr
    clip = settings.clip if phase.optimizer is None else None
    optimiser = optimizer.make(phase.optimizer, parameters, settings, lr)
    if phase.keeps is not None:
        optimizer.restore(optimiser, parameters, part(trainer.state, phase.keeps))
    corrected: list[Tensor] = [
        trainer.nets.get_parameter(name.replace("/", ".", 1)) for name in phase.correction
    ]
    corrections = list(phase.correction.values())
    stream = trainer.stream(f"draws/{phase.name}", trainer.federation.device)
    layers_draw = drawing_from(stream)
    # To look at every function that is called takes a twentieth of a small step, so a phase in whose first step nothing
    # could draw goes on without. On a CPU, where whoever draws later moves a generator that is watched, and is refused.
    watched = trainer.federation.device.type == "cpu"
    for number, batch in enumerate(trainer.batches(phase), start=1):
        try:
            optimiser.zero_grad()
            with trainer.step(phase.name, len(batch.y)):
                with layers_draw if number == 1 or layers_draw.needed or not watched else nullcontext():
                    draws = phase.draws(stream, batch) if phase.draws else {}
                    with trainer.precise():
                        loss, terms, sums = parts_of(phase.loss(trainer.nets, phase.state, batch, draws))
                _refuse_unusable(loss)
                loss.backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_((parameter for _, parameter in parameters), clip)
            optimiser.step()
            if corrected:
                with torch.no_grad():
                    torch._foreach_add_(corrected, corrections, alpha=-lr)
        except HtflError:
            raise
        except Exception as error:
            if is_of_memory(error):
                raise
            raise StepFailed(phase.name, number, error) from error
        if number > phase.collect_after:
            for name, value in sums.items():
                before = trainer.collected.get(name)
                trainer.collected[name] = value.detach() if before is None else before + value.detach()
        yield Step(loss.detach(), {name: term.detach() for name, term in terms.items()}, len(batch.y))
    if phase.keeps is not None:
        trainer.state = trainer.state | named(phase.keeps, optimizer.kept(optimiser, parameters))


def _refuse_unusable(loss: object) -> None:
    """Raise TypeError or ValueError for what no gradient can be taken of."""
    if not isinstance(loss, Tensor):
        raise TypeError(f"the loss is a {type(loss).__name__}, not a tensor")
    if loss.dim() or not loss.requires_grad:
        what = f"has the shape {list(loss.shape)}" if loss.dim() else "follows from nothing that is trained"
        raise ValueError(f"the loss {what}; it is to be a scalar of what the phase trains")


def _named_parameters(nets: Nets, name: str) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((f"{name}.{key}", parameter) for key, parameter in nets[name].named_parameters())


def freeze_all_but(nets: Nets, trained: Iterable[str]) -> None:
    """Frozen modules neither move nor update their statistics, but gradients pass through them."""
    for name, module in nets.named_children():
        module.train(name in trained).requires_grad_(name in trained)
