"""The actors that work for a run: started, asked who they are, replaced when they die.

Runs of one process that want the same of Ray share their actors, so that a switch to another method starts none.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import ray
from ray import exceptions

from simulator.base.environment import environment, inexact
from simulator.base.errors import ConfigError, MachinesLost
from simulator.runners.base import RemoteMachine
from simulator.runners.ray import cluster, inner
from simulator.runners.ray.actor import Actor, ActorInfo, Refused, TaskResult
from simulator.runners.ray.cluster import DEATHS, Needs
from simulator.runners.ray.worker_setup import WorkerSetup

START_SECONDS = 120.0
"""How long the first actor may take to get ready."""
OTHERS_SECONDS = 30.0
"""How long it is waited for another one after that: the others come when they have room."""
FAILED_STARTS = 3
"""So many actors may die in a row as they start, for each there is to be."""


class Wants(NamedTuple):
    """What a run wants of Ray, besides how many actors."""

    address: str
    needs: Needs


@dataclass(eq=False)
class Worker:
    """An actor, and how many portions of clients it has been given."""

    handle: Any
    given: int = 0


class Died(NamedTuple):
    """In place of an answer: the actor that owed it is gone."""

    node: str
    reason: str


class SharedWorkers:
    """The actors of this process, for all its runs that want the same."""

    _there: ClassVar[dict[Wants, "SharedWorkers"]] = {}
    _guard: ClassVar = threading.RLock()
    _started_here: ClassVar[bool] = False

    def __init__(self, wants: Wants) -> None:
        self._wants = wants
        self._users = 0
        self.size = 0
        """How many actors there are to be."""
        self.workers: list[Worker] = []

    @classmethod
    def borrow(cls, wants: Wants, most: int | None, here: int, largest: int) -> "SharedWorkers":
        """The actors for a run, `most` of them or as many as there is room for; `here` on a Ray that is started for it.

        `largest` is how many bytes the states have at most that an actor is given at once. Raises ConfigError.
        """
        with cls._guard:
            if cluster.connect(wants.address, wants.needs, here, cluster.bytes_in_transit(largest, here)):
                cls._started_here = True
            has_room = cluster.room(wants.needs)
            if not has_room:
                cls._disconnect()
                raise ConfigError(
                    f"the Ray cluster at '{wants.address}' is too small: no node has {wants.needs} for an actor; use "
                    "a smaller runtime.threads_per_client or runtime.workers_per_actor, or another cluster."
                )
            pool = cls._there.setdefault(wants, SharedWorkers(wants))
            pool._users += 1
            pool.size = max(pool.size, has_room if most is None else min(most, has_room))
            pool.fill()
            return pool

    def give_back(self) -> None:
        """A run needs them no longer; when none does, they end, and with the last of them the Ray that was started."""
        with self._guard:
            self._users -= 1
            if self._users:
                return
            self._there.pop(self._wants, None)
            for worker in self.workers:
                _end(worker)
            self._disconnect()

    def fill(self) -> None:
        """Start actors until there are enough; one for which there is no room now waits for it."""
        needs = self._wants.needs
        kind = ray.remote(Actor).options(
            num_cpus=needs.cpus, num_gpus=needs.gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )
        while len(self.workers) < self.size:
            self.workers.append(Worker(kind.remote()))

    def replace(self, worker: Worker, *, by_another: bool = True) -> None:
        """Let an actor go, and start another, unless there is to be one fewer."""
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
    """The actors of a pool as one run uses them: each is made ready for it, or refused if its bits would be others."""

    shared: SharedWorkers
    most: int | None
    """Actors that the run may use at a time; None: all."""
    setup: WorkerSetup
    exact: bool
    say: Callable[[str], None]
    _joining: dict[Any, Worker] = field(default_factory=dict)
    _joined: dict[Worker, ActorInfo] = field(default_factory=dict)
    _failed: int = 0

    def __post_init__(self) -> None:
        device = self.setup.federation.device
        self._here = environment(device, self.setup.runtime.threads_per_client)
        self._run = self.setup.sha256
        self._sent = [ray.put(self.setup)]  # in a list, so that an actor that has it does not fetch it

    def gather(self) -> None:
        """Wait until all actors are ready, or one is and others have no room yet. Raises ConfigError or DataError."""
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
                f"the Ray cluster is too small now: nobody had room for an actor ({self.shared._wants.needs}) within "
                f"{START_SECONDS:.0f} s; others may use it. Wait, or use another."
            )

    def call(self) -> None:
        """Ask actors that are not known yet to get ready, as many as the run may use."""
        for worker in [worker for worker in self._joined if worker not in self.shared.workers]:
            del self._joined[worker]  # another run has found it dead
        known = {*self._joined, *self._joining.values()}
        unknown = [worker for worker in self.shared.workers if worker not in known]
        for worker in unknown[: None if self.most is None else max(self.most - len(known), 0)]:
            self._joining[worker.handle.join.remote(self._run, self._sent)] = worker

    def wait(self, at_work: Iterable[Any], seconds: float) -> list[Any]:
        """What has come of the work, or of an actor that was to get ready, within so many seconds."""
        awaited = [*at_work, *self._joining]
        if not awaited:
            time.sleep(seconds)
            return []
        ready: list[Any] = ray.wait(awaited, num_returns=1, timeout=seconds)[0]
        return ready

    def heed(self, ref: Any, *, at_once: bool = False) -> bool:
        """Take in an actor that was to get ready; false where this is something else.

        Raises ConfigError or DataError where it cannot be used: `at_once`, or when no other is left.
        """
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

    def free(self) -> Worker | None:
        """An actor that is ready and has nothing to do: the one that has done so longest, for even use of nodes."""
        idle = [worker for worker in self._joined if not worker.given]
        return idle[0] if idle else None

    def send(self, worker: Worker, question: Any, round: int, states: Any, payloads: Iterable[Any]) -> Any:
        """Give an actor clients, as `Actor.ask` wants them; what comes of it is in the reference returned."""
        worker.given += 1
        self._joined[worker] = self._joined.pop(worker)  # behind the others
        return worker.handle.ask.remote(self._run, self._sent, question, round, states, *payloads)

    def put(self, message: Any) -> Any:
        """Put something where every actor finds it."""
        return ray.put(message)

    def answer(self, ref: Any, worker: Worker) -> TaskResult | Died:
        """What an actor has made of its clients. Raises what was a user's fault; one that died is replaced."""
        worker.given -= 1
        try:
            found: TaskResult | Refused = ray.get(ref)
        except DEATHS as death:
            facts = self._joined.pop(worker, None)
            self.shared.replace(worker)
            return Died(facts.host if facts else "an unknown node", cluster.short_message(death))
        if isinstance(found, Refused):
            raise found.error
        return found

    @property
    def ready(self) -> int:
        """How many actors can be given clients."""
        return len(self._joined)

    def places(self) -> list[RemoteMachine]:
        """The nodes on which actors are ready, by name."""
        by_node: dict[str, list[ActorInfo]] = defaultdict(list)
        for facts in self._joined.values():
            by_node[facts.node].append(facts)
        hosts = Counter(found[0].host for found in by_node.values())
        return [
            RemoteMachine(
                first.host if hosts[first.host] == 1 else f"{first.host}/{node[:8]}",
                len(found) * inner.at_once(self.setup.runtime),
                first.environment,
                inexact(self._here, dict(first.environment)),
            )
            for node, found in sorted(by_node.items())
            for first in found[:1]
        ]

    def close(self) -> None:
        """The run is over."""
        # As a process ends, Ray may have shut down first; any call would then start another Ray.
        if ray.is_initialized():
            for worker in self._joined:
                worker.handle.forget.remote(self._run)
        self.shared.give_back()

    def _unlike(self, facts: ActorInfo) -> ConfigError | None:
        """The refusal of an actor that would give other bits than this machine, if it is to be refused."""
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
    """Around work in round t: raises ConfigError where not an actor, but Ray itself is gone; a runner does it too."""
    try:
        yield
    except exceptions.RayTaskError:
        raise  # a fault of ours, with the traceback from there
    except (exceptions.RayError, ConnectionError) as lost:
        raise MachinesLost(
            f"the Ray cluster cannot be reached any more in round {round} ({cluster.short_message(lost)}). The session "
            f"is at its last checkpoint: resume it when there is a cluster, or with `runtime.runner={otherwise}`."
        ) from lost


def _end(worker: Worker) -> None:
    try:
        ray.kill(worker.handle)
    except Exception:  # Ray itself may be gone
        return
