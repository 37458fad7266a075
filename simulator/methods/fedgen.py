"""FedGen: Zhu et al., "Data-Free Knowledge Distillation for Heterogeneous Federated Learning", ICML 2021, Algorithm 1,
with the head shared and the features local (§3.3).

Server state: `generator/…`, which makes features [K] of a class and noise; `adam/…`, the moments of its optimizer;
`head/…`, the global head; `counts` [N, C], each client's training samples by class, zeros until it has told them;
`labels` [C], p̂(y), shares of the classes among the last round's participants, zeros before there were any. Client
state: none beside the model.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.sections import Choice, Log, MethodConfig
from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.means import divergence, sample_shares, weighted_sum
from simulator.models.federation import ClientInfo
from simulator.training import optimizer
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, recorded_cross_entropy
from simulator.training.trainer import CentralServer


class FedGenConfig(MethodConfig, space={"alpha": Log(0.1, 10), "beta": Choice((0.0, 0.1, 1.0, 10.0))}):
    """Hyper-parameters of FedGen. Defaults are the paper's where it names a value."""

    alpha: float = Field(
        1.0, ge=0, description="weight of generated features in the clients' loss (1 in eq. 5)"
    )
    beta: float = Field(
        0.0,
        ge=0,
        description="weight of the divergence from the head's answer to a generated feature of the same class; "
        "in the authors' code, not in eq. 5",
    )
    decay: float = Field(1.0, gt=0, le=1, description="factor on both weights from round to round")
    noise: Literal["normal", "uniform"] = Field(
        "normal", description="what the generator starts from: N(0, I) or U(0, 1)"
    )
    noise_width: int = Field(32, ge=1, description="numbers of noise")
    hidden: int = Field(512, ge=1, description="width of the generator's hidden layer")
    hidden_bias: bool = Field(
        False,
        description="bias of the generator's hidden layer; BatchNorm cancels it, and its gradient is rounding error",
    )
    labels: Literal["counts", "uniform"] = Field(
        "counts", description="classes made: in proportion to the participants' samples, or each as often"
    )
    teacher: Literal["mean_logits", "losses", "logits"] = Field(
        "mean_logits",
        description="generator's loss: of the plain mean of the clients' logits (eq. 4), mean of their losses "
        "weighted by shares of the class (authors' code), or of logits weighted by n_k/n (HtFLlib)",
    )
    weighting: Literal["plain", "samples"] = Field(
        "plain", description="mean of the heads: plain (Algorithm 1), or weighted by n_k/n as in the code"
    )
    diversity: float = Field(1.0, ge=0, description="weight of the term that keeps what is made apart")
    server_steps: int = Field(50, ge=1, description="steps of the generator in a round")
    server_batch: int = Field(32, ge=2, description="classes in a step of the generator's")
    server_lr: float = Field(3e-4, gt=0, description="learning rate of the generator (Adam)")


class Generator(nn.Module):
    """(noise [B, noise], classes [B]) → layer, BatchNorm, ReLU, layer → features [B, K]."""

    def __init__(self, noise: int, classes: int, hidden: int, width: int, bias: bool) -> None:
        super().__init__()
        self.classes = classes
        first = nn.Linear(noise + classes, hidden, bias)
        self.layers = nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, noise: Tensor, y: Tensor) -> Tensor:
        made: Tensor = self.layers(torch.cat([noise, F.one_hot(y, self.classes).to(noise)], dim=1))
        return made


