"""`make bench-ways`: what a round costs in bf16, and in stacks, relative to float32 and clients side by side.

Setting: standalone with HtM5 on 4,000 images of Fashion-MNIST, N=10, one local epoch, IID in equal shares, so that the
two clients of each architecture take equally many steps; batches of 10 and 64 images, one worker of one thread. The
ways take rounds in turn, timed by the processor's clock: other programs disturb them little, and alike.

A second table has the layers of CNN-1 one by one, to see which of them gain from bf16.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import simulator
from simulator import models
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data.specs import ImageSpec
from simulator.engine.builder import build
from simulator.engine.progress import EvaluationStarted, Event

WAYS = {
    "float32, side by side": {},
    "bf16, side by side": {"training": {"precision": "bf16"}},
    "float32, stacked": {"runtime": {"runner": "stacked"}},
}
ROUNDS = 3


def config(batch_size: int, **way: object) -> Config:
    """A run in that way in the setting."""
    setting = {
        "rounds": ROUNDS + 1,
        "method": {"name": "standalone"},
        "data": {"dataset": "fashion_mnist", "limit": 4_000, "partition": "iid", "quantity": "equal"},
        "federation": {"clients": 10, "group": "htm5"},
        "training": {"batch_size": batch_size, "epochs": 1},
        "runtime": {"device": "cpu", "workers": 1},
    }
    return Config.read(merged(setting, way))


def seconds(batch_size: int) -> dict[str, float]:
    """The processor's seconds of each way's training in a round, the median; the first round is left out."""
    engines = {
        name: build(config(batch_size, **way), simulator.data_folder(None)).engine
        for name, way in WAYS.items()
    }
    states = {name: engine.initial_state() for name, engine in engines.items()}
    taken: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(ROUNDS + 1):
        for name, engine in engines.items():
            began = time.process_time()
            ended: list[float] = []

            def note(event: Event, ended: list[float] = ended) -> None:
                if isinstance(event, EvaluationStarted):
                    ended.append(time.process_time())

            states[name] = engine.round(states[name], note)
            taken[name].append(ended[0] - began)
    for engine in engines.values():
        engine.close()
    return {name: statistics.median(each[1:]) for name, each in taken.items()}


@dataclass
class Layer:
    """A layer of CNN-1 with what it reads, and processor microseconds of forward and backward."""

    name: str
    module: nn.Module
    reads: Tensor

    def pass_in(self, precision: str) -> float:
        """µs in float32 or in bf16, where the weights are rounded anew, as in training."""
        x = self.reads.to(torch.bfloat16) if precision == "bf16" else self.reads.clone()
        x.requires_grad_(self.name != "conv1")  # images have no gradient

        def once() -> None:
            self.module.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, precision == "bf16", cache_enabled=False):
                out = self.module(x)
            out.backward(torch.ones_like(out))

        return _usual(once)

    def rounding(self) -> float:
        """µs for rounding its weights to bf16."""
        weights = [weight.detach() for weight in self.module.parameters()]
        return _usual(lambda: [weight.to(torch.bfloat16) for weight in weights])


def _usual(function: Callable[[], object], times: int = 30) -> float:
    """Processor microseconds of a call: the median of seven times so many, after as many that are not counted."""
    taken = []
    for _ in range(8):
        began = time.thread_time()
        for _ in range(times):
            function()
        taken.append(1e6 * (time.thread_time() - began) / times)
    return statistics.median(taken[1:])


def layers(batch_size: int) -> list[Layer]:
    """The layers of CNN-1 for Fashion-MNIST, from the images to the head."""
    stream = torch.Generator().manual_seed(0)
    network = models.build("cnn1", ImageSpec(1, 28, 28), 10, stream).to(memory_format=torch.channels_last)
    found: list[Layer] = []
    for name, module in network.named_children():
        module.register_forward_hook(
            lambda module, reads, _, name=name: found.append(Layer(name, module, reads[0].detach()))
        )
    images = torch.randn(batch_size, 1, 28, 28, generator=stream).contiguous(
        memory_format=torch.channels_last
    )
    network(images)
    for each in found:
        each.module._forward_hooks.clear()
    return found


def by_layer(console: Console) -> None:
    """Measure and print the layers."""
    torch.set_num_threads(1)
    table = Table(title="forward and backward of the layers of CNN-1, one thread: processor time in µs")
    for column in ("batch", "layer", "float32", "bf16", "over float32", "of it rounding weights"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    for batch_size in (10, 64):
        for layer in layers(batch_size):
            usual, rounded = layer.pass_in("float32"), layer.pass_in("bf16")
            figures = f"{usual:,.0f}", f"{rounded:,.0f}", f"{rounded / usual:.2f}", f"{layer.rounding():,.0f}"
            table.add_row(str(batch_size), layer.name, *figures)
    console.print(table)


def main() -> None:
    """Measure and print."""
    table = Table(title="standalone, HtM5, 10 clients, 4,000 images: processor time of a round's training")
    for column in ("batch", "way", "s", "over float32, side by side"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for batch_size in (10, 64):
        measured = seconds(batch_size)
        usual = measured["float32, side by side"]
        for name, each in measured.items():
            table.add_row(str(batch_size), name, f"{each:.2f}", f"{each / usual:.2f}")
    console = Console()
    console.print(table)
    by_layer(console)


if __name__ == "__main__":
    main()
