"""FedKD: Wu et al., "Communication-efficient federated learning via knowledge distillation", Nature Communications
13:2032, 2022, Algorithm 1, equations 1–9.

Besides its own model, every client trains the meme, a small network that all clients share. The leading factors of its
weight matrices are sent. A matrix [m, n] has p = min(m, n) singular values; a kernel counts as out × (in·h·w).

Server state: `meme/…`, the global meme, and the factors of its matrices: `u/…` [m, p], `s/…` [p], `v/…` [p, n]. Client
state: `projection/weight` [K_k, K_meme], W_h, from the meme's features to the model's. On the wire: the first r factors
of each matrix, if they are smaller than the matrix; all else as `meme/…`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.rng import drawing_from
from simulator.base.sections import Linear, MethodConfig
from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Aggregated, Card, Uplink, register
from simulator.methods.base import moved
from simulator.methods.means import divergence, toward, weighted_mean
from simulator.methods.small_model import SmallModel
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, own_cross_entropy, recorded_cross_entropy


class FedKDConfig(MethodConfig, space={"t_start": Linear(0.8, 0.98)}):
    """Hyper-parameters of FedKD, "Dynamic gradients approximation"."""

    t_start: float = Field(0.95, gt=0, le=1, description="T_start, share of the energy sent at the beginning")
    t_end: float = Field(0.98, gt=0, le=1, description="T_end, share of the energy sent in the last round")
    meme: str | None = Field(None, description="the meme's architecture; default: the clients' smallest")

    @model_validator(mode="after")
    def _the_energy_does_not_fall(self) -> "FedKDConfig":
        if self.t_start > self.t_end:
            raise ValueError(
                f"t_start {self.t_start:g} is above t_end {self.t_end:g}; the energy rises over the run"
            )
        return self


@register("fedkd")
class FedKD(SmallModel):
    """A local model and a small shared one teach each other. The small one is sent as truncated factors."""

    card = Card(
        title="FedKD",
        paper="Wu et al. 2022, Nature Communications",
        kind="small model",
        needs="nothing; a small model beside the client's own, and a projection between their features",
        down="SVD factors of the small model",
        up="SVD factors of the small model",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )
    config: FedKDConfig
    shared = "meme"

    def init_server(self) -> Tensors:
        server = super().init_server()
        return server | decomposed(part(server, "meme"))

    def adopts(self) -> Collection[str]:
        return ("meme",)

    def adopt(self, server: Mapping[str, Tensor]) -> Tensors:
        adopted = super().adopt(server)
        return adopted | decomposed(part(adopted, "meme"))  # learned together with the meme

    def init_client(self, client: ClientInfo) -> Tensors:
        with drawing_from(self.federation.stream("client/projection", client=client.id)):
            return named("projection", of_module(self._projection(client)))

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return truncated(floating(part(server, "meme")), server, self.energy(round))

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.add_network("meme", self.network(), self._restored(payload))
        local.add_network("projection", self._projection(local.info, "meta"), part(local.state, "projection"))

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [Phase("mutual", self.loss, trains=("model", "meme", "projection"))]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """The sum of both losses. Each reaches its own network, and the meme's also reaches W_h.

        local: CE + (KL(meme ‖ local) + MSE(H, W_h·H_meme)) / (CE + CE_meme); meme: the same with the parts exchanged
        (eqs 1–7). The divisor is the adaptive strength of the distillation. It is a weight, and so held constant.
        """
        meme = nets.network("meme")
        h, h_meme = nets.model.features(batch.x), meme.features(batch.x)
        logits, logits_meme = nets.model.head(h), meme.head(h_meme)
        projected = nets["projection"](h_meme)
        ce, ce_meme = recorded_cross_entropy(logits, batch.y), own_cross_entropy(logits_meme, batch.y)
        errors = (ce + ce_meme).detach()
        of_local = ce + (divergence(logits_meme, logits) + F.mse_loss(h, projected.detach())) / errors
        of_meme = ce_meme + (divergence(logits, logits_meme) + F.mse_loss(projected, h.detach())) / errors
        return of_local + of_meme

    def uplink(self, local: LocalClient) -> Tensors:
        local.state = named("projection", of_module(local.nets["projection"]))
        meme = floating(of_module(local.nets["meme"]))
        return truncated(meme, decomposed(meme), self.energy(local.round))

    def rebased(
        self, payload: Mapping[str, Tensor], received: Mapping[str, Tensor], present: Mapping[str, Tensor]
    ) -> Tensors:
        """Whole weights: the factors of two matrices have no common directions."""
        return moved(*(named("meme", self._restored(each)) for each in (payload, received, present)))

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        memes = [replace(uplink, payload=self._restored(uplink.payload)) for uplink in uplinks]
        meme = {k: toward(server[f"meme/{k}"], weighted_mean(memes, k), memes) for k in memes[0].payload}
        return Aggregated(
            dict(server) | named("meme", meme) | decomposed(meme), {"energy": self.energy(round)}
        )

    def energy(self, round: int) -> float:
        """T(t) = T_start + (T_end − T_start) · t/T (eq. 9)."""
        progress = min(round / self.federation.rounds, 1.0)
        return self.config.t_start + (self.config.t_end - self.config.t_start) * progress

    def _projection(self, client: ClientInfo, device: str = "cpu") -> nn.Linear:
        """W_h for the client's model."""
        meme, model = self.federation.architecture(self.small), self.federation.architecture_of(client)
        return nn.Linear(meme.num_features, model.num_features, bias=False, device=device)

    def _restored(self, payload: Mapping[str, Tensor]) -> Tensors:
        """The meme's weights from the received tensors."""
        shapes = self.federation.architecture(self.small).state_dict()
        return {name: restored(payload, name).reshape(w.shape) for name, w in floating(shapes).items()}


