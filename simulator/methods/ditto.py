"""Ditto: Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021.

Beside the model of FedAvg, every client trains a model of its own, which is held near the received one and answers.

Server state: `ARCHITECTURE/…`, one model w per group. Client state: its own model v_k, and `ditto/begun`, 1 after its
first round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods import register
from simulator.methods.base import cross_entropy
from simulator.methods.fedavg import FedAvg
from simulator.methods.fedprox import squared_distance
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, own_cross_entropy


class DittoConfig(MethodConfig, space={"lam": Log(0.01, 10)}):
    """Hyper-parameter of Ditto."""

    lam: float = Field(
        1.0, ge=0, description="λ, how strongly a client's own model is held to the received one"
    )


@register("ditto")
class Ditto(FedAvg):
    """v_k ← v_k − η (∇F_k(v_k) + λ (v_k − w)), beside FedAvg on w."""

    card = replace(FedAvg.card, title="Ditto", paper="Li et al. 2021, ICML", partial="")
    config: DittoConfig

    def init_client(self, client: ClientInfo) -> Tensors:
        return {"ditto/begun": torch.zeros((), device=self.federation.device)}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        received = part(payload, "model")
        local.add_network("shared", self.federation.architecture_of(local.info), received)
        begun = local.state["ditto/begun"] > 0
        own = of_module(local.nets.model)
        first = {name: torch.where(begun, own[name], tensor) for name, tensor in received.items()}
        local.nets.model.load_state_dict(first, strict=False)  # v_k starts at w
        local.state = local.state | {"ditto/begun": torch.ones_like(local.state["ditto/begun"])}
        local.received = payload

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        received = named("received", part(local.received, "model"))
        return [
            Phase("own", self.own_loss, state=received),
            Phase("model", self.shared_loss, trains=("shared",)),  # the batches of FedAvg
        ]

    def own_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE + (λ/2)‖v − w‖². Running statistics do not count."""
        distance = squared_distance(nets.model, state)
        return cross_entropy(nets, state, batch, draws) + self.config.lam / 2 * distance

    def shared_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE of the shared model."""
        return own_cross_entropy(nets["shared"](batch.x), batch.y)

    def uplink(self, local: LocalClient) -> Tensors:
        return named("model", floating(of_module(local.nets["shared"])))
