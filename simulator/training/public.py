"""Batches of public samples, for the clients' phases and the server's."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from simulator.data.federated import PublicData
from simulator.training.client import batch_sizes
from simulator.training.phase import Batch
from simulator.training.trainer import Trainer


class PublicBatches(Sequence[Batch]):
    """Batches of some public samples, gathered one at a time. A batch's `y` has their places among them."""

    def __init__(self, public: PublicData, samples: Tensor, places: Sequence[Tensor]) -> None:
        self._public, self._samples, self._places = public, samples, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return PublicBatches(self._public, self._samples, self._places[number])
        places = self._places[number]
        return Batch(self._public.batch(self._samples[places]), places)


def shuffled(
    trainer: Trainer, phase: str, samples: Tensor, size: int, *, epochs: int = 1, steps: int | None = None
) -> PublicBatches:
    """Batches of these public samples (indices [n]), in an order drawn for each epoch from the phase's own stream."""
    sizes = batch_sizes(len(samples), size)
    left = epochs * len(sizes) if steps is None else steps
    stream = trainer.stream(f"batches/{phase}")
    places: list[Tensor] = []
    while len(places) < left:
        places += torch.randperm(len(samples), generator=stream).to(samples.device).split(sizes)
    return PublicBatches(trainer.public, samples, places[:left])


def in_order(trainer: Trainer, samples: Tensor, size: int) -> PublicBatches:
    """Every one of these public samples once, in batches of at most `size`."""
    places = torch.arange(len(samples), device=samples.device).split(size)
    return PublicBatches(trainer.public, samples, places)
