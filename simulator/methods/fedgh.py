"""FedGH: Yi et al., "FedGH: Heterogeneous Federated Learning with Generalized Global Header", MM 2023, Algorithm 1.

Server state: `head/weight` [C, K], the global header θ. It carries no bias, as the traffic the paper prints shows
(Table 3); each client's bias stays its own. Client state: none beside the model.
"""

from collections.abc import Collection, Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from simulator.federation import ClientInfo
from simulator.methods import needs
from simulator.methods.base import Aggregated, Card, Method, Uplink
from simulator.methods.registry import register
from simulator.sections import MethodConfig
from simulator.tensors import Tensors
from simulator.training.client import LocalClient


class FedGHConfig(MethodConfig):
    """Hyper-parameters of FedGH, §5.1."""

    eta_theta: float = Field(0.01, gt=0, description="η_θ, learning rate of the global header")
    server_epochs: int = Field(1, ge=1, description="passes over the received representations")


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

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        theta = server["head/weight"].clone().requires_grad_()
        losses = []
        for _ in range(self.config.server_epochs):
            for _, payload in uplinks:  # eq. 4, one step for each participant in turn
                loss = F.cross_entropy(F.linear(payload["features"], theta), payload["labels"].long())
                (gradient,) = torch.autograd.grad(loss, theta)
                with torch.no_grad():
                    theta -= self.config.eta_theta * gradient
                losses.append(loss.detach())
        return Aggregated({"head/weight": theta.detach()}, {"server_loss": float(torch.stack(losses).mean())})
