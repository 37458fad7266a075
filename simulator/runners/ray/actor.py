"""What runs on a node: an actor that answers questions about clients, each a function of what comes with it.

Nothing of a client stays with an actor: which actor computes a client, and after which others, changes no bit.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
import torch
from torch import Tensor

from simulator.base.environment import environment
from simulator.base.errors import HtflError, NotEnoughMemory
from simulator.methods.hooks import Hooks
from simulator.runners.base import AsOne, Job, LocalUpdate, Runner
from simulator.runners.ray.messages import Message
from simulator.runners.ray.worker_setup import WorkerSetup
from simulator.training.precision import tf32_in_force

MOST_RUNS = 2
"""An actor is equipped for so many runs at most: for this one, and for the one before a switch."""


@dataclass(frozen=True)
class ActorInfo:
    """Who an actor is, and what its bits depend on."""

    node: str
    host: str
    pid: int
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """An error that is a user's to mend, on its way to the user."""

    error: HtflError


@dataclass(frozen=True)
class TaskResult:
    """What came of a question, and what the runner here has to say."""

    result: Any
    notes: Sequence[str]


class Actor:
    """Data, networks and a runner for clients, one portion after another."""

    def __init__(self) -> None:
        self._equipped: dict[str, tuple[Runner, Hooks]] = {}

    def join(self, run: str, setup: Sequence[Any]) -> ActorInfo | Refused:
        """Get ready for a run, known by its setup's hash, and say what it will be computed with."""
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
        question: AsOne[Any],
        round: int,
        states: Mapping[int, Mapping[str, Tensor]],
        *payloads: Mapping[str, Tensor] | None,
    ) -> TaskResult | Refused:
        """The answer of clients of a run in round t, by the states that they start with, and each one's payload."""
        try:
            runner, hooks = self._for(run, setup)
            federation = runner.context.federation
            torch.set_num_threads(runner.threads)
            device = federation.device
            jobs = {
                client: Job(_on(device, state), None if payload is None else _on(device, payload))
                for (client, state), payload in zip(states.items(), payloads, strict=True)
            }
            with tf32_in_force(federation.training.precision, device):
                result = question(runner, hooks, round, jobs)
        except NotEnoughMemory as error:
            return Refused(NotEnoughMemory(f"node {socket.gethostname()}: {error}"))
        except HtflError as error:
            return Refused(error)
        return TaskResult(_parcelled(result), runner.take_notes())

    def forget(self, run: str) -> None:
        """A run is over."""
        if run in self._equipped:
            runner, _ = self._equipped.pop(run)
            runner.close()

    def _for(self, run: str, setup: Sequence[Any]) -> tuple[Runner, Hooks]:
        if run not in self._equipped:
            found: WorkerSetup = ray.get(setup[0])
            held = [runner.context.data for runner, _ in self._equipped.values()]
            self._equipped[run] = found.set_up(held[-1] if held else None)
            while len(self._equipped) > MOST_RUNS:
                self.forget(next(iter(self._equipped)))
        return self._equipped[run]


def _parcelled(result: Any) -> Any:
    if isinstance(result, list):
        return [_parcelled(each) for each in result]
    if isinstance(result, LocalUpdate):
        return replace(result, tensors=Message(result.tensors), uplink=Message(result.uplink))
    return result


def _on(device: torch.device, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}
