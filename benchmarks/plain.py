"""What `make bench` trains and times: sessions, and beside them matrix products and a loop without a simulator.

The plain loop is what a researcher writes: a model, an optimizer and a DataLoader for each client. One client trains
after another, with all of the machine's cores, or on its CUDA device. Models with their initial weights, the clients'
images, steps and optimizer are those of the configuration. The arithmetic is torch's own.
"""

import copy
import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import presets
import simulator
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.base.record import Record
from simulator.base.tensors import part
from simulator.config import Config
from simulator.engine.builder import build
from simulator.engine.progress import EvaluationStarted, Event, RoundFinished
from simulator.training.precision import Precision, tf32_in_force

T = TypeVar("T")
GROUPS = {"htm5": (10, 1_024), "inco_resnet": (5, 256), "htfe8": (8, 64)}
"""Clients, and training images of each; at least one batch is taken. The deeper groups compute for seconds an image."""
ON_CUDA = {"htm5": (100, 256), "inco_resnet": (40, 256), "htfe8": (40, 128)}
"""The same on a CUDA device, which several clients of an architecture at a time keep busy."""


def config(
    group: str,
    batch_size: int,
    method: str = "standalone",
    workers: int | None = None,
    images: int | None = None,
    clients: int | None = None,
    device: str = "cpu",
    **more: object,
) -> Config:
    """A run on Fashion-MNIST, IID in equal shares of `images`, with `more` over it; by default the group's numbers."""
    usual = (ON_CUDA if device == "cuda" else GROUPS)[group]
    clients, images = clients or usual[0], max(images or usual[1], batch_size)
    setting: dict[str, Any] = {
        "rounds": 1_000,
        "method": {"name": method},
        "data": {
            "dataset": "fashion_mnist",
            "limit": clients * images * 5 // 4,
            "split": "8:2",
            "partition": "iid",
            "quantity": "equal",
        },
        "federation": {"clients": clients, "group": group},
        "training": {"batch_size": batch_size, "epochs": 1},
        "evaluation": {"clients": 1},
        "runtime": {"device": device, "workers": workers},
    }
    return Config.read(merged(setting, more))


WORKERS = 2
SIDE = 1024
SECONDS = 0.5
"""For which products are timed. A CPU that emulates bf16 takes fifty times as long for one as a CPU that has it."""


