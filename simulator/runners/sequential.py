"""One client at a time, on the calling thread: the simplest runner, for debugging and as a reference for the others."""

import time
from collections.abc import Callable, Iterable, Sequence

import torch

from simulator.base.sections import RuntimeConfig
from simulator.runners import local, memory
from simulator.runners.base import Finished, LocalUpdate, Result, Runner, Work, register
from simulator.training.trainer import TrainingContext


@register("sequential")
class SequentialRunner(Runner):
    """Clients in client order, each from start to end. It has one worker, whatever the settings say."""

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        super().__init__(context, settings)
        self.workers = 1
        self._next: tuple[Work, int] | None = None

    def has_room(self, portion: Sequence[int]) -> bool:
        return self._next is None

    def start(self, work: Work, portion: Sequence[int]) -> None:
        [client] = portion
        self._next = work, client

    def next_finished(self, seconds: float) -> Finished | None:
        if self._next is None:
            time.sleep(seconds)
            return None
        (work, client), self._next = self._next, None
        torch.set_num_threads(self.threads)
        with memory.for_training(self, work.round, client, at_once=1):
            return Finished([self.compute(work, client)])

    def compute(self, work: Work, client: int) -> LocalUpdate:
        """The client's update."""
        return local.update(self.context, self.info(client), work)

    def computes_here(self, portion: Sequence[object]) -> bool:
        return True

    def settle(self) -> None:
        self._next = None

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        torch.set_num_threads(self.threads)
        return [work(client) for client in clients]
