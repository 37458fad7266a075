"""The Ray runner: actors compute the clients of a round, longest first, and return their updates portion by portion.

An actor has one of the in-process runners (`runtime.inner`) and receives a bundle: one client, several in parallel,
or a stack. Bundles depend only on the clients' states and payloads, so the bits equal those of that runner in one
process.
"""

import math
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.base.documents import Node
from simulator.base.errors import ConfigError, MachinesLost
from simulator.base.extras import install_command
from simulator.base.sections import RuntimeConfig
from simulator.methods.hooks import Hooks
from simulator.runners import base
from simulator.runners.base import (
    AsOne,
    Finished,
    LocalUpdate,
    Question,
    Result,
    Runner,
    Work,
    carry_out,
    portioned,
    register,
)
from simulator.runners.in_process import ParallelRunner
from simulator.runners.ray.setup import inner_kind, inner_runner, same_bits
from simulator.runners.ray.transfer import Payloads
from simulator.training.trainer import TrainingContext

if TYPE_CHECKING:
    from simulator.runners.ray.workers import Died, Worker, WorkerPool

ATTEMPTS = 3
"""Actors that may die while they compute the same clients of a round."""
AHEAD = 0.2
"""Seconds before an actor is expected to finish, from which on it is given its next clients.

So it does not wait while its answer travels. Clients that are given too early would wait behind a busy actor when
another one becomes idle, and a pause would wait for them too.
"""
PATIENCE = 5.0
UNPRINTED = "|".join(
    [
        "A worker died or was killed",
        "has been marked dead",
        "killed due to memory pressure",
        "cannot be scheduled right now",
        "Raylet is terminated",
    ]
)
"""Ray's own messages, which htfl-sim words itself. Ray would print them between a run's records on stdout."""


