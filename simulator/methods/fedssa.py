"""FedSSA: Yi et al., "FedSSA: Semantic Similarity-based Aggregation for Efficient Model-Heterogeneous Personalized
Federated Learning", IJCAI 2024, Algorithm 1.

A head's row s has class s's weights [K] and bias. Server state: `head/weight` [C, K], `head/bias` [C], the global
header θ; with `holders = "all"` also `sent/weight` [N, C, K], `sent/bias` [N, C], the rows that clients sent last.
Client state: only the model. On the wire: the rows of the client's seen classes S_k, ascending, so labels need not be
sent.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from simulator.base.sections import Choice, Linear, MethodConfig
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Uplink, register
from simulator.methods.lg_fedavg import LGFedAvg
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient


class FedSSAConfig(MethodConfig, space={"mu_0": Linear(0.1, 0.9), "t_stable": Choice((5, 10, 20, 50))}):
    """Hyper-parameters of FedSSA, §4.2."""

    mu_0: float = Field(0.5, gt=0, le=1, description="μ_0, initial weight of the historical local header")
    t_stable: int = Field(10, ge=1, description="T_stable, rounds until the global header is trusted alone")
    t_from: Literal[0, 1] = Field(0, description="t of the method's first round: 0 in Algorithm 1")
    fusion: Literal["sum", "convex", "replace_seen", "replace_all"] = Field(
        "sum",
        description="eq. 4, (1−μ^t) θ^s + μ^t θ_k^s, or the ablations B (replace_seen) and A (replace_all) of Table 3",
    )
    holders: Literal["participants", "all"] = Field(
        "participants",
        description="whose rows are averaged: this round's (eq. 3), or the last of every holder, absent ones too",
    )


@register("fedssa")
class FedSSA(LGFedAvg):
    """Rows of the head are averaged per class over the clients with the class, and then fused with the client's own."""

    card = Card(
        title="FedSSA",
        paper="Yi et al. 2024, IJCAI",
        kind="head rows",
        needs="the same head on every client",
        down="seen-class rows of the head",
        up="seen-class rows of the head",
        stale="moves the rows of its classes less far towards it",
        partial=COUNTS_FULLY,
    )
    config: FedSSAConfig

    def init_server(self) -> Tensors:
        head = super().init_server()
        if self.config.holders == "participants":
            return head
        clients = len(self.federation.clients)
        sent = {name: rows.expand(clients, *rows.shape).clone() for name, rows in part(head, "head").items()}
        return head | named("sent", sent)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """θ^{t−1,s} of the seen classes; in ablation A, the whole header."""
        head = named("head", part(server, "head"))
        if self.config.fusion == "replace_all":
            return head
        return {name: rows[list(client.classes)] for name, rows in head.items()}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        replaced = range(self.federation.num_classes)
        received = list(replaced if self.config.fusion == "replace_all" else local.info.classes)
        with torch.no_grad():
            for name, rows in local.nets.model.head.named_parameters():
                rows[received] = self._fused(payload[f"head/{name}"], rows[received], local.round)

    def uplink(self, local: LocalClient) -> Tensors:
        seen = list(local.info.classes)
        return {f"head/{name}": rows[seen] for name, rows in of_module(local.nets.model.head).items()}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        mean = self._mean_of_all if self.config.holders == "all" else self._mean_of_participants
        return Aggregated(mean(server, uplinks), {"mu": self.mu(round)})

    def mu(self, round: int) -> float:
        """μ^t = μ_0 cos(π t / (2 T_stable)) while t ≤ T_stable, then 0 (eq. 4); t counts the method's rounds."""
        t = round - self.federation.begun - 1 + self.config.t_from
        if t > self.config.t_stable:
            return 0.0
        return self.config.mu_0 * math.cos(math.pi * t / (2 * self.config.t_stable))

    def _fused(self, theta: Tensor, local: Tensor, round: int) -> Tensor:
        """θ̂_k^s from the received and the historical rows of the seen classes (eq. 4)."""
        mu = self.mu(round)
        if self.config.fusion == "sum":
            return theta + mu * local
        return (1 - mu) * theta + mu * local if self.config.fusion == "convex" else theta

    def _mean_of_participants(self, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Tensors:
        """θ^{t,s}: the plain mean over the participants with class s. Rows that no client sent stay (eq. 3)."""
        aggregated = {}
        for name, rows in server.items():
            sums, holders = torch.zeros_like(rows), [list[float]() for _ in rows]
            for uplink in uplinks:
                seen = list(uplink.client.classes)
                sums[seen] += uplink.payload[name] * uplink.weight
                for s in seen:
                    holders[s].append(uplink.weight)
            aggregated[name] = rows.clone()
            for s, weights in enumerate(holders):
                if weights:
                    mean, share = sums[s] / sum(weights), sum(weights) / len(weights)
                    aggregated[name][s] = mean if share == 1 else rows[s] + share * (mean - rows[s])
        return aggregated

    def _mean_of_all(self, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Tensors:
        """The plain mean of the last uplinks of all clients with class s, at first of the initial rows."""
        holds = torch.zeros(len(self.federation.clients), self.federation.num_classes)
        for client in self.federation.present:
            holds[client.id, list(client.classes)] = 1
        holds = holds.to(self.federation.device)
        aggregated = dict(server)
        for name in ("weight", "bias"):
            sent = server[f"sent/{name}"].clone()
            for client, payload in uplinks:
                sent[client.id, list(client.classes)] = payload[f"head/{name}"]
            shares = holds / holds.sum(0).clamp(min=1)
            means = torch.einsum("nc,nc...->c...", shares, sent)
            known = (holds.sum(0) > 0).view(-1, *[1] * (means.dim() - 1))
            aggregated |= {
                f"sent/{name}": sent,
                f"head/{name}": torch.where(known, means, server[f"head/{name}"]),
            }
        return aggregated
