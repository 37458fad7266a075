"""The parts of a round: one client's (prepare, train, and finish, so that a runner may take steps together), and the
server's, which aggregates, and then trains its own modules if the method has any.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from simulator.base.errors import MethodError, NotEnoughMemory, is_of_memory
from simulator.methods import Uplink
from simulator.methods.base import Aggregated
from simulator.methods.hooks import Hooks
from simulator.models.federation import ClientInfo
from simulator.runners.base import Job, LocalUpdate, Runner, Work
from simulator.training.client import LocalClient
from simulator.training.flops import counting_flops
from simulator.training.loop import steps
from simulator.training.phase import Phase
from simulator.training.trainer import CentralServer, TrainingContext


@dataclass(frozen=True)
class Prepared:
    """A client after its downlink, its phases, and the mean losses of finished phases."""

    hooks: Hooks
    job: Job
    local: LocalClient
    phases: list[Phase]
    losses: dict[str, Tensor] = field(default_factory=dict)


def prepare(
    hooks: Hooks,
    context: TrainingContext,
    info: ClientInfo,
    round: int,
    job: Job,
    dispatch: int | None = None,
    most: int | None = None,
) -> Prepared:
    """Client k at the beginning of round t. `dispatch` keys its draws; None: the round does. `most`: its most steps."""
    local = LocalClient(context, info, round, job.tensors, dispatch, most)
    if job.payload is not None:
        hooks.receive(local, job.payload)
    phases = hooks.phases(local)
    if most is not None and len(phases) > 1:
        raise MethodError(
            f"{hooks.method.card.title} declares partial work and trains in {len(phases)} phases. A client may not "
            "reach the last one. Remove `partial` from its card."
        )
    return Prepared(hooks, job, local, phases)


def train(prepared: Prepared) -> Iterator[None]:
    """Train all phases in order, one step per call of `next`. Losses are added up on the device."""
    local = prepared.local
    for phase in prepared.phases:
        sums = {phase.name: torch.zeros((), device=local.federation.device)}
        samples = 0
        with prepared.hooks.training(phase, local.round, local.info):
            for loss, terms, size in steps(local, phase):
                sums[phase.name] += loss * size
                for name, term in terms.items():
                    sums[name] = sums[name] + term * size if name in sums else term * size
                samples += size
                yield
        prepared.losses.update({name: total / samples for name, total in sums.items()})


def finish(prepared: Prepared) -> LocalUpdate:
    """The client's new state and its uplink, after all steps."""
    local = prepared.local
    uplink, kept = prepared.hooks.uplink(local, prepared.job.tensors)
    sound = [tensor.isfinite().all() for tensor in (*kept.values(), *uplink.values())]
    return LocalUpdate(
        client=local.info,
        tensors=kept,
        uplink=uplink,
        # The host reads values only here, after the last step.
        losses={name: float(loss) for name, loss in prepared.losses.items()},
        finite=bool(torch.stack(sound).all()),
        flops=local.flops,
        step_flops=tuple(local.step_flops),
    )


def update(context: TrainingContext, info: ClientInfo, work: Work) -> LocalUpdate:
    began = time.perf_counter()
    job, most = work.jobs[info.id], work.limits.get(info.id)
    prepared = prepare(work.hooks, context, info, work.round, job, work.dispatch, most)
    for _ in train(prepared):
        pass
    return replace(finish(prepared), seconds=time.perf_counter() - began)


class ServerUpdate(NamedTuple):
    aggregated: Aggregated
    flops: int


def server_update(
    hooks: Hooks,
    context: TrainingContext,
    round: int,
    server: Mapping[str, Tensor],
    uplinks: Sequence[Uplink],
) -> ServerUpdate:
    """The server's part of round t, from its state and the uplinks. Without uplinks, its state stays the same."""
    if not uplinks:
        return ServerUpdate(Aggregated(dict(server), {}), 0)
    with counting_flops() as flops:
        aggregated, metrics = hooks.aggregate(round, server, uplinks)
    at_work = CentralServer(context, round, aggregated, hooks.server_networks())
    phases = hooks.server_phases(at_work, uplinks)
    if not phases:
        return ServerUpdate(Aggregated(aggregated, metrics), flops.total)
    for phase in phases:
        with hooks.training(phase, round):
            losses = [step.loss for step in steps(at_work, phase)]
        if losses:
            metrics[f"{phase.name}_loss"] = float(torch.stack(losses).mean())
    hooks.after_server_phases(at_work, uplinks)
    trained = hooks.trained(at_work, aggregated)
    return ServerUpdate(Aggregated(trained, metrics), flops.total + at_work.flops)


LONGEST = 200


def memory_for_training(
    runner: Runner, round: int, client: int, at_once: int
) -> AbstractContextManager[None]:
    """Wraps a client's part of round t, with `at_once` clients at a time. Raises NotEnoughMemory."""
    size = runner.context.federation.training.batch_size
    doing = f"in round {round}, in training on batches of {size} samples"
    return _needed(runner, client, doing, _smaller(runner, at_once, "training.batch_size", size))


def memory_for_evaluation(
    runner: Runner, round: int, client: int, batch_size: int, at_once: int
) -> AbstractContextManager[None]:
    """Wraps a client's answers on its test images, with `at_once` clients at a time. Raises NotEnoughMemory."""
    doing = f"in round {round}, in evaluation on {batch_size} samples at a time"
    return _needed(runner, client, doing, _smaller(runner, at_once, "evaluation.batch_size", batch_size))


def memory_for_stack(
    runner: Runner, round: int, clients: Sequence[int], largest: int
) -> AbstractContextManager[None]:
    """Wraps the steps of a stack of clients. Raises NotEnoughMemory."""
    size = runner.context.federation.training.batch_size
    doing = f"and {len(clients) - 1} more as one, in round {round}, in training on batches of {size} samples"
    remedy = f"`htfl-sim resume SESSION --set runtime.stack={max(largest // 2, 1)} --allow-inexact`"
    return _needed(runner, clients[0], doing, f"continue with smaller stacks: {remedy}")


def _smaller(runner: Runner, at_once: int, key: str, size: int) -> str:
    """What to do without memory for so many clients at once, with batches of this size, which the key sets."""
    if at_once > 1:
        fewer = f"`htfl-sim resume SESSION --set {runner.workers_key}={at_once // 2}`"
        return f"continue with fewer clients at a time: {fewer}"
    if size > 1:
        return (
            f"continue with smaller batches: `htfl-sim switch SESSION --set {key}={size // 2}`, then "
            "`htfl-sim resume SESSION`"
        )
    return "use a smaller model, or smaller samples"


@contextmanager
def _needed(runner: Runner, client: int, doing: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_of_memory(error):
            raise
        where = "the GPU" if runner.context.federation.device.type == "cuda" else "this machine"
        words = " ".join(str(error).split()) or type(error).__name__
        words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
        raise NotEnoughMemory(
            f"{where} has not enough memory for {runner.info(client)} {doing} ({words}); the session is at its last "
            f"checkpoint: {remedy}."
        ) from error
