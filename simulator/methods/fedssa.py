"""FedSSA: Yi et al., "FedSSA: Semantic Similarity-based Aggregation for Efficient Model-Heterogeneous Personalized
Federated Learning", IJCAI 2024, Algorithm 1.

A head's row s is class s's weights [K] and bias. Server state: `head/weight` [C, K], `head/bias` [C], the global
header θ. Client state: none beside the model. On the wire: the rows of the client's seen classes S_k, ascending, so
that no labels need to travel.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from simulator.federation import ClientInfo
from simulator.methods import needs
from simulator.methods.base import Aggregated, Card, Method, Uplink
from simulator.methods.registry import register
from simulator.sections import MethodConfig
from simulator.tensors import Tensors, named, of_module
from simulator.training.client import LocalClient


class FedSSAConfig(MethodConfig):
    """Hyper-parameters of FedSSA, §4.2."""

    mu_0: float = Field(0.5, gt=0, le=1, description="μ_0, initial weight of the historical local header")
    t_stable: int = Field(50, ge=1, description="T_stable, rounds until the global header is trusted alone")
    fusion: Literal["sum", "convex", "replace_seen", "replace_all"] = Field(
        "sum",
        description="eq. 4, a convex mix, or the ablations B (replace_seen) and A (replace_all) of Table 3",
    )


@register("fedssa")
class FedSSA(Method):
    """Rows of the head are averaged class by class over the clients that see the class, then fused with their own."""

    card = Card(
        title="FedSSA",
        paper="Yi et al. 2024, IJCAI",
        kind="head rows",
        needs="the same head on every client",
        down="seen-class rows of the head",
        up="seen-class rows of the head",
    )
    Config = FedSSAConfig
    config: FedSSAConfig

    def unmet_need(self) -> str | None:
        return needs.same_head(self.federation)

    def init_server(self) -> Tensors:
        return named("head", of_module(self.federation.shared_head()))

    def adopts(self) -> Collection[str]:
        return ("head",)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return {name: rows[self._rows(client)] for name, rows in server.items()}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        seen = self._rows(local.info)
        with torch.no_grad():
            for name, rows in local.nets.model.head.named_parameters():
                rows[seen] = self._fused(payload[f"head/{name}"], rows[seen], local.round)

    def uplink(self, local: LocalClient) -> Tensors:
        seen = self._rows(local.info)
        return {f"head/{name}": rows[seen] for name, rows in of_module(local.nets.model.head).items()}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        return Aggregated(
            {name: self._mean_rows(name, rows, uplinks) for name, rows in server.items()},
            {"mu": self.mu(round)},
        )

    def mu(self, round: int) -> float:
        """μ^t = μ_0 cos(π t / (2 T_stable)) while t ≤ T_stable, then 0 (eq. 4)."""
        if round > self.config.t_stable:
            return 0.0
        return self.config.mu_0 * math.cos(math.pi * round / (2 * self.config.t_stable))

    def _fused(self, theta: Tensor, local: Tensor, round: int) -> Tensor:
        """θ̂_k^s from the received and the historical rows of the seen classes (eq. 4)."""
        mu = self.mu(round)
        match self.config.fusion:
            case "sum":
                return theta + mu * local
            case "convex":
                return (1 - mu) * theta + mu * local
            case _:
                return theta

    def _mean_rows(self, name: str, rows: Tensor, uplinks: Sequence[Uplink]) -> Tensor:
        """θ^{t,s}: the plain mean over the participants that hold class s; rows nobody sent stay (eq. 3)."""
        sums = torch.zeros_like(rows)
        holders = [0] * len(rows)
        for client, payload in uplinks:
            seen = self._rows(client)
            sums[seen] += payload[name]
            for s in seen:
                holders[s] += 1
        means = rows.clone()
        for s, count in enumerate(holders):
            if count:
                means[s] = sums[s] / count
        return means

    def _rows(self, client: ClientInfo) -> list[int]:
        """S_k: the rows that travel. In ablation A all do, whatever the client has seen."""
        return list(
            range(self.federation.num_classes) if self.config.fusion == "replace_all" else client.classes
        )
