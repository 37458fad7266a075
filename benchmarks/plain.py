"""The loop that a researcher writes without a simulator: a model, an optimiser and a DataLoader for each client.

One client trains after another, with all of the machine's cores, or on its CUDA device. Images are normalised
beforehand; on a CUDA device they come batch by batch from pinned memory. Models with their initial weights, the
clients' images, steps and optimiser are those of the configuration. The arithmetic is torch's own: on a CUDA device
convolutions in TF32, products in float32, and whatever kernels it likes.
"""

import copy
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import simulator
from simulator.base.tensors import part
from simulator.config import Config
from simulator.engine.builder import build
from simulator.engine.progress import EvaluationStarted, Event


class PlainLoop:
    """All clients of a run, to be trained round after round."""

    def __init__(self, config: Config) -> None:
        training = config.training
        assert training.optimizer == "sgd"
        built = build(config, simulator.data_folder(None))
        state = built.engine.initial_state()
        built.engine.close()
        self.device = built.federation.device
        self.models: list[nn.Module] = []
        self.loaders: list[DataLoader[Any]] = []
        for info, held in zip(built.federation.clients, built.data.clients, strict=True):
            model = copy.deepcopy(built.federation.architecture_of(info))
            weights = part(state.clients[info.id], "model")
            model.load_state_dict({name: each.clone() for name, each in weights.items()}, assign=True)
            self.models.append(model)
            x, y = built.data.batch(held.train)
            images = TensorDataset(x.contiguous().cpu(), y.cpu())
            order, pinned = torch.Generator().manual_seed(info.id), self.device.type == "cuda"
            self.loaders.append(
                DataLoader(images, training.batch_size, shuffle=True, generator=order, pin_memory=pinned)
            )
        self.optimizers = [
            torch.optim.SGD(
                model.parameters(), training.lr, training.momentum, weight_decay=training.weight_decay
            )
            for model in self.models
        ]

    def round(self) -> float:
        """One local epoch of every client; the mean loss over all images."""
        total, images = 0.0, 0
        for model, loader, optimizer in zip(self.models, self.loaders, self.optimizers, strict=True):
            model.train()
            for batch in loader:
                x, y = (each.to(self.device, non_blocking=True) for each in batch)
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(y)
                images += len(y)
        return total / images


class InAProcess:
    """A plain loop in a process of its own, as it would be run: it waits while something else is measured."""

    def __init__(self, config: Config) -> None:
        self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self._process.submit(_begin, config).result()

    def round(self) -> tuple[float, float]:
        """Seconds of one more round, of the wall clock and of all its processors."""
        return self._process.submit(_round).result()

    def close(self) -> None:
        self._process.shutdown()


_LOOP: list[PlainLoop] = []


def _begin(config: Config) -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    _LOOP.append(PlainLoop(config))
    torch.use_deterministic_algorithms(False)  # which nobody asks for who writes such a loop


def _round() -> tuple[float, float]:
    device = _LOOP[0].device
    wall, processors = _clocks(device)
    _LOOP[0].round()
    after = _clocks(device)
    return after[0] - wall, after[1] - processors


def beside(config: Config, rounds: int) -> dict[str, float]:
    """The training of a round, from downlink to aggregation, and a round of the plain loop, in turn: medians.

    Seconds of the wall clock of both; how many times as fast ours is by it, and by the time of the processors; the
    operations a second of ours. A round of each comes before those that are timed.
    """
    built = build(config, simulator.data_folder(None))  # what is refused is refused before a process begins
    loop, engine, device = InAProcess(config), built.engine, built.federation.device
    state, ended = engine.initial_state(), (0.0, 0.0)

    def note(event: Event) -> None:
        nonlocal ended
        if isinstance(event, EvaluationStarted):
            ended = _clocks(device)

    ours, plain, operations = [], [], 0.0
    for _ in range(rounds + 1):
        began = _clocks(device)
        state = engine.round(state, note)
        ours.append((ended[0] - began[0], ended[1] - began[1]))
        plain.append(loop.round())
        assert state.record is not None
        operations = state.record["flops"]["clients"]
    loop.close()
    engine.close()
    turns = list(zip(ours, plain, strict=True))[1:]
    seconds = statistics.median(our for (our, _), _ in turns)
    return {
        "seconds": seconds,
        "plain_seconds": statistics.median(wall for _, (wall, _) in turns),
        "times_plain": statistics.median(wall / our for (our, _), (wall, _) in turns),
        "processor_times_plain": statistics.median(their / our for (_, our), (_, their) in turns),
        "rate": operations / seconds,
    }


def _clocks(device: torch.device) -> tuple[float, float]:
    """Seconds of the wall clock, and of all the processors that this process has had, when the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter(), time.process_time()
