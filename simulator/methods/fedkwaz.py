"""FedKWAZ: Li et al., "Transforming Gaps into Gains: Bridging Model and Data Heterogeneity in Federated Learning via
Knowledge Weak-Aware Zones", NeurIPS 2025, Algorithm 1 and Appendix A.

Besides its own model M, every client trains a proxy Q, a small network of its own draw. Neither is sent. Clients send
the mean features [K] and logits [C] of each class, of both networks. Each network then learns from the other's means.

Server state: `features/model` [C, K], `logits/model` [C, C], and the same of `proxy`, the means over clients, P̄ and L̄;
`known/classes` [C], 1 for a class that a client has sent. Client state: `proxy/…`; `zones/strength` [3] and
`zones/patches` [3], which mix the images of SWAZ (α⋆, g⋆), of DWAZ for M (β⋆_1, g⋆_1), and for Q (β⋆_2, g⋆_2).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor
from torch.nn import functional as F

from simulator.base.sections import Choice, Linear, MethodConfig
from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.data.specs import ImageSpec
from simulator.methods import Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.base import own_cross_entropy
from simulator.methods.means import by_class, class_averages, collected_means, sums_by_class
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.training.client import REPRESENTATION_BATCH, LocalClient
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, recorded_cross_entropy

KNOWLEDGE = ("features/model", "logits/model", "features/proxy", "logits/proxy")
"""The class means that are sent, in the order of `outputs`."""
ZONES = ("swaz", "dwaz_model", "dwaz_proxy")
"""The mixed images of stage II: for both networks, for M to learn from, and for Q to learn from."""
STUDENTS = {"both": ("model", "proxy"), "model": ("model",), "proxy": ("proxy",)}
"""The networks that learn on mixed images. Both do in FedKWAZ, the model in P2P-L, and the proxy in P2P-R (§4.6)."""
TEACHER = {"model": "proxy", "proxy": "model"}


class FedKWAZConfig(MethodConfig, space={"tau": Linear(1, 8), "every": Choice((10, 20, 30, 40, 50))}):
    """Hyper-parameters of FedKWAZ, Appendix D.3."""

    tau: float = Field(4.0, gt=0, description="τ, temperature of the distillation")
    every: int = Field(30, ge=1, description="k, rounds from one search for the zones to the next")
    strengths: tuple[float, ...] = Field(
        (0.1, 0.5, 1.0), description="A and B, the parameters of Beta(α, α) that a search tries"
    )
    patches: tuple[int, ...] = Field(
        (64, 16, 4), description="G, the numbers of patches of an image that a search tries, all squares"
    )
    proxy: str | None = Field(None, description="the proxy's architecture; default: the clients' smallest")
    divergence: Literal["student_first", "teacher_first"] = Field(
        "student_first",
        description="KL(student ‖ teacher) (Algorithm 1), or KL(teacher ‖ student), as in the released code",
    )
    base: Literal["own", "both"] = Field(
        "own",
        description="networks that stage II's losses on unmixed images train: each its own (Algorithm 1), or each "
        "both, as in the released code",
    )
    labels: Literal["first", "both"] = Field(
        "first",
        description="stages that learn from the labels: the first (Algorithm 1), or both, as in the released code",
    )
    collect: Literal["after", "training"] = Field(
        "after",
        description="class means of the trained networks, or of stage II's outputs, as in the released code",
    )
    align: bool = Field(
        True, description="train stage I; false is LML (Table 4), in which clients exchange nothing"
    )
    students: Literal["both", "model", "proxy"] = Field(
        "both",
        description="networks that learn on mixed images: both, the model alone (P2P-L in Table 4), or the proxy "
        "alone (P2P-R)",
    )

    @field_validator("strengths")
    @classmethod
    def _strengths_are_above_0(cls, strengths: tuple[float, ...]) -> tuple[float, ...]:
        if not strengths or not all(0 < strength < math.inf for strength in strengths):
            raise ValueError("strengths are numbers above 0, one at least")
        return strengths

    @field_validator("patches")
    @classmethod
    def _patches_are_squares(cls, patches: tuple[int, ...]) -> tuple[int, ...]:
        if not patches or not all(each > 0 and math.isqrt(each) ** 2 == each for each in patches):
            raise ValueError("patches are squares such as 4, 16, or 64, one at least")
        return patches

    @model_validator(mode="after")
    def _some_stage_learns_from_the_labels(self) -> "FedKWAZConfig":
        if not self.align and self.labels == "first":
            raise ValueError(
                "align = false leaves no stage that learns from the labels; set method.labels=both"
            )
        return self


@register("fedkwaz")
class FedKWAZ(Method):
    """A model and a proxy learn from each other on images mixed so that they disagree most. Class means are sent."""

    card = Card(
        title="FedKWAZ",
        paper="Li et al. 2025, NeurIPS",
        kind="features and logits",
        needs="images; the same feature width K on every client and in the proxy, a small model beside its own",
        down="class-mean features and logits of models and proxies, labels",
        up="class-mean features and logits of model and proxy, labels",
        stale="moves the means of its classes less far towards it",
    )
    config: FedKWAZConfig

    @property
    def proxy(self) -> str:
        """The proxy's architecture."""
        return self.config.proxy or self.federation.smallest

    def trained_beside(self) -> Collection[str]:
        return (self.proxy,)

    def unmet_need(self) -> str | None:
        if unmet := needs.kind(self.federation, "image", "it mixes patches of them"):
            return unmet
        assert isinstance(self.federation.spec, ImageSpec)
        side, most = min(self.federation.spec.height, self.federation.spec.width), max(self.config.patches)
        if math.isqrt(most) > side:
            return f"needs images of {math.isqrt(most)}×{math.isqrt(most)} for {most} patches; lower method.patches"
        if unmet := needs.same_width(self.federation):
            return unmet
        own = self.federation.architecture_of(self.federation.clients[0]).num_features
        if (width := self.federation.architecture(self.proxy).num_features) != own:
            return f"needs one feature width: clients have {own}, the proxy {self.proxy} has {width}"
        return None

    def init_server(self) -> Tensors:
        classes, widths = self.federation.num_classes, zip(KNOWLEDGE, self._widths(), strict=True)
        means = {name: torch.zeros(classes, width) for name, width in widths}
        return means | {"known/classes": torch.zeros(classes)}

    def init_client(self, client: ClientInfo) -> Tensors:
        """Before the first search: the first strength, and the middle one of the numbers of patches."""
        stream = self.federation.stream("client/proxy", client=client.id)
        proxy = floating(of_module(self.federation.build(self.proxy, stream)))
        strength, patches = self.config.strengths[0], self.config.patches[len(self.config.patches) // 2]
        zones = {"strength": torch.full((3,), strength), "patches": torch.full((3,), patches)}
        return named("proxy", proxy) | named("zones", zones)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        if not self.config.align:
            return {}
        labels = server["known/classes"].nonzero()[:, 0]
        return {name: server[name][labels] for name in KNOWLEDGE} | {"labels": labels.to(torch.int32)}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.received = payload
        local.add_network("proxy", self.federation.architecture(self.proxy), part(local.state, "proxy"))

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        if (local.round - self.federation.begun) % self.config.every == 0:
            local.state = local.state | self.search(local)
        both = ("model", "proxy")
        refine = Phase("refine", self.local_loss, trains=both, draws=partial(self.drawn, local.state))
        if not self.config.align:
            return [refine]
        anchors: Tensors = {}
        for name in KNOWLEDGE:
            rows, labels = local.received[name], local.received["labels"]
            anchors[name], anchors["known"] = by_class(labels, rows, self.federation.num_classes)
        return [Phase("align", self.global_loss, trains=both, state=anchors), refine]

    @torch.no_grad()
    def search(self, local: LocalClient) -> Tensors:
        """The pairs (strength, patches) whose mixed images have the largest gaps, as `_gaps` names them."""
        local.nets.eval()
        stream, device = local.stream("search", self.federation.device), self.federation.device
        pairs = [(alpha, g) for alpha in self.config.strengths for g in self.config.patches]
        strength, patches = (torch.tensor(each, device=device) for each in zip(*pairs, strict=True))
        gaps, most = [], max(self.config.patches)
        for indices in local.train.split(REPRESENTATION_BATCH):
            x, of_pairs = local.batch(indices).x, []
            with local.step("search", len(x)), local.precise():
                for alpha, g in zip(strength, patches, strict=True):
                    images = mixed(x, *drawn_mix(stream, x, alpha, g, most))
                    of_pairs.append(self._gaps(local.nets, images))
            gaps.append(torch.stack(of_pairs) * len(x))
        best = torch.stack(gaps).sum(0).argmax(0)
        return {"zones/strength": strength[best], "zones/patches": patches[best]}

    def drawn(self, zones: Mapping[str, Tensor], stream: torch.Generator, batch: Batch) -> Draws:
        """How the batch is mixed with itself for each zone: `order/…` [B] and `share/…` [H, W]."""
        draws: Tensors = {}
        most = max(self.config.patches)
        for zone, alpha, g in zip(ZONES, zones["zones/strength"], zones["zones/patches"], strict=True):
            draws[f"order/{zone}"], draws[f"share/{zone}"] = drawn_mix(stream, batch.x, alpha, g, most)
        return draws

    def global_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """Stage I: CE(ŷ, y) + CE(ŷ, σ(L̄_y)) + MSE(z, P̄_y) of each network, with the anchors of the other one.

        A class without anchors adds nothing.
        """
        known = state["known"][batch.y, None]
        loss = torch.zeros((), device=batch.x.device)
        model, proxy = nets.model, nets.network("proxy")
        for network, teacher, labelled in (
            (model, "proxy", recorded_cross_entropy),
            (proxy, "model", own_cross_entropy),
        ):
            z, logits = _outputs(network, batch.x)
            decision = state[f"logits/{teacher}"][batch.y].softmax(1) * known
            semantic = (z - state[f"features/{teacher}"][batch.y]) * known
            loss = loss + labelled(logits, batch.y)
            loss = loss + F.cross_entropy(logits, decision) + semantic.square().mean()
        return loss

    def local_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """Stage II: ℓ_base of both networks, and ℓ_SWAZ + ℓ_DWAZ of the students. The sums are outputs by class."""
        model, proxy = nets.model, nets.network("proxy")
        (z, y), (z_proxy, y_proxy) = _outputs(model, batch.x), _outputs(proxy, batch.x)
        teacher = torch.clone if self.config.base == "both" else torch.detach
        loss = self.gap(y, teacher(y_proxy)) + F.mse_loss(z, teacher(z_proxy))
        loss = loss + self.gap(y_proxy, teacher(y)) + F.mse_loss(z_proxy, teacher(z))
        own = recorded_cross_entropy(y, batch.y)  # also where the labels are not part of the loss
        if self.config.labels == "both":
            loss = loss + own + own_cross_entropy(y_proxy, batch.y)

        def of_zone(zone: str) -> Tensor:
            return mixed(batch.x, draws[f"order/{zone}"], draws[f"share/{zone}"])

        networks, students = {"model": model, "proxy": proxy}, STUDENTS[self.config.students]
        x = of_zone("swaz")
        features = {name: network.features(x) for name, network in networks.items()}
        for student in students:
            loss = loss + F.mse_loss(features[student], features[TEACHER[student]].detach())
        for student in students:
            x = of_zone(f"dwaz_{student}")
            with torch.no_grad():
                answer = networks[TEACHER[student]](x)
            loss = loss + self.gap(networks[student](x), answer)

        if self.config.collect == "after":
            return LossParts(loss)
        outputs = torch.cat([z, y, z_proxy, y_proxy], dim=1)
        return LossParts(loss, sums=sums_by_class("outputs", outputs, batch.y, self.federation.num_classes))

    def gap(self, student: Tensor, teacher: Tensor) -> Tensor:
        """τ² · KL(σ(ŷ_S/τ) ‖ σ(ŷ_T/τ)) of logits [B, C], mean over the batch; or KL(T ‖ S)."""
        p, q = (F.log_softmax(logits / self.config.tau, dim=1) for logits in (student, teacher))
        if self.config.divergence == "teacher_first":
            p, q = q, p
        return self.config.tau**2 * F.kl_div(q, p, reduction="batchmean", log_target=True)

    def uplink(self, local: LocalClient) -> Tensors:
        """Means by class. A class without a collected sample has the mean of the trained networks."""
        local.state = local.state | named("proxy", floating(of_module(local.nets["proxy"])))
        if not self.config.align:
            return {}
        proxy = local.nets.network("proxy")

        def outputs(model: Network, x: Tensor) -> Tensor:
            return torch.cat([*_outputs(model, x), *_outputs(proxy, x)], 1)

        if self.config.collect == "after":
            means, labels = local.class_means(outputs)
        else:
            complete = local.epochs(Phase("refine", self.local_loss)) >= 1
            means, labels = collected_means(local, "outputs", complete, outputs)
        sent = zip(KNOWLEDGE, means.split(self._widths(), dim=1), strict=True)
        return {name: mean.contiguous() for name, mean in sent} | {"labels": labels}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """P̄_c and L̄_c: plain means over the participants with class c (eq. 4). Those of other classes stay."""
        if not self.config.align:
            return Aggregated(dict(server), {})
        known = server["known/classes"]
        after = {name: class_averages(server[name], known, uplinks, name) for name in KNOWLEDGE}
        sent = torch.cat([payload["labels"].long() for _, payload in uplinks])
        known = known.index_fill(0, sent, 1.0)
        return Aggregated(after | {"known/classes": known}, {"classes_known": int(known.sum())})

    def _gaps(self, nets: Nets, x: Tensor) -> Tensor:
        """The gaps [3] of M and Q on mixed images, in the order of the zones."""
        (z, y), (z_proxy, y_proxy) = _outputs(nets.model, x), _outputs(nets.network("proxy"), x)
        return torch.stack([F.mse_loss(z, z_proxy), self.gap(y, y_proxy), self.gap(y_proxy, y)])

    def _widths(self) -> list[int]:
        """The widths of KNOWLEDGE."""
        return [self.federation.architecture(self.proxy).num_features, self.federation.num_classes] * 2


def mixed(x: Tensor, order: Tensor, share: Tensor) -> Tensor:
    """λ·x + (1 − λ)·x_π, by pixel: images [B, channels, H, W], π [B], λ [H, W] (A.2)."""
    other = x[order]
    return other + share * (x - other)


def drawn_mix(
    stream: torch.Generator, x: Tensor, strength: Tensor, patches: Tensor, most: int
) -> tuple[Tensor, Tensor]:
    """HAPM's draws for a batch of images (Appendix A): its shuffled order π [B], and λ of every pixel [H, W].

    Patches lie in a grid of √g × √g, and each is jittered by up to a quarter of its side. Each has a λ from
    Beta(strength, strength). The first of two patches that overlap counts. Pixels in no patch keep λ = 1. `patches`
    and `strength` are scalar tensors, so that no value has to be read: there are draws for `most` patches.
    """
    height, width = x.shape[2:]
    number = torch.arange(most, device=x.device)
    side = patches.to(torch.float64).sqrt().round().long()
    jitter = torch.rand(2, most, device=x.device, generator=stream)
    rows = _within(number // side, side, height, jitter[0])
    columns = _within(number % side, side, width, jitter[1])
    inside = (number < patches)[:, None, None] & rows[:, :, None] & columns[:, None, :]
    first = inside & (inside.cumsum(0) == 1)
    gamma = torch._standard_gamma(strength.expand(2, most), generator=stream)
    share = 1 + (first * (gamma[0] / gamma.sum(0) - 1)[:, None, None]).sum(0)
    return torch.randperm(len(x), device=x.device, generator=stream), share


def _within(index: Tensor, side: Tensor, size: int, jitter: Tensor) -> Tensor:
    """Which of `size` pixels in a line are in each patch [patches, size]. `jitter` is uniform on [0, 1)."""
    base = size // side
    low, high = (-base) // 4, base // 4
    moved = (low + (jitter * (high - low)).floor()).long()  # low, …, high − 1
    starts, ends = (((index + end) * base + moved)[:, None] for end in (0, 1))
    at = torch.arange(size, device=index.device)
    return (at >= starts) & (at < ends)


def _outputs(network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """Features [B, K] and logits [B, C]."""
    z = network.features(x)
    return z, network.head(z)