@register("ray")
class RayRunner(Runner):
    """At most `workers` actors, on this machine or a cluster. Each has a portion of clients, and soon the next."""

    within = False

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        super().__init__(context, settings)
        self._settings = settings
        self._inner = inner_runner(context, settings)
        """The runner that an actor has. Here it divides the clients into bundles."""
        self._actors = settings.workers or max(1, self.workers // self._inner.workers)
        """The number of actors if Ray is started for this run."""
        self.workers = self._actors * self._inner.workers
        self._here = ParallelRunner(context, settings)
        """Computes what stays in this process."""
        self._pool: WorkerPool | None = None
        self._since = 0
        """The round whose clients and data are computed."""
        self._seconds: dict[int, float] = {}
        """The seconds of each client's last training."""
        self._at_work: dict[Any, _Sent] = {}
        """The portions that actors have been given, oldest first, by the reference to their answer."""
        self._deaths = Counter[tuple[int, ...]]()
        self._payloads: Payloads | None = None
        self._lonely = _Lonely(self.say)

    @classmethod
    def sums(cls, settings: RuntimeConfig) -> str:
        return inner_kind(settings).sums(settings)

    def open(self, hooks: Hooks, *, exact: bool = True) -> Sequence[Node]:
        if self._pool is None:
            self._pool = self._gathered(hooks, exact)
            self.workers = self._pool.ready * self._inner.workers
        return self._pool.places()

    def enter(self, round: int) -> None:
        super().enter(round)
        self._inner.enter(round)
        self._here.enter(round)
        self._since = round

    def portions(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        ordered = [client for [client] in self.longest_first([client] for client in clients)]
        return [list(each) for each in self.longest_first(self._inner.bundles(ordered, finished))]

    def has_room(self, portion: Sequence[int]) -> bool:
        return self.free_for(portion) is not None

    def free_for(self, portion: Sequence[int], ahead: float = AHEAD) -> "Worker | None":
        """The actor that `start` would give this portion to, if there is one now."""
        pool = self._opened
        pool.call()
        self._lonely.look(pool.ready, not self._at_work)
        return pool.free([pool.states.keeper(client) for client in portion], ahead)

    def start(self, work: Work, portion: Sequence[int]) -> None:
        # Clients of one portion share their actor's workers.
        seconds = sum(self._seconds.get(client, math.inf) for client in portion) / self._inner.workers
        worker = self.free_for(portion)
        assert worker is not None, "has_room() comes before"
        self._send(worker, carry_out, work, portion, seconds)

    def next_finished(self, seconds: float) -> Finished | None:
        match self._received(seconds):
            case None:
                return None
            case Lost(portions):
                return Finished((), again=portions)
            case sent, answer:
                return Finished(self._taken(answer, sent))

    def settle(self) -> None:
        for sent in self._at_work.values():  # their answers are not needed
            sent.worker.given -= 1
            self._opened.states.abandoned(sent.worker, sent.task, sent.portion)
        self._at_work.clear()
        self._deaths.clear()
        self._payloads = None

    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        return self._here.each(clients, work)

    def ask(self, work: Work, clients: Sequence[int], question: Question[Result]) -> list[Result]:
        ordered = [client for [client] in self.longest_first([client] for client in clients)]
        portions = portioned(ordered, self._inner.workers)
        found = self.ask_as_one(work, portions, partial(answered, question=question))
        answers = dict(zip(ordered, chain.from_iterable(found), strict=True))
        return [answers[client] for client in clients]

    def ask_as_one(
        self, work: Work, groups: Sequence[Sequence[int]], question: AsOne[Result]
    ) -> list[Result]:
        self.open(work.hooks)
        keeper = self._opened.states.keeper
        waiting = _Waiting((keeper(group[0]), group) for group in self.longest_first(groups))
        answers: dict[tuple[int, ...], Any] = {}
        try:
            while len(answers) < len(groups):
                while waiting and (worker := self.free_for((), ahead=math.inf)) is not None:
                    self._send(worker, question, work, waiting.next_for(worker))
                match self._received(base.POLL_SECONDS):
                    case None:
                        continue
                    case Lost(portions):
                        waiting.again(portions)
                    case sent, answer:
                        answers[tuple(sent.portion)] = answer
        finally:
            self.settle()
        return [answers[tuple(group)] for group in groups]

    def together(self, clients: Sequence[int]) -> list[list[int]]:
        return self._inner.together(clients)

    def close(self) -> None:
        self._here.close()
        self._inner.close()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def longest_first(self, groups: Iterable[Sequence[int]]) -> list[Sequence[int]]:
        """In starting order: longest first, by measured times, or by samples and parameters at the same pace."""
        groups = list(groups)
        weights = {client: self.weight(client) for group in groups for client in group}
        timed = [client for client in weights if client in self._seconds]
        pace = sum(self._seconds[client] for client in timed) / max(
            sum(weights[client] for client in timed), 1
        )
        likely = {client: self._seconds.get(client, weights[client] * (pace or 1)) for client in weights}
        return sorted(groups, key=lambda group: (-sum(likely[client] for client in group), group[0]))

    def _taken(self, together: list[LocalUpdate], sent: "_Sent") -> list[LocalUpdate]:
        device = self.context.federation.device
        taken = [
            replace(
                update,
                client=self.info(update.client.id),
                tensors={name: tensor.to(device) for name, tensor in update.tensors.items()},
                uplink={name: tensor.to(device) for name, tensor in update.uplink.items()},
            )
            for update in together
        ]
        for update in taken:
            if update.seconds is not None:
                self._seconds[update.client.id] = update.seconds
            self._opened.states.returned(sent.worker, sent.task, update.client.id, update.tensors)
        return taken

    def _gathered(self, hooks: Hooks, exact: bool) -> "WorkerPool":
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", UNPRINTED)  # must be set before Ray is imported
        try:
            from simulator.runners.ray import cluster, workers
        except ImportError as missing:
            raise ConfigError(
                f"runner 'ray' needs Ray, which is not installed ({missing}). Install it: "
                f"`{install_command('ray')}`, or use `runner='{same_bits(self._settings)}'`, which gives the "
                "same bits."
            ) from missing
        from simulator.runners.ray.setup import WorkerSetup

        federation = self.context.federation
        setup = WorkerSetup.of(self.context, hooks, self._settings)
        on_gpu = federation.device.type == "cuda"
        needs = cluster.Needs(self.threads * self._inner.workers, int(on_gpu))
        address, most = self._settings.address, self._settings.workers
        model = 4 * sum(each.numel() for each in federation.architecture(federation.largest).parameters())
        largest = max(map(len, self._inner.bundles(range(len(federation.clients)))))
        shared = workers.SharedWorkers.borrow(address, needs, most, self._actors, largest * model)
        gathered = workers.WorkerPool(shared, most, setup, exact, self.say)
        try:
            gathered.gather()
        except BaseException:
            gathered.close()
            raise
        return gathered

    @property
    def _opened(self) -> "WorkerPool":
        assert self._pool is not None
        return self._pool

    def _send(
        self, worker: "Worker", question: AsOne[Any], work: Work, portion: Sequence[int], seconds: float = 0.0
    ) -> None:
        """Give a portion of clients to an actor."""
        import ray

        from simulator.runners.ray.workers import reaching

        pool = self._opened
        if self.context.federation.stages:
            question = partial(entered, question=question, since=self._since)
        self.workers = max(pool.ready, 1) * self._inner.workers
        self._payloads = self._payloads or Payloads(ray.put)
        with reaching(work.round, same_bits(self._settings)):
            of_portion = work.of(portion)
            received = [self._payloads.put(job.payload) for job in of_portion.jobs.values()]
            ref, task = pool.send(worker, question, of_portion, received, seconds)
        self._at_work[ref] = _Sent(work.round, portion, worker, task)

    def _received(self, seconds: float) -> "tuple[_Sent, Any] | Lost | None":
        """An answer, with what it answers; `Lost`; or None after `seconds`. Raises MachinesLost after many deaths."""
        from simulator.runners.ray.workers import Died, reaching

        pool = self._opened
        rounds = [sent.round for sent in self._at_work.values()]
        with reaching(max(rounds, default=0), same_bits(self._settings)):
            for ref in pool.wait(self._at_work, seconds):
                if pool.heed(ref):
                    continue
                # An actor answers in order. If it died, only the first of its portions was under way.
                worker = self._at_work[ref].worker
                first, *others = [each for each, sent in self._at_work.items() if sent.worker is worker]
                sent = self._at_work.pop(first)
                answer = pool.answer(first, worker)
                if not isinstance(answer, Died):
                    for note in answer.notes:
                        self.say_once(note)
                    return sent, answer.result
                waited = [self._at_work.pop(each).portion for each in others]
                self._deaths[tuple(sent.portion)] += 1
                self._told_of_death(answer, sent.round, sent.portion, self._deaths[tuple(sent.portion)])
                return Lost([sent.portion, *waited])
        return None

    def _told_of_death(self, death: "Died", round: int, clients: Sequence[int], times: int) -> None:
        alone = len(clients) == 1
        whom = str(self.info(clients[0])) if alone else f"clients {', '.join(map(str, clients))}"
        what = f"the Ray actor on {death.node} died at work on {whom} in round {round}"
        if times >= ATTEMPTS:
            fewer = (
                "a smaller runtime.workers"
                if self._inner.workers == 1
                else "a smaller runtime.workers_per_actor"
            )
            raise MachinesLost(
                f"{what}, as {times - 1} before it ({death.reason}). Nodes may lack memory. The session is at its last "
                f"checkpoint: resume it with {fewer}, or on larger nodes."
            )
        self.say(f"{what[0].upper()}{what[1:]}; {'the client is' if alone else 'they are'} computed again.")


def answered(runner: Runner, work: Work, *, question: Question[Result]) -> list[Result]:
    """A question: each client's own answer to another question."""
    return runner.ask(work, list(work.jobs), question)


def entered(runner: Runner, work: Work, *, question: AsOne[Result], since: int) -> Result:
    """A question: the answer to another one, with clients and data as they are in round `since`."""
    runner.enter(since)
    return question(runner, replace(work, hooks=work.hooks.at(since)))


class _Sent(NamedTuple):
    round: int
    portion: Sequence[int]
    worker: "Worker"
    task: int


class Lost(NamedTuple):
    """The actor died, and the portions that it was given must start again."""

    portions: Sequence[Sequence[int]]


class _Waiting:
    """Groups of clients that wait for an actor, each preferably for the one that keeps its state."""

    def __init__(self, groups: Iterable[tuple[object, Sequence[int]]]) -> None:
        self._queues: dict[object, deque[Sequence[int]]] = defaultdict(deque)
        for keeper, group in groups:
            self._queues[keeper].append(group)

    def __bool__(self) -> bool:
        return any(self._queues.values())

    def next_for(self, worker: object) -> Sequence[int]:
        """A group whose state this actor keeps; or one that nobody keeps; or one from the longest queue."""
        longest = max(self._queues.values(), key=len)
        return (self._queues[worker] or self._queues[None] or longest).popleft()

    def again(self, groups: Sequence[Sequence[int]]) -> None:
        self._queues[None].extendleft(reversed(groups))


class _Lonely:
    """Tells the user when no actor is left, and when there are actors again."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since: float | None = None
        self._said = False

    def look(self, ready: int, needed: bool) -> None:
        now = time.monotonic()
        if ready or not needed:
            if self._said and ready:
                self._say(f"The Ray cluster has room again: {ready} actors are ready, and the run continues.")
                self._said = False
            self._since = None
        elif self._since is None:
            self._since = now
        elif not self._said and now - self._since > PATIENCE:
            self._say(
                "The Ray cluster has no room for any client. The run waits. A stop keeps the finished clients."
            )
            self._said = True
