"""Code on a node: an actor that answers questions about clients. Each answer depends only on its arguments.

A state that an actor keeps is a copy of what the driver would send. So bits do not depend on which actor computes a
client, or in which order.
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
from simulator.runners.ray.kept_states import ActorStates, Kept, Orders
from simulator.runners.ray.messages import Message
from simulator.runners.ray.worker_setup import WorkerSetup
from simulator.training.precision import tf32_in_force

MOST_RUNS = 2
"""Runs that an actor can be set up for at a time: the current one, and the one before a switch."""


@dataclass(frozen=True)
class ActorInfo:
    """An actor's node and process, and what its bits depend on."""

    node: str
    host: str
    pid: int
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """An error for the user, on its way to the main process."""

    error: HtflError


@dataclass(frozen=True)
class TaskResult:
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
        round: int,
        states: Mapping[int, Mapping[str, Tensor] | Kept],
        *payloads: Mapping[str, Tensor] | None,
    ) -> TaskResult | Refused:
        """The answer of clients in round t of a run, from their initial states, sent or kept, and payloads."""
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
                result = question(runner, hooks, round, jobs)
        except NotEnoughMemory as error:
            return Refused(NotEnoughMemory(f"node {socket.gethostname()}: {error}"))
        except HtflError as error:
            return Refused(error)
        return TaskResult(self._parcelled(result, orders), runner.take_notes())

    def forget(self, run: str, driver: str) -> None:
        """Forget a run that is over."""
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
            runner, _ = self._equipped.pop(run)
            runner.close()

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
