"""The vocabulary of training, on clients and on the server: networks at hand, a batch, a loss, a phase."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from simulator.models import Network


class Batch(NamedTuple):
    """x: samples [B, …] as the spec has them (on the server whatever it trains on); y: labels [B], int64."""

    x: Tensor
    y: Tensor


class Nets(nn.Module):
    """The modules at hand in a round by name: on a client its `model`, and what the method adds beside it."""

    model: Network
    """The client's own model; the server has none."""

    def __init__(self, model: Network | None = None, **others: nn.Module) -> None:
        super().__init__()
        if model is not None:
            self.model = model
        for name, module in others.items():
            self[name] = module

    def __getitem__(self, name: str) -> nn.Module:
        return self.get_submodule(name)

    def __setitem__(self, name: str, module: nn.Module) -> None:
        self.add_module(name, module)


Draws = Mapping[str, Tensor]
"""What was drawn at random for one batch, by name."""


class LossParts(NamedTuple):
    """A loss with what is to be known of it besides: its value is what is trained."""

    loss: Tensor
    terms: Mapping[str, Tensor] = MappingProxyType({})
    """Scalars it is made of, means over the batch: recorded by name beside the loss."""
    sums: Mapping[str, Tensor] = MappingProxyType({})
    """Tensors to be added up over the phase's steps: the method finds them afterwards in `collected`."""


def parts_of(loss: "Tensor | LossParts") -> LossParts:
    """What a loss gave, as its parts."""
    return loss if isinstance(loss, LossParts) else LossParts(loss)


Loss = Callable[[Nets, Mapping[str, Tensor], Batch, Draws], Tensor | LossParts]
"""(nets, state, batch, draws) → scalar, or its parts. Pure: no `.item()`, no own draws, no branching on values."""

Draw = Callable[[torch.Generator, Batch], Draws]
"""(stream, batch) → what the loss needs drawn; the stream's draws are on its own device, the batch's."""


@dataclass(frozen=True)
class Phase:
    """One stretch of training. The runner owns gradients, updates and the order of the batches."""

    name: str
    loss: Loss
    trains: tuple[str, ...] = ("model",)
    """The modules whose parameters move. All others are frozen, in evaluation mode."""
    epochs: int | None = None
    """Local epochs E; the configuration's when not said."""
    lr: float | None = None
    """Learning rate; the configuration's when not said."""
    optimizer: Literal["sgd", "adam"] | None = None
    """A plain optimiser of this kind, without momentum, weight decay or clipping; the configuration's when not said."""
    keeps: str | None = None
    """The part of the state in which the optimiser's moments stay from round to round; afresh each round when not said.

    It must be there from before round 1: see `optimizer.moments`.
    """
    samples: Tensor | None = None
    """Indices of the samples to train on; all of the client's training samples when not said."""
    batches: Sequence[Batch] | None = None
    """The batches to train on as they are, in this order, once; `epochs` and `samples` then say nothing."""
    draws: Draw | None = None
    """Draws what the loss needs at random for a batch; nothing when not said."""
    state: Mapping[str, Tensor] = field(default_factory=dict)
    """Constant tensors the loss reads."""
    collect_after: int = 0
    """Steps of which the loss's `sums` are left out, at the beginning."""
    correction: Mapping[str, Tensor] = field(default_factory=dict)
    """Constant directions by `module/parameter`: after each step, whatever the optimiser, w ← w − lr · correction."""
