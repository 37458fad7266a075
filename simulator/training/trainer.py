"""What clients and the server have in common in a round: networks, tensors, draws, and a count of operations."""

import contextlib
import copy
from collections.abc import Hashable, Iterator, Mapping

import torch
from torch import Tensor, nn

from simulator.base import rng
from simulator.base.tensors import Tensors
from simulator.data.inputs import arranged
from simulator.data.public import PublicData
from simulator.training import precision
from simulator.training.context import TrainingContext
from simulator.training.phase import Batch, Nets, Phase
from simulator.training.schedule import rate


class Trainer:
    """One client or the server in round t, as a method and the training loop see it.

    `nets` and `state` are private and may be changed freely. Their values at the end of the round are kept.
    """

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
