"""The types of training on clients and on the server: networks, a batch, a loss, and a phase."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.models import Network


class Batch(NamedTuple):
    """x: samples [B, …] in the form of the spec (on the server, whatever it trains on); y: labels [B], int64."""

    x: Tensor
    y: Tensor


class WeightedBatch(Batch):
    """A batch of the server with rows from stale uplinks. It unpacks as `x, y`."""

    weight: Tensor
    """How much each row counts [B]."""

    def __new__(cls, x: Tensor, y: Tensor, weight: Tensor) -> Self:
        batch = super().__new__(cls, x, y)
        batch.weight = weight
        return batch


class Nets(nn.Module):
    """The modules of a round by name: on a client, its `model` and those that the method adds."""

    model: Network
    """The client's own model. The server has none."""

    def __init__(self, model: Network | None = None, **others: nn.Module) -> None:
        super().__init__()
        if model is not None:
            self.model = model
        for name, module in others.items():
            self[name] = module

    def __getitem__(self, name: str) -> nn.Module:
        return self.get_submodule(name)

    def network(self, name: str) -> Network:
        """A module that is a network."""
        module = self[name]
        assert isinstance(module, Network)
        return module

    def __setitem__(self, name: str, module: nn.Module) -> None:
        self.add_module(name, module)


Draws = Mapping[str, Tensor]
"""The random draws for one batch, by name."""


class LossParts(NamedTuple):
    """A loss with additional results. Training minimizes its value."""

    loss: Tensor
    terms: Mapping[str, Tensor] = MappingProxyType({})
    """Its scalar terms, means over the batch. They are recorded by name with the loss."""
    sums: Mapping[str, Tensor] = MappingProxyType({})
    """Tensors to add up over the phase's steps. The method finds the sums in `collected`."""


def parts_of(loss: "Tensor | LossParts") -> LossParts:
    """A loss's result as a `Loss` with its parts."""
    return loss if isinstance(loss, LossParts) else LossParts(loss)


CROSS_ENTROPY = "answers/cross_entropy"
"""The term of a loss that is what `recorded_cross_entropy` computed in it."""

_recording = threading.local()


@contextmanager
def weighing(weights: Tensor | None) -> Iterator[None]:
    """A context in which `own_cross_entropy` weighs each sample by the weight of its class [C]. None: all alike."""
    before, _recording.weights = getattr(_recording, "weights", None), weights
    try:
        yield
    finally:
        _recording.weights = before


def own_cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of scores [B, C] and the client's own labels y; with class weights, Σ w_y ℓ / Σ w_y."""
    weights: Tensor | None = getattr(_recording, "weights", None)
    if weights is None:
        return F.cross_entropy(scores, y)
    of_each = weights[y]  # not torch's own weights, which clients of a stack cannot have each for themselves
    return (F.cross_entropy(scores, y, reduction="none") * of_each).sum() / of_each.sum()


def recorded_cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """`own_cross_entropy` of the client's own model, recorded as `loss.cross_entropy`.

    A loss calls it in place of torch's function. So the ledger has the same number for all methods, whatever their
    losses add to it, and whatever the weights of classes. If a loss calls it twice, the last call counts.
    """
    found = own_cross_entropy(scores, y)
    if (terms := getattr(_recording, "terms", None)) is not None:
        weighted = getattr(_recording, "weights", None) is not None
        terms[CROSS_ENTROPY] = F.cross_entropy(scores.detach(), y) if weighted else found
    return found


def computed(
    loss: "Loss",
    nets: Nets,
    state: Mapping[str, Tensor],
    batch: Batch,
    draws: Draws,
    weights: Tensor | None = None,
) -> LossParts:
    """A loss's result for a batch, with the cross-entropy that it recorded among its terms. weights: of classes."""
    recorded: dict[str, Tensor] = {}
    _recording.terms = recorded
    try:
        with weighing(weights):
            found = parts_of(loss(nets, state, batch, draws))
    finally:
        _recording.terms = None
    return found._replace(terms={**found.terms, **recorded})


Loss = Callable[[Nets, Mapping[str, Tensor], Batch, Draws], Tensor | LossParts]
"""(nets, state, batch, draws) → scalar, or its parts. Pure: no `.item()`, no own draws, no branching on values."""

Draw = Callable[[torch.Generator, Batch], Draws]
"""(stream, batch) → random draws that the loss needs. They are made on the stream's device, which is the batch's."""


@dataclass(frozen=True)
class Phase:
    """One stretch of training. The training loop controls gradients, updates, and the order of batches."""

    name: str
    loss: Loss
    trains: tuple[str, ...] = ("model",)
    """The modules that are trained. All others are frozen, in evaluation mode."""
    epochs: int | float | None = None
    """Local epochs E, in place of the configured length. None: `training.epochs` or `training.steps`."""
    steps: int | None = None
    """Number of steps, in place of epochs: as many epochs as needed, of which the last may end early."""
    lr: float | None = None
    """Learning rate. None: the configured one."""
    anneals: bool = False
    """Whether the rate falls from step to step of its `batches`: η·(1 + cos(πj/N))/2 in step j of N, from j = 0."""
    optimizer: Literal["sgd", "adam"] | None = None
    """A plain optimizer of this kind, without momentum, weight decay, or clipping. None: the configured one."""
    keeps: str | None = None
    """The part of the state that keeps the optimizer's moments between rounds. None: they start anew each round.

    It must exist before round 1: see `optimizer.moments`.
    """
    samples: Tensor | None = None
    """Indices of the samples to train on. None: all of the client's training samples."""
    batches: Sequence[Batch] | None = None
    """The batches to train on, unchanged, in this order, once. `epochs` and `samples` then have no effect."""
    draws: Draw | None = None
    """Draws the random values that the loss needs for a batch. None: no draws."""
    state: Mapping[str, Tensor] = field(default_factory=dict)
    """Constant tensors the loss reads."""
    collect_after: int = 0
    """The number of steps at the beginning that do not count for the loss's `sums`."""
    correction: Mapping[str, Tensor] = field(default_factory=dict)
    """Constant directions by `module/parameter`: after each step, whatever the optimizer, w ← w − lr · correction."""
    within: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Ranges by `module/parameter`: after each step, a number below or above them becomes their end."""
