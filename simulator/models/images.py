"""Networks of images: the CNNs of the papers, ResNets, GoogLeNet, MobileNetV2, and the smallest ones for tests.

ResNets (He et al. 2016) are torchvision's blocks, for any number of stages and blocks, with torchvision's names of
parameters. So a shallower network's are a subset, by name and shape, of a deeper one's with the same stages:
ResNet10 ⊂ 14 ⊂ 18 ⊂ 22 ⊂ 26 (InCo Aggregation §4.1). GoogLeNet (Szegedy et al. 2015) and MobileNetV2 (Sandler et al.
2018) are torchvision's, without auxiliary heads.

They were made for 224 pixels. By default, images of up to 64 pixels per side enter a ResNet through a 3×3 convolution
at full resolution, because the 7×7 convolution and the pooling would leave one pixel of them at stage 4. In the others,
they keep their resolution in the first two halvings. Feature vectors are pooled to K = 512 (FedL2G §4.1).
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.data.specs import InputSpec
from simulator.models.network import HiddenHead, Network, to_width
from simulator.models.registry import RATES, Builder, ImageShape, get, register

FEATURES = 512
CNN_FEATURES = 500
"""K: the papers fix the width of FC2 so that all heads have the same shape."""
TINY_FEATURES = 8
Block = Literal["basic", "bottleneck"]
"""torchvision's residual blocks."""


class CNN(Network):
    """conv 5×5 16 → ReLU → maxpool 2 → conv 5×5 F₂ → ReLU → maxpool 2 → FC1 → ReLU → FC2 500 → ReLU → FC3 C.

    The five CNNs of FedLoRA Table 1, FedGH Table 2, and FedSSA Table 4, also at HeteroFL's widths.
    No padding. Representations are taken after the ReLU (and the pooling, for the convolutions).
    """

    layers = ("conv1", "conv2", "fc1", "fc2")

    def __init__(
        self, shape: ImageShape, num_classes: int, filters: int, fc1: int, rate: float = 1.0
    ) -> None:
        super().__init__()
        first, second, hidden, features = (
            math.ceil(full * rate) for full in (16, filters, fc1, CNN_FEATURES)
        )
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
    """conv 5×5 32 → ReLU → maxpool 2 → conv 5×5 64 → ReLU → maxpool 2 → FC1 512 → ReLU → FC2 C (McMahan 2017)."""

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


class ResNet(Network):
    """stem → stages of residual blocks → average over the image → K features → head C.

    Stage s has width·2^{s−1} channels (times 4 for bottlenecks), and halves the side from the second on. Feature
    vectors of another width are pooled to K. `rate` is the share of every width, also of K, that is kept.
    """

    def __init__(
        self,
        shape: ImageShape,
        num_classes: int,
        block: Block,
        blocks: Sequence[int],
        width: int = 64,
        features: int = FEATURES,
        rate: float = 1.0,
    ) -> None:
        super().__init__()
        widths = [math.ceil(width * 2**number * rate) for number in range(len(blocks))]
        width, features = widths[0], math.ceil(features * rate)
        self.rate = rate
        small = shape.full_resolution
        self.conv1 = _stem(shape.channels, width, small)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        from torchvision.models.resnet import BasicBlock, Bottleneck  # takes seconds, so only if needed

        made = BasicBlock if block == "basic" else Bottleneck
        channels = width
        for number, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            stride, out, shortcut = 2 if number else 1, width * made.expansion, None
            if stride != 1 or channels != out:
                narrow = nn.Conv2d(channels, out, kernel_size=1, stride=stride, bias=False)
                shortcut = nn.Sequential(narrow, nn.BatchNorm2d(out))
            first = made(channels, width, stride, shortcut)
            stage = nn.Sequential(first, *(made(out, width) for _ in range(count - 1)))
            self.add_module(f"layer{number + 1}", stage)
            channels = out
        self.head = nn.Linear(features, num_classes)
        self.layers = (*(f"stage{number + 1}" for number in range(len(blocks))), "features")
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        shown = {}
        for number, name in enumerate(self.layers[:-1], start=1):
            shown[name] = x = self.get_submodule(f"layer{number}")(x)
        return shown | {"features": to_width(x.mean((2, 3)), self.num_features)}

    def flattened(self) -> Mapping[str, int] | None:
        last: nn.Module = self.get_submodule(f"layer{len(self.layers) - 1}")[-1]  # type: ignore[index]
        norms = [module for module in last.children() if isinstance(module, nn.BatchNorm2d)]
        # If features are pooled from more or fewer channels, a channel has no columns of the head to itself.
        return {} if norms[-1].num_features == self.num_features else None

    def stages(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(
                f"layer{number}.{name}.weight"
                for name, module in self.get_submodule(f"layer{number}").named_modules()
                if isinstance(module, nn.Conv2d)
            )
            for number in range(1, len(self.layers))
        )


