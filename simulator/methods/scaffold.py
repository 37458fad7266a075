"""Scaffold: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
Algorithm 1, equations 3–5.

Server state: `ARCHITECTURE/…`, one model w per group, and `control/ARCHITECTURE/…`, its control variate c. Client
state: `control/…`, c_k. Control variates have the names and shapes of the weights, and start at zero.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods import BY_ITS_STEPS, Aggregated, Card, Uplink, register
from simulator.methods.base import cross_entropy
from simulator.methods.fedavg import FedAvg
from simulator.methods.means import weighted_sum
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Phase


class ScaffoldConfig(MethodConfig, space={"eta_g": Log(0.1, 3)}):
    """Hyper-parameter of Scaffold."""

    eta_g: float = Field(1.0, gt=0, description="η_g, the server's step size (Algorithm 1, line 17)")


@register("scaffold")
class Scaffold(FedAvg):
    """Control variates remove the drift from every client's gradient that its own data cause."""

    card = Card(
        title="Scaffold",
        paper="Karimireddy et al. 2020, ICML",
        kind="weights",
        needs="nothing; groups of one architecture average apart",
        down="model, control variate",
        up="updates of both",
        partial=BY_ITS_STEPS,
    )
    config: ScaffoldConfig

    def init_server(self) -> Tensors:
        server = super().init_server()
        for architecture in self.server_models():
            server |= named(f"control/{architecture}", self._zeros(architecture))  # c⁰
        return server

    def init_client(self, client: ClientInfo) -> Tensors:
        return super().init_client(client) | named("control", self._zeros(client.architecture))  # c_k⁰

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        control = part(server, f"control/{self.server_model(client)}")
        weights = dict(self.federation.architecture_of(client).named_parameters())
        return super().downlink(round, server, client) | {
            f"control/{name}": control[name] for name in weights
        }

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        """Cross-entropy, with c − c_k added to the direction of every step: for SGD, w ← w − η(g − c_k + c) (eq. 3)."""
        control, own = (part(each, "control") for each in (local.received, local.state))
        correction = {f"model/{name}": c - own[name] for name, c in control.items()}
        return [Phase("model", cross_entropy, correction=correction)]

    def uplink(self, local: LocalClient) -> Tensors:
        steps = sum(local.steps(phase) for phase in self.phases(local))  # τ_k
        eta = local.lr
        weights = dict(local.nets.model.named_parameters())
        sent: Tensors = {}
        for name, tensor in floating(of_module(local.nets.model)).items():
            if name in weights:
                delta = tensor - local.received[f"model/{name}"]  # Δw
                change = -local.received[f"control/{name}"] - delta / (steps * eta)  # Δc, eq. 4, option II
                local.state[f"control/{name}"] = local.state[f"control/{name}"] + change  # c_k⁺
                sent |= {f"update/{name}": delta, f"control/{name}": change}
            else:
                sent[f"model/{name}"] = tensor
        return sent

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        merged, clients = dict(server), self._clients()
        for key, name, holders in self.layers(uplinks):
            mean = [1 / len(holders)] * len(holders)
            if f"update/{name}" in holders[0].payload:
                of_all = [1 / clients[key]] * len(holders)
                merged[key] = server[key] + self.config.eta_g * weighted_sum(holders, f"update/{name}", mean)
                control = f"control/{key}"  # c ← c + |S|/N · mean Δc = c + Σ Δc / N (eq. 5)
                merged[control] = server[control] + weighted_sum(holders, f"control/{name}", of_all)
            else:
                merged[key] = weighted_sum(holders, f"model/{name}", mean)
        return Aggregated(merged, {})

    def _clients(self) -> Counter[str]:
        """N for every layer of the server's models: the number of clients with it that may take part."""
        architectures = self.federation.architectures.items()
        names = {
            architecture: list(floating(network.state_dict())) for architecture, network in architectures
        }
        return Counter(
            f"{self.server_model(client)}/{name}"
            for client in self.federation.seen
            for name in names[client.architecture]
        )

    def _zeros(self, architecture: str) -> Tensors:
        weights = self.federation.architectures[architecture].named_parameters()
        return {name: torch.zeros(weight.shape, dtype=weight.dtype) for name, weight in weights}
