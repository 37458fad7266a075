"""A client in one round: its networks with its weights, its data, and its draws."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import cycle, islice

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.data.inputs import arranged
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.training.augmentation import augmented
from simulator.training.phase import Batch, Nets, Phase
from simulator.training.trainer import Trainer, TrainingContext

REPRESENTATION_BATCH = 512


class LocalClient(Trainer):
    """Client k in round t, as a method sees it: a private copy of its networks, and the method's own tensors."""

    def __init__(
        self,
        context: TrainingContext,
        info: ClientInfo,
        round: int,
        tensors: Mapping[str, Tensor],
        dispatch: int | None = None,
        most: int | None = None,
    ) -> None:
        """`most`: the largest number of steps of a phase, for a client that leaves before the end."""
        model = copy.deepcopy(context.federation.architecture_of(info))
        weights = {name: tensor.clone() for name, tensor in part(tensors, "model").items()}
        model.load_state_dict(weights, assign=True)
        arranged(model, context.federation.spec)
        state = {name: tensor for name, tensor in tensors.items() if not name.startswith("model/")}
        super().__init__(context, round, Nets(model), state, info.architecture, info.id, dispatch)
        self.info = info
        self.received: Mapping[str, Tensor] = {}
        """Parts of the downlink that the method needs after training. They are dropped at the end of the round."""
        self.train = context.data.clients[info.id].train
        """Indices of the training samples D_k [n_k], on the device."""
        self._data = context.data
        self._most = most

    @cached_property
    def class_weights(self) -> Tensor | None:
        """n / (number of classes here · n_c), from the training part. A class without samples there counts once."""
        if self.federation.training.class_weights is None:
            return None
        held = self._data.clients[self.info.id]
        weights = torch.ones(self.federation.num_classes)
        counts = torch.tensor(held.class_counts)
        weights[list(held.classes)] = counts.sum() / (len(counts) * counts)
        return weights.to(self.federation.device)

    def tensors(self) -> Tensors:
        """The client's state: its model and the method's own tensors."""
        return named("model", of_module(self.nets.model)) | self.state

    def batch(self, indices: Tensor) -> Batch:
        """The samples at these indices."""
        return Batch(*self._data.batch(indices))

    def own_view(self, indices: Tensor) -> Tensor:
        """The samples at these indices, also those of other clients, normalized as the client's own are."""
        return self.batch(self._data.as_client(indices, self.info.id)).x

    def batches(self, phase: Phase) -> Iterator[Batch]:
        """The phase's samples in shuffled batches for all its epochs. The phase's own keyed stream gives the order."""
        if phase.batches is not None:
            yield from islice(phase.batches, self._most)
            return
        changes, looks = self.federation.training.augment, self.looks(phase)
        for indices in self.orders(phase):
            x, y = self.batch(indices)
            yield Batch(augmented(x, changes, looks), y)

    def orders(self, phase: Phase) -> Iterator[Tensor]:
        """Indices [B] of the samples of every batch."""
        samples, sizes = self.samples(phase), self._sizes(phase)
        stream = self.stream(f"batches/{phase.name}")
        left = self.steps(phase)
        while left > 0:
            order = samples[torch.randperm(len(samples), generator=stream).to(samples.device)]
            yield from order.split(sizes)[:left]
            left -= len(sizes)

    def looks(self, phase: Phase) -> torch.Generator:
        """The stream of the phase's random changes to samples."""
        return self.stream(f"augment/{phase.name}", self.federation.device)

    def samples(self, phase: Phase) -> Tensor:
        """Indices of the samples the phase trains on."""
        return self.train if phase.samples is None else phase.samples

    def steps_of_epoch(self, phase: Phase) -> int:
        """The number of batches that show each of the phase's samples once."""
        return len(self._sizes(phase))

    def epochs(self, phase: Phase) -> int | float:
        """Local epochs E of the phase: a fraction if it ends within one."""
        steps, of_epoch = self.steps(phase), self.steps_of_epoch(phase)
        return steps // of_epoch if steps % of_epoch == 0 else steps / of_epoch

    def steps(self, phase: Phase) -> int:
        """Optimizer steps of the phase in a round."""
        if phase.batches is not None:
            steps = len(phase.batches)
        else:
            steps = steps_in(self.steps_of_epoch(phase), self.federation.training, phase.epochs, phase.steps)
        return steps if self._most is None else min(steps, self._most)

    def sizes(self, phase: Phase) -> list[int]:
        """The batch sizes of all steps of the phase."""
        return list(islice(cycle(self._sizes(phase)), self.steps(phase)))

    def _sizes(self, phase: Phase) -> list[int]:
        return batch_sizes(len(self.samples(phase)), self.federation.training.batch_size)

    def class_counts(self) -> Tensor:
        """The number of training samples of each of the client's classes [|S_k|], int32, ascending by class."""
        counts = self._data.clients[self.info.id].class_counts
        return torch.tensor(counts, dtype=torch.int32, device=self.federation.device)

    @torch.no_grad()
    def take_statistics(self) -> None:
        """Set the BatchNorms' statistics to the means of one pass over the training samples (HeteroFL's)."""
        norms = [module for module in self.nets.model.modules() if isinstance(module, _BatchNorm)]
        self.nets.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.train()
        if norms:
            sizes = batch_sizes(len(self.train), self.federation.training.batch_size)
            for number, indices in enumerate(self.train.split(sizes), start=1):
                for norm in norms:  # a cumulative mean. With None, the host would read each layer's count
                    norm.momentum = 1 / number
                self.nets.model(self.batch(indices).x)
        self.nets.eval()

    @torch.no_grad()
    def class_means(
        self, of: Callable[[Network, Tensor], Tensor] = Network.features
    ) -> tuple[Tensor, Tensor]:
        """Means [|S_k|, D] of outputs `of` a network over each class's samples, and labels, int32, ascending."""
        self.nets.eval()
        labels = torch.tensor(self.info.classes, device=self.train.device)
        sums, counts = [], []
        for indices in self.train.split(REPRESENTATION_BATCH):
            x, y = self.batch(indices)
            # A product with the one-hot labels, not a scatter: it sums in a fixed order on every device.
            of_class = F.one_hot(y, self.federation.num_classes)[:, labels]
            with self.step("representations", len(y)), self.precise():
                shown = of(self.nets.model, x)
            of_class = of_class.to(shown.dtype)
            # Not counted: its size depends on the client (|S_k|). A step's cost must depend on the batch size alone.
            sums.append(of_class.T @ shown)
            counts.append(of_class.sum(0))
        return torch.stack(sums).sum(0) / torch.stack(counts).sum(0)[:, None], labels.to(torch.int32)


