"""FedGH: Yi et al., "FedGH: Heterogeneous Federated Learning with Generalized Global Header", MM 2023, Algorithm 1.

Server state: `head/weight` [C, K], the global header θ. It carries no bias, as the traffic the paper prints shows
(Table 3); each client's bias stays its own. Client state: none beside the model.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.federation import ClientInfo
from simulator.methods import needs
from simulator.methods.base import Card, Method, Uplink
from simulator.methods.registry import register
from simulator.sections import MethodConfig
from simulator.tensors import Tensors
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase
from simulator.training.server import CentralServer


class FedGHConfig(MethodConfig):
    """Hyper-parameters of FedGH, §5.1."""

    eta_theta: float = Field(0.01, gt=0, description="η_θ, learning rate of the global header")
    server_epochs: int = Field(1, ge=1, description="passes over the received representations")
    server_step: Literal["pair", "client"] = Field(
        "pair",
        description="what one step of the server's is of: a pair (representation, class), eq. 4, or a client's",
    )


@register("fedgh")
class FedGH(Method):
    """The server trains one header on the clients' class-averaged representations; every client uses it."""

    card = Card(
        title="FedGH",
        paper="Yi et al. 2023, MM",
        kind="representations",
        needs="the same head on every client",
        down="head",
        up="class-mean features, labels",
    )
    Config = FedGHConfig
    config: FedGHConfig

    def unmet_need(self) -> str | None:
        return needs.same_head(self.federation)

    def init_server(self) -> Tensors:
        return {"head/weight": self.federation.shared_head().weight.detach()}

    def adopts(self) -> Collection[str]:
        return ("head",)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return {"head/weight": server["head/weight"]}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            local.nets.model.head.weight.copy_(payload["head/weight"])  # eq. 5

    def uplink(self, local: LocalClient) -> Tensors:
        representations, labels = local.class_means()  # LARs, eq. 3
        return {"features": representations, "labels": labels}

    def server_networks(self) -> Mapping[str, nn.Module]:
        head = self.federation.architecture_of(self.federation.clients[0]).head
        return {"head": nn.Linear(head.in_features, head.out_features, bias=False)}

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """Eq. 4: θ ← θ − η_θ ∇ℓ(θ(R̄_k^s), s) for each participant k and each of its classes s in turn."""
        steps = [Batch(payload["features"], payload["labels"].long()) for _, payload in uplinks]
        if self.config.server_step == "pair":
            steps = [
                Batch(*pair) for step in steps for pair in zip(step.x.split(1), step.y.split(1), strict=True)
            ]
        return [
            Phase(
                "server",
                self.server_loss,
                trains=("head",),
                lr=self.config.eta_theta,
                optimizer="sgd",
                batches=steps * self.config.server_epochs,
            )
        ]

    def server_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """ℓ(θ(R̄), y) on representations R̄ [B, K] in place of images."""
        return F.cross_entropy(nets["head"](batch.x), batch.y)
