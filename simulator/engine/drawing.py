"""The schedule of a federation without training: rounds on the clock, from the measured work of a few clients.

One client of each architecture trains for two rounds. Its operations in the second one, scaled to the samples of each
client, and the bytes of its payloads stand for all clients of its architecture.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, total_bytes
from simulator.clock.durations import Work
from simulator.clock.schedule import Flight, carry_out
from simulator.config import Config
from simulator.engine.builder import Built
from simulator.engine.wire import Wire
from simulator.methods import Uplink
from simulator.methods.hooks import Hooks
from simulator.models.federation import ClientInfo
from simulator.runners import Job, Jobs, central, synchronous
from simulator.runners import Work as Portion
from simulator.runners.sequential import SequentialRunner
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache


def drawn(config: Config, built: Built) -> Iterator[dict[str, Any]]:
    """The rounds of a run on its clock, one after the other, without training. Raises ConfigError.

    Losses on the wire and clients that diverge are left out, because only a run knows them.
    """
    clock = built.engine.clock
    if clock is None:
        raise ConfigError(
            "There is no clock to draw. Set the devices of the clients: `system.devices=phone`."
        )
    works, server = _measured(config, built)
    now, flying = 0.0, list[Flight]()
    waits = clock.system.schedule not in ("buffered", "asynchronous")
    for round in range(1, config.rounds + 1):

        def choose(
            number: int, at: float, busy: frozenset[int], attempt: int, t: int = round
        ) -> Sequence[int]:
            return clock.choose(number, at, busy, t, attempt)

        def send(chosen: Sequence[int], at: float, t: int = round) -> list[Flight]:
            return clock.flights(chosen, at, t, [works[client] for client in chosen])

        ended = carry_out(clock.system, round, clock.participants, now, flying, choose, send, clock.wait)
        fates: Counter[str] = Counter()
        flops: Counter[str] = Counter()
        ages: Counter[int] = Counter()
        sizes, joules = 0, list[float]()
        for flight, fate in ended.landed:
            work = works[flight.client]
            fates[fate] += 1
            flops["used" if fate == "used" else "wasted"] += work.flops  # type: ignore[assignment]
            sizes += work.down + work.up
            joules += clock.joules(flight, ended.ends - flight.arrives if waits else 0.0)
            if fate == "used":
                ages[round - flight.dispatch] += 1
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
            "used_flops": flops["used"],
            "wasted_flops": flops["wasted"],
            "bytes": sizes,
            "joules": math.fsum(joules),
        }
        now, flying = ends, ended.flying
        if config.reached_time(now):
            return


def _measured(config: Config, built: Built) -> tuple[list[Work], float]:
    """The work of each client in one dispatch, and the server's operations for each uplink."""
    federation = built.federation
    hooks = Hooks(built.method, federation)
    context = TrainingContext(federation, built.data, FlopCache())
    firsts: dict[str, ClientInfo] = {}
    for client in federation.seen:
        firsts.setdefault(client.architecture, client)
    chosen = sorted(client.id for client in firsts.values())
    state = built.engine.initial_state()
    server: Tensors = dict(state.server)
    local = {k: state.clients[k] for k in chosen}
    for t in (1, 2):  # before the first round, some servers have nothing to send
        wire = Wire(len(federation.clients))
        jobs = Jobs(chosen, _Jobs(hooks, wire, t, server, local, federation.clients))
        updates = synchronous.carry_out(
            SequentialRunner(context, config.runtime), Portion(hooks, t, jobs, {})
        )
        if lost := [update.client for update in updates if update.diverged]:
            raise ConfigError(
                f"{lost[0]} diverges in round {t}, so its work cannot be measured. Use a smaller `training.lr`."
            )
        uplinks = [Uplink(update.client, update.uplink) for update in updates]
        (server, _), server_flops = central.update(hooks, context, t, server, uplinks)
        local = {update.client.id: update.tensors for update in updates}
    of = {
        update.client.architecture: (
            update.flops / update.client.samples,
            wire.sent_down(update.client.id),
            total_bytes(update.uplink),
        )
        for update in updates
    }
    works = []
    for client in federation.clients:
        per_sample, down, up = of.get(client.architecture, (0.0, 0, 0))
        works.append(Work(per_sample * client.samples, down, up))
    return works, server_flops / len(updates)


class _Jobs:
    """The job of a client in a round of the measurement."""

    def __init__(
        self,
        hooks: Hooks,
        wire: Wire,
        round: int,
        server: Tensors,
        local: dict[int, Tensors],
        clients: Sequence[ClientInfo],
    ) -> None:
        self._hooks, self._wire, self._round = hooks, wire, round
        self._server, self._local, self._clients = server, local, clients

    def __call__(self, client: int) -> Job:
        payload = self._hooks.downlink(self._round, self._server, self._clients[client])
        return Job(self._local[client], self._wire.down(client, payload))
