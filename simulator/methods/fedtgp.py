"""FedTGP: Zhang et al., "FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced Contrastive Learning for
Data and Model Heterogeneity in Federated Learning", AAAI 2024, Algorithm 1.

A prototype is a vector [K] of a class. Server state: `prototypes/…`, the modules that make one for every class: an
embedding of C classes, and two layers K → K; `trained` [1], 0 before the first uplink. Client state: `guide/mean`
[C, K], the prototypes P̂ as last received, and `guide/known` [1], whether there were any.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors, part
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.fedproto import by_prototypes
from simulator.methods.means import mean_cross_entropy, row_weights, rows_of, rows_sent, shuffled
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy
from simulator.training.trainer import CentralServer


class FedTGPConfig(MethodConfig, space={"lam": Log(0.01, 10), "tau": Log(1, 1000)}):
    """Hyper-parameters of FedTGP. Defaults are the paper's."""

    lam: float = Field(0.1, ge=0, description="λ, weight of the distance to the prototypes (eq. 11)")
    distance: Literal["means", "samples"] = Field(
        "means",
        description="Euclidean distance of each class mean of the batch to its prototype (eq. 11), or mean squared "
        "error of every sample, as in the released code",
    )
    tau: float = Field(100.0, ge=0, description="τ, the largest margin δ")
    server_epochs: int = Field(100, ge=1, description="S, passes of the server over what it has received")
    server_lr: float | None = Field(
        None, gt=0, description="learning rate of the prototypes; default training.lr"
    )
    server_batch: int | None = Field(
        None, ge=1, description="class means in a step of the server's; default training.batch_size"
    )
    margin: Literal["largest", "nearest"] = Field(
        "largest",
        description="δ: the largest distance of two averaged means, or the largest of those to the nearest one",
    )
    collect: Literal["after", "before"] = Field(
        "after",
        description="class means of the trained model, or of the one before, as the released code has it",
    )
    inference: Literal["nearest", "head"] = Field(
        "nearest", description="answer by the nearest prototype or by the model's head"
    )


