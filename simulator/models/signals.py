"""Models of numbers, as in HtFLlib: perceptrons of tables and flattened signals or images, and HARCNNs of signals."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.data.specs import InputSpec, Kind, SignalSpec
from simulator.models.network import Network, to_width
from simulator.models.registry import register

MLP_FEATURES = 100
KINDS: tuple[Kind, ...] = ("table", "signal", "image")


class MLP(Network):
    """hidden layers → FC 100 → head C, with a ReLU after each."""

    def __init__(self, spec: InputSpec, num_classes: int, hidden: Sequence[int]) -> None:
        super().__init__()
        widths = (math.prod(spec.shape), *hidden, MLP_FEATURES)
        self.hidden = nn.ModuleList(nn.Linear(given, made) for given, made in pairwise(widths))
        self.head = nn.Linear(MLP_FEATURES, num_classes)
        self.layers = tuple(f"fc{number + 1}" for number in range(len(self.hidden)))

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        x = torch.flatten(x, 1)
        shown = {}
        for name, layer in zip(self.layers, self.hidden, strict=True):
            shown[name] = x = F.relu(layer(x))
        return shown

    def flattened(self) -> Mapping[str, int]:
        return {}


for _hidden in ((), (200,), (500,), (1000, 500), (1000, 500, 200)):
    register(
        "_".join(map(str, ("mlp", *_hidden))),
        f"fully connected layers of {', '.join(map(str, (*_hidden, MLP_FEATURES)))}",
        kind=KINDS,
    )(partial(MLP, hidden=_hidden))


FEATURES = 512
FILTERS = (32, 64, 128)


class HARCNN(Network):
    """Convolutions over time, each → max-pooling of 2 → ReLU; all maps pooled to K → head C."""

    def __init__(
        self,
        spec: SignalSpec,
        num_classes: int,
        filters: Sequence[int],
        kernel: int,
        stride: int,
        features: int = FEATURES,
    ) -> None:
        super().__init__()
        if spec.time < (shortest := self.shortest(len(filters), kernel, stride)):
            raise ConfigError(
                f"A HARCNN of {len(filters)} convolutions with kernel {kernel} and stride {stride} needs signals of at "
                f"least {shortest} steps. These have {spec.time}. "
                "Choose one with fewer convolutions or a smaller stride."
            )
        widths = (spec.channels, *filters)
        self.convs = nn.ModuleList(nn.Conv1d(given, made, kernel, stride) for given, made in pairwise(widths))
        self.head = nn.Linear(features, num_classes)
        self.layers = (*(f"conv{number + 1}" for number in range(len(filters))), "features")

    @staticmethod
    def shortest(convolutions: int, kernel: int, stride: int) -> int:
        """The fewest steps of which one is left after all convolutions and poolings."""
        steps = 1
        for _ in range(convolutions):
            steps = (2 * steps - 1) * stride + kernel
        return steps

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        shown = {}
        for number, conv in enumerate(self.convs, start=1):
            # ReLU after the pooling gives the same values with half of the work.
            shown[f"conv{number}"] = x = F.relu(F.max_pool1d(conv(x), 2))
        return shown | {"features": to_width(torch.flatten(x, 1), self.num_features)}


for _convolutions, _kernel, _strides in ((1, 9, (1, 2, 3)), (2, 9, (1, 2, 3)), (3, 5, (1, 2))):
    for _stride in _strides:
        register(
            f"harcnn{_convolutions}_s{_stride}",
            f"convolutions of {', '.join(map(str, FILTERS[:_convolutions]))}: kernel {_kernel}, stride {_stride}",
            kind="signal",
        )(partial(HARCNN, filters=FILTERS[:_convolutions], kernel=_kernel, stride=_stride))
_tiny = partial(HARCNN, kernel=3, stride=1, features=8)
register("tiny_harcnn1", "one convolution of 4 channels", kind="signal")(partial(_tiny, filters=(4,)))
register("tiny_harcnn2", "two convolutions of 4 and 6 channels", kind="signal")(
    partial(_tiny, filters=(4, 6))
)
