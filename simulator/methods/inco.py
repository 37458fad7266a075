"""InCo Aggregation: Chan et al., "Internal Cross-layer Gradients for Extending Homogeneity to Heterogeneity in
Federated Learning", ICLR 2024, Algorithm 1, Theorem 3.1, equation 2.

A rule of the server on top of the layer-wise merge of a base method: FedAvg, FedProx, FedNova, Scaffold, or MOON.
Server state: the base method's, one model w of the clients' largest architecture. Client state: the base method's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor

from simulator.methods import Aggregated, Card, Uplink, register
from simulator.methods.fednova import FedNova, FedNovaConfig
from simulator.methods.fedprox import FedProx, FedProxConfig
from simulator.methods.heteroavg import HeteroAvg, HeteroAvgConfig
from simulator.methods.moon import MOON, MOONConfig
from simulator.methods.scaffold import Scaffold, ScaffoldConfig

LARGEST_CHANGE = 0.1
"""The released code clamps an update's entries to this range."""


class InCoConfig(HeteroAvgConfig):
    """Options of InCo Aggregation: the ablations of Figure 8, and the differences of the released code."""

    variant: Literal["paper", "released_code"] = Field(
        "paper", description="Algorithm 1, or what the authors' code computes"
    )
    normalize: bool = Field(
        True,
        description="divide updates by their norms (§3.3); off: InCo w/o N, g_k − θ g_0 of the raw updates",
    )
    optimize: bool = Field(
        True,
        description="take θ from Theorem 3.1; off: InCo w/o O, (g_0' + g_k')·(‖g_0‖ + ‖g_k‖)/2",
    )
    only_conflicting: bool = Field(
        False, description="leave a layer alone where β ≥ 0, as Theorem 3.1 (eq. 2) has it"
    )
    epsilon: float = Field(1e-7, ge=0, description="released_code: what is added to norms and α in quotients")
    clamp: float = Field(5.0, gt=0, description="released_code: the largest weight |β|/α of layer 0's update")

    @model_validator(mode="after")
    def _conflicts_are_the_papers(self) -> "InCoConfig":
        if self.only_conflicting and (self.variant == "released_code" or not self.optimize):
            raise ValueError("only_conflicting belongs to variant 'paper' with optimize; leave it off")
        return self


class Mixed(NamedTuple):
    """A layer's cross-layer update, with the coefficients of Theorem 3.1 (their means if there are several)."""

    update: Tensor
    theta: Tensor
    beta: Tensor


def mixed(g_k: Tensor, g_0: Tensor, config: InCoConfig) -> Mixed:
    """The update of a layer k from its own and from layer 0's, of the same shape (Algorithm 1, lines 9–11)."""
    if config.variant == "released_code":
        return _mixed_as_released(g_k, g_0, config)
    norm_k, norm_0 = torch.linalg.vector_norm(g_k), torch.linalg.vector_norm(g_0)
    own, scale = g_k, torch.ones_like(norm_k)
    if config.normalize:
        g_k, g_0, scale = _over(g_k, norm_k), _over(g_0, norm_0), (norm_0 + norm_k) / 2
    alpha, beta = (g_0 * g_0).sum(), (g_0 * g_k).sum()
    theta = _over(beta, alpha)
    if not config.optimize:
        return Mixed((g_k + g_0) * scale, theta, beta)
    update = (g_k - theta * g_0) * scale
    return Mixed(torch.where(beta >= 0, own, update) if config.only_conflicting else update, theta, beta)


def _mixed_as_released(g_k: Tensor, g_0: Tensor, config: InCoConfig) -> Mixed:
    """A convolution's kernel [out, in, ·, ·] in slices, any other tensor as a whole. α and β before normalizing."""
    dims = (2, 3) if g_k.dim() == 4 else tuple(range(g_k.dim()))
    norm_k, norm_0 = (torch.linalg.vector_norm(g, dim=dims, keepdim=True) for g in (g_k, g_0))
    alpha, beta = ((g_0 * g).sum(dims, keepdim=True) for g in (g_0, g_k))
    epsilon = config.epsilon
    theta = _over(beta.abs(), alpha + epsilon).clamp(max=config.clamp)
    weight = theta if config.optimize else torch.ones_like(theta)
    if config.normalize:
        g_k, g_0 = _over(g_k, norm_k + epsilon), _over(g_0, norm_0 + epsilon)
        update = (g_k + weight * g_0) * (norm_0 + norm_k) / 2
    else:
        update = g_k + weight * g_0
    return Mixed(update.clamp(-LARGEST_CHANGE, LARGEST_CHANGE), theta.mean(), beta.mean())


