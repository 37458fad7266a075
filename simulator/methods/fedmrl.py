"""FedMRL: Yi et al., "Federated Model Heterogeneous Matryoshka Representation Learning", NeurIPS 2024.

Besides its own model F (K features), a client trains a small model G (d_1 features) that all share. The client's own
projection joins their features. F's head reads all of the result, and G's head reads its first d_1 numbers.

Server state: `small/…`, the global small model. Client state: `projection/…`, Linear(d_1 + K → K), which is never sent;
`small/…`, the client's last small model, because both predict together.
"""

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn

from simulator.base.sections import Log
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Card, register
from simulator.methods.small_model import PrivateModule, PrivateModuleConfig
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.models.network import to_width
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, own_cross_entropy, recorded_cross_entropy


class FedMRLConfig(PrivateModuleConfig, space={"m_small": Log(0.1, 10), "m_large": Log(0.1, 10)}):
    """Hyper-parameters of FedMRL."""

    d_1: int | None = Field(
        None,
        ge=1,
        description="width to which the small model's features are pooled, means of even windows; default: as they are",
    )
    m_small: float = Field(1.0, ge=0, description="weight of the loss of the small model's head")
    m_large: float = Field(1.0, ge=0, description="weight of the loss of the client's own head")


@register("fedmrl")
class FedMRL(PrivateModule):
    """A small shared model and the client's own learn on nested parts of one projected representation."""

    card = Card(
        title="FedMRL",
        paper="Yi et al. 2024, NeurIPS",
        kind="small model",
        needs="features at least as wide as the small model's on every client",
        down="small model",
        up="small model",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )
    config: FedMRLConfig
    private = "projection"

    @property
    def d_1(self) -> int:
        """The width of the small model's features."""
        return self.config.d_1 or self.federation.architecture(self.small).num_features

    def unmet_need(self) -> str | None:
        for client in self.federation.clients:
            width = self.federation.architecture_of(client).num_features
            if width < self.d_1:
                return (
                    f"needs features at least as wide as the small model's, {self.d_1} of {self.small}: {client} has "
                    f"{width}; lower method.d_1"
                )
        return None

    def shaped(self, network: Network) -> Network:
        """The small model with a head of d_1 inputs."""
        if network.num_features != self.d_1:
            network.head = nn.Linear(self.d_1, self.federation.num_classes)
        return network

    def private_module(self, client: ClientInfo) -> nn.Linear:
        width = self.federation.architecture_of(client).num_features
        return nn.Linear(self.d_1 + width, width)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        self.prepare_networks(local)
        return [Phase("model", self.loss, trains=("model", "small", "projection"))]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """m_small·CE(h_G(v[:d_1]), y) + m_large·CE(h_F(v), y), v = projection([G(x), F(x)])."""
        v, small = self._joined(nets, batch.x)
        of_small = own_cross_entropy(small.head(v[:, : self.d_1]), batch.y)
        of_large = recorded_cross_entropy(nets.model.head(v), batch.y)
        return self.config.m_small * of_small + self.config.m_large * of_large

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        scores: Tensor = nets.model.head(self._joined(nets, x)[0])
        return scores

    def _joined(self, nets: Nets, x: Tensor) -> tuple[Tensor, Network]:
        """The projected representation v [B, K], and the small model."""
        small = nets.network("small")
        joined = torch.cat([to_width(small.features(x), self.d_1), nets.model.features(x)], dim=1)
        return nets["projection"](joined), small
