"""ResNets (He et al. 2016) from torchvision's blocks, for any number of stages and blocks.

Parameters have torchvision's names. So a shallower network's are a subset, by name and shape, of a deeper one's with
the same stages: ResNet10 ⊂ 14 ⊂ 18 ⊂ 22 ⊂ 26 (InCo Aggregation §4.1). By default, images of up to 64 pixels per side
enter through a 3×3 convolution at full resolution. The 7×7 convolution and the pooling for 224 pixels would leave one
pixel of them at stage 4.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor, nn

from simulator.models.network import Network
from simulator.models.pooling import to_width
from simulator.models.registry import RATES, Builder, ImageShape, register

FEATURES = 512


class ResNet(Network):
    """stem → stages of residual blocks → average over the image → K features → head C.

    Stage s has width·2^{s−1} channels (times 4 for bottlenecks), and halves the side from the second on. Feature
    vectors of another width are pooled to K. `rate` is the share of every width, also of K, that is kept.
    """

    def __init__(
        self,
        shape: ImageShape,
        num_classes: int,
        block: Literal["basic", "bottleneck"],
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
        self.conv1 = (
            nn.Conv2d(shape.channels, width, kernel_size=3, padding=1, bias=False)
            if small
            else nn.Conv2d(shape.channels, width, kernel_size=7, stride=2, padding=3, bias=False)
        )
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        channels = width
        for number, count in enumerate(blocks):
            stage, channels = _stage(block, count, channels, widths[number], stride=2 if number else 1)
            self.add_module(f"layer{number + 1}", stage)
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
        last = self.get_submodule(f"layer{len(self.layers) - 1}")[-1]  # type: ignore[index]
        # If features are pooled from more or fewer channels, a channel has no columns of the head to itself.
        return {} if _channels(last) == self.num_features else None

    def stages(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(
                f"layer{number}.{name}.weight"
                for name, module in self.get_submodule(f"layer{number}").named_modules()
                if isinstance(module, nn.Conv2d)
            )
            for number in range(1, len(self.layers))
        )


def _stage(
    kind: Literal["basic", "bottleneck"], count: int, channels: int, width: int, stride: int
) -> tuple[nn.Sequential, int]:
    """`count` residual blocks, the first with the stride, and the number of output channels."""
    from torchvision.models.resnet import BasicBlock, Bottleneck  # takes seconds, so only if needed

    block = BasicBlock if kind == "basic" else Bottleneck
    out = width * block.expansion
    shortcut = None
    if stride != 1 or channels != out:
        shortcut = nn.Sequential(
            nn.Conv2d(channels, out, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(out)
        )
    first = block(channels, width, stride, shortcut)
    return nn.Sequential(first, *(block(out, width) for _ in range(count - 1))), out


def _channels(block: nn.Module) -> int:
    """The output channels of a residual block: those of its last norm."""
    return [module for module in block.children() if isinstance(module, nn.BatchNorm2d)][-1].num_features


def _resnet(block: Literal["basic", "bottleneck"], *blocks: int, rate: float = 1.0) -> Builder:
    return lambda shape, num_classes: ResNet(shape, num_classes, block, blocks, rate=rate)


def _narrow(*blocks: int) -> Builder:
    """A quarter of the width and a sixteenth of the work: two cores train it in minutes."""
    return lambda shape, num_classes: ResNet(shape, num_classes, "basic", blocks, width=16, features=128)


def _tiny(*blocks: int, rate: float = 1.0) -> Builder:
    """Like its large relatives, at a sixteenth of their width: for tests."""
    return lambda shape, num_classes: ResNet(
        shape, num_classes, "basic", blocks, width=4, features=8, rate=rate
    )


register("resnet4", "ResNet4: one basic block in one stage", 1, stems=True)(_resnet("basic", 1))
register("resnet6", "ResNet6: one basic block in each of two stages", 1, stems=True)(_resnet("basic", 1, 1))
register("resnet8", "ResNet8: one basic block in each of three stages", 1, stems=True)(
    _resnet("basic", 1, 1, 1)
)
register("resnet10", "ResNet10: basic blocks 1, 1, 1, 1", 1, stems=True)(_resnet("basic", 1, 1, 1, 1))
register("resnet14", "ResNet14: basic blocks 1, 1, 2, 2", 1, stems=True)(_resnet("basic", 1, 1, 2, 2))
register("resnet18", "ResNet18: basic blocks 2, 2, 2, 2", 1, stems=True)(_resnet("basic", 2, 2, 2, 2))
register("resnet22", "ResNet22: basic blocks 2, 2, 3, 3", 1, stems=True)(_resnet("basic", 2, 2, 3, 3))
register("resnet26", "ResNet26: basic blocks 3, 3, 3, 3", 1, stems=True)(_resnet("basic", 3, 3, 3, 3))
register("resnet34", "ResNet34: basic blocks 3, 4, 6, 3", 1, stems=True)(_resnet("basic", 3, 4, 6, 3))
register("resnet50", "ResNet50: bottlenecks 3, 4, 6, 3", 1, stems=True)(_resnet("bottleneck", 3, 4, 6, 3))
register("resnet101", "ResNet101: bottlenecks 3, 4, 23, 3", 1, stems=True)(_resnet("bottleneck", 3, 4, 23, 3))
register("resnet152", "ResNet152: bottlenecks 3, 8, 36, 3", 1, stems=True)(_resnet("bottleneck", 3, 8, 36, 3))
register("narrow_resnet10", "ResNet10 at a quarter of the width", 1, stems=True)(_narrow(1, 1, 1, 1))
register("narrow_resnet14", "ResNet14 at a quarter of the width", 1, stems=True)(_narrow(1, 1, 2, 2))
register("narrow_resnet18", "ResNet18 at a quarter of the width", 1, stems=True)(_narrow(2, 2, 2, 2))
register("narrow_resnet22", "ResNet22 at a quarter of the width", 1, stems=True)(_narrow(2, 2, 3, 3))
register("narrow_resnet26", "ResNet26 at a quarter of the width", 1, stems=True)(_narrow(3, 3, 3, 3))
register("tiny_resnet6", "basic blocks 1, 1 of 4 and 8 channels", 1, stems=True)(_tiny(1, 1))
register("tiny_resnet10", "basic blocks 2, 2 of 4 and 8 channels", 1, stems=True)(_tiny(2, 2))
for _name, _rate in RATES.items():
    register(f"resnet18_{_name}", f"ResNet18 at {_rate} of the width", 1, stems=True)(
        _resnet("basic", 2, 2, 2, 2, rate=float(_rate))
    )
for _name, _rate in list(RATES.items())[:2]:
    register(f"tiny_resnet10_{_name}", f"basic blocks 2, 2 at {_rate} of the width", 1, stems=True)(
        _tiny(2, 2, rate=float(_rate))
    )
