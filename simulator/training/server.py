"""The server in one round: the networks that it trains, its tensors, and its draws."""

from collections.abc import Iterator, Mapping

from torch import Tensor, nn

from simulator.base import rng
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.data.inputs import arranged
from simulator.training.context import TrainingContext
from simulator.training.phase import Batch, Nets, Phase
from simulator.training.trainer import Trainer


class CentralServer(Trainer):
    """The server in round t, as a method sees it when it trains the server's modules.

    `nets` holds those modules. Each has the weights from the part of the state with its name. `state` is the whole
    state of the server.
    """

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
