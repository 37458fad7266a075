"""Clients in parallel: a pool of threads, each with one client at a time.

Each worker computes one client from start to end with `threads_per_client` threads of its own. So the number of
workers changes when a result is ready, but not its bits. They equal those of the `sequential` runner.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

import torch

from simulator.base.sections import RuntimeConfig
from simulator.runners import local, memory
from simulator.runners.base import Finished, LocalUpdate, Result, Runner, Work, register
from simulator.training.trainer import TrainingContext


@register("parallel")
class ParallelRunner(Runner):
    """`workers` clients at a time, each on its own thread."""

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        super().__init__(context, settings)
        # Keep the same threads for the whole run: each new one would leave a heap that malloc does not free.
        self._pool = ThreadPoolExecutor(self.workers, "client")
        self._running: list[Future[LocalUpdate]] = []

    def portions(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        """Single clients, longest first, so that no long one runs alone at the end."""
        return [[client] for client in sorted(clients, key=self._cost)]

    def has_room(self, portion: Sequence[int]) -> bool:
        # Give a client to the pool only when a worker is free. Clients that have not started can then wait.
        return len(self._running) < self.workers

    def start(self, work: Work, portion: Sequence[int]) -> None:
        [client] = portion

        def computed() -> LocalUpdate:
            with memory.for_training(self, work.round, client, self.workers), self._on_stream():
                return local.update(self.context, self.info(client), work)

        torch.set_num_threads(self.threads)
        self._running.append(self._pool.submit(computed))

    def next_finished(self, seconds: float) -> Finished | None:
        if not self._running:
            time.sleep(seconds)
            return None
        done = wait(self._running, seconds, FIRST_COMPLETED).done
        if not done:
            return None
        first = next(future for future in self._running if future in done)
        self._running.remove(first)
        return Finished([first.result()])

    def settle(self) -> None:
        wait(self._running)  # nothing may still use the tensors of a failed round
        self._running.clear()
        if self.context.federation.device.type == "cuda":
            torch.cuda.synchronize(self.context.federation.device)

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        def computed(client: int) -> Result:
            with self._on_stream():
                return work(client)

        torch.set_num_threads(self.threads)
        clients = list(clients)
        results = {client: self._pool.submit(computed, client) for client in sorted(clients, key=self._cost)}
        try:
            wait(results.values(), return_when=FIRST_EXCEPTION)
        finally:
            for result in results.values():
                result.cancel()  # cancels those that have not started, waits for the others
            wait(results.values())
        if self.context.federation.device.type == "cuda":
            torch.cuda.synchronize(self.context.federation.device)
        for result in results.values():
            if not result.cancelled():
                result.result()  # raises a client's error before the cancellation that it caused
        return [results[client].result() for client in clients]

    def close(self) -> None:
        self._pool.shutdown()

    def _cost(self, client: int) -> tuple[int, int]:
        """Sort key, longest first."""
        return -self.weight(client), client

    def _on_stream(self) -> contextlib.AbstractContextManager[object]:
        """A separate stream for this thread's work on a CUDA device; nothing on a CPU."""
        device = self.context.federation.device
        if device.type != "cuda":
            return contextlib.nullcontext()
        return torch.cuda.stream(torch.cuda.Stream(device))
