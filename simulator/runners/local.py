"""One client's part of a round in three pieces: prepare, train, and finish. So a runner may take steps together."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from simulator.base.errors import MethodError
from simulator.methods.hooks import Hooks
from simulator.models.federation import ClientInfo
from simulator.runners.base import Job, LocalUpdate, Work
from simulator.training.client import LocalClient
from simulator.training.loop import steps
from simulator.training.phase import Phase
from simulator.training.trainer import TrainingContext


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
    """Client k's part of a round, from its state and the downlink's payload to its new state and its uplink."""
    began = time.perf_counter()
    job, most = work.jobs[info.id], work.limits.get(info.id)
    prepared = prepare(work.hooks, context, info, work.round, job, work.dispatch, most)
    for _ in train(prepared):
        pass
    return replace(finish(prepared), seconds=time.perf_counter() - began)
