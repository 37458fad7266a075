"""`make bench-ray`: what clients on Ray cost on one machine, beside two threads in process.

Setting: FedLoRA with HtM5 on 10,000 images of Fashion-MNIST, N=10, batch 64, one local epoch; two actors of one thread
each, and two threads in process, round by round in turn. Beside the wall clock stands the processor time of all that
belongs to a way, Ray's own processes among it: other programs disturb it little. And: how long it takes until actors
are ready, and how many clients a second could be sent out and back if there were nothing to compute.
"""

import statistics
import time

import psutil
from rich.console import Console
from rich.table import Table

import simulator
from simulator.builder import Built, build
from simulator.client_states import State
from simulator.config import Config
from simulator.methods.hooks import Hooks
from simulator.progress import unobserved
from simulator.runners import Job, Jobs, Runner
from simulator.runners.ray.parcels import Parcel
from simulator.tensors import Tensors, total_bytes

ROUNDS = 5
TASKS = 200
WAYS = {"two threads in process": "parallel", "two actors on Ray": "ray"}


def parts(runner: str) -> Built:
    """The setting, computed in that way."""
    return build(
        Config.read(
            {
                "rounds": ROUNDS + 1,
                "method": {"name": "fedlora"},
                "data": {"dataset": "fashion_mnist", "limit": 10_000},
                "federation": {"clients": 10, "group": "htm5"},
                "training": {"batch_size": 64, "epochs": 1},
                "runtime": {"device": "cpu", "workers": 2, "runner": runner},
            }
        ),
        simulator.data_folder(None),
    )


def processor(on_ray: bool) -> float:
    """Seconds of processors so far: of this process, and of all that Ray has started."""
    own = psutil.Process()
    counted = [own, *(own.children(recursive=True) if on_ray else ())]
    return float(sum(each.cpu_times().user + each.cpu_times().system for each in counted))


def rounds(built: dict[str, Built]) -> dict[str, list[dict[str, float]]]:
    """The `timing` of each way's rounds but the first, for which torch and the actors load what they need."""
    states: dict[str, State] = {name: each.engine.initial_state() for name, each in built.items()}
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in built}
    for _ in range(ROUNDS + 1):
        for name, each in built.items():
            before = processor(WAYS[name] == "ray")
            states[name] = each.engine.round(states[name], unobserved)
            record = states[name].record
            assert record is not None
            taken[name].append(record["timing"] | {"cpu": processor(WAYS[name] == "ray") - before})
    return {name: timings[1:] for name, timings in taken.items()}


def nothing(runner: Runner, hooks: Hooks, round: int, client: int, job: Job) -> Parcel:
    """A question without work, whose answer is as large as what came."""
    return Parcel(job.tensors)


def a_second(built: Built, state: Tensors) -> float:
    """Clients with this state that are sent out and back in a second."""
    engine = built.engine
    jobs = Jobs(range(10), lambda _: Job(state, None))
    began = time.perf_counter()
    for _ in range(TASKS // 10):
        engine._runner.ask(engine._hooks, 1, jobs, range(10), nothing)
    return TASKS / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    console = Console()
    built = {name: parts(runner) for name, runner in WAYS.items()}
    began = time.perf_counter()
    for each in built.values():
        each.engine.open()
    started = time.perf_counter() - began
    table = Table(title="FedLoRA, HtM5, 10 clients, 10,000 images, batch 64: seconds a round, medians")
    for column in ("way", "training", "evaluation", "training ×", "processor", "processor ×"):
        table.add_column(column, justify="left" if column == "way" else "right")
    usual: list[float] | None = None
    for name, taken in rounds(built).items():
        train, evaluate, cpu = (
            statistics.median(each[key] for each in taken) for key in ("train", "evaluate", "cpu")
        )
        usual = usual or [train, cpu]
        ratios = f"{train / usual[0]:.2f}", f"{cpu / usual[1]:.2f}"
        table.add_row(name, f"{train:.2f}", f"{evaluate:.2f}", ratios[0], f"{cpu:.2f}", ratios[1])
    console.print(table)
    on_ray = built["two actors on Ray"]
    state = on_ray.engine.initial_state().clients[0]
    console.print(
        f"Ray and two actors ready after {started:.1f} s; clients a second without work: {a_second(on_ray, {}):.0f} "
        f"without a state, {a_second(on_ray, state):.0f} with {total_bytes(state) / 1e6:.1f} MB out and back"
    )
    for each in built.values():
        each.engine.close()


if __name__ == "__main__":
    main()
