"""FedPer: Arivazhagan et al., "Federated Learning with Personalization Layers", 2019.

Server state: `ARCHITECTURE/…`, the body of one model per group: all weights but the head's. Client state: only the
model, whose head stays with the client.
"""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from simulator.base.tensors import Tensors, floating, named, of_module, part
from simulator.methods import register
from simulator.methods.fedavg import FedAvg
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient


@register("fedper")
class FedPer(FedAvg):
    """FedAvg of the body. Every client keeps a head of its own."""

    card = replace(
        FedAvg.card,
        title="FedPer",
        paper="Arivazhagan et al. 2019",
        down="model without its head",
        up="model without its head",
    )

    def init_server(self) -> Tensors:
        models = super().init_server()
        return {
            name: tensor
            for architecture in self.server_models()
            for name, tensor in named(architecture, _body(part(models, architecture))).items()
        }

    def layers_of(self, client: ClientInfo) -> Tensors:
        return _body(super().layers_of(client))

    def uplink(self, local: LocalClient) -> Tensors:
        return named("model", floating(_body(of_module(local.nets.model))))


def _body(model: Mapping[str, Tensor]) -> Tensors:
    """A model's tensors without its head's."""
    return {name: tensor for name, tensor in model.items() if not name.startswith("head.")}
