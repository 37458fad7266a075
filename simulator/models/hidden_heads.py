"""Models with a hidden layer in the head: those of HtFLlib's groups with different heads, and tiny ones."""

from simulator.models import images, tiny  # noqa: F401  # they register the models first
from simulator.models.network import HiddenHead, Network
from simulator.models.registry import Builder, get, register


def _with_hidden(builder: Builder, hidden: int) -> Builder:
    """The same network with a hidden layer of this width in its head."""

    def build(spec: object, num_classes: int) -> Network:
        network = builder(spec, num_classes)
        network.head = HiddenHead(network.num_features, [hidden], num_classes)
        return network

    return build


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
        )(_with_hidden(_model.builder, _width))
