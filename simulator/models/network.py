"""What every architecture offers: named representations, the features before the head, and the head."""

from collections.abc import Mapping

from torch import Tensor, nn


class Network(nn.Module):
    """A classifier as features f (output width K) ∘ head h (as a rule the last linear layer, C classes).

    A subclass sets `head` and lists in `layers` the names of the representations it can show, shallow to deep;
    the last of them is the features.
    """

    layers: tuple[str, ...]
    head: nn.Linear
    """A transformer's may be another module with `in_features` and `out_features`; `needs.same_head` refuses those."""

    published = ""
    """What precedes, in this network's parameter names, the names of its published weights."""

    rate: float = 1.0
    """The share of its family's full width, of a network that was made narrower."""

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
        stage. A residual network lists each stage's convolution weights, a transformer the weights of each block's
        two LayerNorms; a network that lists none leaves nothing to mix.
        """
        return ()

    def flattened(self) -> Mapping[str, int] | None:
        """How narrower networks of these layers are cut out of this one (HeteroFL): unit by unit, a unit being a row
        of a weight or an input of it. Given are the weights that read flattened maps, with the columns that belong to
        each channel; None where a part of the weights' rows is no network of these layers.
        """
        return None

    @property
    def num_features(self) -> int:
        """K, the width of the features."""
        return self.head.in_features
