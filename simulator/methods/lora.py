"""LoRA (Hu et al. 2022) at ranks that differ between clients, joined as one of four papers does.

FedIT (Zhang et al. 2024) takes means of the factors, HetLoRA (Cho et al. 2024) weights them by norms, FlexLoRA (Bai et
al. 2024) decomposes the mean product, and FLoRA (Wang et al. 2024) stacks the factors.

All clients of one architecture have the same frozen body W, which follows from the seed or a file. Server state:
`ARCHITECTURE/PATH.lora_A.weight` and `….lora_B.weight`, the factors A [r, in] and B [out, r] of each adapted layer at
the largest rank, or with FLoRA `ARCHITECTURE/PATH.weight`, the sum of all rounds' products; and `ARCHITECTURE/head.…`.
Client state: only the model, with its update merged: W + (α/r)·BA. The names are those of peft.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from simulator.base.errors import ConfigError
from simulator.base.rng import drawing_from
from simulator.base.sections import Choice, MethodConfig
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Aggregated, Card, Method, Uplink, register
from simulator.methods.base import moved
from simulator.methods.means import sample_shares, toward, weighted_mean
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy

A, B = "lora_A.weight", "lora_B.weight"
TINY = 1e-30
"""Below this sum, singular values are those of no update."""


class LoRAConfig(MethodConfig, space={"aggregation": Choice(("mean", "hetlora", "flexlora", "flora"))}):
    """Ranks, scale, layers, and aggregation."""

    ranks: tuple[int, ...] = Field((8,), min_length=1, description="ranks r that clients get, by `order`")
    order: Literal["turn", "samples", "inverse", "memory"] = Field(
        "turn",
        description="client k gets rank k mod their number (turn). Or a higher rank for more training samples "
        "(samples), for fewer ones (inverse), or for more memory of the device (memory)",
    )
    alpha: float | None = Field(
        None, gt=0, description="α: the update is (α/r)·BA. Default: r, so that the scale is 1 at every rank"
    )
    aggregation: Literal["mean", "hetlora", "flexlora", "flora"] = Field(
        "flexlora",
        description="mean of zero-padded factors by samples (mean) or by ‖BA‖ (hetlora), SVD of the mean product "
        "(flexlora), or stacked factors (flora)",
    )
    targets: tuple[str, ...] = Field(
        (), description="last parts of the names of adapted linear layers. Default: all but the head"
    )
    head: Literal["shared", "local"] = Field(
        "shared", description="average the head, which is trained whole, or keep it at the client"
    )

    def model_post_init(self, context: object) -> None:
        """Raises ValueError for a rank below 1."""
        if min(self.ranks) < 1:
            raise ValueError(f"method.ranks has {min(self.ranks)}; a rank is 1 or more.")


class Pair(nn.Module):
    """The factors of one linear layer's update: A [r, in] is drawn, and B [out, r] is zero."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.lora_A = nn.Linear(layer.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)


class Adapter(nn.Module):
    """A pair of factors under the path of every adapted layer of `network`, and a head."""

    def __init__(self, network: Network, ranks: Mapping[str, int]) -> None:
        super().__init__()
        for path, rank in ranks.items():
            place: nn.Module = self
            for name in path.split(".")[:-1]:
                if not hasattr(place, name):
                    place.add_module(name, nn.Module())
                place = place.get_submodule(name)
            place.add_module(path.rpartition(".")[2], Pair(network.get_submodule(path), rank))  # type: ignore[arg-type]
        self.head = copy.deepcopy(network.head)


class Factors(NamedTuple):
    """The update BA of one layer: B [out, r] and A [r, in]."""

    b: Tensor
    a: Tensor

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], path: str) -> "Factors":
        """Those of the layer at this path."""
        return cls(tensors[f"{path}.{B}"], tensors[f"{path}.{A}"])

    @property
    def product(self) -> Tensor:
        """BA [out, in]."""
        return self.b @ self.a


