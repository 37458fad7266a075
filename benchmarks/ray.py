"""`make bench-ray`: what clients on Ray cost on one machine, beside two threads in process.

Setting: FedLoRA with HtM5 on 10,000 images of Fashion-MNIST, N=10, batch 64, one local epoch; two actors of one thread
each, and two threads in process, round by round in turn. Beside the wall clock stands the processor time of all that
belongs to a way, Ray's own processes among it: other programs disturb it little. And: how long it takes until actors
are ready, and how many clients a second could be sent out and back if there were nothing to compute.

Then two nodes of one core each, which Ray's own cluster utilities simulate on this machine, and 40 clients: how evenly
both are used, by the seconds in which each has clients to compute, and by the processor time of its actor.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast
from unittest import mock

import psutil
from rich.console import Console
from rich.table import Table

import simulator
from simulator.base.record import Timing
from simulator.base.tensors import Tensors, total_bytes
from simulator.config import Config
from simulator.engine.builder import Built, build
from simulator.engine.client_states import State
from simulator.engine.progress import unobserved
from simulator.engine.wire import Wire
from simulator.methods.hooks import Hooks
from simulator.runners import Job, Jobs, LocalUpdate, Runner, Work, synchronous
from simulator.runners.ray.messages import Message

PARTS = ("cost", "nodes")
ROUNDS = 5
TASKS = 200
WAYS = {"two threads in process": "parallel", "two actors on Ray": "ray"}


def parts(runner: str, clients: int = 10, **runtime: Any) -> Built:
    """The setting, computed in that way."""
    return build(
        Config.read(
            {
                "rounds": ROUNDS + 1,
                "method": {"name": "fedlora"},
                "data": {"dataset": "fashion_mnist", "limit": 10_000},
                "federation": {"clients": clients, "group": "htm5"},
                "training": {"batch_size": 64, "epochs": 1},
                "runtime": {"device": "cpu", "workers": 2, "runner": runner, **runtime},
            }
        ),
        simulator.data_folder(None),
    )


def processor(on_ray: bool) -> float:
    """Seconds of processors so far: of this process, and of all that Ray has started."""
    own = psutil.Process()
    counted = [own, *(own.children(recursive=True) if on_ray else ())]
    return float(sum(each.cpu_times().user + each.cpu_times().system for each in counted))


def rounds(built: dict[str, Built]) -> dict[str, list[Timing]]:
    """The `timing` of each way's rounds but the first, for which torch and the actors load what they need."""
    states: dict[str, State] = {name: each.engine.initial_state() for name, each in built.items()}
    taken: dict[str, list[Timing]] = {name: [] for name in built}
    for _ in range(ROUNDS + 1):
        for name, each in built.items():
            before = processor(WAYS[name] == "ray")
            states[name] = each.engine.round(states[name], unobserved)
            record = states[name].record
            assert record is not None
            taken[name].append({**record["timing"], "cpu": processor(WAYS[name] == "ray") - before})
    return {name: timings[1:] for name, timings in taken.items()}


def nothing(runner: Runner, hooks: Hooks, round: int, client: int, job: Job) -> Message:
    """A question without work, whose answer is as large as what came."""
    return Message(job.tensors)


def unevaluated(runner: Runner, hooks: Hooks, round: int, client: int, job: Job) -> int:
    """A question without work, whose answer is small, as of an evaluation."""
    return len(job.tensors)


def untrained(
    runner: Runner, hooks: Hooks, round: int, jobs: Mapping[int, Job], **options: Any
) -> list[LocalUpdate]:
    """Updates without work: the states as they came, in new memory."""
    new = {client: {name: each.clone() for name, each in job.tensors.items()} for client, job in jobs.items()}
    return [
        LocalUpdate(runner.info(client), tensors, {}, {}, finite=True, flops=0, seconds=0.0)
        for client, tensors in new.items()
    ]


