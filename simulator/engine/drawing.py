"""The schedule of a federation without training: rounds on the clock, from measured work.

One client of each architecture trains for two rounds. The operations of the second, scaled to samples, stand for all.
"""

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from simulator.base.errors import ConfigError
from simulator.base.record import Flight
from simulator.base.sections import AVAILABLE, RANDOM
from simulator.base.tensors import Tensors, total_bytes
from simulator.clock.durations import Work
from simulator.clock.schedule import cut
from simulator.config import Config
from simulator.engine.builder import Built
from simulator.engine.timing import Clock
from simulator.engine.wire import Wire
from simulator.methods import Uplink
from simulator.methods.hooks import Hooks
from simulator.runners import Job, LocalUpdate
from simulator.runners import Work as Dispatch
from simulator.runners import carry_out as run_clients
from simulator.runners.in_process import SequentialRunner
from simulator.runners.local import server_update
from simulator.selection import Past
from simulator.selection.history import timed
from simulator.training.client import shown_in, sizes_in
from simulator.training.flops import FlopCache
from simulator.training.precision import tf32_in_force
from simulator.training.trainer import TrainingContext


def drawn(config: Config, built: Built) -> Iterator[dict[str, Any]]:
    """The rounds of a run on its clock, without training and what only that tells. Raises ConfigError."""
    clock = built.engine.clock
    if clock is None:
        raise ConfigError(
            "There is no clock to draw. Set the devices of the clients: `system.devices=phone`."
        )
    if config.selection.strategy not in (RANDOM, AVAILABLE):
        raise ConfigError(
            f"selection.strategy '{config.selection.strategy}' can depend on training losses, and nothing is trained "
            f"here. Use '{RANDOM}' or '{AVAILABLE}', or run it."
        )
    if clock.system.count_evaluation:
        raise ConfigError(
            "Without training, nothing says which clients a round evaluates. Remove system.count_evaluation."
        )
    works, server = _measured(config, built)
    gc.freeze()  # or each collection looks at the data and at all clients again, which takes half of the time
    try:
        yield from _rounds(config, built, clock, works, server)
    finally:
        gc.unfreeze()


def _rounds(
    config: Config, built: Built, clock: Clock, works: Callable[[int], Sequence[Work]], server: float
) -> Iterator[dict[str, Any]]:
    """The rounds, from the work of each client in a round. server: its operations for each uplink."""
    now, flying, known = 0.0, list[Flight](), dict[int, Past]()
    partial = dict[Flight, Work]()
    remembers = config.selection.strategy != RANDOM
    for round in range(1, config.rounds + 1):

        def send(chosen: Sequence[int], at: float, t: int = round) -> list[Flight]:
            of_each = works(t)
            flights = clock.flights(chosen, at, t, [of_each[client] for client in chosen])
            return [cut_short(flight) if flight.lost else flight for flight in flights]

        def cut_short(flight: Flight) -> Flight:
            """The flight of a client that sends partial work, if it can."""
            if clock.system.partial == "lose":
                return flight
            client, work = flight.client, works(flight.dispatch)[flight.client]
            sizes = sizes_in(built.federation.at(flight.dispatch).clients[client].samples, config.training)
            costs = [work.flops * size / sum(sizes) for size in sizes]
            if not (steps := clock.steps_in_time(flight, work, costs)):
                return flight
            less = replace(work, flops=sum(costs[:steps]))
            [shorter] = clock.flights([client], flight.begins, flight.dispatch, [less])
            if shorter.lost:  # by rounding
                return flight
            shorter = shorter._replace(steps=steps, steps_due=len(sizes))
            partial[shorter] = less
            return shorter

        for each in flying:
            if each.client in clock.absent(round) and each in partial:
                partial[cut(each, now)] = partial.pop(each)
        ended = clock.carry_out(round, now, flying, known, send)
        fates = Counter(fate for _, fate in ended.landed)
        ages = Counter(round - flight.dispatch for flight, fate in ended.landed if fate == "used")
        sizes, used_flops, wasted_flops = 0, 0.0, 0.0
        joules, of_round = list[float](), works(round)
        for flight, fate in ended.landed:
            work = (of_round if flight.dispatch == round else works(flight.dispatch))[flight.client]
            if partial:
                work = partial.pop(flight, work)
            work = clock.done(flight, work)
            if remembers:
                seconds = flight.arrives - flight.begins
                known[flight.client] = timed(known.get(flight.client), seconds, fate)
            if fate == "used":
                used_flops += work.flops
            else:
                wasted_flops += work.flops
            sizes += work.down + work.up
            joules += clock.joules(flight, clock.waits(flight, ended.ends))
        ends = ended.ends + clock.server_seconds(server * fates["used"])
        yield {
            "round": round,
            "begins": now,
            "aggregates": ended.ends,
            "ends": ends,
            "sent": len(ended.sent),
            **{fate: fates[fate] for fate in ("used", "late", "stale", "lost")},
            "in_flight": len(ended.flying),
            "staleness": {str(age): ages[age] for age in sorted(ages)},
            "used_flops": used_flops,
            "wasted_flops": wasted_flops,
            "bytes": sizes,
            "joules": math.fsum(joules),
        }
        now, flying = ends, ended.flying
        if config.reached_time(now):
            return


def _measured(config: Config, built: Built) -> tuple[Callable[[int], Sequence[Work]], float]:
    """The work of each client in one dispatch of a round, and the server's operations for each uplink."""
    firsts: dict[str, int] = {}
    for client in built.federation.seen:
        firsts.setdefault(client.architecture, client.id)
    with tf32_in_force(config.training.precision, built.federation.device):
        updates, wire, server_flops = _second_round(config, built, sorted(firsts.values()))
    of = {
        update.client.architecture: (
            update.flops / shown_in(update.client.samples, config.training),
            wire.sent_down(update.client.id),
            total_bytes(update.uplink),
        )
        for update in updates
    }

    works: dict[int, list[Work]] = {}

    def of_round(round: int) -> list[Work]:
        now = built.federation.at(round)
        if now.stage not in works:
            of_each = [(info.samples, *of.get(info.architecture, (0.0, 0, 0))) for info in now.clients]
            works[now.stage] = [
                Work(per_sample * shown_in(samples, config.training), down, up)
                for samples, per_sample, down, up in of_each
            ]
        return works[now.stage]

    return of_round, server_flops / len(updates)


def _second_round(config: Config, built: Built, chosen: Sequence[int]) -> tuple[list[LocalUpdate], Wire, int]:
    """The updates of these clients, their wire, and the server's operations. In round 1, some servers send nothing."""
    hooks = Hooks(built.method, built.federation)
    context = TrainingContext(built.federation, built.data, FlopCache())
    runner = SequentialRunner(context, config.runtime)
    state, clients = built.engine.initial_state(), built.federation.clients
    server: Tensors = dict(state.server)
    local = {k: state.clients[k] for k in chosen}
    for t in (1, 2):
        wire = Wire(len(clients))
        jobs = {k: Job(local[k], wire.down(k, hooks.downlink(t, server, clients[k]))) for k in chosen}
        updates = run_clients(runner, Dispatch(hooks, t, jobs))
        if lost := [update.client for update in updates if update.diverged]:
            raise ConfigError(
                f"{lost[0]} diverges in round {t}, so its work cannot be measured. Use a smaller `training.lr`."
            )
        uplinks = [Uplink(update.client, update.uplink) for update in updates]
        (server, _), flops = server_update(hooks, context, t, server, uplinks)
        local = {update.client.id: update.tensors for update in updates}
    return updates, wire, flops
