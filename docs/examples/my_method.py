"""Median head: each participant trains everything; the server takes the median of the heads, number by number.

Server state: `head/weight` [C, K], `head/bias` [C]. Client state: none beside the model.
"""

import torch
from pydantic import Field

from simulator.base.sections import MethodConfig
from simulator.base.tensors import named, of_module, part
from simulator.methods import Aggregated, Card, Method, needs, register
from simulator.training.phase import Phase, recorded_cross_entropy


class MedianHeadConfig(MethodConfig):
    rho: float = Field(0.1, ge=0, description="ρ, how strongly a head is held to the received one")


@register("median_head")
class MedianHead(Method):
    """head ← median_k head_k: a client whose head went astray moves nobody else's."""

    card = Card("Median head", "this example", "head", "the same head on every client", "head", "head")
    Config = MedianHeadConfig

    def unmet_need(self):
        return needs.same_head(self.federation)

    def init_server(self):
        architecture = self.federation.clients[0].architecture
        model = self.federation.build(architecture, self.federation.stream("server/head"))
        return named("head", of_module(model.head))

    def downlink(self, round, server, client):
        return dict(server)

    def receive(self, local, payload):
        local.nets.model.head.load_state_dict(part(payload, "head"))

    def phases(self, local):
        received = {name: tensor.clone() for name, tensor in of_module(local.nets.model.head).items()}
        return [Phase("model", self.loss, state=received)]

    def loss(self, nets, state, batch, draws):
        distance = sum(((p - state[name]) ** 2).sum() for name, p in nets.model.head.named_parameters())
        return recorded_cross_entropy(nets.model(batch.x), batch.y) + self.config.rho * distance

    def uplink(self, local):
        return named("head", of_module(local.nets.model.head))

    def aggregate(self, round, server, uplinks):
        heads = {name: torch.stack([payload[name] for _, payload in uplinks]) for name in server}
        medians = {name: stacked.median(0).values for name, stacked in heads.items()}
        return Aggregated(medians, {"spread": float(heads["head/weight"].std(0, correction=0).mean())})
