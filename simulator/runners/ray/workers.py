"""The actors of a run: what each does on its node, and how they are started, checked, and replaced when they die.

An actor's answer depends only on its arguments, so bits do not depend on which actor computes a client. Runs of one
process that need the same actors share them, so a switch to another method starts none.
"""

import os
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import ray
import torch
from ray import exceptions
from torch import Tensor

from simulator.base.documents import Node
from simulator.base.environment import environment, inexact
from simulator.base.errors import ConfigError, HtflError, MachinesLost, NotEnoughMemory
from simulator.methods.hooks import Hooks
from simulator.runners.base import AsOne, Job, LocalUpdate, Runner, Work
from simulator.runners.ray import cluster
from simulator.runners.ray.cluster import DEATHS, Needs
from simulator.runners.ray.setup import WorkerSetup, clients_at_once
from simulator.runners.ray.transfer import ActorStates, Kept, KnownStates, Message, Orders
from simulator.training.precision import tf32_in_force

MOST_RUNS = 2
"""The current one, and the one before a switch."""


class ActorInfo(NamedTuple):
    """An actor's node and process, and what its bits depend on."""

    node: str
    host: str
    pid: int
    environment: Mapping[str, Any]


class Refused(NamedTuple):
    """An error for the user, on its way to the main process."""

    error: HtflError


class TaskResult(NamedTuple):
    """The result of a question, and the actor's notes for the user."""

    result: Any
    notes: Sequence[str]


class Actor:
    """Holds data, networks, and a runner, and computes clients portion by portion."""

    def __init__(self) -> None:
        self._equipped: dict[str, tuple[Runner, Hooks]] = {}
        self._states = ActorStates()

    def join(self, run: str, setup: Sequence[Any]) -> ActorInfo | Refused:
        """Prepare for a run, which its setup's hash identifies, and report what its bits depend on."""
        host = socket.gethostname()
        try:
            runner, _ = self._for(run, setup)
        except HtflError as error:
            return Refused(type(error)(f"node {host}: {error}"))
        facts = environment(runner.context.federation.device, runner.threads)
        return ActorInfo(ray.get_runtime_context().get_node_id(), host, os.getpid(), facts)

    def ask(
        self,
        run: str,
        setup: Sequence[Any],
        orders: Orders,
        question: AsOne[Any],
        about: tuple[int, int | None, Mapping[int, int]],
        states: Mapping[int, Mapping[str, Tensor] | Kept],
        *payloads: Mapping[str, Tensor] | None,
    ) -> TaskResult | Refused:
        """The answer of clients, from their states, sent or kept, and payloads. about: round, dispatch, and limits."""
        self._states.begin(orders)
        try:
            runner, hooks = self._for(run, setup)
            federation = runner.context.federation
            torch.set_num_threads(runner.threads)
            device = federation.device
            jobs = {
                client: Job(
                    _on(device, self._states.found(orders.driver, state)),
                    None if payload is None else _on(device, payload),
                )
                for (client, state), payload in zip(states.items(), payloads, strict=True)
            }
            with tf32_in_force(federation.training.precision, device):
                result = question(runner, Work(hooks, about[0], jobs, dispatch=about[1], limits=about[2]))
        except NotEnoughMemory as error:
            return Refused(NotEnoughMemory(f"node {socket.gethostname()}: {error}"))
        except HtflError as error:
            return Refused(error)
        return TaskResult(self._parcelled(result, orders), runner.take_notes())

    def forget(self, run: str, driver: str) -> None:
        self._states.forget(driver)
        self._unequip(run)

    def _for(self, run: str, setup: Sequence[Any]) -> tuple[Runner, Hooks]:
        if run not in self._equipped:
            found: WorkerSetup = ray.get(setup[0])
            held = [runner.context.data for runner, _ in self._equipped.values()]
            self._equipped[run] = found.set_up(held[-1] if held else None)
            while len(self._equipped) > MOST_RUNS:
                self._unequip(next(iter(self._equipped)))
        return self._equipped[run]

    def _unequip(self, run: str) -> None:
        if run in self._equipped:
            self._equipped.pop(run)[0].close()

    def _parcelled(self, result: Any, orders: Orders) -> Any:
        """The result as it is sent. New states in it are also kept."""
        if isinstance(result, list):
            return [self._parcelled(each, orders) for each in result]
        if isinstance(result, LocalUpdate):
            state = self._states.keep(orders, result.client.id, result.tensors)
            return replace(result, tensors=Message(state), uplink=Message(result.uplink))
        return result


def _on(device: torch.device, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}


START_SECONDS = 120.0
OTHERS_SECONDS = 30.0
"""Seconds to wait for each further actor. The others join when they have room."""
FAILED_STARTS = 3
"""Actors that may die in a row as they start, for each actor of the pool."""


@dataclass(eq=False)
class Worker:
    """An actor, and the portions that it has been given: their number, and when it is expected to finish them."""

    handle: Any
    given: int = 0
    until: float = 0.0


class Died(NamedTuple):
    node: str
    reason: str


