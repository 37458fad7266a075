"""The facts of a federation before round 1: its clients and what they share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from simulator import models
from simulator.base import rng
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, of_module
from simulator.clock.devices import Device
from simulator.data.specs import InputSpec
from simulator.models import Network


@dataclass(frozen=True)
class ClientInfo:
    """The server's knowledge of client k: its architecture, n_k, and S_k."""

    id: int
    architecture: str
    samples: int
    """n_k: training samples."""
    classes: tuple[int, ...]
    """S_k: the classes present in the training data, ascending."""

    def __str__(self) -> str:
        return f"client {self.id} ({self.architecture})"


@dataclass(frozen=True)
class Stage:
    """The clients from a round on, until the next stage."""

    round: int
    clients: tuple[ClientInfo, ...]
    absent: frozenset[int]
    changed: frozenset[int]


def drawn_unseen(clients: int, unseen: int, seed: int) -> tuple[int, ...]:
    """So many of the clients that never take part, ascending. `seed` is the data's."""
    if not unseen:
        return ()
    draw = rng.numpy_stream(seed, "unseen").choice(clients, unseen, replace=False)
    return tuple(sorted(int(client) for client in draw))


@dataclass(frozen=True)
class Federation:
    """The clients, their architectures, and their common training settings."""

    seed: int
    rounds: int
    """T."""
    num_classes: int
    """C."""
    spec: InputSpec
    """The form of a sample in a batch."""
    clients: tuple[ClientInfo, ...]
    training: TrainingConfig
    device: torch.device
    pretrained: str | bool = False
    """The source of clients' initial weights, if they are not drawn: True for the hub's, else a path."""
    begun: int = 0
    """The round after which the method began: 0, or that of the switch to it. Its schedules count from there."""
    init_seed: int | None = None
    """The seed of initial weights. None: `seed`, as of all other draws."""
    features: int | None = None
    """K of every model, if `models.features` sets it. None: each has its own."""
    unseen: tuple[int, ...] = ()
    """The clients that never take part, ascending."""
    public: int = 0
    """The number of public samples, which the server and every client have."""
    public_classes: int = 0
    """The number of classes of their data set."""
    stages: tuple["Stage", ...] = ()
    """What `federation.timeline` changes: the first stage is before round 1, and later ones begin with a round."""
    stage: int = 0
    """The stage in force."""
    devices: tuple[Device, ...] = ()
    """The device of each client. Without section `system`, there are none."""

    def with_devices(self, devices: tuple[Device, ...]) -> "Federation":
        """The same federation with a device for each client."""
        found = replace(self, devices=devices)
        vars(found).update(architectures=self.architectures)
        return found

    @cached_property
    def seen(self) -> tuple[ClientInfo, ...]:
        """The clients that may take part in some round, ascending."""
        return tuple(client for client in self.clients if client.id not in self.unseen)

    @cached_property
    def present(self) -> tuple[ClientInfo, ...]:
        """The clients that may take part now, ascending."""
        return tuple(client for client in self.seen if client.id not in self.absent)

    @cached_property
    def present_ids(self) -> tuple[int, ...]:
        """Their ids."""
        return tuple(client.id for client in self.present)

    @property
    def absent(self) -> frozenset[int]:
        """The clients that have left, or have not joined yet."""
        return self.stages[self.stage].absent if self.stages else frozenset()

    @property
    def changed(self) -> frozenset[int]:
        """The clients whose data are not those that they began with."""
        return self.stages[self.stage].changed if self.stages else frozenset()

    def at(self, round: int) -> "Federation":
        """The federation as it is in a round."""
        if not self.stages:
            return self
        return self._at_stage[sum(stage.round <= round for stage in self.stages[1:])]

    @cached_property
    def _at_stage(self) -> "tuple[Federation, ...]":
        found = [
            self if number == self.stage else replace(self, clients=each.clients, stage=number)
            for number, each in enumerate(self.stages)
        ]
        for each in found:
            vars(each).update(_at_stage=tuple(found), architectures=self.architectures)
        return tuple(found)

    @cached_property
    def of_each(self) -> tuple[ClientInfo, ...]:
        """The first client of each architecture, ascending. What architectures have is computed on it."""
        firsts = {client.architecture: client for client in reversed(self.clients)}
        return tuple(sorted(firsts.values(), key=lambda client: client.id))

    @cached_property
    def held_classes(self) -> tuple[Tensor, Tensor]:
        """A row for each class that a client holds in any round, ascending: client [R] and class [R], int64."""
        every = [self.clients, *(stage.clients for stage in self.stages)]
        rows = sorted(
            {(client.id, label) for clients in every for client in clients for label in client.classes}
        )
        owner, label = torch.tensor(rows, device=self.device).T
        return owner, label

    @cached_property
    def architectures(self) -> Mapping[str, Network]:
        """Each architecture once, on the meta device, in the order of clients."""
        names = [client.architecture for client in self.of_each]
        return {name: models.architecture(name, self.spec, self.num_classes, self.features) for name in names}

    @cached_property
    def first_weights(self) -> Mapping[str, Tensors]:
        """Weights and buffers of each architecture on the device. All know them, as the configuration gives them."""
        return {
            name: {
                key: tensor.to(self.device)
                for key, tensor in of_module(self.build(name, self.stream(f"server/{name}"))).items()
            }
            for name in self.architectures
        }

    @cached_property
    def parameters(self) -> Mapping[str, int]:
        """The number of parameters of each architecture."""
        networks = self.architectures.items()
        return {name: sum(each.numel() for each in network.parameters()) for name, network in networks}

    @cached_property
    def smallest(self) -> str:
        """The clients' architecture with the fewest parameters. Of equals, the first."""
        return min(self.architectures, key=self.parameters.__getitem__)

    @cached_property
    def largest(self) -> str:
        """The clients' architecture with the most parameters. Of equals, the first."""
        return max(self.architectures, key=self.parameters.__getitem__)

    def architecture(self, name: str) -> Network:
        """Any architecture without weights, also one that no client has. Raises ConfigError for unknown names."""
        return (
            self.architectures[name]
            if name in self.architectures
            else models.architecture(name, self.spec, self.num_classes, self.features)
        )

    def architecture_of(self, client: ClientInfo) -> Network:
        """The architecture of the client's model."""
        return self.architectures[client.architecture]

    def build(self, architecture: str, stream: torch.Generator) -> Network:
        """A network of that architecture on the CPU. Its weights are drawn from `stream`, or pretrained."""
        return models.build(architecture, self.spec, self.num_classes, stream, self.pretrained, self.features)

    def shared_head(self) -> nn.Linear:
        """A head for all clients, if their heads are equal: client 0's kind, with weights from the server's stream."""
        head = self.build(self.clients[0].architecture, self.stream("server/head")).head
        assert isinstance(head, nn.Linear)  # `needs.same_head` has rejected others
        return head

    def stream(
        self, purpose: str, round: int = 0, client: int = rng.EVERYONE, *, initial: bool | None = None
    ) -> torch.Generator:
        """A keyed stream on the CPU. `initial` draws, by default those of round 0, follow from seed.init."""
        initial = round == 0 if initial is None else initial
        return rng.torch_stream(self.seed_of_draws(initial=initial), purpose, round, client)

    def seed_of_draws(self, *, initial: bool) -> int:
        """The seed of initial weights, or that of all other draws."""
        return self.init_seed if initial and self.init_seed is not None else self.seed