@register("lora")
class LoRA(Method):
    """Clients train low-rank updates of a frozen body, each at its own rank, and the server joins them."""

    card = Card(
        title="LoRA",
        paper="Hu et al. 2022, ICLR",
        kind="adapter",
        needs="linear layers besides the head; groups of one architecture average apart",
        down="factors at the client's rank and the head",
        up="factors at the client's rank and the head",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )
    config: LoRAConfig

    def unmet_need(self) -> str | None:
        named = f" named {' or '.join(self.config.targets)}" if self.config.targets else ""
        for client in self.federation.of_each:
            if not self.layers(client.architecture):
                return f"needs a linear layer besides the head{named}: {client} has none"
        return None

    def check(self) -> None:
        super().check()
        _ = self.ranks

    def layers(self, architecture: str) -> dict[str, nn.Linear]:
        """The adapted layers by path, without values."""
        targets = self.config.targets
        return {
            path: layer
            for path, layer in self.federation.architectures[architecture].named_modules()
            if isinstance(layer, nn.Linear)
            and path.partition(".")[0] != "head"
            and (not targets or path.rpartition(".")[2] in targets)
        }

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """r_k of each client. Raises ConfigError for devices from which no ranks follow."""
        clients, given = self.federation.clients, self.config.ranks
        if self.config.order == "turn":
            return tuple(given[client.id % len(given)] for client in clients)
        if self.config.order == "memory":
            return self._by_memory()
        ascending = sorted(clients, key=lambda client: (client.samples, client.id))
        given = tuple(sorted(given, reverse=self.config.order == "inverse"))
        of = {client.id: given[place * len(given) // len(clients)] for place, client in enumerate(ascending)}
        return tuple(of[client.id] for client in clients)

    def _by_memory(self) -> tuple[int, ...]:
        """The sizes of memory in ascending groups of equal numbers of sizes, one group for each rank."""
        if not self.federation.devices:
            raise ConfigError(
                "method.order = 'memory' gives ranks by the memory of the clients' devices, and they have none. "
                "Set system.devices, or choose another method.order."
            )
        given, devices = sorted(self.config.ranks), self.federation.devices
        memories = [math.inf if device.memory is None else device.memory for device in devices]
        sizes = sorted(set(memories))
        if len(sizes) < len(given):
            raise ConfigError(
                f"method.ranks has {len(given)} ranks, and the clients' devices have only {len(sizes)} "
                f"size{'s' * (len(sizes) > 1)} of memory. Use fewer ranks, or other devices in section system."
            )
        return tuple(given[sizes.index(memory) * len(given) // len(sizes)] for memory in memories)

    def ranks_of(self, architecture: str, rank: int) -> dict[str, int]:
        """The rank of each adapted layer: at most the smaller side of its weight."""
        layers = self.layers(architecture)
        return {path: min(rank, each.in_features, each.out_features) for path, each in layers.items()}

    def scale(self, rank: int) -> float:
        """α/r."""
        return 1.0 if self.config.alpha is None else self.config.alpha / rank

    def init_server(self) -> Tensors:
        server: Tensors = {}
        for architecture, network in self.federation.architectures.items():
            head = of_head(self.federation.first_weights[architecture])
            if self.config.aggregation == "flora":
                layers = self.layers(architecture)
                update = {f"{path}.weight": torch.zeros(each.weight.shape) for path, each in layers.items()}
            else:
                with drawing_from(self.federation.stream(f"server/{architecture}/adapter")):
                    adapter = Adapter(network, self.ranks_of(architecture, max(self.ranks)))
                update = of_head(of_module(adapter), False)
            update = {name: each.to(self.federation.device) for name, each in update.items()}
            server |= named(architecture, self._sent(update | head))
        return server

    def _sent(self, tensors: Tensors) -> Tensors:
        """Without the head, if it stays with the client."""
        return of_head(tensors, False) if self.config.head == "local" else tensors

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        own = part(server, client.architecture)
        if self.config.aggregation == "flora":
            return named("adapter", own)
        for path, rank in self.ranks_of(client.architecture, self.ranks[client.id]).items():
            b = own[f"{path}.{B}"][:, :rank].contiguous()
            own[f"{path}.{B}"] = b / self.scale(rank) if self.config.aggregation == "flexlora" else b
            own[f"{path}.{A}"] = own[f"{path}.{A}"][:rank]
        return named("adapter", own)

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        model, received = local.nets.model, part(payload, "adapter")
        architecture = local.info.architecture
        model.load_state_dict(of_head(self.federation.first_weights[architecture], False), strict=False)
        ranks = self.ranks_of(architecture, self.ranks[local.info.id])
        adapter = Adapter(self.federation.architectures[architecture], ranks)
        if self.config.aggregation == "flora":
            with torch.no_grad():  # the sum of all rounds goes into the body, and new factors start
                for path in ranks:
                    model.get_parameter(f"{path}.weight").add_(received.pop(f"{path}.weight"))
            factors = of_head(of_module(adapter), False)
            received |= {name: each.to(self.federation.device) for name, each in factors.items()}
        if self.config.head == "local":
            received |= {f"head.{name}": each for name, each in of_module(model.head).items()}
        local.add_network("adapter", adapter, received)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [Phase("adapter", self.loss, trains=("adapter",))]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """ℓ of the body with the update: only A, B, and the head get a gradient."""
        return recorded_cross_entropy(functional_call(nets.model, self.adapted(nets), (batch.x,)), batch.y)

    def adapted(self, nets: Nets) -> Tensors:
        """W + (α/r)·BA of every adapted layer, and the adapter's head, by name."""
        adapter = nets["adapter"]
        head = adapter.get_submodule("head")
        weights: Tensors = {f"head.{name}": each for name, each in head.named_parameters()}
        for path, pair in adapter.named_modules():
            if isinstance(pair, Pair):
                update = self.scale(pair.lora_A.out_features) * (pair.lora_B.weight @ pair.lora_A.weight)
                # Not `get_parameter`, which refuses the tensors of clients that train stacked.
                body: Tensor = nets.model.get_submodule(path).weight  # type: ignore[assignment]
                weights[f"{path}.weight"] = body + update
        return weights

    def uplink(self, local: LocalClient) -> Tensors:
        payload = self._sent(of_module(local.nets["adapter"]))
        self._merge(local)
        return named("adapter", payload)

    @torch.no_grad()
    def _merge(self, local: LocalClient) -> None:
        """Put the update into the model. The next round starts from the body again."""
        for name, weight in self.adapted(local.nets).items():
            local.nets.model.get_parameter(name).copy_(weight)

    def before_answering(self, local: LocalClient) -> None:
        if "adapter" in dict(local.nets.named_children()):  # evaluated after its downlink
            self._merge(local)

    def rebased(
        self, payload: Mapping[str, Tensor], received: Mapping[str, Tensor], present: Mapping[str, Tensor]
    ) -> Tensors:
        """FlexLoRA: factors of the present product plus the client's change, because each SVD turns the factors."""
        found = moved(payload, received, present)
        if self.config.aggregation == "flexlora":
            for path in [name.removesuffix(f".{A}") for name in payload if name.endswith(A)]:
                now, own, begun = (Factors.of(each, path) for each in (present, payload, received))
                a = torch.cat([now.a, own.a, begun.a])
                b = torch.cat([now.b, own.b, -begun.b], 1) * (self.scale(len(own.a)) / self.scale(len(a)))
                found |= {f"{path}.{A}": a, f"{path}.{B}": b}
        return found

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        merged, updates = dict(server), []
        for architecture in self.federation.architectures:
            group = [uplink for uplink in uplinks if uplink.client.architecture == architecture]
            if not group:
                continue
            shares = self.shares(architecture, group)
            for path, rank in self.ranks_of(architecture, max(self.ranks)).items():
                key = f"{architecture}/{path}"
                sent = [Factors.of(uplink.payload, f"adapter/{path}") for uplink in group]
                if self.config.aggregation == "flora":
                    joined, total = self.stacked(sent, shares), server[f"{key}.weight"]
                    merged[f"{key}.weight"] = toward(total, total + joined.product, group)
                else:
                    before = Factors.of(server, key)
                    if self.config.aggregation == "flexlora":
                        mean = self.stacked(sent, shares).product
                        joined = decomposed(toward(before.product, mean, group), rank)
                    else:
                        mean_b, mean_a = padded(sent, shares, rank)
                        joined = Factors(toward(before.b, mean_b, group), toward(before.a, mean_a, group))
                    merged |= {f"{key}.{B}": joined.b, f"{key}.{A}": joined.a}
                updates.append(joined)
            for name in [name for name in group[0].payload if name.startswith("adapter/head.")]:
                head = f"{architecture}/{name.removeprefix('adapter/')}"
                merged[head] = toward(server[head], weighted_mean(group, name), group)
        return Aggregated(merged, self.spread(updates))

    def shares(self, architecture: str, group: Sequence[Uplink]) -> list[float | Tensor]:
        """p_k: n_k/n, or with HetLoRA ‖ΔW_k‖/Σ‖ΔW‖ over all layers, if any client has moved."""
        by_samples = sample_shares(group)
        if self.config.aggregation != "hetlora":
            return list(by_samples)
        paths = [f"adapter/{path}" for path in self.layers(architecture)]
        norms = []
        for uplink in group:
            factors = [Factors.of(uplink.payload, path) for path in paths]
            squares = [((b.T @ b) * (a @ a.T)).sum() for b, a in factors]  # ‖BA‖² = tr(BᵀB·AAᵀ)
            norms.append(uplink.weight * torch.stack(squares).sum().sqrt())
        total = torch.stack(norms).sum()
        return [torch.where(total > 0, norm / total, p) for norm, p in zip(norms, by_samples, strict=True)]

    def stacked(self, sent: Sequence[Factors], shares: Sequence[float | Tensor]) -> Factors:
        """B [out, Σr] and A [Σr, in] with BA = Σ p_k (α/r_k) B_k A_k, exactly."""
        return Factors(
            torch.cat([each.b * self.scale(len(each.a)) for each in sent], 1),
            torch.cat([each.a * p for each, p in zip(sent, shares, strict=True)]),
        )

    def spread(self, updates: Sequence[Factors]) -> dict[str, Tensor]:
        """How much of the rank the joined updates use: means over the adapted layers.

        `effective_rank`: exp(entropy of the singular values' shares) (Roy and Vetterli 2007). `energy_beyond_lowest`:
        the share of ‖BA‖² outside of its best approximation at the lowest rank of a client. An update of zero has 0.
        """
        ranks, energies = [], []
        for b, a in updates:  # BA = Q_B (R_B R_Aᵀ) Q_Aᵀ has the singular values of the small factor
            values = torch.linalg.svdvals(torch.linalg.qr(b).R @ torch.linalg.qr(a.T).R.T)
            shares = values / values.sum().clamp(min=TINY)
            ranks.append(torch.special.entr(shares).sum().exp() * (values.sum() > TINY))
            energy = values.square()
            energies.append(energy[min(self.ranks) :].sum() / energy.sum().clamp(min=TINY))
        effective, beyond = torch.stack(ranks).mean(), torch.stack(energies).mean()
        return {"effective_rank": effective, "energy_beyond_lowest": beyond}


def of_head(tensors: Mapping[str, Tensor], inside: bool = True) -> Tensors:
    """A network's tensors of its head, or all others."""
    return {name: each for name, each in tensors.items() if name.startswith("head.") == inside}


def padded(sent: Sequence[Factors], shares: Sequence[float | Tensor], rank: int) -> Factors:
    """Σ p_k B_k and Σ p_k A_k, each filled up to this rank with zeros. Sums run in client order."""
    b = torch.zeros(len(sent[0].b), rank, device=sent[0].b.device, dtype=sent[0].b.dtype)
    a = torch.zeros(rank, sent[0].a.shape[1], device=b.device, dtype=b.dtype)
    for each, p in zip(sent, shares, strict=True):
        b[:, : len(each.a)] += p * each.b
        a[: len(each.a)] += p * each.a
    return Factors(b, a)


def decomposed(product: Tensor, rank: int) -> Factors:
    """The best approximation of this rank: U·S and Vᵀ of the SVD."""
    u, s, v = torch.linalg.svd(product, full_matrices=False)
    return Factors((u * s)[:, :rank].contiguous(), v[:rank].contiguous())