class SharedWorkers:
    """The actors of this process, for all its runs with the same demands."""

    _there: ClassVar[dict[tuple[str, Needs], "SharedWorkers"]] = {}
    _guard: ClassVar = threading.RLock()
    _started_here: ClassVar[bool] = False

    def __init__(self, address: str, needs: Needs) -> None:
        self.address, self.needs = address, needs
        self._users = 0
        self.size = 0
        """The number of actors that the pool should have."""
        self.workers: list[Worker] = []

    @classmethod
    def borrow(cls, address: str, needs: Needs, most: int | None, here: int, largest: int) -> "SharedWorkers":
        """The actors for a run; `here` if Ray is started for it. largest: bytes of its states. Raises ConfigError."""
        with cls._guard:
            if cluster.connect(address, needs, here, cluster.bytes_in_transit(largest, here)):
                cls._started_here = True
            has_room = cluster.room(needs)
            if not has_room:
                cls._disconnect()
                raise ConfigError(
                    f"the Ray cluster at '{address}' is too small: no node has {needs} for an actor; use "
                    "a smaller runtime.threads_per_client or runtime.workers_per_actor, or another cluster."
                )
            pool = cls._there.setdefault((address, needs), SharedWorkers(address, needs))
            pool._users += 1
            pool.size = max(pool.size, has_room if most is None else min(most, has_room))
            pool.fill()
            return pool

    def give_back(self) -> None:
        """When no run needs the actors, they end, and so does a Ray that was started for them."""
        with self._guard:
            self._users -= 1
            if self._users:
                return
            self._there.pop((self.address, self.needs), None)
            for worker in self.workers:
                _end(worker)
            self._disconnect()

    def fill(self) -> None:
        """Start actors until there are enough. One that does not fit now waits for room."""
        needs = self.needs
        kind = ray.remote(Actor).options(
            num_cpus=needs.cpus, num_gpus=needs.gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )
        while len(self.workers) < self.size:
            self.workers.append(Worker(kind.remote()))

    def replace(self, worker: Worker, *, by_another: bool = True) -> None:
        """End an actor, and start another unless the pool should shrink."""
        if worker in self.workers:
            self.workers.remove(worker)
            _end(worker)
            self.size -= not by_another
            self.fill()

    @classmethod
    def _disconnect(cls) -> None:
        if cls._started_here and not cls._there:
            cls._started_here = False
            cluster.disconnect()


