"""GoogLeNet (Szegedy et al. 2015) and MobileNetV2 (Sandler et al. 2018): torchvision's, without auxiliary heads.

The networks were made for 224 pixels and divide the side by 32. So by default, images of up to 64 pixels per side
keep their resolution in the first two halvings. Feature vectors are pooled to K = 512 (FedL2G §4.1).
"""

from torch import Tensor, nn

from simulator.models.network import Network
from simulator.models.pooling import to_width
from simulator.models.registry import ImageShape, register
from simulator.models.resnet import FEATURES


class GoogLeNet(Network):
    """Stages end before the second pooling, and after inception 3b, 4e, and 5b. Dropout 0.2 precedes the head."""

    layers = ("stage1", "stage2", "stage3", "stage4", "features")
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
            first = _first(shape, 64, small)
            nn.init.trunc_normal_(first.weight, std=0.01, a=-2, b=2)
            self.trunk.get_submodule("conv1").conv = first
        self.dropout = body.dropout
        self.head = nn.Linear(FEATURES, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        shown: dict[str, Tensor] = {}
        for name, module in self.trunk.named_children():
            x = module(x)
            if name in self.ends:
                shown[self.layers[len(shown)]] = x
        return shown | {"features": to_width(self.dropout(x.mean((2, 3))), self.num_features)}


class MobileNetV2(Network):
    """Stages end after the last block of 24, 32, and 96 channels, and after the last convolution.

    Dropout 0.2 follows.
    """

    layers = ("stage1", "stage2", "stage3", "stage4", "features")
    ends = (3, 6, 13, 18)

    def __init__(self, shape: ImageShape, num_classes: int) -> None:
        super().__init__()
        from torchvision.models import MobileNetV2 as Published

        small = shape.full_resolution
        #        expansion, channels, blocks, stride
        table = [
            [1, 16, 1, 1],
            [6, 24, 2, 1 if small else 2],
            [6, 32, 3, 2],
            [6, 64, 4, 2],
            [6, 96, 3, 1],
            [6, 160, 3, 2],
            [6, 320, 1, 1],
        ]
        body = Published(inverted_residual_setting=table)
        self.trunk = body.features
        if small or shape.channels != 3:
            first = nn.Conv2d(
                shape.channels, 32, kernel_size=3, stride=1 if small else 2, padding=1, bias=False
            )
            nn.init.kaiming_normal_(first.weight, mode="fan_out")
            self.trunk[0][0] = first
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(FEATURES, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        shown: dict[str, Tensor] = {}
        for number, module in enumerate(self.trunk):
            x = module(x)
            if number in self.ends:
                shown[self.layers[len(shown)]] = x
        return shown | {"features": to_width(self.dropout(x.mean((2, 3))), self.num_features)}


def _first(shape: ImageShape, channels: int, small: bool) -> nn.Conv2d:
    if small:
        return nn.Conv2d(shape.channels, channels, kernel_size=3, padding=1, bias=False)
    return nn.Conv2d(shape.channels, channels, kernel_size=7, stride=2, padding=3, bias=False)


register("googlenet", "GoogLeNet without auxiliary heads", 1, stems=True)(GoogLeNet)
register("mobilenet_v2", "MobileNetV2", 1, stems=True)(MobileNetV2)
