"""The smallest networks with everything that a method may need: for tests and first steps."""

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.data.specs import InputSpec, Kind
from simulator.models.network import Network
from simulator.models.registry import ImageShape, register

FEATURES = 8
KINDS: tuple[Kind, ...] = ("image", "signal", "table")


class TinyCNN(Network):
    """conv 3×3 4 → ReLU → adaptive maxpool 2 → FC1 12 → ReLU → FC2 8 → ReLU → head C."""

    layers = ("conv1", "fc1", "fc2")

    def __init__(self, shape: ImageShape, num_classes: int, rate: float = 1.0) -> None:
        super().__init__()
        channels, hidden, features = (math.ceil(full * rate) for full in (4, 12, FEATURES))
        self.rate = rate
        self.conv1 = nn.Conv2d(shape.channels, channels, kernel_size=3)
        self.fc1 = nn.Linear(4 * channels, hidden)
        self.fc2 = nn.Linear(hidden, features)
        self.head = nn.Linear(features, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        conv1 = F.adaptive_max_pool2d(F.relu(self.conv1(x)), 2)
        fc1 = F.relu(self.fc1(torch.flatten(conv1, 1)))
        fc2 = F.relu(self.fc2(fc1))
        return {"conv1": conv1, "fc1": fc1, "fc2": fc2}

    def flattened(self) -> Mapping[str, int]:
        return {"fc1.weight": 4}


class TinyMLP(Network):
    """FC1 12 → BatchNorm → ReLU → dropout 0.1 → FC2 8 → ReLU → head C: statistics and draws in a few lines.

    It takes images, signals, and table rows. A deep one has another FC 12 after FC1, and nests with the other.
    """

    layers = ("fc1", "fc2")

    def __init__(self, spec: InputSpec, num_classes: int, rate: float = 1.0, deep: bool = False) -> None:
        super().__init__()
        hidden, features = math.ceil(12 * rate), math.ceil(FEATURES * rate)
        self.rate = rate
        self.fc1 = nn.Linear(math.prod(spec.shape), hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.dropout = nn.Dropout(0.1)
        self.between = nn.Linear(hidden, hidden) if deep else None
        self.fc2 = nn.Linear(hidden, features)
        self.head = nn.Linear(features, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        fc1 = self.dropout(F.relu(self.norm(self.fc1(torch.flatten(x, 1)))))
        deeper = fc1 if self.between is None else F.relu(self.between(fc1))
        fc2 = F.relu(self.fc2(deeper))
        return {"fc1": fc1, "fc2": fc2}

    def flattened(self) -> Mapping[str, int]:
        return {}


register("tiny_cnn", "one convolution, FC 12, FC 8", 3)(TinyCNN)
register("tiny_cnn_w2", "one convolution, FC 12, FC 8, at 1/2 of the width", 3)(partial(TinyCNN, rate=1 / 2))
register("tiny_mlp", "FC 12 with BatchNorm and dropout, FC 8", kind=KINDS)(TinyMLP)
register("tiny_mlp2", "FC 12 with BatchNorm and dropout, FC 12, FC 8", kind=KINDS)(
    partial(TinyMLP, deep=True)
)
register("tiny_mlp_w2", "FC 12 with BatchNorm and dropout, FC 8, at 1/2 of the width", kind=KINDS)(
    partial(TinyMLP, rate=1 / 2)
)
