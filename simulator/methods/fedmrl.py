"""FedMRL: Yi et al., "Federated Model Heterogeneous Matryoshka Representation Learning", NeurIPS 2024.

Besides its own model F (K features), a client trains a small model G (d_1 features) that all share. The client's own
projection joins their features. F's head reads all of the result, and G's head reads its first d_1 numbers.

Server state: `small/…`, the global small model. Client state: `projection/…`, Linear(d_1 + K → K), which is never sent;
`small/…`, the client's last small model, because both predict together.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.rng import drawing_from
from simulator.base.sections import MethodConfig
from simulator.base.space import Log, Space
from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods.base import (
    COUNTS_FULLY,
    MOVES_LESS,
    Aggregated,
    Card,
    Method,
    Uplink,
    toward,
    weighted_mean,
)
from simulator.methods.registry import register
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.models.pooling import to_width
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase


class FedMRLConfig(MethodConfig):
    """Hyper-parameters of FedMRL."""

    space: ClassVar[Space] = {"m_small": Log(0.1, 10), "m_large": Log(0.1, 10)}

    small: str | None = Field(
        None, description="the small model's architecture; default: the clients' smallest"
    )
    d_1: int | None = Field(
        None, ge=1, description="width to which the small model's features are pooled; default: as they are"
    )
    m_small: float = Field(1.0, ge=0, description="weight of the loss of the small model's head")
    m_large: float = Field(1.0, ge=0, description="weight of the loss of the client's own head")


@register("fedmrl")
class FedMRL(Method):
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
    Config = FedMRLConfig
    config: FedMRLConfig

    @property
    def small(self) -> str:
        """The small model's architecture."""
        return self.config.small or self.federation.smallest

    @property
    def d_1(self) -> int:
        """The width of the small model's features."""
        return self.config.d_1 or self.federation.architecture(self.small).num_features

    def trained_beside(self) -> Collection[str]:
        return (self.small,)

    def unmet_need(self) -> str | None:
        for client in self.federation.clients:
            width = self.federation.architecture_of(client).num_features
            if width < self.d_1:
                return (
                    f"needs features at least as wide as the small model's, {self.d_1} of {self.small}: {client} has "
                    f"{width}; lower method.d_1"
                )
        return None

    def init_server(self) -> Tensors:
        stream = self.federation.stream("server/small")
        network = self.federation.build(self.small, stream)
        with drawing_from(stream):
            return named("small", of_module(self._narrowed(network)))

    def init_client(self, client: ClientInfo) -> Tensors:
        with drawing_from(self.federation.stream("client/projection", client=client.id)):
            projection = named("projection", of_module(self._projection(client)))
        return projection | floating(self.init_server())

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return floating(server)

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.state = local.state | dict(payload)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        self._at_hand(local)
        return [Phase("model", self.loss, trains=("model", "small", "projection"))]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """m_small·CE(h_G(v[:d_1]), y) + m_large·CE(h_F(v), y), v = projection([G(x), F(x)])."""
        v, small = self._joined(nets, batch.x)
        of_small = F.cross_entropy(small.head(v[:, : self.d_1]), batch.y)
        of_large = F.cross_entropy(nets.model.head(v), batch.y)
        return self.config.m_small * of_small + self.config.m_large * of_large

    def uplink(self, local: LocalClient) -> Tensors:
        small = named("small", floating(of_module(local.nets["small"])))
        local.state = named("projection", of_module(local.nets["projection"])) | small
        return small

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        return Aggregated(
            dict(server)
            | {
                name: toward(server[name], weighted_mean(uplinks, name), uplinks) for name in floating(server)
            },
            {},
        )

    def before_answering(self, local: LocalClient) -> None:
        self._at_hand(local)

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        scores: Tensor = nets.model.head(self._joined(nets, x)[0])
        return scores

    def _joined(self, nets: Nets, x: Tensor) -> tuple[Tensor, Network]:
        """The projected representation v [B, K], and the small model."""
        small = nets["small"]
        assert isinstance(small, Network)
        joined = torch.cat([to_width(small.features(x), self.d_1), nets.model.features(x)], dim=1)
        return nets["projection"](joined), small

    def _at_hand(self, local: LocalClient) -> None:
        """Add the small model and the projection from the client's state to its networks."""
        with torch.device("meta"):
            small = self._narrowed(copy.deepcopy(self.federation.architecture(self.small)))
            projection = self._projection(local.info)
        local.add_network("small", small, part(local.state, "small"))
        local.add_network("projection", projection, part(local.state, "projection"))

    def _narrowed(self, network: Network) -> Network:
        """The small model with a head of d_1 inputs."""
        if network.num_features != self.d_1:
            network.head = nn.Linear(self.d_1, self.federation.num_classes)
        return network

    def _projection(self, client: ClientInfo) -> nn.Linear:
        width = self.federation.architecture_of(client).num_features
        return nn.Linear(self.d_1 + width, width)
