"""The training loop: one phase, on a client or on the server, a step at a time."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from simulator.base.errors import RAISED, HtflError, a_type, is_of_memory
from simulator.base.rng import drawing_from
from simulator.base.tensors import named, part
from simulator.training import optimizer
from simulator.training.phase import Batch, LossParts, Nets, Phase, computed
from simulator.training.trainer import Trainer


class StepFailed(Exception):
    """A step of a phase raised an error, which is the cause of this one."""

    def __init__(self, phase: str, step: int, error: BaseException) -> None:
        super().__init__(f"phase '{phase}', step {step}: {type(error).__name__}: {error}")
        self.phase = phase
        self.step = step


class Step(NamedTuple):
    """A finished step: its loss and the loss's terms, still on the device, and the batch size."""

    loss: Tensor
    terms: Mapping[str, Tensor]
    size: int


def steps(trainer: Trainer, phase: Phase) -> Iterator[Step]:
    """Train the phase's modules in place, one step per `next`. It never waits for the device. Raises StepFailed."""
    freeze_all_but(trainer.nets, phase.trains)
    take = _PlainStep(trainer, phase)
    for number, batch in enumerate(trainer.batches(phase), start=1):
        flops = trainer.flops
        try:
            loss, terms, sums = take(batch)
        except HtflError:
            raise
        except RAISED as error:
            if is_of_memory(error):
                raise
            raise StepFailed(phase.name, number, error) from error
        trainer.step_flops.append(trainer.flops - flops)
        if number > phase.collect_after:
            for name, value in sums.items():
                before = trainer.collected.get(name)
                trainer.collected[name] = value if before is None else before + value
        yield Step(loss, terms, len(batch.y))
    take.keep()


class _PlainStep:
    """A step of a phase, from a batch to updated weights. It reads no value, as a captured graph could replace it."""

    def __init__(self, trainer: Trainer, phase: Phase) -> None:
        settings = trainer.federation.training
        self._trainer, self._phase = trainer, phase
        self._parameters = [
            (f"{name}.{key}", parameter)
            for name in phase.trains
            for key, parameter in trainer.nets[name].named_parameters()
        ]
        self._lr = phase.lr or trainer.lr
        self._clip = settings.clip if phase.optimizer is None else None
        self._optimizer = optimizer.make(phase.optimizer, self._parameters, settings, self._lr)
        if phase.keeps is not None:
            optimizer.restore(self._optimizer, self._parameters, part(trainer.state, phase.keeps))

        def weight(name: str) -> Tensor:  # of the name `module/parameter`
            return trainer.nets.get_parameter(name.replace("/", ".", 1))

        self._corrected = [weight(name) for name in phase.correction]
        self._corrections = list(phase.correction.values())
        self._within = [(weight(name), *ends) for name, ends in phase.within.items()]
        self._annealing = len(phase.batches) if phase.anneals and phase.batches is not None else 0
        self._taken = 0
        self._stream = trainer.stream(f"draws/{phase.name}", trainer.federation.device)
        self._layers_draw = drawing_from(self._stream)
        self._directs = True
        """Whether layers' draws are directed to the stream.

        Watching every function call takes a twentieth of a small step. So it ends after a phase's first step if no
        called function can draw. On a CPU, the generator is watched as well, and later draws are rejected.
        """

    def __call__(self, batch: Batch) -> LossParts:
        """Take the step. Returns its loss, terms, and sums, detached from the graph."""
        phase, trainer = self._phase, self._trainer
        self._optimizer.zero_grad()
        with trainer.step(phase.name, len(batch.y)):
            with self._layers_draw if self._directs else nullcontext():
                draws = phase.draws(self._stream, batch) if phase.draws else {}
                with trainer.precise():
                    loss, terms, sums = computed(
                        phase.loss, trainer.nets, phase.state, batch, draws, trainer.class_weights
                    )
            if not isinstance(loss, Tensor):
                raise TypeError(f"the loss is {a_type(loss)}, not a tensor")
            if loss.dim() or not loss.requires_grad:
                what = "does not depend on the trained modules"
                what = f"has the shape {list(loss.shape)}" if loss.dim() else what
                raise ValueError(
                    f"the loss {what}; it must be a scalar that depends on the modules of the phase"
                )
            loss.backward()
        if self._clip is not None:
            torch.nn.utils.clip_grad_norm_((parameter for _, parameter in self._parameters), self._clip)
        if self._annealing:
            self._optimizer.lr = self._lr * (1 + math.cos(math.pi * self._taken / self._annealing)) / 2
            self._taken += 1
        self._optimizer.step()
        if self._corrected:
            with torch.no_grad():
                torch._foreach_add_(self._corrected, self._corrections, alpha=-self._lr)
        for weight, low, high in self._within:
            weight.detach().clamp_(low, high)
        self._directs = self._layers_draw.needed or trainer.federation.device.type != "cpu"
        parts = ({name: each.detach() for name, each in of.items()} for of in (terms, sums))
        return LossParts(loss.detach(), *parts)

    def keep(self) -> None:
        """Save the optimizer's moments into the trainer's state if the phase keeps them."""
        if (kept := self._phase.keeps) is not None:
            moments = named(kept, optimizer.kept(self._optimizer, self._parameters))
            self._trainer.state = self._trainer.state | moments


def freeze_all_but(nets: Nets, trained: Iterable[str]) -> None:
    """Freeze all other modules: their weights and statistics stay, but gradients pass through them."""
    for name, module in nets.named_children():
        module.train(name in trained).requires_grad_(name in trained)
