"""The vocabulary of local training: the networks a client trains, a batch, a loss, a phase."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn

from simulator.models import Network


class Batch(NamedTuple):
    """x: images [B, channels, height, width]; y: labels [B], int64."""

    x: Tensor
    y: Tensor


class Nets(nn.Module):
    """The modules at hand in a client's round by name: its `model`, and what the method adds beside it."""

    model: Network
    """The client's own model."""

    def __init__(self, model: Network) -> None:
        super().__init__()
        self.model = model

    def __getitem__(self, name: str) -> nn.Module:
        return self.get_submodule(name)

    def __setitem__(self, name: str, module: nn.Module) -> None:
        self.add_module(name, module)


Loss = Callable[[Nets, Mapping[str, Tensor], Batch], Tensor]
"""(nets, state, batch) → scalar. Pure: no `.item()`, no draws of its own, no branching on tensor values."""


@dataclass(frozen=True)
class Phase:
    """One stretch of local training. The runner owns gradients, updates and the order of the batches."""

    name: str
    loss: Loss
    trains: tuple[str, ...] = ("model",)
    """The modules whose parameters move. All others are frozen, in evaluation mode."""
    epochs: int | None = None
    """Local epochs E; the configuration's when not said."""
    lr: float | None = None
    """Learning rate; the configuration's when not said."""
    samples: Tensor | None = None
    """Indices of the samples to train on; all of the client's training samples when not said."""
    state: Mapping[str, Tensor] = field(default_factory=dict)
    """Constant tensors the loss reads."""
    correction: Mapping[str, Tensor] = field(default_factory=dict)
    """Constant directions by `module/parameter`: after each step, whatever the optimiser, w ← w − lr · correction."""
