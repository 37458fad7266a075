"""FedTGP (Zhang et al., AAAI 2024) as a user would write it: the server trains a prototype for every class.

Server state: `prototypes/…`, an embedding of every class through two layers. Client state: `guide/mean` [C, K], the
prototypes as last received, and `guide/known` [1], whether there were any.
"""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from simulator.base.sections import MethodConfig
from simulator.base.tensors import part
from simulator.methods import Aggregated, Card, Method, needs, register
from simulator.training.phase import Batch, Phase


class TGPConfig(MethodConfig):
    lam: float = 10.0
    tau: float = 100.0
    server_epochs: int = 5


class Prototypes(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        self.embedding = nn.Embedding(classes, width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self):
        return self.layers(self.embedding.weight)


@register("my_tgp")
class TGP(Method):
    card = Card("TGP", "Zhang et al. 2024", "prototypes", "one width K", "prototypes", "class means, labels")
    Config = TGPConfig

    def unmet_need(self):
        return needs.same_width(self.federation, lambda model: model.layers[-1])

    def server_networks(self):
        width = self.federation.architecture_of(self.federation.clients[0]).num_features
        return {"prototypes": Prototypes(self.federation.num_classes, width)}

    def init_client(self, client):
        width = self.federation.architecture_of(client).num_features
        return {"guide/mean": torch.zeros(self.federation.num_classes, width), "guide/known": torch.zeros(1)}

    @torch.no_grad()
    def downlink(self, round, server, client):
        network = self.server_networks()["prototypes"]
        return {"prototypes": functional_call(network, part(server, "prototypes"))} if round > 1 else {}

    def receive(self, local, payload):
        if payload:
            known = torch.ones_like(local.state["guide/known"])
            local.state = {"guide/mean": payload["prototypes"], "guide/known": known}

    def phases(self, local):
        return [Phase("model", self.loss, state=local.state)]

    def loss(self, nets, state, batch, draws):
        features = nets.model.features(batch.x)
        distance = F.mse_loss(features, state["guide/mean"][batch.y]) * state["guide/known"].squeeze()
        return F.cross_entropy(nets.model.head(features), batch.y) + self.config.lam * distance

    def uplink(self, local):
        return dict(zip(("means", "labels"), local.class_means(), strict=True))

    def aggregate(self, round, server, uplinks):
        return Aggregated(dict(server), {"margin": self.margin(*self.received(uplinks))})

    def received(self, uplinks):
        means, labels = (torch.cat([payload[key] for _, payload in uplinks]) for key in ("means", "labels"))
        return means, labels.long()

    def margin(self, means, labels):  # δ = min(the largest distance between two averaged means, τ)
        of_class = torch.stack([means[labels == label].mean(0) for label in labels.unique()])
        return torch.cdist(of_class, of_class).max().clamp(max=self.config.tau)

    def server_phases(self, server, uplinks):
        means, labels = self.received(uplinks)
        stream = server.stream("order")
        orders = [torch.randperm(len(labels), generator=stream) for _ in range(self.config.server_epochs)]
        batches = [Batch(means[rows], labels[rows]) for order in orders for rows in order.split(10)]
        state = {"margin": self.margin(means, labels)}
        sgd = {"optimizer": "sgd", "lr": 0.01}
        return [Phase("tgp", self.server_loss, ("prototypes",), batches=batches, state=state, **sgd)]

    def server_loss(self, nets, state, batch, draws):
        own = F.one_hot(batch.y, self.federation.num_classes)
        return F.cross_entropy(-(torch.cdist(batch.x, nets["prototypes"]()) + own * state["margin"]), batch.y)