@dataclass(eq=False)
class WorkerPool:
    """The actors of a pool as one run sees them. Each is prepared for the run, or rejected if its bits would differ."""

    shared: SharedWorkers
    most: int | None
    setup: WorkerSetup
    exact: bool
    say: Callable[[str], None]
    _joining: dict[Any, Worker] = field(default_factory=dict)
    _joined: dict[Worker, ActorInfo] = field(default_factory=dict)
    _failed: int = 0
    states: KnownStates = field(default_factory=KnownStates)

    def __post_init__(self) -> None:
        device = self.setup.federation.device
        self._here = environment(device, self.setup.runtime.threads_per_client)
        self._run = self.setup.sha256
        self._sent = [ray.put(self.setup)]  # in a list, so that an actor that has it does not fetch it

    def gather(self) -> None:
        """Wait until all actors are ready, or one is and the others have no room yet. Raises ConfigError, DataError."""
        deadline = time.monotonic() + START_SECONDS
        self.call()
        while self._joining and time.monotonic() < deadline:
            for ref in self.wait([], 1.0):
                self.heed(ref, at_once=True)
                if self._joined:
                    deadline = time.monotonic() + OTHERS_SECONDS
            self.call()
        if not self._joined:
            raise ConfigError(
                f"the Ray cluster is too small now: no node had room for an actor ({self.shared.needs}) within "
                f"{START_SECONDS:.0f} s; others may use it. Wait, or use another."
            )

    def call(self) -> None:
        """Ask new actors to get ready, as many as the run may use."""
        for worker in [worker for worker in self._joined if worker not in self.shared.workers]:
            del self._joined[worker]  # another run has found it dead
            self.states.lost(worker)
        known = {*self._joined, *self._joining.values()}
        unknown = [worker for worker in self.shared.workers if worker not in known]
        for worker in unknown[: None if self.most is None else max(self.most - len(known), 0)]:
            self._joining[worker.handle.join.remote(self._run, self._sent)] = worker

    def wait(self, at_work: Iterable[Any], seconds: float) -> list[Any]:
        """The first answer of a busy or a starting actor within `seconds`; may be empty."""
        awaited = [*at_work, *self._joining]
        if not awaited:
            time.sleep(seconds)
            return []
        ready: list[Any] = ray.wait(awaited, num_returns=1, timeout=seconds)[0]
        return ready

    def heed(self, ref: Any, *, at_once: bool = False) -> bool:
        """Add an actor that is ready. False: other `ref`. Raises ConfigError, DataError `at_once`, or for the last."""
        if (worker := self._joining.pop(ref, None)) is None:
            return False
        try:
            found = ray.get(ref)
        except DEATHS as death:
            self._failed += 1
            if self._failed >= FAILED_STARTS * self.shared.size:
                raise ConfigError(
                    f"Ray's actors die as they start ({cluster.short_message(death)}); htfl-sim must be installed on "
                    "every node, and a node must have memory for the data."
                ) from death
            self.shared.replace(worker)
            return True
        except exceptions.RayTaskError as fault:
            raise ConfigError(
                f"a Ray actor cannot get ready ({cluster.short_message(fault.cause)}); htfl-sim, and the packages "
                "that methods come with, must be installed on every node, in the same versions."
            ) from fault
        self._failed = 0
        refusal = found.error if isinstance(found, Refused) else self._unlike(found)
        if refusal is None:
            self._joined[worker] = found
            return True
        if at_once or self.shared.size == 1:
            raise refusal
        self.say(f"A Ray actor is not used: {refusal}")
        self.shared.replace(worker, by_another=False)
        return True

    def free(self, keepers: Collection[Any] = (), ahead: float = 0.0) -> Worker | None:
        """A ready actor: idle, or done within `ahead` seconds. First idle ones, then `keepers`, then longest idle."""
        now = time.monotonic()
        idle = [worker for worker in self._joined if not worker.given]
        able = idle or [
            worker for worker in self._joined if worker.given == 1 and abs(worker.until - now) <= ahead
        ]
        first = min(able, key=lambda worker: 0.0 if idle else worker.until, default=None)
        return next((worker for worker in able if worker in keepers), first)

    def send(
        self, worker: Worker, question: AsOne[Any], work: Work, payloads: Iterable[Any], seconds: float
    ) -> tuple[Any, int]:
        """Send clients, with references to payloads, for about `seconds`. Returns the answer's reference and task."""
        worker.until = max(time.monotonic(), worker.until if worker.given else 0.0) + seconds
        worker.given += 1
        self._joined[worker] = self._joined.pop(worker)  # moves it behind the others
        sent = {
            client: self.states.at(worker, client, job.tensors) or Message(job.tensors)
            for client, job in work.jobs.items()
        }
        orders, about = self.states.orders(worker), (work.round, work.dispatch, work.limits)
        ask = worker.handle.ask.remote
        return ask(self._run, self._sent, orders, question, about, sent, *payloads), orders.task

    def answer(self, ref: Any, worker: Worker) -> TaskResult | Died:
        """Raises the user's errors. Replaces an actor that died."""
        worker.given -= 1
        try:
            found: TaskResult | Refused = ray.get(ref)
        except DEATHS as death:
            facts = self._joined.pop(worker, None)
            self.shared.replace(worker)
            self.states.lost(worker)
            return Died(facts.host if facts else "an unknown node", cluster.short_message(death))
        if isinstance(found, Refused):
            raise found.error
        return found

    @property
    def ready(self) -> int:
        return len(self._joined)

    def places(self) -> list[Node]:
        """The nodes with ready actors, by name."""
        by_node: dict[str, list[ActorInfo]] = defaultdict(list)
        for facts in self._joined.values():
            by_node[facts.node].append(facts)
        hosts = Counter(found[0].host for found in by_node.values())
        return [
            Node(
                node=first.host if hosts[first.host] == 1 else f"{first.host}/{node[:8]}",
                workers=len(found) * clients_at_once(self.setup.runtime),
                environment=dict(first.environment),
                inexact=inexact(self._here, dict(first.environment)),
            )
            for node, found in sorted(by_node.items())
            for first in found[:1]
        ]

    def close(self) -> None:
        # At the end of a process, Ray may be shut down already. Any call would then start it again.
        if ray.is_initialized():
            for worker in self._joined:
                worker.handle.forget.remote(self._run, self.states.driver)
        self.shared.give_back()

    def _unlike(self, facts: ActorInfo) -> ConfigError | None:
        """The error for an actor whose bits would differ from this machine's, if it must be rejected."""
        differences = inexact(self._here, dict(facts.environment))
        if not differences:
            return None
        if self.exact:
            return ConfigError(
                f"node {facts.host}: results from there would not be bit-identical ({'; '.join(differences)}). Use "
                "nodes that are alike, or `allow_inexact=True`. The session will record it."
            )
        self.say(f"Node {facts.host} computes clients, and gives other bits: {'; '.join(differences)}.")
        return None


@contextmanager
def reaching(round: int, otherwise: str) -> Iterator[None]:
    """Wraps work in round t. Raises ConfigError if Ray itself is gone, not just an actor. The runner uses it too."""
    try:
        yield
    except exceptions.RayTaskError:
        raise  # a fault of htfl-sim, with its traceback
    except (exceptions.RayError, ConnectionError) as lost:
        raise MachinesLost(
            f"the Ray cluster cannot be reached any more in round {round} ({cluster.short_message(lost)}). The session "
            f"is at its last checkpoint: resume it when there is a cluster, or with `runtime.runner={otherwise}`."
        ) from lost


def _end(worker: Worker) -> None:
    with suppress(Exception):  # Ray itself may be gone
        ray.kill(worker.handle)