def a_second(built: Built, state: Tensors) -> float:
    """Clients with this state that are sent out and back in a second."""
    engine = built.engine
    jobs = Jobs(range(10), lambda _: Job(state, None))
    began = time.perf_counter()
    for _ in range(TASKS // 10):
        engine._runner.ask(engine._hooks, 1, jobs, range(10), nothing)
    return TASKS / (time.perf_counter() - began)


def rounds_a_second(built: Built, state: Tensors) -> float:
    """Clients a second that are sent out with a common payload, return, and are asked as for their evaluation.

    State and payload have this size, and nothing is computed.
    """
    engine = built.engine
    runner, hooks = engine._runner, engine._hooks
    server = {f"server/{name}": tensor.float() for name, tensor in state.items()}

    def around(round: int, states: Mapping[int, Tensors]) -> dict[int, Tensors]:
        wire = Wire(len(states))
        sent = Jobs(range(10), lambda client: Job(states[client], wire.down(client, server)))
        updates = synchronous.carry_out(runner, Work(hooks, round, sent))
        new = {update.client.id: dict(update.tensors) for update in updates}
        runner.ask(
            hooks, round, Jobs(range(10), lambda client: Job(new[client], None)), range(10), unevaluated
        )
        return new

    states = dict.fromkeys(range(10), state)
    began = time.perf_counter()
    with mock.patch("simulator.runners.ray.runner.trained", untrained):
        for round in range(TASKS // 10):
            states = around(round, states)
    return TASKS / (time.perf_counter() - began)


def cost(console: Console) -> None:
    """What Ray costs on one machine."""
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
        f"without a state, {a_second(on_ray, state):.0f} with {total_bytes(state) / 1e6:.1f} MB out and back, "
        f"{rounds_a_second(on_ray, state):.0f} with that, a common payload of the same size, and an evaluation"
    )
    for each in built.values():
        each.engine.close()


class Nodes:
    """Seconds in which each node has had clients to compute, by its name."""

    def __init__(self) -> None:
        self.busy: dict[str, float] = defaultdict(float)
        self._given: dict[str, int] = defaultdict(int)
        self._since: dict[str, float] = {}

    def patched(self, pool: Any) -> Any:
        """A context in which they are noted, from a client's way out to its answer."""
        send, answer = pool.send, pool.answer

        def sent(of: Any, member: Any, *work: Any) -> Any:
            node = of._joined[member].node
            if not self._given[node]:
                self._since[node] = time.perf_counter()
            self._given[node] += 1
            return send(of, member, *work)

        def answered(of: Any, ref: Any, member: Any) -> Any:
            node = of._joined[member].node
            self._given[node] -= 1
            if not self._given[node]:
                self.busy[node] += time.perf_counter() - self._since[node]
            return answer(of, ref, member)

        return mock.patch.multiple(pool, send=sent, answer=answered)


def nodes(console: Console) -> None:
    """How evenly two nodes are used."""
    import ray
    from ray.cluster_utils import Cluster

    from simulator.runners.ray.worker_pool import WorkerPool

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    engine, watched = parts("ray", 40, address=cluster.address).engine, Nodes()
    table = Table(
        title="FedLoRA, HtM5, 40 clients, 10,000 images, batch 64, two nodes of a core: seconds, all rounds"
    )
    for column in ("node", "busy", "busy ×", "processor", "processor ×"):
        table.add_column(column, justify="left" if column == "node" else "right")
    try:
        engine.open()
        pool = cast(Any, engine._runner)._pool
        actors = {facts.node: psutil.Process(facts.pid) for facts in pool._joined.values()}
        state = engine.round(engine.initial_state(), unobserved)
        before = {node: sum(actor.cpu_times()[:2]) for node, actor in actors.items()}
        with watched.patched(WorkerPool):
            for _ in range(ROUNDS):
                state = engine.round(state, unobserved)
        taken = {node: sum(actor.cpu_times()[:2]) - before[node] for node, actor in actors.items()}
        engine.close()
    finally:
        ray.shutdown()
        cluster.shutdown()
    for number, node in enumerate(sorted(actors), start=1):
        ratios = watched.busy[node] / min(watched.busy.values()), taken[node] / min(taken.values())
        figures = f"{watched.busy[node]:.2f}", f"{ratios[0]:.3f}", f"{taken[node]:.2f}", f"{ratios[1]:.3f}"
        table.add_row(str(number), *figures)
    console.print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part of it: what Ray costs, or how nodes are used")
    only = parser.parse_args().only
    console = Console(width=120)
    if only != "nodes":
        cost(console)
    if only != "cost":
        nodes(console)


if __name__ == "__main__":
    main()
