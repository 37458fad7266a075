"""What a method says of itself. The machinery that carries it out is below: wire, training, engine.

A method object is its configuration and the facts of the federation, nothing that changes: server state, client
state and payloads are flat named tensors that it is handed and hands back.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.sections import MethodConfig
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.models.federation import ClientInfo, Federation
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase
from simulator.training.server import CentralServer


class Uplink(NamedTuple):
    """What one participant sent, as the server received it."""

    client: ClientInfo
    payload: Tensors


class Aggregated(NamedTuple):
    """The server's state after a round, and figures of the method's own for the ledger."""

    server: Tensors
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Card:
    """A method's entry in listings: what it is, where it comes from, what it needs, what travels."""

    title: str
    paper: str
    kind: str
    needs: str
    down: str
    up: str


class Method:
    """A federated method. Subclass it in a file of `simulator/methods/` and register it by name.

    In the order of a round: `downlink`, `receive`, `phases`, `uplink`, `aggregate`, `server_phases`. The parts a method
    does not need keep what stands here: nothing travels, nothing is kept, the model is trained with cross-entropy.
    """

    name: ClassVar[str]
    """Set by `register`."""
    card: ClassVar[Card]
    answers: ClassVar[Literal["local", "aggregated"]] = "local"
    """With which model clients are evaluated unless the run says otherwise: what local training left, or that after
    they have received what they would be sent next."""
    Config: ClassVar[type[MethodConfig]] = MethodConfig

    def __init__(self, config: MethodConfig, federation: Federation) -> None:
        self.config = config
        self.federation = federation

    def unmet_need(self) -> str | None:
        """The first requirement the federation's models do not meet, as 'needs …: client … has …', or None."""
        return None

    def check(self) -> None:
        """Raise ConfigError, naming the client and the reason, when the models cannot run this method."""
        for name in self.trained_beside():
            self.federation.architecture(
                name
            )  # refused, with the reason, where there is none or the samples do not fit
        if (unmet := self.unmet_need()) is not None:
            raise ConfigError(
                f"method '{self.name}' cannot run here: it {unmet}. Choose another method or group."
            )

    def init_server(self) -> Tensors:
        """The server's state before round 1: unless said otherwise, the weights of the networks that it trains."""
        return {
            f"{part}/{name}": tensor
            for part, network in self.server_networks().items()
            for name, tensor in of_module(network).items()
        }

    def init_client(self, client: ClientInfo) -> Tensors:
        """What the client keeps beside its model, before round 1. Names must not begin with 'model/'.

        It follows from the client, the method's settings and keyed streams: a client that has never taken part is kept
        nowhere, and this is asked again whenever it is needed.
        """
        return {}

    def trained_beside(self) -> Collection[str]:
        """Architectures that clients train beside their own models, such as a small one that all share."""
        return ()

    def adopts(self) -> Collection[str]:
        """The parts of another method's server state that mean the same here, such as 'head'."""
        return ()

    def adopt(self, server: Mapping[str, Tensor]) -> Tensors:
        """What it takes over of another method's server state at a switch; the rest starts as before round 1.

        Of every part that `adopts` names: its tensors that this method keeps too, if their shapes are equal.
        """
        own = {name: tensor.shape for name, tensor in self.init_server().items()}
        adopted: Tensors = {}
        for name in self.adopts():
            both = {key: server[f"{name}/{key}"] for key in part(server, name) if f"{name}/{key}" in own}
            if all(tensor.shape == own[f"{name}/{key}"] for key, tensor in both.items()):
                adopted |= named(name, both)
        return adopted

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """What the server sends a participant."""
        return {}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        """Take the payload into the client's networks and state, before training."""
        return

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        """The client's local training, in order."""
        return [Phase("model", cross_entropy)]

    def uplink(self, local: LocalClient) -> Tensors:
        """What the participant sends back, after training."""
        return {}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """The server's new state from its old one and the uplinks, which come in client order."""
        return Aggregated(dict(server), {})

    def server_networks(self) -> Mapping[str, nn.Module]:
        """Modules that the server trains itself, by the part of its state that keeps their weights."""
        return {}

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """The server's own training after `aggregate`, in order, on batches made of the uplinks."""
        return []

    def before_answering(self, local: LocalClient) -> None:
        """Get the client ready to be evaluated, after it has received what it is evaluated with, if anything.

        It has its training samples, and what is made of them here is not kept: see `LocalClient.take_statistics`.
        """
        return

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Scores [B, C] of a client's model for samples x at evaluation; the highest is its answer."""
        scores: Tensor = nets.model(x)
        return scores


def cross_entropy(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
    """Mean cross-entropy of the model's logits and the labels."""
    return F.cross_entropy(nets.model(batch.x), batch.y)


def divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """KL(teacher ‖ student) of two softmaxes of logits [B, C], mean over the batch; only the student learns from it."""
    p = F.log_softmax(teacher.detach(), dim=1)
    return F.kl_div(F.log_softmax(student, dim=1), p, reduction="batchmean", log_target=True)


def weighted_mean(uplinks: Sequence[Uplink], name: str) -> Tensor:
    """Σ n_k/n · payload_k[name] over the participants, in client order."""
    total = sum(uplink.client.samples for uplink in uplinks)
    return weighted_sum(uplinks, name, [uplink.client.samples / total for uplink in uplinks])


def weighted_sum(uplinks: Sequence[Uplink], name: str, weights: Sequence[float]) -> Tensor:
    """Σ weight_k · payload_k[name], in client order."""
    total = uplinks[0].payload[name] * weights[0]
    for uplink, weight in zip(uplinks[1:], weights[1:], strict=True):
        total += uplink.payload[name] * weight
    return total
