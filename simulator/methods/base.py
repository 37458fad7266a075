"""The interface of a method. Wire, training, and engine carry it out.

A method object holds its configuration and the facts of the federation, which do not change. It receives and returns
server state, client state, and payloads as flat named tensors.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.base.sections import MethodConfig
from simulator.base.tensors import STATISTICS, Tensors, named, of_module, part
from simulator.methods.declarations import BY_ITS_STEPS as BY_ITS_STEPS
from simulator.methods.declarations import COUNTS_FULLY as COUNTS_FULLY
from simulator.methods.declarations import MOVES_LESS as MOVES_LESS
from simulator.methods.declarations import Card as Card
from simulator.models.federation import ClientInfo, Federation
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase, recorded_cross_entropy
from simulator.training.phase import own_cross_entropy as own_cross_entropy
from simulator.training.trainer import CentralServer


@dataclass(frozen=True)
class Uplink:
    """A participant's uplink, as the server received it. It unpacks as `client, payload`."""

    client: ClientInfo
    payload: Tensors
    weight: float = 1.0
    """How much of it counts: 1, or less if it is stale, by the schedule's rule."""

    def __iter__(self) -> Iterator[Any]:
        yield self.client
        yield self.payload


class Aggregated(NamedTuple):
    """The server's state after a round, and the method's own metrics for the ledger."""

    server: Tensors
    metrics: dict[str, Any]


class Method:
    """A federated method. Subclass it in a file of `simulator/methods/` and register it by name.

    In the order of a round: `downlink`, `receive`, `phases`, `uplink`, `aggregate`, `server_phases`,
    `after_server_phases`. By default, nothing is sent or kept, and the model is trained with cross-entropy.
    """

    name: ClassVar[str]
    """Set by `register`."""
    card: ClassVar[Card]
    answers: ClassVar[Literal["local", "aggregated"]] = "local"
    """The default model that is evaluated: after local training, or after the next downlink."""
    Config: ClassVar[type[MethodConfig]] = MethodConfig
    """The class of its settings: the type of `config`, if a method says only this."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        section = get_annotations(cls).get("config")
        if isinstance(section, type) and "Config" not in vars(cls):
            cls.Config = section

    def __init__(self, config: MethodConfig, federation: Federation) -> None:
        self.config = config
        self.federation = federation

    def unmet_need(self) -> str | None:
        """The first need that the federation's models do not meet, as 'needs …: client … has …', or None."""
        return None

    def check(self) -> None:
        """Raise ConfigError with the client and the reason if the models cannot run this method."""
        for name in self.trained_beside():
            self.federation.architecture(name)  # raises if there is no such model, or the samples do not fit
        if (unmet := self.unmet_need()) is not None:
            raise ConfigError(
                f"method '{self.name}' cannot run here: it {unmet}. Choose another method or group."
            )

    def init_server(self) -> Tensors:
        """The server's state before round 1. By default, the weights of the networks that it trains."""
        return {
            f"{part}/{name}": tensor
            for part, network in self.server_networks().items()
            for name, tensor in of_module(network).items()
        }

    def init_client(self, client: ClientInfo) -> Tensors:
        """The client's own state before round 1, besides its model. Names must not begin with 'model/'.

        It depends only on the client, the method's settings, and keyed streams. A client that has not taken part yet is
        not stored, and this is called again whenever its state is needed.
        """
        return {}

    def trained_beside(self) -> Collection[str]:
        """Architectures that clients train besides their own models, such as a small shared one."""
        return ()

    def adopts(self) -> Collection[str]:
        """The parts of another method's server state that have the same meaning here, such as 'head'."""
        return ()

    def adopt(self, server: Mapping[str, Tensor]) -> Tensors:
        """The tensors to take over from another method's server state at a switch. All others start as before round 1.

        These are the tensors of the parts in `adopts` that this method also has, if their shapes are equal.
        """
        own = {name: tensor.shape for name, tensor in self.init_server().items()}
        adopted: Tensors = {}
        for name in self.adopts():
            both = {key: server[f"{name}/{key}"] for key in part(server, name) if f"{name}/{key}" in own}
            if all(tensor.shape == own[f"{name}/{key}"] for key, tensor in both.items()):
                adopted |= named(name, both)
        return adopted

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """The payload from the server to a participant."""
        return {}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        """Put the payload into the client's networks and state, before training."""
        return

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        """The client's local training, in order."""
        return [Phase("model", cross_entropy)]

    def uplink(self, local: LocalClient) -> Tensors:
        """The participant's payload to the server, after training."""
        return {}

    def rebased(
        self, payload: Mapping[str, Tensor], received: Mapping[str, Tensor], present: Mapping[str, Tensor]
    ) -> Tensors:
        """A stale uplink as if the client had begun with `present`, the downlink of now, and changed it as it did.

        `received` is the downlink that it began with. By default, this holds for averaged weights, and any other
        payload stays as it is.
        """
        return moved(payload, received, present) if self.card.stale == MOVES_LESS else dict(payload)

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """The server's new state from its old one and the uplinks, which are in client order."""
        return Aggregated(dict(server), {})

    def server_networks(self) -> Mapping[str, nn.Module]:
        """Modules that the server trains itself, by the part of its state with their weights."""
        return {}

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """The server's own training after `aggregate`, in order, on batches made from the uplinks."""
        return []

    def after_server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> None:
        """Compute what the server's trained networks are for. Put results into `server.state`.

        There are no gradients. Without server phases, this is not called.
        """
        return

    def cannot_serve_unseen(self) -> str | None:
        """Why a client that never took part cannot get what it needs, such as 'it keeps …'. None: it can."""
        return None

    def downlink_to_unseen(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        """The payload from the server to a client that never took part. By default, that to a participant."""
        return self.downlink(round, server, client)

    def before_answering(self, local: LocalClient) -> None:
        """Prepare the client for evaluation, after its downlink if it has one.

        Its training samples are available. Changes are discarded afterwards: see `LocalClient.take_statistics`.
        """
        return

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Scores [B, C] of a client's model for samples x in evaluation. The highest is the prediction."""
        scores: Tensor = nets.model(x)
        return scores


def cross_entropy(nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
    """Mean cross-entropy of the model's logits and the labels."""
    return recorded_cross_entropy(nets.model(batch.x), batch.y)


def moved(
    payload: Mapping[str, Tensor], received: Mapping[str, Tensor], present: Mapping[str, Tensor]
) -> Tensors:
    """present + (payload − received), for each tensor that both downlinks have too. Statistics stay as they are."""
    found = dict(payload)
    for name, tensor in payload.items():
        begun, now = received.get(name), present.get(name)
        if begun is None or now is None or not tensor.is_floating_point() or name.endswith(STATISTICS):
            continue
        if tensor.shape == begun.shape == now.shape:
            found[name] = now + (tensor - begun)
    return found
