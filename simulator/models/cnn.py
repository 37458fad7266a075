"""CNN-1 … CNN-5, the five CNNs of FedLoRA Table 1, FedGH Table 2 and FedSSA Table 4; FedL2G's 4-layer CNN; and CNN-1
at HeteroFL's widths."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.models.network import Network
from simulator.models.registry import RATES, Builder, ImageShape, register

FEATURES = 500  # K: the papers fix the width of FC2 so that all heads have the same shape


class CNN(Network):
    """conv 5×5 16 → ReLU → maxpool 2 → conv 5×5 F₂ → ReLU → maxpool 2 → FC1 → ReLU → FC2 500 → ReLU → FC3 C.

    No padding. Representations are taken after the ReLU (and the pooling, for the convolutions).
    """

    layers = ("conv1", "conv2", "fc1", "fc2")

    def __init__(
        self, shape: ImageShape, num_classes: int, filters: int, fc1: int, rate: float = 1.0
    ) -> None:
        super().__init__()
        first, second, hidden, features = (math.ceil(full * rate) for full in (16, filters, fc1, FEATURES))
        self.rate = rate
        self.pooled = _pooled(shape.height) * _pooled(shape.width)
        self.conv1 = nn.Conv2d(shape.channels, first, kernel_size=5)
        self.conv2 = nn.Conv2d(first, second, kernel_size=5)
        self.fc1 = nn.Linear(second * self.pooled, hidden)
        self.fc2 = nn.Linear(hidden, features)
        self.head = nn.Linear(features, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        # ReLU after the pooling gives the same values with a quarter of the work.
        conv1 = F.relu(F.max_pool2d(self.conv1(x), 2))
        conv2 = F.relu(F.max_pool2d(self.conv2(conv1), 2))
        fc1 = F.relu(self.fc1(torch.flatten(conv2, 1)))
        fc2 = F.relu(self.fc2(fc1))
        return {"conv1": conv1, "conv2": conv2, "fc1": fc1, "fc2": fc2}

    def flattened(self) -> Mapping[str, int]:
        return {"fc1.weight": self.pooled}


class FourLayerCNN(Network):
    """conv 5×5 32 → ReLU → maxpool 2 → conv 5×5 64 → ReLU → maxpool 2 → FC1 512 → ReLU → FC2 C (McMahan et al. 2017).

    No padding, as in the CNNs above; K = 512 is the width that FedL2G §4.1 gives every model.
    """

    layers = ("conv1", "conv2", "fc1")

    def __init__(self, shape: ImageShape, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape.channels, 32, kernel_size=5)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=5)
        self.fc1 = nn.Linear(64 * _pooled(shape.height) * _pooled(shape.width), 512)
        self.head = nn.Linear(512, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        conv1 = F.relu(F.max_pool2d(self.conv1(x), 2))
        conv2 = F.relu(F.max_pool2d(self.conv2(conv1), 2))
        fc1 = F.relu(self.fc1(torch.flatten(conv2, 1)))
        return {"conv1": conv1, "conv2": conv2, "fc1": fc1}


def _pooled(side: int) -> int:
    """The side of a feature map after two rounds of 5×5 convolution and pooling."""
    return ((side - 4) // 2 - 4) // 2


def _cnn(filters: int, fc1: int, rate: float = 1.0) -> Builder:
    return lambda shape, num_classes: CNN(shape, num_classes, filters, fc1, rate)


for _number, (_filters, _fc1) in enumerate(
    [(32, 2000), (16, 2000), (32, 1000), (32, 800), (32, 500)], start=1
):
    register(f"cnn{_number}", f"CNN-{_number}: two convolutions (16, {_filters}), FC {_fc1}, FC 500", 16)(
        _cnn(_filters, _fc1)
    )
for _name, _rate in RATES.items():
    register(f"cnn1_{_name}", f"CNN-1 at {_rate} of the width", 16)(_cnn(32, 2000, float(_rate)))
register("cnn_4layer", "4-layer CNN: two convolutions (32, 64), FC 512", 16)(FourLayerCNN)
