"""FedGen (Zhu et al., ICML 2021) as a user would write it: the server trains a generator of features through the
clients' heads, and clients learn from what it makes. Server state: `generator/…`, `adam/…`, its moments, `head/…`."""

import torch
from torch import nn
from torch.nn import functional as F

from simulator.base.sections import MethodConfig
from simulator.base.tensors import floating, named, of_module, part
from simulator.methods import Aggregated, Card, Method, needs, register
from simulator.methods.base import weighted_mean
from simulator.training import optimizer
from simulator.training.phase import Batch, Phase


class GenConfig(MethodConfig):
    noise: int = 8
    steps: int = 10  # of the generator in a round, each of 32 labels


class Generator(nn.Module):
    def __init__(self, noise, classes, width):
        super().__init__()
        self.hidden, self.norm = nn.Linear(noise + classes, 32), nn.BatchNorm1d(32)
        self.out, self.classes = nn.Linear(32, width), classes

    def forward(self, noise, y):
        given = torch.cat([noise, F.one_hot(y, self.classes).to(noise)], 1)
        return self.out(F.relu(self.norm(self.hidden(given))))


@register("my_gen")
class Gen(Method):
    card = Card("Gen", "Zhu et al. 2021", "generator", "the same head", "generator, head", "head, counts")
    Config = GenConfig

    def unmet_need(self):
        return needs.same_head(self.federation)

    def server_networks(self):
        width = self.federation.architecture_of(self.federation.clients[0]).num_features
        return {"generator": Generator(self.config.noise, self.federation.num_classes, width)}

    def init_server(self):
        moments = optimizer.moments("adam", self.server_networks())
        head = of_module(self.federation.shared_head())
        return super().init_server() | named("adam", moments) | named("head", head)

    def downlink(self, round, server, client):
        return {name: each for name, each in floating(server).items() if not name.startswith("adam/")}

    def receive(self, local, payload):
        local.nets.model.head.load_state_dict(part(payload, "head"))
        with torch.device("meta"):
            local.add_network("generator", self.server_networks()["generator"], part(payload, "generator"))

    def phases(self, local):
        return [Phase("model", self.loss, draws=self.draws)]

    def draws(self, stream, batch):
        size = (len(batch.y), self.config.noise)
        return {"noise": torch.randn(size, generator=stream, device=batch.y.device)}

    def loss(self, nets, state, batch, draws):
        made = nets["generator"](draws["noise"], batch.y)
        return F.cross_entropy(nets.model(batch.x), batch.y) + F.cross_entropy(nets.model.head(made), batch.y)

    def uplink(self, local):
        return named("head", of_module(local.nets.model.head)) | {"counts": local.class_counts()}

    def aggregate(self, round, server, uplinks):
        heads = {name: weighted_mean(uplinks, name) for name in ("head/weight", "head/bias")}
        return Aggregated(dict(server) | heads, {})

    def server_phases(self, server, uplinks):
        counts = torch.zeros(len(uplinks), self.federation.num_classes, device=self.federation.device)
        for row, (client, payload) in zip(counts, uplinks, strict=True):
            row[list(client.classes)] = payload["counts"].to(row)
        state = {key: torch.stack([each[f"head/{key}"] for _, each in uplinks]) for key in ("weight", "bias")}
        state["shares"] = counts / counts.sum(0).clamp(min=1)
        labels = counts.sum(0).multinomial(32 * self.config.steps, True, generator=server.stream("labels"))
        batches = [Batch(y, y) for y in labels.split(32)]
        adam = {"optimizer": "adam", "keeps": "adam", "lr": 3e-4, "draws": self.draws}
        return [Phase("gen", self.server_loss, ("generator",), batches=batches, state=state, **adam)]

    def server_loss(self, nets, state, batch, draws):
        made = nets["generator"](draws["noise"], batch.y)
        logits = torch.einsum("bk,nck->nbc", made, state["weight"]) + state["bias"][:, None]
        errors = F.cross_entropy(logits.flatten(0, 1), batch.y.repeat(len(logits)), reduction="none")
        return (state["shares"][:, batch.y] * errors.view(len(logits), -1)).sum(0).mean()
