"""FedAvg: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017.

Clients of several architectures average within the group that shares one (InCo Aggregation, case study).

Server state: `ARCHITECTURE/…`, one model w per group. Client state: only the model.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods import COUNTS_FULLY, MOVES_LESS, Aggregated, Card, Method, Uplink, register
from simulator.methods.means import sample_shares, toward, weighted_sum
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient


class Layer(NamedTuple):
    """One tensor of a server model, with the participants whose models have it."""

    key: str
    """Its name in the server's state: `ARCHITECTURE/name`."""
    name: str
    """Its name in a model."""
    holders: Sequence[Uplink]


@register("fedavg")
class FedAvg(Method):
    """w ← Σ_{k∈S^t} n_k/n · w_k, in each group of one architecture separately.

    The methods that share weights subclass this one. They change what is trained, sent, or merged. HeteroAvg and InCo
    Aggregation change which server model has a client's layers (`server_model`), and with what weight a participant
    counts (`shares`).
    """

    card = Card(
        title="FedAvg",
        paper="McMahan et al. 2017",
        kind="weights",
        needs="nothing; groups of one architecture average apart",
        down="model",
        up="model",
        stale=MOVES_LESS,
        partial=COUNTS_FULLY,
    )

    def server_model(self, client: ClientInfo) -> str:
        """The architecture of the server model that has the client's layers."""
        return client.architecture

    def shares(self, holders: Sequence[Uplink]) -> list[float]:
        """p_k = n_k/n, the weight of each participant among those with a layer."""
        return sample_shares(holders)

    def init_server(self) -> Tensors:
        server: Tensors = {}
        for architecture in self.server_models():
            stream = self.federation.stream(f"server/{architecture}")
            server |= named(architecture, of_module(self.federation.build(architecture, stream)))
        return server

    def adopts(self) -> Collection[str]:
        return self.server_models()

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        model = part(server, self.server_model(client))
        return {f"model/{name}": model[name] for name in self.layers_of(client)}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.nets.model.load_state_dict(part(payload, "model"), strict=False)
        local.received = payload

    def uplink(self, local: LocalClient) -> Tensors:
        return named("model", floating(of_module(local.nets.model)))

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        merged = dict(server)
        for layer in self.layers(uplinks):
            mean = self.mean(layer.holders, f"model/{layer.name}")
            merged[layer.key] = toward(server[layer.key], mean, layer.holders)
        return Aggregated(merged, {})

    def mean(self, holders: Sequence[Uplink], name: str) -> Tensor:
        """Σ p_k · payload_k[name] over the participants with the layer, in client order."""
        return weighted_sum(holders, name, self.shares(holders))

    def layers(self, uplinks: Sequence[Uplink]) -> Iterator[Layer]:
        """Every layer of the server's models that a participant has. All others keep their values."""
        names = {uplink.client.architecture: self.layers_of(uplink.client).keys() for uplink in uplinks}
        for architecture in self.server_models():
            group = [uplink for uplink in uplinks if self.server_model(uplink.client) == architecture]
            for name in floating(self.federation.architectures[architecture].state_dict()):
                if holders := [uplink for uplink in group if name in names[uplink.client.architecture]]:
                    yield Layer(f"{architecture}/{name}", name, holders)

    def server_models(self) -> list[str]:
        """The architectures of the server's models, in order of first use."""
        return list(dict.fromkeys(self.server_model(client) for client in self.federation.of_each))

    def layers_of(self, client: ClientInfo) -> Tensors:
        """The client's weights and running statistics by name, without their values."""
        return floating(self.federation.architecture_of(client).state_dict())
