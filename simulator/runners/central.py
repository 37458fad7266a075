"""The server's part of a round: it aggregates, and then trains its own modules if the method has any."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from simulator.methods import Uplink
from simulator.methods.base import Aggregated
from simulator.methods.hooks import Hooks
from simulator.training.flops import counting_flops
from simulator.training.loop import steps
from simulator.training.trainer import CentralServer, TrainingContext


class ServerUpdate(NamedTuple):
    """The server's result of a round: its new state, the method's metrics, and the operations."""

    aggregated: Aggregated
    flops: int


def update(
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
