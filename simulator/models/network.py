"""The interface of every architecture: named representations, the features before the head, and the head."""

from collections.abc import Mapping

from torch import Tensor, nn

from simulator.models.heads import Head


class Network(nn.Module):
    """A classifier as features f (output width K) ∘ head h (C classes).

    A subclass sets `head`. It lists in `layers` the names of its representations, shallow to deep; the last is the
    features.
    """

    layers: tuple[str, ...]
    head: Head
    """Reads the features. `needs.same_head` rejects all but a linear layer."""

    published = ""
    """The prefix of the published weights' names in this network's parameter names."""

    rate: float = 1.0
    """The network's width as a share of its family's full width."""

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        """Every representation of a batch x [B, …] by name, all from one forward pass."""
        raise TypeError(f"{type(self).__name__} does not say how it represents a batch")

    def features(self, x: Tensor) -> Tensor:
        """f(x): [B, K], what the head reads."""
        return self.represent(x)[self.layers[-1]]

    def forward(self, x: Tensor) -> Tensor:
        """Logits h(f(x)): [B, C]."""
        logits: Tensor = self.head(self.features(x))
        return logits

    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Names of the parameters that may learn from a shallower one, stage by stage, shallow to deep.

        InCo Aggregation (§3.2) mixes the update of a layer with that of layer 0, the first of its shape in the same
        stage. A residual network lists each stage's convolution weights, a transformer the weights of each block's two
        LayerNorms. A network without such a list is not mixed.
        """
        return ()

    def flattened(self) -> Mapping[str, int] | None:
        """How HeteroFL cuts narrower networks out of this one. A unit is a row of a weight, or an input of it.

        Lists the weights that read flattened maps, with the number of columns for each channel. None if a part of the
        rows does not form a network of these layers.
        """
        return None

    @property
    def num_features(self) -> int:
        """K, the width of the features."""
        return self.head.in_features
