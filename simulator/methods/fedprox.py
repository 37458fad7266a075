"""FedProx: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Algorithm 2, equation 2.

Server state: `ARCHITECTURE/…`, one model w per group. Client state: only the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import named, part
from simulator.methods import register
from simulator.methods.base import cross_entropy
from simulator.methods.fedavg import FedAvg
from simulator.models import Network
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase


class FedProxConfig(MethodConfig, space={"mu": Log(0.001, 1)}):
    """Hyper-parameter of FedProx."""

    mu: float = Field(0.1, ge=0, description="μ, weight of the proximal term (eq. 2); InCo: μ/2 = 0.05")


@register("fedprox")
class FedProx(FedAvg):
    """FedAvg in which every client stays near the model that it received."""

    card = replace(FedAvg.card, title="FedProx", paper="Li et al. 2020, MLSys")
    config: FedProxConfig

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        received = named("received", part(local.received, "model"))  # w^{t−1}
        return [Phase("model", self.loss, state=received)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE + (μ/2)‖w − w^{t−1}‖² (eq. 2). w excludes running statistics."""
        distance = squared_distance(nets.model, state)
        return cross_entropy(nets, state, batch, draws) + self.config.mu / 2 * distance


def squared_distance(model: Network, state: Mapping[str, Tensor]) -> Tensor:
    """‖w − w_received‖² over the model's parameters, with the received ones as `received/…` in the state."""
    return sum(
        (F.mse_loss(w, state[f"received/{name}"], reduction="sum") for name, w in model.named_parameters()),
        start=next(model.parameters()).new_zeros(()),
    )