def _over(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient. Zero if the denominator is, for an update that is zero or whose squares underflow."""
    tiny = torch.finfo(denominator.dtype).tiny
    return torch.where(denominator > tiny, numerator / denominator.clamp_min(tiny), 0.0)


class InCo(HeteroAvg):
    """A base class before a base method, which merges nested models. Then the deep layers' updates are mixed."""

    config: InCoConfig

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        averaged, metrics = super().aggregate(round, server, uplinks)  # lines 5–6: g = averaged − server
        merged: dict[str, Tensor] = dict(averaged)
        coefficients: dict[str, Any] = {}
        sent = {layer.key for layer in self.layers(uplinks)}
        for name, name_0 in self.cross_layers():
            key, key_0 = (f"{self.federation.largest}/{layer}" for layer in (name, name_0))
            theta = beta = None
            if {key, key_0} <= sent:
                g_k, g_0 = averaged[key] - server[key], averaged[key_0] - server[key_0]
                update, theta, beta = mixed(g_k, g_0, self.config)
                merged[key] = server[key] + update  # line 15
            for symbol, value in (("theta", theta), ("beta", beta)):
                coefficients[f"{symbol}/{name}"] = None if value is None else float(value)
        return Aggregated(merged, dict(metrics) | coefficients)

    def cross_layers(self) -> Iterator[tuple[str, str]]:
        """Every layer with updates and its layer 0: the first of its shape in its stage; as released, the second."""
        network = self.federation.architectures[self.federation.largest]
        shapes = {name: weight.shape for name, weight in network.named_parameters()}
        for stage in network.stages():
            convolutions = len(shapes[stage[0]]) == 4
            candidates = stage[1:] if convolutions and self.config.variant == "released_code" else stage
            first: dict[torch.Size, str] = {}
            for name in candidates:
                if (name_0 := first.setdefault(shapes[name], name)) != name:
                    yield name, name_0


def _card(title: str, base: Card) -> Card:
    return replace(base, title=title, paper=HeteroAvg.card.paper, needs=HeteroAvg.card.needs, stale="")


@register("inco_avg")
class InCoAvg(InCo):
    """InCo Aggregation on FedAvg."""

    card = _card("InCoAvg", HeteroAvg.card)


class InCoProxConfig(InCoConfig, FedProxConfig):
    """Options of InCo and of FedProx."""


@register("inco_prox")
class InCoProx(InCo, FedProx):
    """InCo Aggregation on FedProx."""

    card = _card("InCoProx", FedProx.card)
    config: InCoProxConfig


class InCoNovaConfig(InCoConfig, FedNovaConfig):
    """Options of InCo and of FedNova."""


@register("inco_nova")
class InCoNova(InCo, FedNova):
    """InCo Aggregation on FedNova."""

    card = _card("InCoNova", FedNova.card)
    config: InCoNovaConfig


class InCoScaffoldConfig(InCoConfig, ScaffoldConfig):
    """Options of InCo and of Scaffold."""


@register("inco_scaffold")
class InCoScaffold(InCo, Scaffold):
    """InCo Aggregation on Scaffold."""

    card = _card("InCoScaffold", Scaffold.card)
    config: InCoScaffoldConfig


class InCoMOONConfig(InCoConfig, MOONConfig):
    """Options of InCo and of MOON."""


@register("inco_moon")
class InCoMOON(InCo, MOON):
    """InCo Aggregation on MOON."""

    card = _card("InCoMOON", MOON.card)
    config: InCoMOONConfig
