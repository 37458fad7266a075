"""Perceptrons of tables, and of flattened signals and images: HtFLlib's groups of MLPs, with K = 100."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.data.specs import InputSpec, Kind
from simulator.models.network import Network
from simulator.models.registry import Builder, register

FEATURES = 100
KINDS: tuple[Kind, ...] = ("table", "signal", "image")


class MLP(Network):
    """hidden layers → FC 100 → head C, with a ReLU after each."""

    def __init__(self, spec: InputSpec, num_classes: int, hidden: Sequence[int]) -> None:
        super().__init__()
        widths = (math.prod(spec.shape), *hidden, FEATURES)
        self.hidden = nn.ModuleList(nn.Linear(given, made) for given, made in pairwise(widths))
        self.head = nn.Linear(FEATURES, num_classes)
        self.layers = tuple(f"fc{number + 1}" for number in range(len(self.hidden)))

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        x = torch.flatten(x, 1)
        shown = {}
        for name, layer in zip(self.layers, self.hidden, strict=True):
            shown[name] = x = F.relu(layer(x))
        return shown

    def flattened(self) -> Mapping[str, int]:
        return {}


def _mlp(*hidden: int) -> Builder:
    return lambda spec, num_classes: MLP(spec, num_classes, hidden)


for _hidden in ((), (200,), (500,), (1000, 500), (1000, 500, 200)):
    register(
        "_".join(map(str, ("mlp", *_hidden))),
        f"fully connected layers of {', '.join(map(str, (*_hidden, FEATURES)))}",
        kind=KINDS,
    )(_mlp(*_hidden))