@register("fedgen")
class FedGen(Method):
    """The server learns which features the clients' heads assign to a class. Heads learn from such features."""

    card = Card(
        title="FedGen",
        paper="Zhu et al. 2021, ICML",
        kind="generator",
        needs="the same head on every client",
        down="generator, head, label shares",
        up="head; once label counts",
        partial=COUNTS_FULLY,
    )
    config: FedGenConfig

    def unmet_need(self) -> str | None:
        return needs.same_head(self.federation)

    def server_networks(self) -> Mapping[str, nn.Module]:
        width = self.federation.architecture_of(self.federation.clients[0]).num_features
        config, classes = self.config, self.federation.num_classes
        return {"generator": Generator(config.noise_width, classes, config.hidden, width, config.hidden_bias)}

    def init_server(self) -> Tensors:
        classes, clients = self.federation.num_classes, len(self.federation.clients)
        counted = {"counts": torch.zeros(clients, classes), "labels": torch.zeros(classes)}
        adam = named("adam", optimizer.moments("adam", self.server_networks()))
        head = named("head", of_module(self.federation.shared_head()))
        return super().init_server() | adam | head | counted

    def adopts(self) -> Collection[str]:
        return ("head",)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """The head. Once the generator has been trained, also the generator and p̂. Uncounted clients get `asked`."""
        payload = named("head", part(server, "head"))
        if server["labels"].any():
            payload |= named("generator", floating(part(server, "generator"))) | {"labels": server["labels"]}
        if not server["counts"][client.id].any() or client.id in self.federation.changed:
            payload["asked"] = torch.ones(1, dtype=torch.int32, device=server["counts"].device)
        return payload

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.nets.model.head.load_state_dict(part(payload, "head"))
        local.received = payload

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        """Cross-entropy alone until the generator has been trained."""
        if "labels" not in local.received:
            return [Phase("model", own)]
        with torch.device("meta"):
            network = self.server_networks()["generator"]
        local.add_network("generator", network, part(local.received, "generator"))
        weights = torch.tensor([self.config.alpha, self.config.beta], device=self.federation.device)
        weights *= self.config.decay ** (local.round - 1 - self.federation.begun)
        draws = partial(self.draws, local.received["labels"])
        return [Phase("guided", self.loss, draws=draws, state={"weights": weights})]

    def draws(self, shares: Tensor, stream: torch.Generator, batch: Batch) -> Draws:
        """One class per image, drawn from p̂, and noise for these classes and for the images' own."""
        count = len(batch.y)
        drawn = {"labels": classes_from(shares, count, stream), "noise": self.noise(count, stream)}
        return drawn | ({"noise_own": self.noise(count, stream)} if self.config.beta else {})

    def noise(self, count: int, stream: torch.Generator) -> Tensor:
        """[count, noise_width]"""
        draw = torch.randn if self.config.noise == "normal" else torch.rand
        return draw(count, self.config.noise_width, generator=stream, device=self.federation.device)

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """CE(x, y) + α·CE(h(G(ŷ, ε)), ŷ) + β·KL(h(G(y, ε')) ‖ model(x)), where KL's first argument is constant."""
        generator, head = nets["generator"], nets.model.head
        logits = nets.model(batch.x)
        ce = recorded_cross_entropy(logits, batch.y)
        made = F.cross_entropy(head(generator(draws["noise"], draws["labels"])), draws["labels"])
        alpha, beta = state["weights"]
        loss = ce + alpha * made
        if self.config.beta:
            loss = loss + beta * divergence(head(generator(draws["noise_own"], batch.y)), logits)
        return LossParts(loss, {"cross_entropy": ce, "generated": made})

    def uplink(self, local: LocalClient) -> Tensors:
        told = {"counts": local.class_counts()} if "asked" in local.received else {}
        return named("head", of_module(local.nets.model.head)) | told

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        counts = server["counts"].clone()
        for client, payload in uplinks:
            if "counts" in payload:
                counts[client.id] = 0
                counts[client.id, list(client.classes)] = payload["counts"].to(counts)
        there = counts[[client.id for client, _ in uplinks]].sum(0)
        labels = there if self.config.labels == "counts" else (there > 0).to(there)
        plain = self.config.weighting == "plain"
        shares = [1 / len(uplinks)] * len(uplinks) if plain else sample_shares(uplinks)
        heads = {name: weighted_sum(uplinks, name, shares) for name in ("head/weight", "head/bias")}
        return Aggregated(dict(server) | heads | {"counts": counts, "labels": labels / labels.sum()}, {})

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """Adam through the heads as they were sent. Its moments continue from round to round."""
        counts = server.state["counts"][[client.id for client, _ in uplinks]]
        samples = counts.new_tensor([client.samples for client, _ in uplinks])
        state = {key: torch.stack([sent[f"head/{key}"] for _, sent in uplinks]) for key in ("weight", "bias")}
        state |= {"shares": counts / counts.sum(0).clamp(min=1), "samples": samples / samples.sum()}
        steps, size = self.config.server_steps, self.config.server_batch
        stream = server.stream("labels", self.federation.device)
        labels = classes_from(server.state["labels"], steps * size, stream)
        return [
            Phase(
                "generator",
                self.server_loss,
                trains=("generator",),
                lr=self.config.server_lr,
                optimizer="adam",
                keeps="adam",
                batches=[Batch(y, y) for y in labels.split(size)],
                draws=lambda stream, batch: {"noise": self.noise(len(batch.y), stream)},
                state=state,
            )
        ]

    def server_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """Eq. 4, the cross-entropy of the clients' mean logits for G(y, ε), and the diversity."""
        made = nets["generator"](draws["noise"], batch.y)
        logits = torch.einsum("bk,nck->nbc", made, state["weight"]) + state["bias"][:, None]
        if self.config.teacher == "mean_logits":
            taught = F.cross_entropy(logits.mean(0), batch.y)
        elif self.config.teacher == "logits":
            taught = F.cross_entropy((state["samples"][:, None, None] * logits).sum(0), batch.y)
        else:
            each = F.cross_entropy(logits.flatten(0, 1), batch.y.repeat(len(logits)), reduction="none")
            taught = (state["shares"][:, batch.y] * each.view(len(logits), -1)).sum(0).mean()
        if not self.config.diversity:
            return taught
        return taught + self.config.diversity * diversity_loss(draws["noise"], made)


def own(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
    """Cross-entropy on the client's images alone."""
    ce = recorded_cross_entropy(nets.model(batch.x), batch.y)
    return LossParts(ce, {"cross_entropy": ce})


def diversity_loss(noise: Tensor, made: Tensor) -> Tensor:
    """exp(−mean over all pairs of mean (ε_i − ε_j)² · mean |z_i − z_j|): 1 if all noise gives the same features."""
    started = (noise[:, None] - noise).square().mean(2)
    ended = (made[:, None] - made).abs().mean(2)
    return torch.exp(-(started * ended).mean())


def classes_from(shares: Tensor, count: int, stream: torch.Generator) -> Tensor:
    """Draw `count` classes [count] of probabilities [C] as a race of times: cumulative sums are not fixed on CUDA."""
    drawn = torch.rand(count, len(shares), generator=stream, dtype=shares.dtype, device=shares.device)
    times = -drawn.clamp(min=torch.finfo(shares.dtype).tiny).log()
    return (shares / times).argmax(1)
