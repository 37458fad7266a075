"""HeteroFL: Diao et al., "HeteroFL: Computation and Communication Efficient Federated Learning for Heterogeneous
Clients", ICLR 2021, Algorithm 1, §3.

Clients have one architecture at different widths r. A narrower model is a part of the widest one: the first ⌈K·r⌉ of a
layer's K units. Server state: `ARCHITECTURE/…`, the weights W of the widest model, without running statistics. Client
state: the model, and `own` [C], 1 for the client's classes and 0 for the others. On the wire: the client's part of W.
Its place follows from the client's architecture and the round.
"""

from collections.abc import Collection, Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from simulator.base.sections import MethodConfig
from simulator.base.tensors import Tensors, named, part
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Method, Uplink, needs, register
from simulator.models.federation import ClientInfo
from simulator.models.network import Place, places
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy


class HeteroFLConfig(MethodConfig):
    """The optional parts of HeteroFL, §3."""

    mask: bool = Field(
        True, description="masked cross-entropy: in training, logits of classes that a client lacks are 0"
    )
    mask_answers: bool = Field(
        True, description="and when it answers; turn it off where test images are of all classes"
    )
    scaler: bool = Field(
        True, description="divide what a layer makes by the width r, in training, where BatchNorm follows"
    )
    scale_layers: bool = Field(
        True,
        description="with scaler: divide what every layer but the head makes in a model without BatchNorm",
    )


@register("heterofl")
class HeteroFL(Method):
    """W ← the mean of each element over the participants whose part of W has it."""

    card = Card(
        title="HeteroFL",
        paper="Diao et al. 2021, ICLR",
        kind="weights",
        needs="one architecture at widths that nest",
        down="the client's part of the widest model",
        up="the client's part",
        partial=COUNTS_FULLY,
    )
    answers = "aggregated"
    config: HeteroFLConfig

    def unmet_need(self) -> str | None:
        return needs.nested_widths(self.federation)

    def first(self, round: int, units: int) -> int:
        """The first of a layer's `units` in every client's part in round t."""
        return 0

    def places(self, round: int, client: ClientInfo) -> dict[str, Place]:
        """The place of the client's weights in W, by name."""
        widest = self.federation.architectures[self.federation.largest]
        own = self.federation.architecture_of(client)
        return places(widest, own, lambda units: self.first(round, units), self.federation.device)

    def init_server(self) -> Tensors:
        widest = self.federation.largest
        network = self.federation.build(widest, self.federation.stream(f"server/{widest}"))
        return named(widest, weights(network))

    def adopts(self) -> Collection[str]:
        return (self.federation.largest,)

    def init_client(self, client: ClientInfo) -> Tensors:
        own = torch.zeros(self.federation.num_classes)
        own[list(client.classes)] = 1
        return {"own": own}

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        whole = part(server, self.federation.largest)
        return {f"model/{name}": whole[name][place] for name, place in self.places(round, client).items()}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.nets.model.load_state_dict(part(payload, "model"), strict=False)
        self._notice_classes(local)

    def _notice_classes(self, local: LocalClient) -> None:
        """The client's data may have changed."""
        local.state["own"] = self.init_client(local.info)["own"].to(self.federation.device)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        if self.config.scaler:
            # x/r normalized with the batch's statistics is x normalized with r²ε instead of ε.
            for norm in norms(local.nets.model):
                norm.eps *= local.nets.model.rate**2
        return [Phase("model", self.loss, state=local.state)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        """Cross-entropy, with logits of lacking classes 0 (§3). Without BatchNorm, layers compute (W/r)x + b/r."""
        model = nets.model
        scales = self.config.scaler and self.config.scale_layers and model.rate != 1 and not norms(model)
        divided = [name for name in of_layers(model) if not name.startswith("head.")] if scales else []
        weights = {name: model.get_parameter(name) / model.rate for name in divided}
        logits: Tensor = functional_call(model, weights, (batch.x,)) if weights else model(batch.x)
        shown = masked(logits, state["own"]) if self.config.mask else logits
        return recorded_cross_entropy(shown, batch.y)

    def uplink(self, local: LocalClient) -> Tensors:
        return named("model", weights(local.nets.model))

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """In the head, a client counts only for the rows of its classes. Elements without a participant stay."""
        sums = {name: torch.zeros_like(weight) for name, weight in server.items()}
        holders = {name: torch.zeros_like(weight) for name, weight in server.items()}
        for client, payload in uplinks:
            rows = list(client.classes)
            for name, place in self.places(round, client).items():
                key, sent = f"{self.federation.largest}/{name}", payload[f"model/{name}"]
                if name.startswith("head."):
                    place, sent = (place[0][rows], *place[1:]), sent[rows]
                sums[key][place] += sent
                holders[key][place] += 1
        merged = {
            key: torch.where(holders[key] > 0, sums[key] / holders[key], weight)
            for key, weight in server.items()
        }
        return Aggregated(merged, {})

    def before_answering(self, local: LocalClient) -> None:
        self._notice_classes(local)
        local.take_statistics()  # static BatchNorm

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        logits: Tensor = nets.model(x)
        return masked(logits, state["own"]) if self.config.mask_answers else logits


def masked(logits: Tensor, own: Tensor) -> Tensor:
    """Logits [B, C], set to 0 for classes that the client lacks (`own` [C] is 0)."""
    return logits.masked_fill(own == 0, 0)


def weights(network: nn.Module) -> Tensors:
    """The learned tensors of a network: its parameters, without BatchNorm's statistics."""
    return {name: weight.detach().contiguous() for name, weight in network.named_parameters()}


def of_layers(network: nn.Module) -> list[str]:
    """The names of the weights and biases of convolutions and linear layers."""
    layers = {path: each for path, each in network.named_modules() if isinstance(each, nn.Linear | _ConvNd)}
    return [f"{path}.{key}" for path, layer in layers.items() for key, _ in layer.named_parameters()]


def norms(network: nn.Module) -> list[_BatchNorm]:
    """A network's BatchNorms."""
    return [module for module in network.modules() if isinstance(module, _BatchNorm)]
