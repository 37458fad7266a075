"""FedMD: Li and Wang, "FedMD: Heterogenous Federated Learning via Model Distillation", 2019, Algorithm 1.

The paper's round is communicate, aggregate, distribute, digest, revisit. Here, a round begins with what the server
distributes. So a client's first round is its transfer learning, after which it communicates, and every later one is
digest, revisit, communicate.

Server state: `consensus` [n, C], f̃ on the samples d_j of the last round in which clients sent scores; `round`, that
round, 0 before it; `begun` [N], 1 for each client that has sent. Client state: none beside the model.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from simulator.base.sections import Choice, MethodConfig
from simulator.base.tensors import Tensors
from simulator.methods import Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.base import cross_entropy
from simulator.methods.means import weighted_sum
from simulator.models.federation import ClientInfo
from simulator.training import public
from simulator.training.client import REPRESENTATION_BATCH, LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase


class FedMDConfig(
    MethodConfig, space={"digest_epochs": Choice((1, 2, 5)), "distance": Choice(("absolute", "squared"))}
):
    """Hyper-parameters of FedMD. The epochs of the revisit are those of the run."""

    subset: int | None = Field(
        5000, ge=2, description="public samples d_j whose scores are sent in a round; none: all"
    )
    public_epochs: int = Field(
        20,
        ge=0,
        description="epochs on the public samples and their labels in a client's first round; 0: no use of labels",
    )
    public_batch: int = Field(128, ge=2, description="batch size of these epochs")
    private_epochs: int = Field(25, ge=1, description="epochs on the client's own samples in its first round")
    digest_epochs: int = Field(1, ge=1, description="epochs of the digest on d_j")
    digest_batch: int = Field(256, ge=2, description="batch size of the digest")
    distance: Literal["absolute", "squared"] = Field(
        "absolute",
        description="distance to the consensus: mean absolute or mean squared difference of scores",
    )


@register("fedmd")
class FedMD(Method):
    """Clients score public samples, and each learns the mean scores of all."""

    card = Card(
        title="FedMD",
        paper="Li and Wang 2019",
        kind="logits",
        needs="public samples (data.public)",
        down="mean scores of public samples",
        up="scores of public samples",
    )
    config: FedMDConfig

    def unmet_need(self) -> str | None:
        public_classes, classes = self.federation.public_classes, self.federation.num_classes
        if self.config.public_epochs and public_classes > classes:
            return (
                f"needs at most {classes} classes of public samples to train on their labels, and they have "
                f"{public_classes}. Set method.public_epochs=0 to leave the labels out"
            )
        return needs.public_samples(self.federation, "clients compare their scores on them")

    def init_server(self) -> Tensors:
        rows = min(self.config.subset or self.federation.public, self.federation.public)
        return {
            "consensus": torch.zeros(rows, self.federation.num_classes),
            "round": torch.zeros((), dtype=torch.int64),
            "begun": torch.zeros(len(self.federation.clients), dtype=torch.int32),
        }

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """Distribute: f̃ of the round before, without rows if no scores arrived in it. A client's first gets nothing."""
        if not server["begun"][client.id]:
            return {}
        arrived = server["round"] == round - 1
        return {"consensus": server["consensus"] if arrived else server["consensus"][:0]}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.received = payload

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        if "consensus" not in local.received:
            private = Phase("private", cross_entropy, epochs=self.config.private_epochs)
            return [self.transfer(local), private] if self.config.public_epochs else [private]
        revisit = Phase("revisit", cross_entropy)
        return [self.digest(local), revisit] if len(local.received["consensus"]) else [revisit]

    def transfer(self, local: LocalClient) -> Phase:
        """Transfer learning on D_0, before that on D_k."""
        every, epochs = local.public.of_round(0, None), self.config.public_epochs
        batches = public.shuffled(local, "public", every, self.config.public_batch, epochs=epochs)
        return Phase("public", self.public_loss, batches=batches, state={"labels": local.public.labels})

    def digest(self, local: LocalClient) -> Phase:
        """Approach f̃ on d_j, which was scored in the round before."""
        scored = local.public.of_round(local.round - 1, self.config.subset)
        epochs, size = self.config.digest_epochs, self.config.digest_batch
        batches = public.shuffled(local, "digest", scored, size, epochs=epochs)
        return Phase("digest", self.digest_loss, batches=batches, state=local.received)

    def public_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """CE of public samples."""
        return F.cross_entropy(nets.model(batch.x), state["labels"][batch.y])

    def digest_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """Mean of |f_k(x) − f̃(x)|, or of its square, over samples and classes. Scores are logits."""
        away: Tensor = nets.model(batch.x) - state["consensus"][batch.y]
        return away.abs().mean() if self.config.distance == "absolute" else away.square().mean()

    @torch.no_grad()
    def uplink(self, local: LocalClient) -> Tensors:
        """Communicate: f_k on the samples of this round, in evaluation mode."""
        samples = local.public.of_round(local.round, self.config.subset)
        local.nets.eval()
        scores = []
        for batch in public.in_order(local, samples, REPRESENTATION_BATCH):
            with local.step("scores", len(batch.y)), local.precise():
                scores.append(local.nets.model(batch.x))
        return {"scores": torch.cat(scores)}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """f̃ = Σ_k f_k / m over the participants."""
        begun = server["begun"].clone()
        begun[[uplink.client.id for uplink in uplinks]] = 1
        consensus = weighted_sum(uplinks, "scores", [1 / len(uplinks)] * len(uplinks))
        last = torch.full_like(server["round"], round)
        return Aggregated({"consensus": consensus, "round": last, "begun": begun}, {})