def rate(workers: int = WORKERS, precision: Precision = "float32") -> float:
    """Floating-point operations per second of products [1024, 1024] on threads of one core each."""
    torch.set_num_threads(1)
    barrier = threading.Barrier(workers + 1)
    stream = torch.Generator().manual_seed(0)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(SIDE, SIDE, generator=stream).to(dtype) for _ in range(2))
    took = seconds(lambda: torch.mm(a, b))
    if took < SECONDS:  # the first one also loaded its kernel
        took = seconds(lambda: torch.mm(a, b))
    repeats = max(1, round(SECONDS / took))

    def multiply() -> None:
        mine, yours = a.clone(), b.clone()
        out = torch.empty_like(mine)
        barrier.wait()
        for _ in range(repeats):
            torch.mm(mine, yours, out=out)
        barrier.wait()

    threads = [threading.Thread(target=multiply) for _ in range(workers)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    barrier.wait()
    return workers * repeats * 2 * SIDE**3 / (time.perf_counter() - began)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def products(device: torch.device, precision: Precision, side: int = 8192, repeats: int = 20) -> float:
    """Floating-point operations a second of products [side, side] · [side, side], after one that is not timed."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    stream = torch.Generator().manual_seed(0)
    a, b = (torch.randn(side, side, generator=stream).to(device, dtype) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=dtype)
    with tf32_in_force(precision, device):
        torch.mm(a, b, out=out)
        began, _ = _clocks(device)
        for _ in range(repeats):
            torch.mm(a, b, out=out)
        return repeats * 2 * side**3 / (_clocks(device)[0] - began)


def session(
    method: str, rounds: int, folder: Path, device: str = "cpu", ceiling: Callable[[], float] = rate
) -> dict[str, float]:
    """A session of the method's HtM5 preset on Fashion-MNIST, of so many rounds and one before them.

    Seconds a round; operations a second of its training, and of matrix products; the share of the one in the other; the
    share of a round that is neither training nor evaluation; the accuracy. Raises ConfigError without such a preset.
    """
    before = ceiling()
    records = trained(method, rounds, folder, device)
    matrix_rate = statistics.fmean([before, ceiling()])
    wall = sum(record["wall"] for record in records)
    reached = sum(r["flops"]["clients"] for r in records) / sum(r["timing"]["train"] for r in records)
    inside = sum(r["timing"]["train"] + r["timing"]["evaluate"] for r in records)
    return {
        "seconds": wall / len(records),
        "rate": reached,
        "matrix_rate": matrix_rate,
        "share": reached / matrix_rate,
        "checkpoint": 1 - inside / wall,
        "accuracy": records[-1]["accuracy"]["mean"],
    }


def trained(method: str, rounds: int, folder: Path, device: str = "cpu") -> list[dict[str, Any]]:
    """The records of a session's rounds, each with the seconds between its end and the end of the one before."""
    try:
        preset = presets.load(f"{method}_htm5")
    except presets.PresetError as unknown:
        raise ConfigError(str(unknown)) from unknown
    raw = merged(
        preset.config,
        {
            "rounds": rounds + 1,
            "data": {"dataset": "fashion_mnist"},
            "training": {"batch_size": 64, "epochs": 1},
            "runtime": {"device": device, "workers": WORKERS if device == "cpu" else None},
        },
    )
    records: list[dict[str, Any]] = []
    ended = time.perf_counter()

    def note(event: Event) -> None:
        nonlocal ended
        if isinstance(event, RoundFinished):
            now = time.perf_counter()
            records.append({**event.record, "wall": now - ended})
            ended = now

    with simulator.Session.create(Config.read(raw), folder, simulator.data_folder(None)) as session:
        ended = time.perf_counter()
        session.run(note)
    return records[1:]  # the first round pays for what torch loads when first used


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


def alone(work: Callable[..., T], *given: object) -> T:
    """The result of a call in a process of its own, whose peak memory is the call's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *given).result()


class InAProcess:
    """A plain loop in a process of its own, as it would be run: it waits while something else is measured."""

    def __init__(self, config: Config, threads: int) -> None:
        self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self._process.submit(_begin, config, threads).result()

    def round(self) -> tuple[float, float]:
        """Seconds of one more round, of the wall clock and of all its processors."""
        return self._process.submit(_round).result()

    def close(self) -> None:
        self._process.shutdown()


_LOOP: list[PlainLoop] = []


def _begin(config: Config, threads: int) -> None:
    _LOOP.append(PlainLoop(config))
    # The first state, which the loop begins with, is made with a client's settings. Nobody writes a loop with these.
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def _round() -> tuple[float, float]:
    device = _LOOP[0].device
    wall, processors = _clocks(device)
    _LOOP[0].round()
    after = _clocks(device)
    return after[0] - wall, after[1] - processors


class Ours:
    """A run, to be trained round after round."""

    def __init__(self, config: Config) -> None:
        self.built = build(config, simulator.data_folder(None))
        self.device = self.built.federation.device
        self.record: Record
        """The last round's."""
        self._state, self._ended = self.built.engine.initial_state(), (0.0, 0.0)

    def round(self) -> tuple[float, float]:
        """Seconds of the training of one more round, from downlink to aggregation, as those of a plain loop."""
        wall, processors = _clocks(self.device)
        self._state = self.built.engine.round(self._state, self._note)
        assert self._state.record is not None
        self.record = self._state.record
        return self._ended[0] - wall, self._ended[1] - processors

    def _note(self, event: Event) -> None:
        if isinstance(event, EvaluationStarted):
            self._ended = _clocks(self.device)

    def close(self) -> None:
        self.built.engine.close()


def beside(config: Config, rounds: int) -> dict[str, float]:
    """The training of a round and a round of the plain loop, in turn, after one of each that is not timed: medians.

    Seconds of the wall clock of both; how many times as fast ours is by it, and by the time of the processors; the
    operations a second of ours. On a CPU also how many times as fast each is with all cores as with one thread.
    """
    ours = Ours(config)  # what is refused is refused before a process begins
    runs: list[Ours | InAProcess] = [ours, InAProcess(config, os.cpu_count() or 1)]
    if ours.device.type == "cpu":
        runs += [Ours(_with(config, workers=1)), InAProcess(config, 1)]
    turns = [[each.round() for each in runs] for _ in range(rounds + 1)][1:]
    for each in runs:
        each.close()
    seconds = statistics.median(turn[0][0] for turn in turns)

    def ratio(over: int, under: int, clock: int = 0) -> float:
        return statistics.median(turn[over][clock] / turn[under][clock] for turn in turns)

    found = {
        "seconds": seconds,
        "plain_seconds": statistics.median(turn[1][0] for turn in turns),
        "times_plain": ratio(1, 0),
        "processor_times_plain": ratio(1, 0, clock=1),
        "rate": ours.record["flops"]["clients"] / seconds,
    }
    if len(runs) > 2:
        found |= {"by_cores": ratio(2, 0), "plain_by_cores": ratio(3, 1)}
    return found


def by_workers(config: Config, rounds: int) -> dict[tuple[int, int], float]:
    """Seconds of the training of a round by (workers, threads of each), in turn: medians; the default comes first."""
    cores = os.cpu_count() or 1
    runs = {pair: Ours(_with(config, *pair)) for pair in ((cores, 1), (cores + 1, 1), (1, cores), (1, 1))}
    turns = [{pair: each.round()[0] for pair, each in runs.items()} for _ in range(rounds + 1)][1:]
    for each in runs.values():
        each.close()
    return {pair: statistics.median(turn[pair] for turn in turns) for pair in runs}


def _with(config: Config, workers: int, threads: int = 1) -> Config:
    runtime = config.runtime.model_copy(update={"workers": workers, "threads_per_client": threads})
    return config.model_copy(update={"runtime": runtime})


def _clocks(device: torch.device) -> tuple[float, float]:
    """Seconds of the wall clock, and of all the processors that this process has had, when the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter(), time.process_time()
