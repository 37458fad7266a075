"""The smallest networks with everything that a method may need: for tests and first steps."""

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.models.network import Network
from simulator.models.registry import ImageShape, register

FEATURES = 8


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
    """FC1 12 → BatchNorm → ReLU → dropout 0.1 → FC2 8 → ReLU → head C: statistics and draws in eleven lines."""

    layers = ("fc1", "fc2")

    def __init__(self, shape: ImageShape, num_classes: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(shape.channels * shape.height * shape.width, 12)
        self.norm = nn.BatchNorm1d(12)
        self.dropout = nn.Dropout(0.1)
        self.fc2 = nn.Linear(12, FEATURES)
        self.head = nn.Linear(FEATURES, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        fc1 = self.dropout(F.relu(self.norm(self.fc1(torch.flatten(x, 1)))))
        fc2 = F.relu(self.fc2(fc1))
        return {"fc1": fc1, "fc2": fc2}


register("tiny_cnn", "one convolution, FC 12, FC 8", 3)(TinyCNN)
register("tiny_cnn_w2", "one convolution, FC 12, FC 8, at 1/2 of the width", 3)(partial(TinyCNN, rate=1 / 2))
register("tiny_mlp", "FC 12 with BatchNorm and dropout, FC 8", 1)(TinyMLP)
