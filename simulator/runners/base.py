"""The interface of runners: they compute clients and return each update as soon as it is finished."""

import math
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple, TypeVar

from torch import Tensor

from simulator.base.documents import Node
from simulator.base.sections import RuntimeConfig, unknown_runner
from simulator.base.tensors import Tensors
from simulator.methods.hooks import Hooks
from simulator.models.federation import ClientInfo
from simulator.training.phase import CROSS_ENTROPY
from simulator.training.precision import slow_here
from simulator.training.trainer import TrainingContext

Result = TypeVar("Result")
R = TypeVar("R", bound="type[Runner]")

Decision = Literal["go", "hold", "leave"]
"""Whether the next client may start: yes; not now, ask again; no more in this round."""

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class LocalUpdate:
    """A client's result of a round."""

    client: ClientInfo
    tensors: Tensors
    uplink: Tensors
    losses: Mapping[str, float]
    """Mean training loss over all steps of each phase, weighted by batch size, and of the terms that losses name. Under
    CROSS_ENTROPY, that of the last phase that records it.

    Empty in a round without training.
    """
    finite: bool
    """Whether all numbers that it keeps or sends are finite. Losses do not show the effect of the last step."""
    flops: int
    step_flops: Sequence[int] = ()
    """Those of each training step. Unknown, and so empty, after a resume."""
    seconds: float | None = None
    """Wall-clock time from the client's model to its uplink; None if it was not measured."""

    @property
    def diverged(self) -> str | None:
        """The phase after which a loss, a weight, or the uplink was no longer finite, if any."""
        phases = [phase for phase in self.losses if phase != CROSS_ENTROPY]
        lost = [phase for phase in phases if not math.isfinite(self.losses[phase])]
        return next(iter(lost), None if self.finite else next(reversed(phases), "uplink"))


@dataclass(frozen=True)
class Job:
    """A client's start of a round: its state, and the payload from the server, if it receives one."""

    tensors: Mapping[str, Tensor]
    payload: Mapping[str, Tensor] | None


class Jobs(Mapping[int, Job]):
    """Clients' jobs, each made on demand, on any thread, so that memory holds only those of running clients."""

    def __init__(self, clients: Sequence[int], make: Callable[[int], Job]) -> None:
        self._clients = dict.fromkeys(clients)
        self._make = make

    def __getitem__(self, client: int) -> Job:
        if client not in self._clients:
            raise KeyError(client)
        return self._make(client)

    def __contains__(self, client: object) -> bool:
        return client in self._clients

    def __iter__(self) -> Iterator[int]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)


@dataclass(frozen=True, eq=False)
class Work:
    """Clients that are to train, and everything a runner needs to compute any of them."""

    hooks: Hooks
    round: int
    """The round that schedules and error messages refer to."""
    jobs: Mapping[int, Job]
    """Each client's job. `Jobs` creates one only when a runner asks for it."""
    finished: Collection[int] = ()
    """Clients of the same round that an earlier attempt has finished."""
    dispatch: int | None = None
    """Number that keys the random draws of these clients. None: the round's number."""
    limits: Mapping[int, int] = field(default_factory=dict)
    """The largest number of steps of clients that end early. Each of them trains alone."""

    def of(self, clients: Iterable[int]) -> "Work":
        """The work of these clients alone, with their jobs made."""
        jobs = {client: self.jobs[client] for client in clients}
        return replace(
            self, jobs=jobs, limits={each: most for each, most in self.limits.items() if each in jobs}
        )


Question = Callable[["Runner", Work, int], Result]
"""A question to a client of some work: a function of a module, because another machine may answer it."""

AsOne = Callable[["Runner", Work], Result]
"""A question to all clients of some work, who answer together. `carry_out` is one."""

Gate = Callable[[Sequence[LocalUpdate], int], Decision]
"""Decides whether another client may start, from the finished updates and the number of clients at work."""


