"""What methods share in which every client has a small model of all clients beside its own one.

Server state: `small/…`, the global small model. Client state: `small/…`, the client's last one, because it answers
together with the client's own model; and a module that is never sent, as the part `private`.
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
from simulator.methods.base import Aggregated, Method, Uplink, averaged
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.models.network import NoHead
from simulator.training.client import LocalClient


class SmallModelConfig(MethodConfig):
    """The option that these methods have in common."""

    small: str | None = Field(
        None, description="the small model's architecture; default: the clients' smallest"
    )


class SmallModelMethod(Method):
    """A method in which a small model travels. By default it has no head: it is an extractor of features."""

    Config: ClassVar[type[MethodConfig]] = SmallModelConfig
    config: SmallModelConfig
    private: ClassVar[str]
    """The name of the client's own module."""

    @property
    def small(self) -> str:
        """The small model's architecture."""
        return self.config.small or self.federation.smallest

    def shaped(self, network: Network) -> Network:
        """The small model in the form in which it travels. May draw weights."""
        network.head = NoHead(network.num_features, self.federation.num_classes)  # type: ignore[assignment]
        return network

    def private_module(self, client: ClientInfo) -> nn.Module:
        """The client's own module before round 1. May draw weights."""
        raise NotImplementedError

    def trained_beside(self) -> Collection[str]:
        return (self.small,)

    def init_server(self) -> Tensors:
        stream = self.federation.stream("server/small")
        network = self.federation.build(self.small, stream)
        with drawing_from(stream):
            return named("small", of_module(self.shaped(network)))

    def init_client(self, client: ClientInfo) -> Tensors:
        with drawing_from(self.federation.stream(f"client/{self.private}", client=client.id)):
            private = named(self.private, of_module(self.private_module(client)))
        return private | floating(self.init_server())

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return floating(server)

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.state = local.state | dict(payload)

    def uplink(self, local: LocalClient) -> Tensors:
        small = named("small", floating(of_module(local.nets["small"])))
        local.state = named(self.private, of_module(local.nets[self.private])) | small
        return small

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        return averaged(server, uplinks)

    def before_answering(self, local: LocalClient) -> None:
        self.prepare_networks(local)

    def prepare_networks(self, local: LocalClient) -> None:
        """Add the small model and the private module from the client's state to its networks."""
        with torch.device("meta"):
            small = self.shaped(copy.deepcopy(self.federation.architecture(self.small)))
            private = self.private_module(local.info)
        local.add_network("small", small, part(local.state, "small"))
        local.add_network(self.private, private, part(local.state, self.private))
