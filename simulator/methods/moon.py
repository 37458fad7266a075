"""MOON: Li et al., "Model-Contrastive Federated Learning", CVPR 2021, Algorithm 1, equation 3.

Server state: `ARCHITECTURE/…`, one model w per group. Client state: the model, and `taken/part` [1], whether the client
has trained before. Until the received model replaces it, the model is the local one of the client's last round (the
paper's previous local model).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors, of_module
from simulator.methods import register
from simulator.methods.fedavg import FedAvg
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy


class MOONConfig(MethodConfig, space={"mu": Log(0.01, 10), "tau": Log(0.05, 5)}):
    """Hyper-parameters of MOON, §3.3 and §4.1."""

    mu: float = Field(1.0, ge=0, description="μ, weight of the model-contrastive loss")
    tau: float = Field(0.5, gt=0, description="τ, temperature (eq. 3)")
    first: Literal["equal", "own"] = Field(
        "equal",
        description="the previous model in a client's first round: the received one, or its own initial draw",
    )


@register("moon")
class MOON(FedAvg):
    """FedAvg in which features move towards the received model's and away from the previous local model's."""

    card = replace(FedAvg.card, title="MOON", paper="Li et al. 2021, CVPR")
    config: MOONConfig

    def init_client(self, client: ClientInfo) -> Tensors:
        own = super().init_client(client)
        return own | {"taken/part": torch.zeros(1)} if self.config.first == "equal" else own

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        architecture = self.federation.architecture_of(local.info)
        own = {name: weight.clone() for name, weight in of_module(local.nets.model).items()}
        super().receive(local, payload)
        previous = own  # w_k^{t−1}
        if self.config.first == "equal":
            there_is, received = local.state["taken/part"] > 0, of_module(local.nets.model)
            previous = {name: torch.where(there_is, own[name], received[name]) for name in own}
            local.state = local.state | {"taken/part": torch.ones_like(local.state["taken/part"])}
        local.add_network("previous", architecture, previous)
        local.add_network("global", architecture, of_module(local.nets.model))  # w^t

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [Phase("model", self.loss)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE + μ·ℓ_con, ℓ_con = log(1 + e^{b − a}), a = sim(z, z_glob)/τ, b = sim(z, z_prev)/τ (eq. 3)."""
        z = nets.model.features(batch.x)
        with torch.no_grad():  # both are frozen
            latest, previous = (nets.network(name).features(batch.x) for name in ("global", "previous"))
        near, far = F.cosine_similarity(z, latest), F.cosine_similarity(z, previous)
        contrast = F.softplus((far - near) / self.config.tau).mean()
        return recorded_cross_entropy(nets.model.head(z), batch.y) + self.config.mu * contrast
