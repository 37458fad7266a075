"""FedRep: Collins et al., "Exploiting Shared Representations for Personalized Federated Learning", ICML 2021.

Server state: `ARCHITECTURE/…`, the body of one model per group: all weights but the head's. Client state: only the
model, whose head stays with the client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call

from simulator.base.sections import Choice, MethodConfig
from simulator.methods import register
from simulator.methods.fedper import FedPer
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy


class FedRepConfig(MethodConfig, space={"head_epochs": Choice((1, 5, 10))}):
    """Hyper-parameter of FedRep."""

    head_epochs: int = Field(
        10, ge=1, description="Epochs in which only the head is trained, before the body."
    )


@register("fedrep")
class FedRep(FedPer):
    """Every client first fits its head to the received body, then trains the body with this head fixed."""

    card = replace(FedPer.card, title="FedRep", paper="Collins et al. 2021, ICML", partial="")
    config: FedRepConfig

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [
            Phase("head", self.head_loss, epochs=self.config.head_epochs),
            Phase("body", self.body_loss),
        ]

    def head_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE of which only the head gets a gradient."""
        with torch.no_grad():
            features = nets.model.features(batch.x)
        return recorded_cross_entropy(nets.model.head(features), batch.y)

    def body_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE of which only the body gets a gradient."""
        fixed = {name: weight.detach() for name, weight in nets.model.head.named_parameters()}
        logits = functional_call(nets.model.head, fixed, nets.model.features(batch.x))
        return recorded_cross_entropy(logits, batch.y)
