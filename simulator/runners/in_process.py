"""The runners that compute in this process: one client at a time, several in parallel, or stacks of clients as one.

sequential: on the calling thread, for debugging and as a reference for the others. parallel: a pool of threads. Each
worker computes one client from start to end with `threads_per_client` threads of its own. So the number of workers
changes when a result is ready, but not its bits. They equal those of `sequential`.

stacked: clients of one architecture and equal step counts train with stacked weights, all others in parallel. Its bits
are its own: a stack sums in another order than a single client, so the last digits of results differ. They depend on
`runtime.stack`. They do not depend on the number of workers, or on the clients that an earlier attempt at the round has
finished.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace

import torch

from simulator.base.errors import ConfigError, is_of_memory
from simulator.base.sections import RuntimeConfig
from simulator.runners import local
from simulator.runners.base import Finished, LocalUpdate, Result, Runner, Work, portioned, register
from simulator.runners.local import Prepared, memory_for_stack, memory_for_training
from simulator.training.client import batch_sizes
from simulator.training.stacking import CannotStack, Reached, steps, why
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
        with memory_for_training(self, work.round, client, at_once=1):
            return Finished([self.compute(work, client)])

    def compute(self, work: Work, client: int) -> LocalUpdate:
        return local.update(self.context, self.info(client), work)

    def computes_here(self, portion: Sequence[object]) -> bool:
        return True

    def settle(self) -> None:
        self._next = None

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        torch.set_num_threads(self.threads)
        return [work(client) for client in clients]


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
            with memory_for_training(self, work.round, client, self.workers), self._on_stream():
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
        return -self.weight(client), client

    def _on_stream(self) -> contextlib.AbstractContextManager[object]:
        device = self.context.federation.device
        if device.type != "cuda":
            return contextlib.nullcontext()
        return torch.cuda.stream(torch.cuda.Stream(device))


@register("stacked")
class StackedRunner(ParallelRunner):
    """Stacks of up to `runtime.stack` clients, one stack at a time. Other clients train on the workers' threads."""

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        federation = context.federation
        if len(federation.architectures) == len(federation.clients):
            key = "runner" if settings.runner == self.name else "inner"
            raise ConfigError(
                "runner 'stacked' takes clients of one architecture together, and here no two have the same; use "
                f"`runtime.{key}=parallel`."
            )
        super().__init__(context, settings)
        self._most = settings.stack
        self._reached: Reached = {}
        self._stack: tuple[Work, Sequence[int]] | None = None

    @classmethod
    def sums(cls, settings: RuntimeConfig) -> str:
        return f"in stacks of {settings.stack}"

    def portions(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        """Whole stacks, then single clients, each alone. Once one of a stack has finished, its others train alone."""
        done = set(finished)
        every = self._stacks([*clients, *finished])
        stacks = [stack for stack in every if len(stack) > 1 and done.isdisjoint(stack)]
        stacked = {client for stack in stacks for client in stack}
        return [*stacks, *super().portions([client for client in clients if client not in stacked])]

    def bundles(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        return self.portions(clients, finished)

    def has_room(self, portion: Sequence[int]) -> bool:
        """A stack uses the whole machine."""
        if self._stack is not None or (len(portion) > 1 and self._running):
            return False
        return super().has_room(portion)

    def start(self, work: Work, portion: Sequence[int]) -> None:
        if len(portion) > 1:
            self._stack = work, portion
        else:
            super().start(work, portion)

    def next_finished(self, seconds: float) -> Finished | None:
        if self._stack is None:
            return super().next_finished(seconds)
        (work, clients), self._stack = self._stack, None
        torch.set_num_threads(self.threads)
        trained = self._trained(work, clients)
        if trained is None:
            return Finished((), again=super().portions(clients))
        return Finished(trained)

    def computes_here(self, portion: Sequence[object]) -> bool:
        return len(portion) > 1

    def settle(self) -> None:
        self._stack = None
        super().settle()

    def together(self, clients: Sequence[int]) -> list[list[int]]:
        return portioned(clients, self._most)

    def _stacks(self, clients: Iterable[int]) -> list[list[int]]:
        """The clients in stacks: of one architecture, with the same number of batches per epoch."""
        groups: dict[tuple[str, int], list[int]] = defaultdict(list)
        batch_size = self.context.federation.training.batch_size
        for client in sorted(clients):
            info = self.info(client)
            groups[info.architecture, len(batch_sizes(info.samples, batch_size))].append(client)
        return [stack for group in groups.values() for stack in self.together(group)]

    def _trained(self, work: Work, clients: Sequence[int]) -> list[LocalUpdate] | None:
        """The updates of a stack's clients. None if they cannot train as one."""

        def prepared(client: int) -> Prepared:
            return local.prepare(
                work.hooks, self.context, self.info(client), work.round, work.jobs[client], work.dispatch
            )

        began = time.perf_counter()
        with memory_for_stack(self, work.round, clients, self._most):
            stack = dict(zip(clients, self.each(clients, prepared), strict=True))
            try:
                _train(list(stack.values()), self._reached)
            except Exception as error:
                if is_of_memory(error):
                    raise
                architecture = self.info(clients[0]).architecture
                self.say_once(f"Clients of {architecture} train side by side, and not stacked: {why(error)}.")
                return None  # the method's own faults appear again, with a report
            updates = self.each(clients, lambda client: local.finish(stack[client]))
        share = (time.perf_counter() - began) / len(
            stack
        )  # an equal share, because no client has a time of its own
        return [replace(update, seconds=share) for update in updates]


def _train(stack: Sequence[Prepared], reached: Reached) -> None:
    """Train all phases of a stack, in order. Raises CannotStack, or torch's error if a loss cannot be mapped."""
    first = stack[0]
    if any(len(each.phases) != len(first.phases) for each in stack):
        raise CannotStack("they have other numbers of phases")
    for phases in zip(*(each.phases for each in stack), strict=True):
        phase = phases[0]
        sums = {phase.name: torch.zeros(len(stack), device=first.local.federation.device)}
        samples: torch.Tensor | int = 0
        with first.hooks.training(phase, first.local.round, first.local.info):
            for loss, terms, sizes in steps([each.local for each in stack], phases, reached):
                for name, value in {phase.name: loss, **terms}.items():
                    sums[name] = sums[name] + value * sizes if name in sums else value * sizes
                samples = samples + sizes
        for number, each in enumerate(stack):
            each.losses.update({name: (total / samples)[number] for name, total in sums.items()})
