"""Clients side by side: a pool of threads, each with one client at a time.

Each worker computes one client from beginning to end with `threads_per_client` threads of its own, so the number of
workers changes when a result is ready, never what it is: the bits are those of one client after another.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import torch

from simulator.methods.hooks import Hooks
from simulator.runners import local, memory
from simulator.runners.base import (
    POLL_SECONDS,
    Decision,
    Gate,
    Job,
    LocalUpdate,
    Result,
    RoundInterrupted,
    Runner,
    always_go,
    nobody_told,
    register,
)
from simulator.sections import RuntimeConfig
from simulator.training.context import TrainingContext


@register("parallel")
class ParallelRunner(Runner):
    """`workers` clients at a time, each on a thread of its own."""

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        super().__init__(context, settings)
        # The same threads for the whole run: each new one would leave behind a heap that malloc does not give back.
        self._pool = ThreadPoolExecutor(self.workers, "client")

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
        def work(client: int) -> LocalUpdate:
            with memory.for_training(self, round, client, self.workers):
                return local.update(hooks, self.context, self.info(client), round, jobs[client])

        updates = self._each(jobs, work, done, gate, begun)
        if len(updates) < len(jobs):
            raise RoundInterrupted(updates)
        return updates

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        return self._each(clients, work, lambda _: None, always_go)

    def close(self) -> None:
        self._pool.shutdown()

    def _each(
        self,
        clients: Iterable[int],
        work: Callable[[int], Result],
        done: Callable[[Result], None],
        gate: Callable[[Sequence[Result], int], Decision],
        begun: Callable[[int], None] = nobody_told,
    ) -> list[Result]:
        """`work` for the clients the gate lets in, longest first so that no worker is left with a long one at the end.

        A client is handed to the pool only when a worker is free for it: what has not begun can still be held back.
        """

        def on_stream(client: int) -> Result:
            with device_stream(self.context.federation.device):
                return work(client)

        torch.set_num_threads(self.threads)
        clients = list(clients)
        waiting = deque(sorted(clients, key=self._cost))
        running: dict[Future[Result], int] = {}
        results: dict[int, Result] = {}
        unheard: list[Result] = []
        try:
            while waiting or running or unheard:
                busy = len(running) + len(
                    unheard
                )  # whoever hears of a pause has heard of every client before it
                decision = gate([results[client] for client in sorted(results)], busy)
                if decision == "leave":
                    waiting.clear()
                while decision == "go" and waiting and len(running) < self.workers:
                    client = waiting.popleft()
                    begun(client)
                    running[self._pool.submit(on_stream, client)] = client
                while unheard:  # told while the next client already trains
                    done(unheard.pop(0))
                if waiting and not running:
                    time.sleep(POLL_SECONDS)
                ready = wait(running, POLL_SECONDS, FIRST_COMPLETED).done
                for future in [future for future in running if future in ready]:
                    client = running.pop(future)
                    results[client] = future.result()
                    unheard.append(results[client])
        finally:
            wait(running)  # of a round that failed, nobody works on when its tensors are let go
        if self.context.federation.device.type == "cuda":
            torch.cuda.synchronize(self.context.federation.device)
        return [results[client] for client in clients if client in results]

    def _cost(self, client: int) -> tuple[int, int]:
        """Sort key, longest first."""
        return -self.weight(client), client


def device_stream(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """A stream of its own for this thread's work on a CUDA device; nothing on a CPU."""
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else contextlib.nullcontext()
