"""FIARSE: Wu et al., "FIARSE: Model-Heterogeneous Federated Learning via Importance-Aware Submodel Extraction",
NeurIPS 2024, Algorithm 1.

A client of size γ holds the norms, and of all weights and biases of convolutions and linear layers the k = ⌊number·γ⌋
with the largest absolute value. θ is the smallest of these. Clients of several architectures share within the group
of one.

Server state: `ARCHITECTURE/…`, the weights w of a whole model per group, without running statistics. Client state: the
model, with 0 for weights that the client does not hold, and `theta` [1], the θ of its last round. On the wire:
`values/…`, the held entries of a tensor in order; down, if some are not held, also `mask/…`: which ones are held, 32
per int32.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor
from torch.func import functional_call

from simulator.base.sections import MethodConfig
from simulator.base.tensors import Tensors, named, packed, part, unpacked
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Method, Uplink, register
from simulator.methods.heterofl import of_layers, weights
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy

TINY = torch.finfo(torch.float32).tiny


class FIARSEConfig(MethodConfig):
    """Settings of FIARSE, §5.1. The sizes are the first of the released commands."""

    sizes: tuple[float, ...] = Field(
        (1.0, 1 / 4, 1 / 16, 1 / 64),
        description="γ, the share of the weights that clients hold; client i has i mod X",
    )
    gradient: Literal["importance", "mask"] = Field(
        "importance",
        description="of a held weight: with the mask's own share (the paper), or without, as the released code runs",
    )

    @field_validator("sizes")
    @classmethod
    def _sizes_are_shares(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if not sizes or not all(0 < size <= 1 for size in sizes):
            raise ValueError("sizes are shares above 0 and up to 1, one at least")
        return sizes


@register("fiarse")
class FIARSE(Method):
    """A client's part of the model is its largest weights. The server moves each weight by its holders' changes."""

    card = Card(
        title="FIARSE",
        paper="Wu et al. 2024, NeurIPS",
        kind="weights",
        needs="nothing; groups of one architecture share apart",
        down="the largest weights and which they are",
        up="the same weights",
        partial=COUNTS_FULLY,
    )
    answers = "aggregated"
    config: FIARSEConfig

    def size(self, client: ClientInfo) -> float:
        """γ_k."""
        return self.config.sizes[client.id % len(self.config.sizes)]

    def init_server(self) -> Tensors:
        server: Tensors = {}
        for architecture in self.federation.architectures:
            stream = self.federation.stream(f"server/{architecture}")
            server |= named(architecture, weights(self.federation.build(architecture, stream)))
        return server

    def adopts(self) -> Collection[str]:
        return tuple(self.federation.architectures)

    def init_client(self, client: ClientInfo) -> Tensors:
        return {"theta": torch.zeros(1)}  # the client's initial model is complete

    def held(self, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """Which of the server's weights the client holds, bool, by name. It holds all of the norms'."""
        whole = part(server, client.architecture)
        ranked = of_layers(self.federation.architecture_of(client))
        importance = torch.cat([whole[name].abs().flatten() for name in ranked])
        k = max(1, int(len(importance) * self.size(client)))
        theta = importance.topk(k).values[-1]
        return {
            name: weight.abs() >= theta if name in ranked else torch.ones_like(weight, dtype=torch.bool)
            for name, weight in whole.items()
        }

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        whole, held = part(server, client.architecture), self.held(server, client)
        values = {f"values/{name}": whole[name][mask] for name, mask in held.items()}
        return values | {f"mask/{name}": packed(mask) for name, mask in held.items() if not mask.all()}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.received, values = payload, part(payload, "values")
        model = local.nets.model
        local.state = {"theta": torch.cat([values[name].abs() for name in of_layers(model)]).min().reshape(1)}
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.zero_().masked_scatter_(self._held(local, name, weight), values[name])

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [Phase("model", self.loss, state=local.state)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """Cross-entropy of the model with weights w·m, m = 1 where |w| ≥ θ. A weight below θ has no gradient.

        ∂m/∂|w| is set to 2θ/(|w| + θ)² where m = 1, so ∂(w·m)/∂w = m·(1 + |w|·2θ/(|w| + θ)²).
        """
        theta = state["theta"]
        effective = {}
        for name in of_layers(nets.model):
            weight = nets.model.get_parameter(name)
            size = weight.detach().abs()
            slope = (size >= theta).to(weight.dtype)
            value = weight.detach() * slope
            if self.config.gradient == "importance":
                slope = slope * (1 + size * 2 * theta / (size + theta).square().clamp(min=TINY))
            effective[name] = value + slope * (weight - weight.detach())
        return recorded_cross_entropy(functional_call(nets.model, effective, (batch.x,)), batch.y)

    def uplink(self, local: LocalClient) -> Tensors:
        own = weights(local.nets.model)
        return named(
            "values", {name: weight[self._held(local, name, weight)] for name, weight in own.items()}
        )

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """w ← w + Σ_k (w_k − w) / |{k: w_k ≠ w}|, element by element."""
        changes = {key: torch.zeros_like(weight) for key, weight in server.items()}
        changed = {key: torch.zeros_like(weight) for key, weight in server.items()}
        for client, payload in uplinks:
            for name, held in self.held(server, client).items():
                key = f"{client.architecture}/{name}"
                change = torch.zeros_like(server[key])
                change[held] = payload[f"values/{name}"] - server[key][held]
                changes[key] += change
                changed[key] += change != 0
        merged = {key: weight + changes[key] / changed[key].clamp(min=1) for key, weight in server.items()}
        return Aggregated(merged, {})

    @torch.no_grad()
    def before_answering(self, local: LocalClient) -> None:
        for name in of_layers(local.nets.model):
            weight = local.nets.model.get_parameter(name)
            weight.mul_(weight.abs() >= local.state["theta"])
        local.take_statistics()  # static BatchNorm

    def _held(self, local: LocalClient, name: str, weight: Tensor) -> Tensor:
        """Which entries of a weight the client received, bool."""
        mask = local.received.get(f"mask/{name}")
        return torch.ones_like(weight, dtype=torch.bool) if mask is None else unpacked(mask, weight.shape)
