"""FedProto: Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI 2022,
Algorithm 1, equations 3–8 as numbered in arXiv 2105.00243.

A prototype is the mean feature [K] of a class. Server state: `prototypes/mean` [C, K], the global prototypes C̄, and
`prototypes/known` [C], 1 for a class that a client has sent, and 0 before. Client state: the same two, as last
received. Only the client's own classes are ever known.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.means import by_class, class_averages, collected_means, sums_by_class
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, recorded_cross_entropy


class FedProtoConfig(MethodConfig, space={"lam": Log(0.01, 10)}):
    """Hyper-parameters of FedProto, §4."""

    lam: float = Field(1.0, ge=0, description="λ, weight of the distance to the prototypes (eq. 7)")
    weighting: Literal["counts", "plain"] = Field(
        "counts",
        description="weights of the server's mean: a client's samples of the class (eq. 5), or equal",
    )
    collect: Literal["last_epoch", "all_epochs", "after"] = Field(
        "last_epoch",
        description="when prototypes are collected: in the last local epoch (authors' code), in all, or after them",
    )
    inference: Literal["nearest", "head"] = Field(
        "nearest", description="answer by the nearest prototype (eq. 4) or by the model's head"
    )


@register("fedproto")
class FedProto(Method):
    """Clients pull their features towards the mean feature of each class over all clients."""

    card = Card(
        title="FedProto",
        paper="Tan et al. 2022, AAAI",
        kind="features",
        needs="the same feature width K on every client",
        down="prototypes of the client's classes, labels",
        up="class-mean features, labels, class counts",
        stale="moves the prototypes of its classes less far towards it",
        partial=COUNTS_FULLY,
    )
    answers = "aggregated"  # uses this round's prototypes with the client's own model
    config: FedProtoConfig

    def unmet_need(self) -> str | None:
        return needs.same_width(self.federation)

    def init_server(self) -> Tensors:
        classes = self.federation.num_classes
        width = self.federation.architecture_of(self.federation.clients[0]).num_features
        return {"prototypes/mean": torch.zeros(classes, width), "prototypes/known": torch.zeros(classes)}

    def init_client(self, client: ClientInfo) -> Tensors:
        return self.init_server()

    def adopts(self) -> Collection[str]:
        return ("prototypes",)

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        seen = torch.tensor(client.classes, device=server["prototypes/known"].device)
        labels = seen[server["prototypes/known"][seen] > 0]
        return {"prototypes": server["prototypes/mean"][labels], "labels": labels.to(torch.int32)}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        mean, known = by_class(payload["labels"], payload["prototypes"], self.federation.num_classes)
        local.state = {"prototypes/mean": mean, "prototypes/known": known}

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        phase = Phase("model", self.loss, state=local.state)
        if self.config.collect == "all_epochs":
            return [phase]
        return [replace(phase, collect_after=max(0, local.steps(phase) - local.steps_of_epoch(phase)))]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """ℓ(h(f(x)), y) + λ·MSE(f(x), C̄_y) (eq. 7). A class without a prototype adds nothing to the mean.

        The sums over the steps are features and samples by class, before each step.
        """
        features = nets.model.features(batch.x)
        distance = (features - state["prototypes/mean"][batch.y]) * state["prototypes/known"][batch.y, None]
        ce = recorded_cross_entropy(nets.model.head(features), batch.y)
        loss = ce + self.config.lam * distance.square().mean()
        if self.config.collect == "after":
            return LossParts(loss)
        return LossParts(loss, sums=sums_by_class("features", features, batch.y, self.federation.num_classes))

    def uplink(self, local: LocalClient) -> Tensors:
        """The mean feature of each of the client's classes (eq. 3). One without a collected sample: after training."""
        if self.config.collect == "after":
            prototypes, labels = local.class_means()
        else:
            [phase] = self.phases(local)
            epochs, all_epochs = local.epochs(phase), self.config.collect == "all_epochs"
            complete = epochs >= 1 and (all_epochs or epochs % 1 == 0)
            prototypes, labels = collected_means(local, "features", complete)
        sent = {"prototypes": prototypes, "labels": labels}
        return sent | {"counts": local.class_counts()} if self.config.weighting == "counts" else sent

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """C̄_j = Σ_k n_kj C_kj / Σ_k n_kj over the participants with class j (eq. 6). Other prototypes stay."""
        known = server["prototypes/known"]
        mean = class_averages(server["prototypes/mean"], known, uplinks, "prototypes")
        sent = torch.cat([payload["labels"].long() for _, payload in uplinks])
        known = known.index_fill(0, sent, 1.0)
        state = {"prototypes/mean": mean, "prototypes/known": known}
        return Aggregated(state, {"classes_known": int(known.sum())})

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """−‖f(x) − C̄_j‖ for every class j with a prototype (eq. 4), or the head's logits while there is none."""
        mean, known = state["prototypes/mean"], state["prototypes/known"]
        return by_prototypes(nets.model, x, mean, known, self.config.inference)


def by_prototypes(model: Network, x: Tensor, mean: Tensor, known: Tensor, inference: str) -> Tensor:
    """−‖f(x) − P_c‖ [B, C] for known prototypes P_c [C, K], or the head's logits while there is none, or if asked."""
    features = model.features(x)
    logits: Tensor = model.head(features)
    if inference == "head":
        return logits
    # The formula keeps its digits if prototypes are close to each other.
    near = -torch.cdist(features, mean, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.where((known > 0).any(), near.masked_fill(known == 0, -torch.inf), logits)