class Prototypes(nn.Module):
    """Class numbers → embedding → layer → ReLU → layer: a prototype for every class [C, K]."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self) -> Tensor:
        made: Tensor = self.layers(self.embedding.weight)
        return made


@register("fedtgp")
class FedTGP(Method):
    """The server trains a prototype for every class, with a margin to the others. Clients move towards theirs."""

    card = Card(
        title="FedTGP",
        paper="Zhang et al. 2024, AAAI",
        kind="features",
        needs="the same feature width K on every client",
        down="prototypes of all classes",
        up="class-mean features, labels",
        stale="counts less in the server's loss, and in the means of the margin",
        partial=COUNTS_FULLY,
    )
    answers = "aggregated"  # uses this round's prototypes with the client's own model
    config: FedTGPConfig

    def unmet_need(self) -> str | None:
        return needs.same_width(self.federation)

    def server_networks(self) -> Mapping[str, nn.Module]:
        width = self.federation.architecture_of(self.federation.clients[0]).num_features
        return {"prototypes": Prototypes(self.federation.num_classes, width)}

    def init_server(self) -> Tensors:
        return super().init_server() | {"trained": torch.zeros(1)}

    def init_client(self, client: ClientInfo) -> Tensors:
        width = self.federation.architecture_of(client).num_features
        return {"guide/mean": torch.zeros(self.federation.num_classes, width), "guide/known": torch.zeros(1)}

    @torch.no_grad()
    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        if not server["trained"]:
            return {}
        with torch.device("meta"):
            network = self.server_networks()["prototypes"]
        return {"prototypes": functional_call(network, part(server, "prototypes"))}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        if payload:
            known = torch.ones_like(local.state["guide/known"])
            local.state = {"guide/mean": payload["prototypes"], "guide/known": known}

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        if self.config.collect == "before":
            local.collected |= class_means(local)
        return [Phase("model", self.loss, state=local.state)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """Eq. 11: CE + λ times the distance to the prototypes, which is 0 while there are none."""
        features = nets.model.features(batch.x)
        if self.config.distance == "means":  # E_c ‖mean features of class c − P̂^c‖ over the batch's classes
            one_hot = F.one_hot(batch.y, self.federation.num_classes).to(features.dtype)
            counts = one_hot.sum(0)
            means = one_hot.T @ features / counts.clamp(min=1)[:, None]
            present = (counts > 0).to(features.dtype)
            distance = (length(means - state["guide/mean"]) * present).sum() / present.sum()
        else:
            distance = F.mse_loss(features, state["guide/mean"][batch.y])
        ce = recorded_cross_entropy(nets.model.head(features), batch.y)
        return ce + self.config.lam * distance * state["guide/known"].squeeze()

    def uplink(self, local: LocalClient) -> Tensors:
        return class_means(local) if self.config.collect == "after" else local.collected

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        margin = self.margin(*rows_sent(uplinks, "means"), row_weights(uplinks, "means"))
        return Aggregated(dict(server) | {"trained": torch.ones_like(server["trained"])}, {"margin": margin})

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """S epochs of SGD, started anew each round, over all means in shuffled batches."""
        means, labels = rows_sent(uplinks, "means")
        weights = row_weights(uplinks, "means")
        size = self.config.server_batch or self.federation.training.batch_size
        batches = shuffled(server, len(labels), size, self.config.server_epochs)
        return [
            Phase(
                "server",
                self.server_loss,
                trains=("prototypes",),
                lr=self.config.server_lr,
                optimizer="sgd",
                batches=[rows_of(means, labels, weights, rows) for rows in batches],
                state={"margin": self.margin(means, labels, weights)},
            )
        ]

    def server_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """−log(e^{−(d_y + δ)} / (e^{−(d_y + δ)} + Σ_{c≠y} e^{−d_c})), d_c = ‖mean − P_c‖, as a weighted mean."""
        distance = distances(batch.x, nets["prototypes"]())
        own = F.one_hot(batch.y, self.federation.num_classes)
        return mean_cross_entropy(-(distance + own * state["margin"]), batch)

    def margin(self, means: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """δ = min(the largest distance, τ) over the averaged means Q_c of the classes sent; 0 for a single class."""
        if weights is None:
            averaged = torch.stack([means[labels == label].mean(0) for label in labels.unique()])
        else:
            of_class = F.one_hot(labels.unique(return_inverse=True)[1]).T * weights
            averaged = of_class @ means / of_class.sum(1, keepdim=True)
        distance = distances(averaged, averaged)
        if self.config.margin == "nearest" and len(averaged) > 1:
            itself = torch.eye(len(averaged), dtype=torch.bool, device=distance.device)
            distance = distance.masked_fill(itself, torch.inf).min(1).values
        delta: Tensor = distance.max().clamp(max=self.config.tau)
        return delta

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """−‖f(x) − P̂_c‖ for every class, or the head's logits while there are no prototypes."""
        mean, known = state["guide/mean"], state["guide/known"]
        return by_prototypes(nets.model, x, mean, known, self.config.inference)


def class_means(local: LocalClient) -> Tensors:
    """The message of a client: the mean features of its classes, and their labels."""
    return dict(zip(("means", "labels"), local.class_means(), strict=True))


def distances(means: Tensor, others: Tensor) -> Tensor:
    """‖mean_i − other_c‖ [n, C]."""
    return length(means[:, None] - others)


def length(vectors: Tensor) -> Tensor:
    """‖v‖ over the last dimension. Its gradient is 0 at v = 0.

    Entries are divided by the largest one before they are squared. A deep network whose BatchNorm has seen few batches
    can have features with squares that are too large for a float32.
    """
    largest = vectors.detach().abs().amax(-1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)
    shares: Tensor = torch.linalg.vector_norm(vectors / largest, dim=-1)
    return shares * largest.squeeze(-1)
