"""Many clients at once: a pool of threads, each with one client at a time."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch
from torch import Tensor

from simulator.federation import ClientInfo
from simulator.methods.base import Method
from simulator.runners.base import POLL_SECONDS, Decision, Gate, LocalUpdate, RoundInterrupted, always_go
from simulator.runners.local import device_stream, evaluate, update
from simulator.training.context import TrainingContext

Result = TypeVar("Result")


class Runner:
    """Runs clients' work side by side.

    Each worker computes one client from beginning to end with `threads_per_client` threads of its own, so the
    number of workers changes when a result is ready, never what it is.
    """

    def __init__(self, context: TrainingContext, workers: int | None, threads_per_client: int) -> None:
        self.context = context
        self.workers = workers or max(1, (os.cpu_count() or 1) // threads_per_client)
        self._threads = threads_per_client
        # The same threads for the whole run: each new one would leave behind a heap that malloc does not give back.
        self._pool = ThreadPoolExecutor(self.workers, "client")

    def update(
        self,
        method: Method,
        round: int,
        jobs: Mapping[int, tuple[Mapping[str, Tensor], Mapping[str, Tensor]]],
        done: Callable[[LocalUpdate], None],
        gate: Gate = always_go,
    ) -> list[LocalUpdate]:
        """Local updates of the clients in `jobs` (id → state, payload), in client order.

        `done` hears of each, and `gate` is asked before each, on the calling thread. Raises Left when the gate says so
        before all have started.
        """

        def work(client: int) -> LocalUpdate:
            tensors, payload = jobs[client]
            return update(method, self.context, self._info(client), round, tensors, payload)

        updates = self._each(jobs, work, done, gate)
        if len(updates) < len(jobs):
            raise RoundInterrupted(updates)
        return updates

    def evaluate(
        self,
        method: Method,
        round: int,
        jobs: Mapping[int, tuple[Mapping[str, Tensor], Mapping[str, Tensor] | None]],
        batch_size: int,
    ) -> dict[int, tuple[int, int]]:
        """Correct answers and test samples of the clients in `jobs` (id → state, payload to receive first, if any)."""

        def work(client: int) -> tuple[int, int]:
            tensors, payload = jobs[client]
            return evaluate(method, self.context, self._info(client), round, tensors, payload, batch_size)

        return dict(zip(jobs, self.each(jobs, work), strict=True))

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        """`work` for every client, in client order."""
        return self._each(clients, work, lambda _: None, always_go)

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()

    def _info(self, client: int) -> ClientInfo:
        return self.context.federation.clients[client]

    def _each(
        self,
        clients: Iterable[int],
        work: Callable[[int], Result],
        done: Callable[[Result], None],
        gate: Callable[[Sequence[Result], int], Decision],
    ) -> list[Result]:
        """`work` for the clients the gate lets in, longest first so that no worker is left with a long one at the end.

        A client is handed to the pool only when a worker is free for it: what has not begun can still be held back.
        """

        def on_stream(client: int) -> Result:
            with device_stream(self.context.federation.device):
                return work(client)

        torch.set_num_threads(self._threads)
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
                verdict = gate([results[client] for client in sorted(results)], busy)
                if verdict == "leave":
                    waiting.clear()
                while verdict == "go" and waiting and len(running) < self.workers:
                    client = waiting.popleft()
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
        """Sort key, longest first: samples times parameters stands for a client's time."""
        info = self._info(client)
        parameters = sum(p.numel() for p in self.context.federation.architecture_of(info).parameters())
        return -info.samples * parameters, client
