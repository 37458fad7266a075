"""`make bench-ways`: what a round costs in bf16, and in stacks, relative to float32 and clients side by side.

Setting: standalone with HtM5 on 4,000 images of Fashion-MNIST, N=10, one local epoch, IID in equal shares, so that the
two clients of each architecture take equally many steps; batches of 10 and 64 images, one worker of one thread. The
ways take rounds in turn, timed by the processor's clock: other programs disturb them little, and alike.
"""

import statistics
import time

from rich.console import Console
from rich.table import Table

import simulator
from simulator.base.nested import merged
from simulator.config import Config
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
    Console().print(table)


if __name__ == "__main__":
    main()
