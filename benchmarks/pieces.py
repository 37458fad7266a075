"""Where the time of a client's training step goes: gather, forward, backward, optimiser, and bookkeeping around them.

Stopwatches stand at the doors between these: the batches that are drawn, the phase's loss, `backward`, the optimiser.
They read the processor's clock of the thread that trains, so that other programs disturb them little, and take some
microseconds of a step themselves.
"""

import functools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch

import simulator
from benchmarks.settings import GROUPS, config
from simulator.config import Config
from simulator.engine.builder import build
from simulator.engine.progress import unobserved
from simulator.methods.hooks import Hooks
from simulator.runners import local
from simulator.training.client import LocalClient
from simulator.training.optimizer import Optimizer
from simulator.training.phase import Phase

PIECES = ("gather", "forward", "backward", "optimiser", "bookkeeping")


class Stopwatch:
    """Processor seconds of the training of clients, piece by piece, and the steps they took."""

    def __init__(self) -> None:
        self.steps = 0
        self.whole = 0.0
        self.inside = dict.fromkeys(PIECES[:-1], 0.0)
        self._training = False

    @property
    def seconds(self) -> dict[str, float]:
        """Of each piece; bookkeeping is what no other piece accounts for."""
        return self.inside | {"bookkeeping": self.whole - sum(self.inside.values())}

    def of(self, piece: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose seconds count as that piece's while a client trains."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if not self._training:  # the server's own training
                return function(*args, **kwargs)
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.inside[piece] += time.thread_time() - began

        return timed

    def drawn(self, piece: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """The same of an iterator that the function makes, for each of its items."""

        @functools.wraps(function)
        def timed(*args: Any) -> Iterator[Any]:
            following = self.of(piece, functools.partial(next, function(*args), None))
            while (item := following()) is not None:
                yield item

        return timed

    def trained(self, train: Callable[[local.Prepared], Iterator[None]]) -> Callable[..., Iterator[None]]:
        """A client's training: its steps are counted, and its seconds are those of the whole."""

        def timed(prepared: local.Prepared) -> Iterator[None]:
            steps = train(prepared)
            while True:
                self._training, began = True, time.thread_time()
                done = next(steps, steps) is steps
                self.whole += time.thread_time() - began
                self._training = False
                if done:
                    return
                self.steps += 1
                yield

        return timed


@contextmanager
def stopped() -> Iterator[Stopwatch]:
    """A context in which the training of clients, one after another on this thread, is timed piece by piece."""
    watch, phases = Stopwatch(), Hooks.phases

    def timed_phases(hooks: Hooks, client: LocalClient) -> list[Phase]:
        return [replace(phase, loss=watch.of("forward", phase.loss)) for phase in phases(hooks, client)]

    doors: list[tuple[Any, str, Any]] = [
        (local, "train", watch.trained(local.train)),
        (LocalClient, "batches", watch.drawn("gather", LocalClient.batches)),
        (Hooks, "phases", timed_phases),
        (torch.Tensor, "backward", watch.of("backward", torch.Tensor.backward)),
        (Optimizer, "zero_grad", watch.of("optimiser", Optimizer.zero_grad)),
        (Optimizer, "step", watch.of("optimiser", Optimizer.step)),
    ]
    with ExitStack() as stack:
        for owner, name, timed in doors:
            stack.enter_context(mock.patch.object(owner, name, timed))
        yield watch


def setting(
    group: str, batch_size: int, method: str, device: str = "cpu", images: int | None = None
) -> Config:
    """A run whose clients, one after another, take eight steps a round, or train on so many `images`."""
    one_by_one, (clients, _) = {"runner": "sequential"}, GROUPS[group]
    images = images or 8 * batch_size
    return config(
        group, batch_size, method, images=images, clients=clients, device=device, runtime=one_by_one
    )


def of_a_step(config: Config, rounds: int) -> dict[str, float]:
    """Processor microseconds of a step of the configuration's method, piece by piece: medians of so many rounds.

    The clients' steps count alike; a round before those that are timed pays for what torch loads when first used.
    """
    built = build(config, simulator.data_folder(None))
    state = built.engine.round(built.engine.initial_state(), unobserved)
    measured = []
    for _ in range(rounds):
        with stopped() as watch:
            state = built.engine.round(state, unobserved)
        measured.append({piece: 1e6 * each / watch.steps for piece, each in watch.seconds.items()})
    built.engine.close()
    return {piece: statistics.median(each[piece] for each in measured) for piece in PIECES}
