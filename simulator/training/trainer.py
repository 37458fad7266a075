"""What clients and the server have in common in a round, and the server: networks, tensors, draws, and operations."""

import contextlib
import copy
import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simulator.base import rng
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.data.federated import FederatedData, PublicData
from simulator.data.inputs import arranged
from simulator.models.federation import Federation
from simulator.training import precision
from simulator.training.flops import FlopCache
from simulator.training.phase import Batch, Nets, Phase


@dataclass(frozen=True)
class TrainingContext:
    """The federation, the data on the device, and the operations counted so far."""

    federation: Federation
    data: FederatedData
    flops: FlopCache

    def at(self, round: int) -> "TrainingContext":
        """The same as clients and data are in a round."""
        federation, data = self.federation.at(round), self.data.at(round)
        if federation is self.federation and data is self.data:
            return self
        return TrainingContext(federation, data, self.flops)


def rate(training: TrainingConfig, round: int, rounds: int) -> float:
    """The learning rate η_t in round t of T, both counted from 1. No state is saved for it.

    cosine: η_min + (η − η_min)·(1 + cos(π(t − 1)/T))/2 (Loshchilov and Hutter 2017, eq. 5, without restarts), from η in
    round 1 to nearly η_min in round T. step: η·d^⌊(t − 1)/s⌋, the decay d after every s rounds.
    """
    done = round - 1
    match training.schedule:
        case "cosine":
            least = training.lr_min or 0.0
            return least + (training.lr - least) * (1 + math.cos(math.pi * done / rounds)) / 2
        case "step":
            assert training.lr_step is not None
            return float(training.lr * training.lr_decay ** (done // training.lr_step))
    return training.lr


class Trainer:
    """One client or the server in round t: private `nets` and `state`, whose values at the round's end are kept."""

    def __init__(
        self,
        context: TrainingContext,
        round: int,
        nets: Nets,
        state: Tensors,
        kind: Hashable,
        client: int,
        dispatch: int | None = None,
    ) -> None:
        """`kind` separates trainers whose steps have different costs. `dispatch` defaults to the round."""
        self.round = round
        self.dispatch = round if dispatch is None else dispatch
        """Number that keys its random draws. In a synchronous round, the round."""
        self.federation = context.federation
        self.nets = nets
        self.state = state
        self.flops = 0
        """Floating-point operations of its training so far."""
        self.step_flops: list[int] = []
        """Those of each training step."""
        self.collected: Tensors = {}
        """The sums of losses' `sums` over the steps of a phase, by name."""
        self._context = context
        self._flop_cache = context.flops
        self._kind = kind
        self._client = client

    @property
    def class_weights(self) -> Tensor | None:
        """The weight of each class in the cross-entropy of the client's own labels [C]. None: all count the same."""
        return None

    @property
    def lr(self) -> float:
        """The learning rate of this round, η_t."""
        return rate(self.federation.training, self.round, self.federation.rounds)

    @property
    def public(self) -> PublicData:
        """The public samples. Methods that use them declare the need (`needs.public_samples`)."""
        assert self._context.data.public is not None
        return self._context.data.public

    def add_network(self, name: str, network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        """Add a network of this form to `nets` as `name`, with a private copy of these weights.

        `network` may be on the meta device, without values. Missing integer counters (BatchNorm's count of batches)
        start at zero, because they are not sent.
        """
        network = copy.deepcopy(network)
        counters = {
            key: torch.zeros(tensor.shape, dtype=tensor.dtype, device=self.federation.device)
            for key, tensor in network.state_dict().items()
            if not tensor.is_floating_point()
        }
        weights = {key: tensor.clone() for key, tensor in tensors.items()}
        network.load_state_dict(counters | weights, assign=True)
        self.nets[name] = arranged(network, self.federation.spec)

    def batches(self, phase: Phase) -> Iterator[Batch]:
        """The phase's training data, batch by batch."""
        yield from phase.batches or ()

    def stream(self, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A stream of random draws, keyed by seed, purpose, dispatch number, and client."""
        return rng.torch_stream(self.federation.seed, purpose, self.dispatch, self._client, device)

    def precise(self) -> contextlib.AbstractContextManager[None]:
        """Wraps a forward pass of training: the networks compute in the configured precision."""
        return precision.networks_in(self.federation.training.precision, self.nets, self.federation.device)

    @contextlib.contextmanager
    def step(self, name: str, batch_size: int) -> Iterator[None]:
        """Wraps a step and adds its operations to the count."""
        with self._flop_cache.step(self._kind, name, batch_size):
            yield
        self.add_operations(name, batch_size)

    def counted(self, name: str, batch_size: int) -> bool:
        """Whether the operations of such a step are known."""
        return self._flop_cache.knows(self._kind, name, batch_size)

    def add_operations(self, name: str, batch_size: int) -> None:
        """Add the operations of a step that was counted before."""
        self.flops += self._flop_cache.of(self._kind, name, batch_size)


class CentralServer(Trainer):
    """The server in round t, as a method sees it: `nets` has its modules, `state` its whole state."""

    def __init__(
        self,
        context: TrainingContext,
        round: int,
        tensors: Mapping[str, Tensor],
        networks: Mapping[str, nn.Module],
    ) -> None:
        """`networks` have no values (meta device). Raises RuntimeError for weights that do not fit."""
        nets = Nets()
        for name, network in networks.items():
            weights = {key: tensor.clone() for key, tensor in part(tensors, name).items()}
            network.load_state_dict(weights, assign=True)
            nets[name] = arranged(network, context.federation.spec)
        super().__init__(context, round, nets, dict(tensors), "server", rng.EVERYONE)
        self._networks = tuple(networks)

    def batches(self, phase: Phase) -> Iterator[Batch]:
        """The phase's batches. Their cost depends on the tensors that the loss reads, whose shapes may change."""
        self._kind = ("server", *(tuple(tensor.shape) for tensor in phase.state.values()))
        return super().batches(phase)

    def tensors(self) -> Tensors:
        """The server's new state: its tensors, with the current weights of its networks."""
        kept = dict(self.state)
        for name in self._networks:
            kept |= named(name, of_module(self.nets[name]))
        return kept
