"""The training loop: one phase, on a client or on the server, a step at a time."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from simulator.base.errors import RAISED, HtflError, a_type, is_of_memory
from simulator.base.rng import drawing_from
from simulator.base.tensors import named, part
from simulator.training import optimizer
from simulator.training.phase import Batch, LossParts, Nets, Phase, parts_of
from simulator.training.trainer import Trainer


class StepFailed(Exception):
    """A step of a phase raised an error, which is the cause of this one."""

    def __init__(self, phase: str, step: int, error: BaseException) -> None:
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
    take = _PlainStep(trainer, phase)
    for number, batch in enumerate(trainer.batches(phase), start=1):
        try:
            loss, terms, sums = take(batch)
        except HtflError:
            raise
        except RAISED as error:
            if is_of_memory(error):
                raise
            raise StepFailed(phase.name, number, error) from error
        if number > phase.collect_after:
            for name, value in sums.items():
                before = trainer.collected.get(name)
                trainer.collected[name] = value if before is None else before + value
        yield Step(loss, terms, len(batch.y))
    take.keep()


class _PlainStep:
    """A step of a phase, from a batch to moved weights, as torch is given it call by call.

    All that a step does is here, and nothing of it looks at a value: whatever computes it in another way, as a graph
    that is captured once and replayed, stands in for this.
    """

    def __init__(self, trainer: Trainer, phase: Phase) -> None:
        settings = trainer.federation.training
        self._trainer, self._phase = trainer, phase
        self._parameters = list(
            chain.from_iterable(_named_parameters(trainer.nets, name) for name in phase.trains)
        )
        self._lr = phase.lr or trainer.lr
        self._clip = settings.clip if phase.optimizer is None else None
        self._optimiser = optimizer.make(phase.optimizer, self._parameters, settings, self._lr)
        if phase.keeps is not None:
            optimizer.restore(self._optimiser, self._parameters, part(trainer.state, phase.keeps))
        self._corrected: list[Tensor] = [
            trainer.nets.get_parameter(name.replace("/", ".", 1)) for name in phase.correction
        ]
        self._corrections = list(phase.correction.values())
        self._stream = trainer.stream(f"draws/{phase.name}", trainer.federation.device)
        self._layers_draw = drawing_from(self._stream)
        self._directs = True
        """Whether layers' draws are directed to the stream.

        To look at every function that is called takes a twentieth of a small step, so a phase in whose first step
        nothing could draw goes on without. On a CPU, where whoever draws later moves a generator that is watched, and
        is refused.
        """

    def __call__(self, batch: Batch) -> LossParts:
        """Take the step; its loss, terms and sums, of which nothing can be differentiated any more."""
        phase, trainer = self._phase, self._trainer
        self._optimiser.zero_grad()
        with trainer.step(phase.name, len(batch.y)):
            with self._layers_draw if self._directs else nullcontext():
                draws = phase.draws(self._stream, batch) if phase.draws else {}
                with trainer.precise():
                    loss, terms, sums = parts_of(phase.loss(trainer.nets, phase.state, batch, draws))
            _refuse_unusable(loss)
            loss.backward()
        if self._clip is not None:
            torch.nn.utils.clip_grad_norm_((parameter for _, parameter in self._parameters), self._clip)
        self._optimiser.step()
        if self._corrected:
            with torch.no_grad():
                torch._foreach_add_(self._corrected, self._corrections, alpha=-self._lr)
        self._directs = self._layers_draw.needed or trainer.federation.device.type != "cpu"
        return LossParts(loss.detach(), _detached(terms), _detached(sums))

    def keep(self) -> None:
        """Put the optimiser's moments into the trainer's state, if the phase keeps them."""
        if (kept := self._phase.keeps) is not None:
            moments = named(kept, optimizer.kept(self._optimiser, self._parameters))
            self._trainer.state = self._trainer.state | moments


def _detached(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _refuse_unusable(loss: object) -> None:
    """Raise TypeError or ValueError for what no gradient can be taken of."""
    if not isinstance(loss, Tensor):
        raise TypeError(f"the loss is {a_type(loss)}, not a tensor")
    if loss.dim() or not loss.requires_grad:
        what = f"has the shape {list(loss.shape)}" if loss.dim() else "follows from nothing that is trained"
        raise ValueError(f"the loss {what}; it is to be a scalar of what the phase trains")


def _named_parameters(nets: Nets, name: str) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((f"{name}.{key}", parameter) for key, parameter in nets[name].named_parameters())


def freeze_all_but(nets: Nets, trained: Iterable[str]) -> None:
    """Frozen modules neither move nor update their statistics, but gradients pass through them."""
    for name, module in nets.named_children():
        module.train(name in trained).requires_grad_(name in trained)