class _Trunk(Network):
    """torchvision's modules in sequence, dropout of the average over the image, and K features → head C."""

    layers = ("stage1", "stage2", "stage3", "stage4", "features")
    ends: tuple[str, ...]
    """The modules after which a stage ends."""
    trunk: nn.Sequential
    dropout: nn.Module

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        shown: dict[str, Tensor] = {}
        for name, module in self.trunk.named_children():
            x = module(x)
            if name in self.ends:
                shown[self.layers[len(shown)]] = x
        return shown | {"features": to_width(self.dropout(x.mean((2, 3))), self.num_features)}


class GoogLeNet(_Trunk):
    """Stages end before the second pooling, and after inception 3b, 4e, and 5b. Dropout 0.2 precedes the head."""

    ends = ("conv3", "inception3b", "inception4e", "inception5b")

    def __init__(self, shape: ImageShape, num_classes: int) -> None:
        super().__init__()
        from torchvision.models import GoogLeNet as Published

        body = Published(aux_logits=False, init_weights=True)
        self.trunk = nn.Sequential()
        for name, module in body.named_children():
            if name == "avgpool":  # the rest is the average over the image, dropout, and the head
                break
            self.trunk.add_module(name, module)
        small = shape.full_resolution
        if small:
            self.trunk.maxpool1 = nn.Identity()
        if small or shape.channels != 3:
            first = _stem(shape.channels, 64, small)
            nn.init.trunc_normal_(first.weight, std=0.01, a=-2, b=2)
            self.trunk.get_submodule("conv1").conv = first
        self.dropout = body.dropout
        self.head = nn.Linear(FEATURES, num_classes)


class MobileNetV2(_Trunk):
    """Stages end after the last block of 24, 32, and 96 channels, and the last convolution. Dropout 0.2 follows."""

    ends = ("3", "6", "13", "18")

    def __init__(self, shape: ImageShape, num_classes: int) -> None:
        super().__init__()
        from torchvision.models import MobileNetV2 as Published

        small = shape.full_resolution
        # Rows have expansion, channels, blocks, and stride.
        table = [
            [1, 16, 1, 1], [6, 24, 2, 1 if small else 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2],
            [6, 320, 1, 1],
        ]  # fmt: skip
        body: Any = Published(inverted_residual_setting=table)
        self.trunk = body.features
        if small or shape.channels != 3:
            stride = 1 if small else 2
            first = nn.Conv2d(shape.channels, 32, kernel_size=3, stride=stride, padding=1, bias=False)
            nn.init.kaiming_normal_(first.weight, mode="fan_out")
            body.features[0][0] = first
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(FEATURES, num_classes)


def _stem(channels: int, width: int, small: bool) -> nn.Conv2d:
    """The first convolution: 3×3 at full resolution, or 7×7 at half of it."""
    if small:
        return nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False)
    return nn.Conv2d(channels, width, kernel_size=7, stride=2, padding=3, bias=False)


class TinyCNN(Network):
    """conv 3×3 4 → ReLU → adaptive maxpool 2 → FC1 12 → ReLU → FC2 8 → ReLU → head C."""

    layers = ("conv1", "fc1", "fc2")

    def __init__(self, shape: ImageShape, num_classes: int, rate: float = 1.0) -> None:
        super().__init__()
        channels, hidden, features = (math.ceil(full * rate) for full in (4, 12, TINY_FEATURES))
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
    """FC1 12 → BatchNorm → ReLU → dropout 0.1 → FC2 8 → ReLU → head C. A deep one has another FC 12, and nests."""

    layers = ("fc1", "fc2")

    def __init__(self, spec: InputSpec, num_classes: int, rate: float = 1.0, deep: bool = False) -> None:
        super().__init__()
        hidden, features = math.ceil(12 * rate), math.ceil(TINY_FEATURES * rate)
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


for _number, (_filters, _fc1) in enumerate(
    [(32, 2000), (16, 2000), (32, 1000), (32, 800), (32, 500)], start=1
):
    register(f"cnn{_number}", f"CNN-{_number}: two convolutions (16, {_filters}), FC {_fc1}, FC 500", 16)(
        partial(CNN, filters=_filters, fc1=_fc1)
    )
for _name, _rate in RATES.items():
    register(f"cnn1_{_name}", f"CNN-1 at {_rate} of the width", 16)(
        partial(CNN, filters=32, fc1=2000, rate=float(_rate))
    )