def steps_in(
    of_epoch: int, training: TrainingConfig, epochs: float | None = None, steps: int | None = None
) -> int:
    """Steps in so many epochs of this number of batches (half a step upward, at least one), or so many steps."""
    if not of_epoch:
        return 0
    if steps is None and epochs is None:
        steps, epochs = training.steps, training.epochs
    if steps is not None:
        return steps
    assert epochs is not None
    return max(1, math.floor(epochs * of_epoch + 0.5))


def sizes_in(samples: int, training: TrainingConfig) -> list[int]:
    """The batch sizes of the configured length, for a client with `samples`."""
    sizes = batch_sizes(samples, training.batch_size)
    return list(islice(cycle(sizes), steps_in(len(sizes), training)))


def shown_in(samples: int, training: TrainingConfig) -> int:
    """How many samples the batches of the configured length have together, for a client with `samples`."""
    sizes = batch_sizes(samples, training.batch_size)
    epochs, rest = divmod(steps_in(len(sizes), training), max(len(sizes), 1))
    return epochs * samples + sum(sizes[:rest])


def batch_sizes(samples: int, batch_size: int) -> list[int]:
    """Sizes of an epoch's batches. A rest of one sample, which BatchNorm cannot normalize, joins the one before it."""
    full, rest = divmod(samples, batch_size)
    sizes = [batch_size] * full
    if rest == 1 and full:
        sizes[-1] += 1
    elif rest:
        sizes.append(rest)
    return sizes
