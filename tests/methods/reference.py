"""For the references of whole rounds: the simulator in double precision, and its draws made plainly once more.

A reference itself is written in the test, with torch alone and loops of its own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor

from simulator.base.tensors import part
from simulator.data.federated import FederatedData
from simulator.data.inputs import ImageInputs
from simulator.engine.builder import Built

Weights = dict[str, Tensor]
EVERYONE = -1


@contextmanager
def double_precision() -> Iterator[None]:
    """Networks, states, and samples other than tokens are float64 if they are made in this context."""

    def batch(self: FederatedData, indices: Tensor) -> tuple[Tensor, Tensor]:
        if not isinstance(self.inputs, ImageInputs):
            x = self.inputs.batch(indices)
            return x.double() if x.is_floating_point() else x, self.labels[indices]
        x = _normalized(self, indices)
        return x.permute(0, 3, 1, 2), self.labels[indices]

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with mock.patch.object(FederatedData, "batch", batch):
            yield
    finally:
        torch.set_default_dtype(before)


def stream(purpose: str, round: int, client: int = EVERYONE, seed: int = 7) -> torch.Generator:
    """The keyed stream of that purpose: its seed is the head of a SHA-256, as docs/architecture.md has it."""
    name = f"{seed}/{purpose}/{round}/{client}".encode()
    number = int.from_bytes(hashlib.sha256(name).digest()[:8], "little")
    return torch.Generator().manual_seed(number % 2**63)


def samples(parts: Built, client: int) -> tuple[Tensor, Tensor]:
    """A client's training images, normalized, and their labels."""
    data = parts.data
    indices = data.clients[client].train
    return _normalized(data, indices).permute(0, 3, 1, 2).contiguous(), data.labels[indices]


def _normalized(data: FederatedData, indices: Tensor) -> Tensor:
    held = data.inputs
    assert isinstance(held, ImageInputs)
    return held.images[indices].double() * held.scale.double() + held.shift.double()


def orders(count: int, size: int, epochs: int, draws: torch.Generator) -> list[Tensor]:
    """Rows of every batch, epoch after epoch; a last one of a single row joins the one before it."""
    batches = []
    for _ in range(epochs):
        *others, last = torch.randperm(count, generator=draws).split(size)
        if len(last) == 1 and others:
            last = torch.cat([others.pop(), last])
        batches += [*others, last]
    return batches


def leaves(weights: Mapping[str, Tensor]) -> Weights:
    """Copies that can be trained."""
    return {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}


@torch.no_grad()
def step(weights: Sequence[Tensor], lr: float) -> None:
    """w ← w − lr·∇w, and the gradients forgotten."""
    for weight in weights:
        if weight.grad is not None:
            weight -= lr * weight.grad
        weight.grad = None


def assert_equal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], places: float = 1e-6) -> None:
    """The same names, and values that agree to that share of the largest."""
    assert found.keys() == expected.keys()
    for name, tensor in ((name, tensor.detach()) for name, tensor in expected.items()):
        assert found[name].dtype == torch.float64, name
        torch.testing.assert_close(
            found[name], tensor, rtol=places, atol=places * float(tensor.abs().max()), msg=name
        )


def server_part(tensors: Mapping[str, Tensor], name: str) -> Weights:
    """A part of a state, by the names in it."""
    return part(tensors, name)
