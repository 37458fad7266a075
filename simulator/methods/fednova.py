"""FedNova: Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
NeurIPS 2020, §4 and §5.

Server state: `ARCHITECTURE/…`, one model w per group. Client state: only the model.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from simulator.base.sections import MethodConfig
from simulator.base.tensors import Tensors, floating, of_module
from simulator.methods import BY_ITS_STEPS, Aggregated, Card, Uplink, register
from simulator.methods.fedavg import FedAvg
from simulator.training.client import LocalClient


class FedNovaConfig(MethodConfig):
    """Choices of FedNova, §5. They differ only for SGD with momentum; otherwise, a_k = τ_k."""

    tau_eff: Literal["steps", "norms"] = Field(
        "norms", description="τ_eff, the length of the server's step: Σ p_k τ_k, or Σ p_k a_k (§5's default)"
    )


@register("fednova")
class FedNova(FedAvg):
    """w ← w^{t−1} − τ_eff Σ p_k d_k: clients count by their data, not by their number of steps."""

    card = Card(
        title="FedNova",
        paper="Wang et al. 2020, NeurIPS",
        kind="weights",
        needs="nothing; groups of one architecture average apart",
        down="model",
        up="normalized update, steps",
        partial=BY_ITS_STEPS,
    )
    config: FedNovaConfig

    def uplink(self, local: LocalClient) -> Tensors:
        steps = sum(local.steps(phase) for phase in self.phases(local))  # τ_k
        sent: Tensors = {"steps": torch.tensor([steps], dtype=torch.int32, device=local.federation.device)}
        weights = dict(local.nets.model.named_parameters())
        for name, tensor in floating(of_module(local.nets.model)).items():
            if name in weights:
                sent[f"update/{name}"] = (local.received[f"model/{name}"] - tensor) / self.norm(steps)  # d_k
            else:
                sent[f"model/{name}"] = tensor
        return sent

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        merged = dict(server)
        for key, name, holders in self.layers(uplinks):
            if f"update/{name}" in holders[0].payload:
                step = self.tau_eff(holders) * self.mean(holders, f"update/{name}")
                merged[key] = server[key] - step
            else:
                merged[key] = self.mean(holders, f"model/{name}")
        return Aggregated(merged, {})

    def norm(self, steps: int) -> float:
        """a_k = ‖a_k‖₁ of τ gradients: (τ − ρ(1 − ρ^τ)/(1 − ρ))/(1 − ρ) with momentum ρ, and τ without, or for Adam."""
        rho = self.federation.training.momentum
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)

    def tau_eff(self, holders: Sequence[Uplink]) -> float:
        """τ_eff over the participants with a layer."""
        lengths = [int(uplink.payload["steps"]) for uplink in holders]
        counted = [self.norm(steps) if self.config.tau_eff == "norms" else steps for steps in lengths]
        return sum(p * length for p, length in zip(self.shares(holders), counted, strict=True))
