"""The interface of runners: they compute clients and return each update as soon as it is finished."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from torch import Tensor

from simulator.base.errors import ConfigError, nearest
from simulator.base.sections import RuntimeConfig
from simulator.base.tensors import Tensors
from simulator.methods.hooks import Hooks
from simulator.models.federation import ClientInfo
from simulator.training.context import TrainingContext

Result = TypeVar("Result")
R = TypeVar("R", bound="type[Runner]")

Decision = Literal["go", "hold", "leave"]
"""Whether the next client may start: yes; not now, ask again; no more in this round."""

POLL_SECONDS = 0.1
"""How long the gate goes unasked while no client finishes."""


@dataclass(frozen=True)
class LocalUpdate:
    """What one client brings out of a round."""

    client: ClientInfo
    tensors: Tensors
    """The client's new state."""
    uplink: Tensors
    losses: Mapping[str, float]
    """Mean training loss over all steps of each phase, weighted by batch size, and of the terms that losses name; empty
    in a round without training."""
    finite: bool
    """Whether all numbers it would keep or send are finite: no loss shows what the last step did."""
    flops: int
    seconds: float | None = None
    """Of the wall clock, from the client's model to its uplink; None where nobody looked."""

    @property
    def diverged(self) -> str | None:
        """The phase after which a loss, a weight or the uplink was no longer finite, if any."""
        lost = [phase for phase, loss in self.losses.items() if not math.isfinite(loss)]
        return next(iter(lost), None if self.finite else next(reversed(list(self.losses)), "uplink"))


@dataclass(frozen=True)
class Job:
    """What a client starts a round from: its state, and what the server sent it; no payload: it receives nothing."""

    tensors: Mapping[str, Tensor]
    payload: Mapping[str, Tensor] | None


class Jobs(Mapping[int, Job]):
    """Clients' jobs, each made when it is asked for, on any thread: there are no more of them than clients at work.

    Iterating over it gives the clients, and makes nothing.
    """

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


@dataclass(frozen=True)
class RemoteMachine:
    """A machine beside this one on which clients are computed, and what its bits depend on."""

    node: str
    workers: int
    """Clients that are at work there at a time."""
    environment: Mapping[str, Any]
    inexact: Sequence[str]
    """What of it gives other bits than this machine's, as 'torch 2.6 → 2.7'."""


Question = Callable[["Runner", Hooks, int, int, Job], Result]
"""What is asked of a client in round t: a function of a module's, since it may be answered on another machine."""

AsOne = Callable[["Runner", Hooks, int, Mapping[int, Job]], Result]
"""The same of several clients, who answer together."""


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


Gate = Callable[[Sequence[LocalUpdate], int], Decision]
"""Decides whether another client may start, from the finished updates and the number of clients at work."""


def always_go(updates: Sequence[LocalUpdate], running: int) -> Decision:
    """A gate that is always open."""
    return "go"


@dataclass(frozen=True)
class Listener:
    """Steers a round and hears of its progress. All three are called on the thread that carries out the round."""

    gate: Gate = always_go
    begun: Callable[[int], None] = lambda client: None
    """Called when a client starts."""
    done: Callable[[LocalUpdate], None] = lambda update: None
    """Called when a client has finished."""


class Finished(NamedTuple):
    """The result of one portion of clients that a runner was given."""

    updates: Sequence[LocalUpdate]
    again: Sequence[Sequence[int]] = ()
    """Portions to start in its place: the runner could not compute it as it was."""


class RoundInterrupted(Exception):
    """The gate ended a round before all its clients had trained; `updates` are those that had."""

    def __init__(self, updates: Sequence[LocalUpdate]) -> None:
        super().__init__(f"interrupted after {len(updates)} clients")
        self.updates = updates


def portioned(clients: Sequence[int], size: int) -> list[list[int]]:
    """The clients in their order, so many at a time."""
    return [list(clients[start : start + size]) for start in range(0, len(clients), size)]


