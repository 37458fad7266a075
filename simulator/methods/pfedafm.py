"""pFedAFM: Yi et al., "pFedAFM: Adaptive Feature Mixture for Batch-Level Personalization in Heterogeneous Federated
Learning", arXiv 2404.17847.

Besides its own model F, a client trains a small extractor G that all share, and a vector α of its own, with one weight
for each feature. The head h of F reads α ⊙ F(x) + (1 − α) ⊙ G(x). F with α, and G, are trained in turns.

Server state: `small/…`, the global extractor. Client state: `alpha/weight` [K], α, which is never sent; `small/…`, the
extractor as last received, because α was trained with it.
"""

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn

from simulator.base.sections import Choice
from simulator.base.tensors import Tensors, named, part
from simulator.methods import MOVES_LESS, Card, register
from simulator.methods.small_model import PrivateModule, PrivateModuleConfig
from simulator.models.federation import ClientInfo
from simulator.models.network import to_width
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, own_cross_entropy, recorded_cross_entropy


class PFedAFMConfig(PrivateModuleConfig, space={"alpha": Choice((0.5, 1.0))}):
    """Hyper-parameters of pFedAFM."""

    alpha: float = Field(
        1.0, ge=0, le=1, description="α before round 1: weight of the client's own features."
    )


class Mixture(nn.Module):
    """α ⊙ own + (1 − α) ⊙ general, of features [B, K]."""

    def __init__(self, width: int, alpha: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), alpha))

    def forward(self, own: Tensor, general: Tensor) -> Tensor:
        """The mixed features [B, K]."""
        return self.weight * own + (1 - self.weight) * general


@register("pfedafm")
class PFedAFM(PrivateModule):
    """A trained vector mixes the features of a small shared extractor and of the client's own model."""

    card = Card(
        title="pFedAFM",
        paper="Yi et al. 2024",
        kind="small model",
        needs="nothing; a small extractor beside the client's own model",
        down="small extractor",
        up="small extractor",
        stale=MOVES_LESS,
    )
    config: PFedAFMConfig
    private = "alpha"

    def private_module(self, client: ClientInfo) -> Mixture:
        return Mixture(self.federation.architecture_of(client).num_features, self.config.alpha)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        self.prepare_networks(local)
        return [
            Phase(
                "model", self.model_loss, trains=("model", "alpha"), within={"alpha/weight": (0.0, 1.0)}
            ),  # G frozen
            Phase("small", self.small_loss, trains=("small",)),  # F frozen
        ]

    def model_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE(h(α ⊙ F(x) + (1 − α) ⊙ G(x)), y)."""
        return recorded_cross_entropy(self.predict(nets, state, batch.x), batch.y)

    def small_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE(h(G(x)), y)."""
        return own_cross_entropy(nets.model.head(self._general(nets, batch.x)), batch.y)

    def uplink(self, local: LocalClient) -> Tensors:
        received = named("small", part(local.state, "small"))
        sent = super().uplink(local)
        local.state = local.state | received
        return sent

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        mixed = nets["alpha"](nets.model.features(x), self._general(nets, x))
        scores: Tensor = nets.model.head(mixed)
        return scores

    def _general(self, nets: Nets, x: Tensor) -> Tensor:
        """G(x), in the width of the client's own features."""
        return to_width(nets.network("small").features(x), nets.model.num_features)
