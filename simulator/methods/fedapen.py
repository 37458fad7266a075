"""FedAPEN: Qin et al., "FedAPEN: Personalized Cross-silo Federated Learning with Adaptability to Statistical
Heterogeneity", KDD 2023.

Besides its own model, every client trains the meme, a network that all clients share. Both answer together, and each
client learns how much its own model counts.

Server state: `meme/…`, the global meme. Client state: `lam` [], λ, the weight of the own model; `meme/…`, the client's
last meme.
"""

from collections.abc import Collection, Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from simulator.base.sections import Choice, Linear, Log, MethodConfig
from simulator.base.tensors import Tensors, floating
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Card, needs, register
from simulator.methods.base import own_cross_entropy
from simulator.methods.means import divergence
from simulator.methods.small_model import SmallModel
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, recorded_cross_entropy


class FedAPENConfig(
    MethodConfig,
    space={
        "lam_share": Linear(0.02, 0.2),
        "lam_epochs": Choice((1, 10, 50)),
        "lam_lr": Log(1e-4, 1.0),
    },
):
    """Hyper-parameters of FedAPEN."""

    meme: str | None = Field(None, description="the meme's architecture; default: the clients' smallest")
    lam_share: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="share of a client's training samples that only λ learns on: at least one, and two remain",
    )
    lam_epochs: int = Field(10, ge=0, description="passes over these samples; 0 keeps λ at 1/2")
    lam_lr: float = Field(0.001, gt=0, description="learning rate of λ")


@register("fedapen")
class FedAPEN(SmallModel):
    """A local model and a shared one teach each other, and answer together with weights that the client learns."""

    card = Card(
        title="FedAPEN",
        paper="Qin et al. 2023, KDD",
        kind="small model",
        needs="three training samples; a small model beside the client's own",
        down="small model",
        up="small model",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )
    answers = "aggregated"
    config: FedAPENConfig
    shared = "meme"

    def unmet_need(self) -> str | None:
        return needs.samples(self.federation, 3, "λ learns on one, and the networks on two")

    def adopts(self) -> Collection[str]:
        return ("meme",)

    def init_client(self, client: ClientInfo) -> Tensors:
        return {"lam": torch.tensor(0.5)} | floating(self.init_server())

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.state = local.state | dict(payload)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        super().receive(local, local.state)  # adds the meme to its networks
        if local.round > self.federation.begun + 1:  # the first meme is not an average yet
            self.learn(local)
        samples, _ = self.divided(local)
        state = {"lam": local.state["lam"]}
        return [Phase("mutual", self.loss, trains=("model", "meme"), samples=samples, state=state)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """The sum of both losses. Each reaches only its own network.

        local: CE + KL(meme ‖ local) + CE of both together; meme: the same with the parts exchanged.
        """
        local, meme, lam = nets.model(batch.x), nets["meme"](batch.x), state["lam"]
        with_local = own_cross_entropy(together(lam, local, meme.detach()), batch.y)
        with_meme = own_cross_entropy(together(lam, local.detach(), meme), batch.y)
        of_local = recorded_cross_entropy(local, batch.y) + divergence(meme, local) + with_local
        of_meme = own_cross_entropy(meme, batch.y) + divergence(local, meme) + with_meme
        return LossParts(of_local + of_meme, terms={"own": of_local, "meme": of_meme})

    def uplink(self, local: LocalClient) -> Tensors:
        meme = super().uplink(local)
        local.state = local.state | meme
        return meme

    def before_answering(self, local: LocalClient) -> None:
        super().receive(local, local.state)
        self.learn(local)

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return together(state["lam"], nets.model(x), nets["meme"](x))

    @torch.no_grad()
    def learn(self, local: LocalClient) -> None:
        """λ ← λ − lr · ∂CE/∂λ, kept within 0 and 1, by batches. Each sample passes the fixed networks once for all."""
        local.nets.eval()
        _, held_out = self.divided(local)
        batches = []
        for indices in held_out.split(self.federation.training.batch_size) if len(held_out) else ():
            x, y = local.batch(indices)
            with local.step("lam", len(y)), local.precise():
                batches.append((local.nets.model(x), local.nets["meme"](x), y))
        lam = local.state["lam"]
        for _ in range(self.config.lam_epochs):
            for own, meme, y in batches:
                lam = (lam - self.config.lam_lr * slope(lam, own, meme, y)).clamp(0, 1)
        local.state = local.state | {"lam": lam}

    def divided(self, local: LocalClient) -> tuple[Tensor, Tensor]:
        """Indices of the samples to train on (at least two remain) and of those for λ, the same in all rounds."""
        stream = self.federation.stream("adaptability", client=local.info.id, initial=False)
        shuffled = local.train[torch.randperm(len(local.train), generator=stream).to(local.train.device)]
        held_out = max(1, int(len(shuffled) * self.config.lam_share))
        held_out = max(0, min(held_out, len(shuffled) - 2))
        return shuffled[held_out:], shuffled[:held_out]


def together(lam: Tensor, own: Tensor, meme: Tensor) -> Tensor:
    """λ · own + (1 − λ) · meme, the logits [B, C] of both networks as one."""
    return lam * own + (1 - lam) * meme


def slope(lam: Tensor, own: Tensor, meme: Tensor, y: Tensor) -> Tensor:
    """∂CE/∂λ of both networks' logits [B, C] together, for labels y [B]: the batch's mean of (p − y) · (own − meme)."""
    p = F.softmax(together(lam, own, meme), dim=1)
    return ((p - F.one_hot(y, p.shape[1])) * (own - meme)).sum(1).mean()