class Runner(ABC):
    """Computes clients. Every runner repeats its own bits; the docstring of its file states which runners share them.

    A runner is given portions of clients with `start` and returns them one by one with `next_finished`, in any order.
    `synchronous.carry_out` builds a whole round on these two. A runner may take the steps of a portion's clients
    together: for that, `local` divides a client's round into prepare, train, and finish.
    """

    name: ClassVar[str]
    """Set by `register`."""
    within: ClassVar[bool] = True
    """Whether clients are computed in this process."""

    def __init__(self, context: TrainingContext, settings: RuntimeConfig) -> None:
        self.context = context
        self.threads = settings.threads_per_client
        """Threads of torch's that each client computes with."""
        self.workers = settings.workers or max(1, (os.cpu_count() or 1) // self.threads)
        """Clients at work at a time, at most."""
        self.workers_key = "runtime.workers"
        """The setting for this number."""
        self._said: list[str] = []
        self._told = 0

    @classmethod
    def sums(cls, settings: RuntimeConfig) -> str:
        """How it computes, in words: runners that say the same give the same bits."""
        return "each by itself"

    def open(self, hooks: Hooks, *, exact: bool = True) -> Sequence[RemoteMachine]:
        """Get hold of what clients are computed on, and say which other machines these are.

        A second time does nothing. Raises ConfigError where it cannot be had, or, if `exact`, has other bits; DataError
        where it lacks the data. What has not been opened opens itself when it is needed.
        """
        return ()

    @abstractmethod
    def has_room(self, portion: Sequence[int]) -> bool:
        """Whether `start` would begin this portion at once."""

    @abstractmethod
    def start(self, work: Work, portion: Sequence[int]) -> None:
        """Begin with one of the `portions` of the work."""

    @abstractmethod
    def next_finished(self, seconds: float) -> Finished | None:
        """The next portion that has finished, in any order. Waits for it; None after `seconds` without one.

        A runner that computes on the calling thread takes as long as the portion takes. Raises what the portion raised.
        """

    def computes_here(self, portion: Sequence[object]) -> bool:
        """Whether `next_finished` computes such a portion on the calling thread, and nothing beside it."""
        return False

    def settle(self) -> None:
        """Wait until nothing is at work, and forget what was started. Called after every round, also a failed one."""
        return

    @abstractmethod
    def each(self, clients: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        """A piece of `work` for every client, in client order."""

    def ask(
        self,
        hooks: Hooks,
        round: int,
        jobs: Mapping[int, Job],
        clients: Sequence[int],
        question: Question[Result],
    ) -> list[Result]:
        """The answers of these clients of `jobs` to a question, in their order."""
        return self.each(clients, lambda client: question(self, hooks, round, client, jobs[client]))

    def ask_as_one(
        self,
        hooks: Hooks,
        round: int,
        jobs: Mapping[int, Job],
        groups: Sequence[Sequence[int]],
        question: AsOne[Result],
    ) -> list[Result]:
        """The answers of groups of clients of `jobs`, each group's as one, in their order."""
        return [question(self, hooks, round, {client: jobs[client] for client in group}) for group in groups]

    def together(self, clients: Sequence[int]) -> list[list[int]]:
        """Clients of one architecture and with the same test images, in groups that answer as one: each by itself."""
        return [[client] for client in clients]

    def portions(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        """The clients, divided into the portions that `start` takes, in the order to start them.

        The bits of a portion do not depend on the others, so that each can be computed elsewhere. `finished` is
        `Work.finished`.
        """
        return [[client] for client in clients]

    def bundles(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        """The clients, divided for another process that holds this runner and is given one bundle at a time."""
        return portioned(clients, self.workers)

    def weight(self, client: int) -> int:
        """What stands for the client's time where none was measured: samples times parameters."""
        info = self.info(client)
        return info.samples * sum(
            p.numel() for p in self.context.federation.architecture_of(info).parameters()
        )

    def say(self, sentence: str) -> None:
        """Something that whoever watches the run should know."""
        self._said.append(sentence)

    def say_once(self, sentence: str) -> None:
        """The same, unless it has been said."""
        if sentence not in self._said:
            self.say(sentence)

    def take_notes(self) -> list[str]:
        """What is new to be said."""
        notes, self._told = self._said[self._told :], len(self._said)
        return notes

    def close(self) -> None:
        """Let go of threads and devices; there are none unless a subclass says so."""
        return

    def info(self, client: int) -> ClientInfo:
        """What the federation knows of a client."""
        return self.context.federation.clients[client]


_RUNNERS: dict[str, type[Runner]] = {}


def register(name: str) -> Callable[[R], R]:
    """Add a runner under `name`. Raises ValueError when the name is taken."""

    def add(runner: R) -> R:
        if name in _RUNNERS:
            raise ValueError(f"a runner named '{name}' exists already")
        runner.name = name
        _RUNNERS[name] = runner
        return runner

    return add


def names() -> list[str]:
    """All runners' names, in order of registration."""
    return list(_RUNNERS)


def names_within() -> list[str]:
    """Those of the runners that compute in this process."""
    return [name for name, runner in _RUNNERS.items() if runner.within]


def get(name: str) -> type[Runner]:
    """The runner of that name. Raises ConfigError, naming the nearest one, when there is none."""
    if name not in _RUNNERS:
        raise ConfigError(
            f"unknown runner '{name}'.{nearest(name, _RUNNERS)} There are {', '.join(_RUNNERS)}."
        )
    return _RUNNERS[name]