def decomposed(weights: Mapping[str, Tensor]) -> Tensors:
    """The SVD U·diag(s)·V, as `u/…`, `s/…`, `v/…`, on the CPU, which repeats it. NaN for one that is not finite."""
    factors: Tensors = {}
    for name, weight in weights.items():
        if weight.dim() < 2 or not weight.is_floating_point():
            continue
        matrix = weight.detach().flatten(1).cpu()
        finite = matrix.isfinite().all()
        given = torch.where(finite, matrix, 0.0)
        try:
            u, s, v = torch.linalg.svd(given, full_matrices=False)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            # MKL's float32 routine fails for a few matrices, and its float64 one then does not.
            u, s, v = (
                each.to(matrix.dtype) for each in torch.linalg.svd(given.double(), full_matrices=False)
            )
        for part_of, factor in (("u", u), ("s", s), ("v", v)):
            kept = torch.where(finite, factor, torch.nan)
            factors[f"{part_of}/{name}"] = kept.contiguous().to(weight.device)
    return factors


def truncated(weights: Mapping[str, Tensor], factors: Mapping[str, Tensor], energy: float) -> Tensors:
    """What to send: of a decomposed weight, the fewest factors with the energy if that is less; else itself."""
    payload: Tensors = {}
    for name, weight in weights.items():
        if (s := factors.get(f"s/{name}")) is not None:
            u, v, r = factors[f"u/{name}"], factors[f"v/{name}"], rank(s, energy)
            if r * (len(u) + 1 + v.shape[1]) < weight.numel():
                payload |= {f"u/{name}": u[:, :r], f"s/{name}": s[:r], f"v/{name}": v[:r]}
                continue
        payload[f"meme/{name}"] = weight
    return payload


def restored(payload: Mapping[str, Tensor], name: str) -> Tensor:
    """A weight, or U·diag(s)·V as a matrix if its factors were sent."""
    if (whole := payload.get(f"meme/{name}")) is not None:
        return whole
    return (payload[f"u/{name}"] * payload[f"s/{name}"]) @ payload[f"v/{name}"]


def rank(s: Tensor, energy: float) -> int:
    """The smallest r ≥ 1 with Σ_{i≤r} s_i² ≥ energy · Σ s_i²; s is descending."""
    held = s.cpu().double().square().cumsum(0)  # a GPU does not fix its order of summation
    return min(int((held < energy * held[-1]).sum()) + 1, len(s))
