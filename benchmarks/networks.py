"""`python -m benchmarks.networks`: does a method that trains two networks per step cost more than both alone?

HtM5 on Fashion-MNIST, one client of each model, one thread, eight steps a round. Each method's step stands beside the
steps of its networks by `standalone`: the client's own, and the smallest model where the method trains one beside it.
All are measured in turn, in processor time of the thread that trains. Rates are counted operations over that time.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import torch
from rich.console import Console

import simulator
from benchmarks.bench import at_least
from benchmarks.settings import config
from benchmarks.sheet import Sheet
from simulator import methods
from simulator.base.errors import HtflError
from simulator.engine.builder import Built, build
from simulator.engine.progress import unobserved
from simulator.runners import local

METHODS = ("fedgen", "fml", "fedmrl", "fedkd")
STEPS = 8


@dataclass
class Step:
    """Processor microseconds of a step, one for each round that was timed, and its counted operations."""

    microseconds: list[float] = field(default_factory=list)
    operations: float = 0.0

    @property
    def usual(self) -> float:
        """The median over rounds, in µs."""
        return statistics.median(self.microseconds)


def begun(method: str, batch: int) -> Built:
    """A run of one client per model, one after another."""
    runtime = {"runner": "sequential", "threads_per_client": 1}
    asked = config("htm5", batch, method, images=STEPS * batch, clients=5, runtime=runtime)
    return build(asked, simulator.data_folder(None))


def timed(built: dict[str, Built], rounds: int) -> dict[str, dict[str, Step]]:
    """The steps of each method, by the client's model: so many rounds in turn, after two that are not counted."""
    found: dict[str, dict[str, Step]] = {name: defaultdict(Step) for name in built}
    states = {name: each.engine.initial_state() for name, each in built.items()}
    for number in range(rounds + 2):
        for name, each in built.items():
            with watching(found[name], counts=number > 1):
                states[name] = each.engine.round(states[name], unobserved)
    for each in built.values():
        each.engine.close()
    return found


@contextmanager
def watching(found: dict[str, Step], counts: bool) -> Iterator[None]:
    """A context in which each client's training adds the time of its step to its model's."""
    train = local.train

    def watched(prepared: local.Prepared) -> Iterator[None]:
        began, steps = time.thread_time(), 0
        for _ in train(prepared):
            steps += 1
            yield
        step = found[prepared.local.info.architecture]
        if counts:
            step.microseconds.append(1e6 * (time.thread_time() - began) / steps)
        step.operations = prepared.local.flops / steps

    with mock.patch.object(local, "train", watched):
        yield


def main() -> None:
    """Measure and print."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.networks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--batch", type=at_least(2), default=64)
    parser.add_argument("--rounds", type=at_least(1), default=9, help="timed, of each (default: 9)")
    parser.add_argument("--methods", nargs="+", choices=methods.names(), default=METHODS, metavar="METHOD")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    built = {name: begun(name, asked.batch) for name in ("standalone", *asked.methods)}
    smallest = built["standalone"].federation.smallest
    beside = {name: bool(each.method.trained_beside()) for name, each in built.items()}
    found = timed(built, asked.rounds)
    alone = found["standalone"]
    sheet = Sheet(
        f"A step of HtM5, batch {asked.batch}, one thread, {asked.rounds} rounds: processor time in µs",
        ("method", "model", "step", "its networks alone", "×", "GFLOP/s", "its networks", "×"),
    )
    for name in asked.methods:
        whole = [0.0, 0.0, 0.0, 0.0]
        for model, step in found[name].items():
            networks = [alone[model], *([alone[smallest]] if beside[name] else [])]
            figures = (
                step.usual,
                sum(each.usual for each in networks),
                step.operations,
                sum(each.operations for each in networks),
            )
            whole = [total + each for total, each in zip(whole, figures, strict=True)]
            sheet.add(name, model, *shown(*figures))
        sheet.add(name, "all", *shown(*whole))
    time_alone, operations = (
        sum(step.usual for step in alone.values()),
        sum(step.operations for step in alone.values()),
    )
    sheet.add("standalone", "all", *shown(time_alone, time_alone, operations, operations))
    Console(width=120).print(sheet.shown())


def shown(step: float, networks: float, operations: float, of_networks: float) -> tuple[str, ...]:
    """The columns of a row: both times, their ratio, both rates, and their ratio."""
    rate, reached = operations / step / 1e3, of_networks / networks / 1e3
    times = f"{step:,.0f}", f"{networks:,.0f}", f"{step / networks:.2f}"
    return *times, f"{rate:.1f}", f"{reached:.1f}", f"{rate / reached:.2f}"


if __name__ == "__main__":
    try:
        main()
    except HtflError as error:
        raise SystemExit(f"error: {error}") from None