def always_go(updates: Sequence[LocalUpdate], running: int) -> Decision:
    return "go"


@dataclass(frozen=True)
class Listener:
    """Steers a round and receives its progress. All three functions are called on the thread that runs the round."""

    gate: Gate = always_go
    begun: Callable[[int], None] = lambda client: None
    done: Callable[[LocalUpdate], None] = lambda update: None


class Finished(NamedTuple):
    """The result of one portion of clients."""

    updates: Sequence[LocalUpdate]
    again: Sequence[Sequence[int]] = ()
    """Portions to start instead, because the runner could not compute this one."""


class RoundInterrupted(Exception):
    """The gate ended a round before all its clients had trained. `updates` are the finished ones."""

    def __init__(self, updates: Sequence[LocalUpdate]) -> None:
        super().__init__(f"interrupted after {len(updates)} clients")
        self.updates = updates


def portioned(clients: Sequence[int], size: int) -> list[list[int]]:
    """The clients in order, in portions of this size."""
    return [list(clients[start : start + size]) for start in range(0, len(clients), size)]


class Runner(ABC):
    """Computes clients. Every runner repeats its own bits; the docstring of its file states which runners share them.

    A runner is given portions of clients with `start` and returns them with `next_finished`, in any order. `carry_out`
    builds a whole round on these two. A runner may take the steps of a portion's clients together.
    """

    name: ClassVar[str]
    """Set by `register`."""
    within: ClassVar[bool] = True
    """Whether clients are computed in this process."""

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        self.context = context
        self.threads = settings.threads_per_client
        """Torch threads of each client."""
        self.workers = settings.workers or max(1, (os.cpu_count() or 1) // self.threads)
        """The maximum number of clients computed at a time."""
        self.workers_key = "runtime.workers"
        """The setting for this number."""
        self._said: list[str] = []
        self._told = 0
        federation = context.federation
        if (
            self.within
            and (reason := slow_here(federation.training.precision, federation.device)) is not None
        ):
            self.say(reason)

    @classmethod
    def sums(cls, settings: RuntimeConfig) -> str:
        """A description of its sums. Runners with the same description give the same bits."""
        return "each by itself"

    def enter(self, round: int) -> None:
        """Compute clients as they are in this round (`federation.timeline`)."""
        self.context = self.context.at(round)

    def open(self, hooks: Hooks, *, exact: bool = True) -> Sequence[Node]:
        """Start the machines that compute clients, once. Returns other ones, with what their bits depend on.

        Raises ConfigError if they are unavailable or, if `exact`, have other bits; DataError if they lack the data.
        """
        return ()

    @abstractmethod
    def has_room(self, portion: Sequence[int]) -> bool:
        """Whether `start` would start this portion at once."""

    @abstractmethod
    def start(self, work: Work, portion: Sequence[int]) -> None:
        """Start one of the `portions` of the work."""

    @abstractmethod
    def next_finished(self, seconds: float) -> Finished | None:
        """The next finished portion, in any order; None after `seconds` if all are elsewhere. Raises its errors."""

    def computes_here(self, portion: Sequence[object]) -> bool:
        """Whether `next_finished` computes such a portion on the calling thread, and nothing at the same time."""
        return False

    def settle(self) -> None:
        """Wait until nothing runs, and forget what was started. Called after every round, also after a failed one."""
        return

    @abstractmethod
    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        """Apply a function to every client. The results are in client order."""

    def ask(self, work: Work, clients: Sequence[int], question: Question[Result]) -> list[Result]:
        """These clients' answers, in their order."""
        return self.each(clients, lambda client: question(self, work, client))

    def ask_as_one(
        self, work: Work, groups: Sequence[Sequence[int]], question: AsOne[Result]
    ) -> list[Result]:
        """The answers of groups of clients, in their order. Each group answers as one."""
        return [question(self, work.of(group)) for group in groups]

    def together(self, clients: Sequence[int]) -> list[list[int]]:
        """Clients of one architecture with the same test images, in groups that answer as one."""
        return [[client] for client in clients]

    def portions(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        """The clients in portions for `start`, in order. The bits of one do not depend on the others."""
        return [[client] for client in clients]

    def bundles(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        """The clients, divided for another process that has this runner and receives one bundle at a time."""
        return portioned(clients, self.workers)

    def weight(self, client: int) -> int:
        """An estimate of a client's time that was not measured: samples times parameters."""
        info = self.info(client)
        return info.samples * sum(
            p.numel() for p in self.context.federation.architecture_of(info).parameters()
        )

    def say(self, sentence: str) -> None:
        self._said.append(sentence)

    def say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self.say(sentence)

    def take_notes(self) -> list[str]:
        """The new texts for the user."""
        notes, self._told = self._said[self._told :], len(self._said)
        return notes

    def close(self) -> None:
        return

    def info(self, client: int) -> ClientInfo:
        return self.context.federation.clients[client]


_RUNNERS: dict[str, type[Runner]] = {}


def register(name: str) -> Callable[[R], R]:
    """Add a runner under `name`. Raises ValueError if the name is taken."""

    def add(runner: R) -> R:
        if name in _RUNNERS:
            raise ValueError(f"a runner named '{name}' exists already")
        runner.name = name
        _RUNNERS[name] = runner
        return runner

    return add


def names() -> list[str]:
    return sorted(_RUNNERS)


def names_within() -> list[str]:
    return [name for name in names() if _RUNNERS[name].within]


def get(name: str) -> type[Runner]:
    """The runner of that name. Raises ConfigError with the nearest name for an unknown one."""
    if name not in _RUNNERS:
        raise unknown_runner(name, names())
    return _RUNNERS[name]


def carry_out(runner: Runner, work: Work, listener: Listener | None = None) -> list[LocalUpdate]:
    """The updates of all clients of `work.jobs`, in client order.

    Asks the gate before each portion starts. Raises RoundInterrupted with the finished updates when the gate ends the
    round before all clients have started.
    """
    listener = listener or Listener()
    runner.open(work.hooks)
    alone = [[client] for client in work.jobs]
    waiting = deque[Sequence[int]](alone if work.limits else runner.portions(list(work.jobs), work.finished))
    running = 0
    begun = set[int]()
    found, unheard = list[Sequence[LocalUpdate]](), list[LocalUpdate]()

    def announce() -> None:
        while unheard:
            listener.done(unheard.pop(0))

    try:
        while waiting or running:
            # The gate answers for a pause. Announce earlier finished clients before the pause.
            decision = listener.gate(_in_order(found), running + len(unheard))
            if decision == "leave":
                waiting.clear()
            while decision == "go" and waiting and runner.has_room(waiting[0]):
                portion = waiting.popleft()
                for client in portion:
                    if client not in begun:
                        begun.add(client)
                        listener.begun(client)
                running += len(portion)
                runner.start(work, portion)
            announce()  # while the next clients already train
            if not (waiting or running) or (finished := runner.next_finished(POLL_SECONDS)) is None:
                continue
            running -= len(finished.updates) + sum(map(len, finished.again))
            waiting.extendleft(reversed(finished.again))
            if finished.updates:
                found.append(finished.updates)
                unheard.extend(finished.updates)
                if runner.computes_here(finished.updates):
                    announce()  # nothing else runs meanwhile
        announce()
    finally:
        runner.settle()
    updates = _in_order(found)
    if len(updates) < len(work.jobs):
        # A diverged client is trained again. It must find its portion whole, or the bits would differ.
        whole = [each for each in found if len(each) == 1 or not any(update.diverged for update in each)]
        raise RoundInterrupted(_in_order(whole))
    return updates


def _in_order(portions: Iterable[Sequence[LocalUpdate]]) -> list[LocalUpdate]:
    return sorted((update for portion in portions for update in portion), key=lambda update: update.client.id)
