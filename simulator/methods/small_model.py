"""What methods share in which a small network of all clients travels, and is trained beside each client's own model.

Server state: the network's weights, under its name. With a private module, the client state has the client's last small
model too, because it answers together with the client's own model.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from simulator.base.rng import drawing_from
from simulator.base.sections import MethodConfig
from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods.base import Aggregated, Method, Uplink
from simulator.methods.means import averaged
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.models.network import NoHead
from simulator.training.client import LocalClient


class SharedNetwork(Method):
    """A participant receives the network, trains it, and sends it. The server averages it."""

    shared: ClassVar[str]
    """The network's name in states, payloads, and a client's networks."""

    def network(self) -> nn.Module:
        """The network in the form in which it travels. May draw weights."""
        raise NotImplementedError

    def init_server(self) -> Tensors:
        with drawing_from(self.federation.stream(f"server/{self.shared}")):
            return named(self.shared, of_module(self.network()))

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return floating(server)

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        with torch.device("meta"):  # the received weights replace any that are drawn here
            network = self.network()
        local.add_network(self.shared, network, part(payload, self.shared))

    def uplink(self, local: LocalClient) -> Tensors:
        return named(self.shared, floating(of_module(local.nets[self.shared])))

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        return averaged(server, uplinks)


class SmallModel(SharedNetwork):
    """The network is a small model. The option with its name has its architecture."""

    @property
    def small(self) -> str:
        """The small model's architecture."""
        chosen: str | None = getattr(self.config, self.shared)
        return chosen or self.federation.smallest

    def shaped(self, network: Network) -> Network:
        """The small model in the form in which it travels. May draw weights."""
        return network

    def network(self) -> Network:
        return self.shaped(copy.deepcopy(self.federation.architecture(self.small)))

    def trained_beside(self) -> Collection[str]:
        return (self.small,)

    def init_server(self) -> Tensors:
        stream = self.federation.stream(f"server/{self.shared}")
        network = self.federation.build(self.small, stream)
        with drawing_from(stream):
            return named(self.shared, of_module(self.shaped(network)))


class PrivateModuleConfig(MethodConfig):
    """The option that these methods have in common."""

    small: str | None = Field(
        None, description="the small model's architecture; default: the clients' smallest"
    )


class PrivateModule(SmallModel):
    """A module of the client's own joins both models. By default, the small one is an extractor of features."""

    config: PrivateModuleConfig
    shared = "small"
    private: ClassVar[str]
    """The name of the client's own module, which is never sent."""

    def shaped(self, network: Network) -> Network:
        network.head = NoHead(network.num_features, self.federation.num_classes)  # type: ignore[assignment]
        return network

    def private_module(self, client: ClientInfo) -> nn.Module:
        """The client's own module before round 1. May draw weights."""
        raise NotImplementedError

    def init_client(self, client: ClientInfo) -> Tensors:
        with drawing_from(self.federation.stream(f"client/{self.private}", client=client.id)):
            private = named(self.private, of_module(self.private_module(client)))
        return private | floating(self.init_server())

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.state = local.state | dict(payload)

    def uplink(self, local: LocalClient) -> Tensors:
        small = super().uplink(local)
        local.state = named(self.private, of_module(local.nets[self.private])) | small
        return small

    def before_answering(self, local: LocalClient) -> None:
        self.prepare_networks(local)

    def prepare_networks(self, local: LocalClient) -> None:
        """Add the small model and the private module from the client's state to its networks."""
        super().receive(local, local.state)
        with torch.device("meta"):
            private = self.private_module(local.info)
        local.add_network(self.private, private, part(local.state, self.private))
