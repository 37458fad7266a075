"""`python -m benchmarks.cka`: what measuring CKA costs, against the forward passes it needs and against a round.

Setting: HtM5 on Fashion-MNIST, N=10 and N=100, two classes each, batch 64, one local epoch, two workers of one thread.
The parts take turns, and times are the processor's over all threads, so that other programs disturb all of them little
and alike. "forward" is the same forward passes with nothing done to what comes out.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from rich.console import Console
from rich.table import Table

import simulator
from simulator.config import Config
from simulator.engine.builder import Built, build
from simulator.engine.client_states import State
from simulator.engine.progress import unobserved
from simulator.metrics.cka_matrices import PROBE, common_layers, measure, probe
from simulator.training.client import LocalClient
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache

WORKERS = 2


def config(group: str, clients: int) -> Config:
    """A run in the setting."""
    return Config.read(
        {
            "method": {"name": "fedlora"},
            "data": {"dataset": "fashion_mnist", "quantity": "equal"},
            "federation": {"clients": clients, "group": group},
            "training": {"batch_size": 64, "epochs": 1},
            "runtime": {"device": "cpu", "workers": WORKERS},
        }
    )


class Measurement:
    """The clients of a federation after a round, and what can be done with them."""

    def __init__(self, parts: Built, pool: ThreadPoolExecutor, images: int) -> None:
        self._parts = parts
        self._pool = pool
        self._workplace = TrainingContext(parts.federation, parts.data, FlopCache())
        self._layers = common_layers(parts.federation)
        self._probe = probe(parts.data, 0, images)
        self._state: State = parts.engine.round(parts.engine.initial_state(), unobserved)

    def round(self) -> None:
        """One more round, with its evaluation."""
        self._state = self._parts.engine.round(self._state, unobserved)

    def cka(self) -> None:
        """CKA of all pairs in all layers."""
        measure(
            self._workplace,
            lambda clients, work: list(self._pool.map(work, clients)),
            self._state.clients.__getitem__,
            self._layers,
            self._probe,
        )

    def forward(self) -> None:
        """The probe through every client's model."""
        list(self._pool.map(self._forward, range(len(self._state.clients))))

    def _forward(self, client: int) -> None:
        info = self._parts.federation.clients[client]
        local = LocalClient(self._workplace, info, 0, self._state.clients[client])
        local.nets.eval()
        with torch.no_grad():
            for indices in self._probe.split(128):
                local.nets.model.represent(local.batch(indices).x)


def seconds(work: Callable[[], None]) -> float:
    """The processor's, over all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cka", description=__doc__.splitlines()[0])
    parser.add_argument("--group", default="htm5")
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--images", type=int, default=PROBE, help=f"images in the probe (default: {PROBE})")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(title=f"CKA of {asked.group} on Fashion-MNIST, {asked.images} images, all layers")
    for column in ("clients", "forward s", "CKA s", "CKA/forward", "round s", "CKA/round", "every 10th"):
        table.add_column(column, justify="right")
    with ThreadPoolExecutor(WORKERS) as pool:
        for clients in asked.clients:
            parts = build(config(asked.group, clients), simulator.data_folder(None))
            measurement = Measurement(parts, pool, asked.images)
            work = (measurement.forward, measurement.cka, measurement.round)
            for each in work[:2]:
                each()  # the first pays for what torch loads when first used
            times = [[seconds(each) for each in work] for _ in range(asked.repeats)]
            forward, cka, round = (statistics.median(column) for column in zip(*times, strict=True))
            table.add_row(
                str(clients),
                f"{forward:.2f}",
                f"{cka:.2f}",
                f"{cka / forward:.2f}",
                f"{round:.2f}",
                f"{cka / round:.1%}",
                f"{cka / round / 10:.2%}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
