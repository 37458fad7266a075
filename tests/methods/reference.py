"""For the references of whole rounds: the simulator in double precision, and its draws made plainly once more.

A reference itself is written in the test, with torch alone and loops of its own. Beside these, networks in plain
operations, and one whose numbers can be followed by hand.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.tensors import part
from simulator.config import Config
from simulator.data.federated import FederatedData
from simulator.data.inputs import ImageInputs
from simulator.engine.builder import Built
from simulator.engine.progress import unobserved
from simulator.models import Network
from tests import federations

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


def descend(loss: Tensor, lr: float, *networks: Mapping[str, Tensor]) -> None:
    """w ← w − lr·∇w for the weights of these networks. All others stay, also those that the loss reaches."""
    weights = [weight for network in networks for weight in network.values()]
    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                weight -= lr * gradient


class Adam:
    """β = (.9, .999), ε = 1e-8, its moments kept as long as it is."""

    def __init__(self, weights: Mapping[str, Tensor], lr: float) -> None:
        self.weights, self.lr, self.steps = weights, lr, 0
        self.m = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        self.v = {name: torch.zeros_like(weight) for name, weight in weights.items()}

    def descend(self, loss: Tensor) -> None:
        self.steps += 1
        gradients = torch.autograd.grad(loss, [*self.weights.values()])
        for (name, weight), gradient in zip(self.weights.items(), gradients, strict=True):
            self.m[name] = 0.9 * self.m[name] + 0.1 * gradient
            self.v[name] = 0.999 * self.v[name] + 0.001 * gradient**2
            m, v = self.m[name] / (1 - 0.9**self.steps), self.v[name] / (1 - 0.999**self.steps)
            with torch.no_grad():
                weight -= self.lr * m / (v.sqrt() + 1e-8)


def assert_equal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], places: float = 1e-6) -> None:
    """The same names, and values that agree to that share of the largest."""
    assert found.keys() == expected.keys()
    for name, tensor in ((name, tensor.detach()) for name, tensor in expected.items()):
        assert found[name].dtype == torch.float64, name
        torch.testing.assert_close(
            found[name], tensor, rtol=places, atol=places * float(tensor.abs().max()), msg=name
        )


class Rounds:
    """Some rounds of a federation in double precision, and what a reference begins with."""

    def __init__(self, config: Config, rounds: int) -> None:
        with double_precision():
            self.parts = federations.built(config)
            self.end = state = self.parts.engine.initial_state()
            self.begun, self.server = list(state.clients), state.server  # drawn in this precision
            for _ in range(rounds):
                self.end = self.parts.engine.round(self.end, unobserved)
        self.data = [samples(self.parts, client) for client in range(len(self.begun))]

    @classmethod
    def of(cls, name: str, rounds: int, lr: float, **sections: Any) -> "Rounds":
        """Rounds in which three clients take part, of tiny CNNs unless said, each for two epochs in batches of 16."""
        everybody = {"clients": 3, "participation": 1.0, "group": "tiny_cnn"} | sections.pop("federation", {})
        training = {"epochs": 2, "lr": lr}
        return cls(federations.config(name, federation=everybody, training=training, **sections), rounds)

    def of_clients(self, name: str) -> list[Weights]:
        """A part of each client's first state, to be trained."""
        return [leaves(part(tensors, name)) for tensors in self.begun]

    def batches(self, phase: str, t: int, client: int, epochs: int = 2) -> Iterator[tuple[Tensor, Tensor]]:
        """The client's batches of 16 in a phase of round t."""
        x, y = self.data[client]
        for rows in orders(len(y), 16, epochs, stream(f"batches/{phase}", t, client)):
            yield x[rows], y[rows]

    def mean(self, sent: Sequence[Weights]) -> Weights:
        """The mean of what all clients sent, weighted by their samples."""
        total = sum(len(y) for _, y in self.data)
        shares = [len(y) / total for _, y in self.data]
        return {k: sum(p * w[k].detach() for p, w in zip(shares, sent, strict=True)) for k in sent[0]}

    def assert_ended(self, server: Mapping[str, Weights], clients: Mapping[str, Sequence[Weights]]) -> None:
        """The rounds ended with these parts of the server's state and of each client's."""
        for name, expected in server.items():
            assert_equal(part(self.end.server, name), expected)
        for name, of_each in clients.items():
            for tensors, expected in zip(self.end.clients, of_each, strict=True):
                assert_equal(part(tensors, name), expected)


def features(w: Weights, x: Tensor, rate: float = 1.0, upto: str = "fc2") -> Tensor:
    """TinyCNN before its head, or up to an earlier layer. What its layers make is divided by the rate."""
    h = (F.conv2d(x, w["conv1.weight"], w["conv1.bias"]) / rate).relu()
    h = F.max_pool2d(h, 3).flatten(1)
    for layer in ("fc1", "fc2")[: int(upto[-1])]:
        h = ((h @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]) / rate).relu()
    return h


def of_head(w: Weights, h: Tensor) -> Tensor:
    """The logits of w's head on features h."""
    return h @ w["head.weight"].T + w["head.bias"]


def logits(w: Weights, x: Tensor, rate: float = 1.0) -> Tensor:
    """TinyCNN."""
    return of_head(w, features(w, x, rate))


def ce(z: Tensor, y: Tensor) -> Tensor:
    """The mean cross-entropy of logits."""
    return (torch.logsumexp(z, 1) - z[range(len(y)), y]).mean()


def kl(teacher: Tensor, student: Tensor) -> Tensor:
    """KL(teacher ‖ student) of logits, mean over the batch. The teacher is constant."""
    p = teacher.detach().softmax(1)
    return (p * (p.log() - student.log_softmax(1))).sum(1).mean()


class Times(Network):
    """One feature, a multiple of the image's one pixel; logits (0, feature) or (feature, 0)."""

    layers = ("features",)

    def __init__(self, factor: float, says: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))
        self.head = nn.Linear(1, 2)
        row = torch.zeros(2, 1)
        row[says] = 1.0
        self.head.load_state_dict({"weight": row, "bias": torch.zeros(2)})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.factor * x.flatten(1)}
