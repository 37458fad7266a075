"""Measure unseen clients: they receive what a new client would, adapt, and are forgotten.

No round sees the result, so a run has the same bits with and without a measurement. The draws of a measurement are
keyed by round and client, and unseen clients draw nothing else.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from simulator.base.record import Record, UnseenAccuracy
from simulator.base.sections import MethodConfig, UnseenConfig
from simulator.base.tensors import named, part
from simulator.config import Config
from simulator.engine.client_states import State
from simulator.methods.hooks import Hooks
from simulator.methods.standalone import Standalone
from simulator.metrics.evaluation import accuracy_of
from simulator.runners import Job, Jobs, Runner, Work, local
from simulator.runners.evaluation import Asked, answers_of
from simulator.runners.local import memory_for_training
from simulator.training.client import LocalClient
from simulator.training.phase import Phase

Newcomer = tuple[float | None, float | None, float | None]
"""Test accuracies of an unseen client before and after it adapts, and alone. None: it diverged as it adapted."""


def due(config: Config, round: int, accuracy: float | None, seconds: float | None = None) -> bool:
    """Whether unseen clients are measured after this round: every E rounds, and after the last."""
    if not config.federation.unseen:
        return False
    every = config.unseen.every
    return (
        round == config.rounds
        or config.reached(accuracy, seconds)
        or (every is not None and round % every == 0)
    )


def record(into: Record, runner: Runner, hooks: Hooks, after: State, config: Config) -> None:
    """Measure the unseen clients after a round if they are due, and add them to its record."""
    participating = into["accuracy"]["mean"]
    seconds = into["time"]["ends"] if "time" in into else None
    if not due(config, after.round, participating, seconds):
        return
    began = time.perf_counter()
    federation = runner.context.federation

    def job(client: int) -> Job:
        info = federation.clients[client]
        return Job(after.clients[client], hooks.downlink_to_unseen(after.round, after.server, info))

    question = partial(_measured, length=config.unseen, batch_size=config.evaluation.batch_size)
    work = Work(hooks, after.round, Jobs(federation.unseen, job))
    before, after_it, alone = zip(*runner.ask(work, federation.unseen, question), strict=True)
    into["unseen"] = {
        "clients": list(federation.unseen),
        "before": _summary(federation.unseen, before),
        "after": _summary(federation.unseen, after_it),
        "alone": _summary(federation.unseen, alone),
        "participating": participating,
    }
    took = time.perf_counter() - began
    into["timing"]["seconds"] += took
    into["timing"]["evaluate"] += took


def _summary(clients: Sequence[int], accuracies: Sequence[float | None]) -> UnseenAccuracy:
    known = [each for each in accuracies if each is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "per_client": {str(client): each for client, each in zip(clients, accuracies, strict=True)},
    }


def _measured(runner: Runner, work: Work, client: int, *, length: UnseenConfig, batch_size: int) -> Newcomer:
    """One unseen client before and after it adapts, and trained alone for as many steps."""

    hooks, round, job = work.hooks, work.round, work.jobs[client]

    def accuracy(hooks: Hooks, job: Job | None) -> float | None:
        if job is None:
            return None
        answers = answers_of(runner, Work(hooks, round, {client: job}), client, asked=Asked(batch_size))
        return accuracy_of(answers["test"])

    federation, info = runner.context.federation, runner.info(client)
    before = accuracy(hooks, _copied(job))
    alone = Hooks(Standalone(MethodConfig(name="standalone"), federation), federation)
    with memory_for_training(runner, round, client, runner.workers):
        adapting = local.prepare(hooks, runner.context, info, round, _copied(job))
        phases = [_lasting(adapting.local, phase, length) for phase in adapting.phases]
        steps = sum(adapting.local.steps(phase) for phase in phases)
        adapted = _trained(replace(adapting, phases=phases))
        own = Job(named("model", part(job.tensors, "model")), None)
        scratch = local.prepare(alone, runner.context, info, round, own)
        [phase] = scratch.phases
        lone = _trained(replace(scratch, phases=[replace(phase, steps=steps, lr=federation.training.lr)]))
    return before, accuracy(hooks, adapted), accuracy(alone, lone)


def _copied(job: Job) -> Job:
    """The same with private tensors, which a method may write into. Participants get theirs from the wire."""
    tensors, payload = (
        {name: tensor.clone() for name, tensor in (each or {}).items()} for each in (job.tensors, job.payload)
    )
    return Job(tensors, payload)


def _lasting(client: LocalClient, phase: Phase, length: UnseenConfig) -> Phase:
    """The phase for so many epochs or steps, at the first rate of a schedule, because the client begins."""
    phase = replace(phase, lr=phase.lr or client.federation.training.lr)
    if phase.epochs is None and phase.steps is None and phase.batches is None:
        phase = replace(phase, epochs=length.epochs, steps=length.steps)
    # Sums over the last epoch must have at least one step.
    return replace(phase, collect_after=min(phase.collect_after, max(client.steps(phase) - 1, 0)))


def _trained(prepared: local.Prepared) -> Job | None:
    """The client's state after all phases, without another downlink. None: it diverged."""
    for _ in local.train(prepared):
        pass
    # The server is sent nothing, but a method may put trained weights into its state here.
    _, kept = prepared.hooks.uplink(prepared.local, prepared.job.tensors)
    sound = all(bool(tensor.isfinite().all()) for tensor in (*kept.values(), *prepared.losses.values()))
    return Job(kept, None) if sound else None