register("cnn_4layer", "4-layer CNN: two convolutions (32, 64), FC 512", 16)(FourLayerCNN)

BASIC: dict[int, tuple[int, ...]] = {
    10: (1, 1, 1, 1), 14: (1, 1, 2, 2), 18: (2, 2, 2, 2), 22: (2, 2, 3, 3), 26: (3, 3, 3, 3), 34: (3, 4, 6, 3),
}  # fmt: skip
BOTTLENECKS: dict[int, tuple[int, ...]] = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
NARROW: dict[str, Any] = {"width": 16, "features": 128}
"""A quarter of the width and a sixteenth of the work: two cores train it in minutes."""
TINY: dict[str, Any] = {"width": 4, "features": 8}
"""A sixteenth of the width: for tests."""


def _resnet(name: str, title: str, blocks: Sequence[int], *, block: Block = "basic", **sizes: Any) -> None:
    register(name, title, stems=True)(partial(ResNet, block=block, blocks=blocks, **sizes))


for _stages, _what in ((1, "one stage"), (2, "each of two stages"), (3, "each of three stages")):
    _depth = 2 + 2 * _stages
    _resnet(f"resnet{_depth}", f"ResNet{_depth}: one basic block in {_what}", (1,) * _stages)
for _depth, _blocks in BASIC.items():
    _resnet(f"resnet{_depth}", f"ResNet{_depth}: basic blocks {', '.join(map(str, _blocks))}", _blocks)
for _depth, _blocks in BOTTLENECKS.items():
    _what = f"ResNet{_depth}: bottlenecks {', '.join(map(str, _blocks))}"
    _resnet(f"resnet{_depth}", _what, _blocks, block="bottleneck")
for _depth in (10, 14, 18, 22, 26):
    _resnet(f"narrow_resnet{_depth}", f"ResNet{_depth} at a quarter of the width", BASIC[_depth], **NARROW)
_resnet("tiny_resnet6", "basic blocks 1, 1 of 4 and 8 channels", (1, 1), **TINY)
_resnet("tiny_resnet10", "basic blocks 2, 2 of 4 and 8 channels", (2, 2), **TINY)
for _name, _rate in RATES.items():
    _resnet(f"resnet18_{_name}", f"ResNet18 at {_rate} of the width", BASIC[18], rate=float(_rate))
for _name in ("w2", "w4"):
    _rate, _what = RATES[_name], f"basic blocks 2, 2 at {RATES[_name]} of the width"
    _resnet(f"tiny_resnet10_{_name}", _what, (2, 2), rate=float(_rate), **TINY)
register("googlenet", "GoogLeNet without auxiliary heads", stems=True)(GoogLeNet)
register("mobilenet_v2", "MobileNetV2", stems=True)(MobileNetV2)
register("tiny_cnn", "one convolution, FC 12, FC 8", 3)(TinyCNN)
register("tiny_cnn_w2", "one convolution, FC 12, FC 8, at 1/2 of the width", 3)(partial(TinyCNN, rate=1 / 2))
for _name, _title, _options in (
    ("tiny_mlp", "FC 12 with BatchNorm and dropout, FC 8", {}),
    ("tiny_mlp2", "FC 12 with BatchNorm and dropout, FC 12, FC 8", {"deep": True}),
    ("tiny_mlp_w2", "FC 12 with BatchNorm and dropout, FC 8, at 1/2 of the width", {"rate": 1 / 2}),
):
    register(_name, _title, kind=("image", "signal", "table"))(partial(TinyMLP, **_options))


def _with_hidden(spec: object, num_classes: int, builder: Builder, hidden: int) -> Network:
    """The builder's network with a hidden layer of this width in its head."""
    network = builder(spec, num_classes)
    network.head = HiddenHead(network.num_features, [hidden], num_classes)
    return network


for _name, *_widths in (
    ("googlenet", 512), ("mobilenet_v2", 256), ("resnet18", 128), ("resnet34", 512, 256, 128), ("resnet50", 512),
    ("resnet101", 256), ("resnet152", 128), ("tiny_cnn", 6), ("tiny_mlp", 4),
):  # fmt: skip
    _model = get(str(_name))
    for _width in map(int, _widths):
        register(
            f"{_name}_h{_width}",  # such as resnet34_h256
            f"{_model.title}; hidden layer of {_width} in the head",
            _model.smallest_side,
            stems=_model.stems,
            kind=_model.kinds,
        )(partial(_with_hidden, builder=_model.builder, hidden=_width))
