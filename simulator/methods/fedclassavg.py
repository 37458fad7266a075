"""FedClassAvg: Jang et al., "FedClassAvg: Local Representation Learning for Personalized Federated Learning on
Heterogeneous Neural Networks", ICPP 2022; its contrastive term is Khosla et al., "Supervised Contrastive Learning",
2020, equation 2.

Server state: `head/weight` [C, K], `head/bias` [C], the global classifier. Client state: none beside the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import of_module
from simulator.methods import needs, register
from simulator.methods.lg_fedavg import LGFedAvg
from simulator.training.augmentation import RandomView
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy

VIEW = RandomView()


class FedClassAvgConfig(MethodConfig, space={"rho": Log(0.01, 10), "tau": Log(0.01, 1)}):
    """Hyper-parameters of FedClassAvg."""

    rho: float = Field(0.1, ge=0, description="ρ, weight of the distance to the received head")
    contrast: float = Field(
        0.0,
        ge=0,
        description="weight of the supervised contrastive term; 0 leaves it out, the authors' code has 1",
    )
    tau: float = Field(0.07, gt=0, description="τ, temperature of the contrastive term")


@register("fedclassavg")
class FedClassAvg(LGFedAvg):
    """LG-FedAvg in which local training keeps the head near the received one."""

    card = replace(LGFedAvg.card, title="FedClassAvg", paper="Jang et al. 2022, ICPP")
    config: FedClassAvgConfig

    def unmet_need(self) -> str | None:
        if self.config.contrast:
            why = "method.contrast compares two random views of each image; set it to 0"
            if (unmet := needs.kind(self.federation, "image", why)) is not None:
                return unmet
        return super().unmet_need()

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        received = {name: tensor.clone() for name, tensor in of_module(local.nets.model.head).items()}
        if not self.config.contrast:
            return [Phase("model", self.loss, state=received)]
        return [Phase("model", self.contrastive_loss, draws=two_views, state=received)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """ℓ_CE + ρ‖θ − θ̄‖², θ̄ the received head."""
        return recorded_cross_entropy(nets.model(batch.x), batch.y) + self._proximal(nets, state)

    def contrastive_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """ℓ_CE + ℓ_CL + ρ‖θ − θ̄‖² on two views of the batch. The first is classified."""
        views = torch.cat([VIEW(batch.x, draws["first"]), VIEW(batch.x, draws["second"])])
        features = nets.model.features(views)
        classified = recorded_cross_entropy(nets.model.head(features[: len(batch.y)]), batch.y)
        contrast = supervised_contrast(features, batch.y.repeat(2), self.config.tau)
        return classified + self.config.contrast * contrast + self._proximal(nets, state)

    def _proximal(self, nets: Nets, received: Mapping[str, Tensor]) -> Tensor:
        """ρ‖θ − θ̄‖² over the head's weight and bias."""
        terms = [
            (theta - received[name]).square().sum() for name, theta in nets.model.head.named_parameters()
        ]
        return self.config.rho * torch.stack(terms).sum()


def two_views(stream: torch.Generator, batch: Batch) -> Draws:
    """The random draws for two views of the batch."""
    return {"first": VIEW.drawn(stream, batch.x), "second": VIEW.drawn(stream, batch.x)}


def supervised_contrast(features: Tensor, labels: Tensor, tau: float) -> Tensor:
    """Σ_i −1/|P(i)| Σ_{p∈P(i)} log( e^{z_i·z_p/τ} / Σ_{a≠i} e^{z_i·z_a/τ} ) / n, z = f/‖f‖ (Khosla, eq. 2).

    P(i) are the other samples with i's label; every i needs at least one. Features are [n, K], labels [n].
    """
    z = F.normalize(features, dim=1)
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    similarity = (z @ z.T / tau).masked_fill(itself, -torch.inf)
    log_share = F.log_softmax(similarity, dim=1).masked_fill(itself, 0)
    positive = (labels[:, None] == labels) & ~itself
    return -((log_share * positive).sum(1) / positive.sum(1)).mean()
