"""Models with a hidden layer in the head: those of HtFLlib's groups with different heads, and tiny ones."""

from simulator.models import convnets, resnet, tiny  # noqa: F401  # they register the models first
from simulator.models.heads import HiddenHead
from simulator.models.network import Network
from simulator.models.registry import Builder, get, register


def _with_hidden(builder: Builder, hidden: int) -> Builder:
    """The same network with a hidden layer of this width in its head."""

    def build(spec: object, num_classes: int) -> Network:
        network = builder(spec, num_classes)
        network.head = HiddenHead(network.num_features, [hidden], num_classes)
        return network

    return build


def _register(name: str, *widths: int) -> None:
    """Register a model again for each width of a hidden layer: resnet34 gives resnet34_h256, for example."""
    model = get(name)
    for width in widths:
        title = f"{model.title}; hidden layer of {width} in the head"
        register(f"{name}_h{width}", title, model.smallest_side, stems=model.stems, kind=model.kinds)(
            _with_hidden(model.builder, width)
        )


_register("googlenet", 512)
_register("mobilenet_v2", 256)
_register("resnet18", 128)
_register("resnet34", 512, 256, 128)
_register("resnet50", 512)
_register("resnet101", 256)
_register("resnet152", 128)
_register("tiny_cnn", 6)
_register("tiny_mlp", 4)
