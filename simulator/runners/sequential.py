"""One client after another, on the calling thread: the plainest runner, for a debugger and as the others' measure."""

from collections.abc import Callable, Collection, Iterable, Mapping

import torch

from simulator.methods.hooks import Hooks
from simulator.runners import local, memory
from simulator.runners.base import (
    Gate,
    Job,
    LocalUpdate,
    Result,
    Runner,
    always_go,
    let_in,
    nobody_told,
    register,
)
from simulator.sections import RuntimeConfig
from simulator.training.context import TrainingContext


@register("sequential")
class SequentialRunner(Runner):
    """Clients in client order, each from beginning to end: there is one worker, whatever the settings say."""

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        super().__init__(context, settings)
        self.workers = 1

    def update(
        self,
        hooks: Hooks,
        round: int,
        jobs: Mapping[int, Job],
        done: Callable[[LocalUpdate], None],
        gate: Gate = always_go,
        begun: Callable[[int], None] = nobody_told,
        finished: Collection[int] = (),
    ) -> list[LocalUpdate]:
        torch.set_num_threads(self.threads)
        updates: list[LocalUpdate] = []
        for client in jobs:
            let_in(gate, updates)
            begun(client)
            with memory.for_training(self, round, client, at_once=1):
                updates.append(local.update(hooks, self.context, self.info(client), round, jobs[client]))
            done(updates[-1])
        return updates

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        torch.set_num_threads(self.threads)
        return [work(client) for client in clients]
