"""The kinds of heads: one linear layer, or several."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn


class HiddenHead(nn.Sequential):
    """K → hidden layers, each with an activation → C."""

    def __init__(
        self, features: int, hidden: Sequence[int], num_classes: int, activation: type[nn.Module] = nn.ReLU
    ) -> None:
        widths = (features, *hidden, num_classes)
        layers: list[nn.Module] = []
        for given, made in pairwise(widths):
            layers += [nn.Linear(given, made), activation()]
        super().__init__(*layers[:-1])
        self.in_features = features
        self.out_features = num_classes
        self.hidden = tuple(hidden)
        self.activation = activation

    def reading(self, features: int) -> "HiddenHead":
        """A head with the same layers for another number of features. Its weights are drawn."""
        return HiddenHead(features, self.hidden, self.out_features, self.activation)


Head = nn.Linear | HiddenHead
