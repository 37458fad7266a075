"""FD (FedDistill): Jeong et al., "Communication-Efficient On-Device Machine Learning: Federated Distillation and
Augmentation under Non-IID Private Data", 2018, Algorithm 1; without the augmentation, as FedGH and FedL2G compare
with it.

For each class, a client sends the mean output [C] of its samples: probabilities, which the paper calls logit vectors
normalized by softmax, or logits with `distance = "mse"`.

Server state: one row for each class of each client, clients in order and their classes ascending, R = Σ_k |S_k| rows.
If a client's data change, S_k has its classes of all rounds.
`sent/logits` [R, C] is the client's last uplink for the class. `sent/counts` [R] is 1 if that was in the last round in
which any client sent the class, else 0. Client state: `guide/logits` [C, C] and `guide/known` [C], as last received.
Only the client's own classes are ever known.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Method, Uplink, register
from simulator.methods.means import by_class, collected_means, sums_by_class
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, recorded_cross_entropy


class FDConfig(MethodConfig, space={"gamma": Log(0.01, 10)}):
    """Hyper-parameters of FD, §2."""

    gamma: float = Field(1.0, ge=0, description="γ, weight of the distance to the guides")
    distance: Literal["cross_entropy", "mse"] = Field(
        "cross_entropy",
        description="cross-entropy of mean probabilities (Algorithm 1), or mean squared distance of mean logits",
    )
    collect: Literal["all_epochs", "after"] = Field(
        "all_epochs",
        description="when outputs are collected: in all local epochs (Algorithm 1), or after training",
    )
    include_self: bool = Field(
        False, description="guide by the mean over all senders (FedL2G, eq. 2), not over the others alone"
    )


@register("fd")
class FD(Method):
    """Clients pull their outputs towards the mean output of the other clients for the same class."""

    card = Card(
        title="FD (FedDistill)",
        paper="Jeong et al. 2018",
        kind="logits",
        needs="the same classes C on every client, which every federation has",
        down="guides of the client's classes, labels",
        up="class-mean outputs, labels",
        stale="moves the client's own rows of its classes less far towards it",
        partial=COUNTS_FULLY,
    )
    config: FDConfig

    def init_server(self) -> Tensors:
        rows = len(self.federation.held_classes[0])
        return {
            "sent/logits": torch.zeros(rows, self.federation.num_classes),
            "sent/counts": torch.zeros(rows),
        }

    def init_client(self, client: ClientInfo) -> Tensors:
        classes = self.federation.num_classes
        return {"guide/logits": torch.zeros(classes, classes), "guide/known": torch.zeros(classes)}

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """For each class of the client that others have sent: Σ_{j≠k} F_j / (M − 1), over its M senders."""
        owner, label = self.federation.held_classes
        counts = server["sent/counts"].clone()
        if not self.config.include_self:
            counts[owner == client.id] = 0
        labels, guides = [], []
        for y in client.classes:
            of_class = counts * (label == y)
            if of_class.any():
                labels.append(y)
                guides.append(of_class @ server["sent/logits"] / of_class.sum())
        return {
            "logits": torch.stack(guides) if guides else server["sent/logits"][:0],
            "labels": torch.tensor(labels, dtype=torch.int32, device=counts.device),
        }

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        logits, known = by_class(payload["labels"], payload["logits"], self.federation.num_classes)
        local.state = {"guide/logits": logits, "guide/known": known}

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        return [Phase("model", self.loss, state=local.state)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """ϕ(F(x), y) + γ·ϕ(F(x), F̂_y) (Algorithm 1, line 5). A class without a guide adds nothing to the mean.

        The sums over the steps are outputs and samples by class, before each step (line 6).
        """
        logits: Tensor = nets.model(batch.x)
        guide, known = state["guide/logits"][batch.y], state["guide/known"][batch.y, None]
        if self.config.distance == "mse":
            distance = ((logits - guide) * known).square().mean()
        else:
            distance = F.cross_entropy(logits, guide * known)
        loss = recorded_cross_entropy(logits, batch.y) + self.config.gamma * distance
        if self.config.collect == "after":
            return LossParts(loss)
        outputs = self._output(logits.detach())
        return LossParts(loss, sums=sums_by_class("outputs", outputs, batch.y, self.federation.num_classes))

    def uplink(self, local: LocalClient) -> Tensors:
        """A class without a collected sample has the mean output after training."""

        def output(model: Network, x: Tensor) -> Tensor:
            return self._output(model(x))

        if self.config.collect == "after":
            means, labels = local.class_means(output)
        else:
            [phase] = self.phases(local)
            means, labels = collected_means(local, "outputs", local.epochs(phase) >= 1, output)
        return {"logits": means, "labels": labels}

    def _output(self, logits: Tensor) -> Tensor:
        """The values of a sample that are averaged."""
        return logits if self.config.distance == "mse" else logits.softmax(1)

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """Store the uplinks. A class that no client sent keeps its senders. Stale ones move rows less far."""
        owner, label = self.federation.held_classes
        logits, counts = server["sent/logits"].clone(), server["sent/counts"].clone()
        senders = torch.zeros_like(owner, dtype=torch.bool)
        for uplink in uplinks:
            held = torch.isin(label, label.new_tensor(uplink.client.classes))
            own, sent = (owner == uplink.client.id) & held, uplink.payload["logits"]
            if uplink.weight != 1:
                before = logits[own]
                known = before.any(1, keepdim=True)
                sent = torch.where(known, before + uplink.weight * (sent - before), sent)
            logits[own] = sent
            senders |= own
        counts[torch.isin(label, label[senders])] = 0
        counts[senders] = 1
        return Aggregated({"sent/logits": logits, "sent/counts": counts}, {})
