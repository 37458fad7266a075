"""The clock of a federation: the seconds of each client's work, and who is sent off, arrives, and counts in a round."""

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.record import Flight, FlightRecord, Time
from simulator.base.system_section import SystemConfig
from simulator.base.tensors import total_bytes
from simulator.clock import durations
from simulator.clock.availability import Availability, availability
from simulator.clock.devices import ClientFacts, assigned, library, named
from simulator.clock.durations import Energy, Seconds, Work
from simulator.clock.schedule import Ended, Loses, Round, Send, arrive_all, cut
from simulator.config import Config
from simulator.engine.client_states import InFlight
from simulator.methods import Method
from simulator.models.federation import Federation
from simulator.selection import History, Selector

SINGLE = 0.6
"""Default of `system.mixing` where a single uplink ends a round: the client does not replace the server's state."""


class Clock:
    """The simulated time of a run. Raises ConfigError for methods whose uplinks must not be stale or partial."""

    def __init__(self, config: Config, federation: Federation, method: Method, selector: Selector) -> None:
        assert config.system is not None
        self.system, self._seed = config.system, config.training_seed
        self._federation, self._selector = federation, selector
        self._section = config.federation
        if self.system.server_bandwidth is not None and self.system.schedule in ("buffered", "asynchronous"):
            raise ConfigError(
                "system.server_bandwidth is shared by clients that are sent off together, and schedule "
                f"'{self.system.schedule}' sends them off one by one. Remove it, or use another schedule."
            )
        if self.can_be_stale and not method.card.stale:
            raise ConfigError(
                f"{method.card.title} takes no stale uplinks: nothing says what an old one would mean to its server. "
                "Use `system.schedule=synchronous`, or another method."
            )
        if self.system.partial == "send" and not method.card.partial:
            raise ConfigError(
                f"{method.card.title} takes no partial work: nothing says what an uplink after fewer steps would "
                "mean to its server. Use `system.partial=lose`, or another method."
            )
        self.availability = availability(self.system, len(federation.clients), self._seed)
        self._always = self.system.availability == "always"
        self.facts = facts(federation, self.availability)
        self.devices = federation.devices
        self._server = named(self.system.server_device, library(self.system), "system.server_device")
        self._utilization = {
            architecture: durations.utilization(self.system, architecture)
            for architecture in {client.architecture for client in federation.clients}
        }
        self._parts = dict[int, tuple[Work, Seconds]]()
        """The last work of each client, and its seconds without jitter. Work seldom changes."""
        self.slow, self.fast = self._thirds()
        """A third of the clients, rounded down, with the slowest and with the fastest devices."""

    def _thirds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """By FLOP/s times utilization. On equal devices, more work is slower: weights times training samples."""

        def speed(client: int) -> tuple[float, int]:
            facts = self.facts[client]
            return (
                self.devices[client].flops * self._utilization[facts.architecture],
                -facts.parameters * facts.train_size,
            )

        ordered = sorted((client.id for client in self._federation.seen), key=speed)
        third = max(1, len(ordered) // 3)
        return tuple(sorted(ordered[:third])), tuple(sorted(ordered[-third:]))

    @property
    def can_be_stale(self) -> bool:
        """Whether an uplink can arrive in a later round than that of its dispatch, and count."""
        schedule = self.system.schedule
        return schedule in ("buffered", "asynchronous") or (
            schedule == "deadline" and self.system.late == "next"
        )

    @property
    def adds_differences(self) -> bool:
        """Whether stale uplinks count as what their clients changed, and not as they are."""
        asynchronous = self.system.schedule == "asynchronous"
        return self.can_be_stale and not asynchronous and self.system.stale_as == "difference"

    def participants(self, round: int) -> int:
        """The usual number of clients in a round."""
        return self._section.participants_of(len(self._federation.at(round).present))

    def absent(self, round: int) -> frozenset[int]:
        return self._federation.at(round).absent

    def carry_out(
        self,
        round: int,
        now: float,
        flying: Sequence[Flight],
        history: History,
        send: Send,
        diverged: Collection[int] = (),
        loses: Loses = arrive_all,
    ) -> Ended:
        """A round of the run's schedule that begins at `now`; who has `diverged` by then is not sent off again."""

        def choose(number: int, at: float, busy: frozenset[int], attempt: int) -> tuple[int, ...]:
            return self.choose(number, at, busy.union(diverged), round, attempt, history)

        def wait(at: float, busy: frozenset[int]) -> float:
            return self.wait(at, busy.union(diverged), round)

        usual = self.participants(round)
        found = Round(self.system, round, usual, now, flying, choose, send, wait, loses)
        return found.carry_out(self.absent(round))

    def flights(self, clients: Sequence[int], at: float, round: int, works: Sequence[Work]) -> list[Flight]:
        """The flights of clients that are sent off together. A client that leaves before it has sent loses its work."""
        factors = durations.jitters(self._seed, round, clients, self.system.jitter)
        found = [
            self._alone(client, at, round, work, float(factor))
            for client, work, factor in zip(clients, works, factors, strict=True)
        ]
        shared = self._shared(found, works)
        if self._always:
            return shared
        return [cut(each, self.availability.leaves_at(each.client, each.begins)) for each in shared]

    def steps_in_time(self, flight: Flight, work: Work, costs: Sequence[float]) -> int:
        """The most steps, but not all, whose uplink arrives before the client leaves; `costs`: operations of each."""
        client, beside, done = flight.client, work.flops - sum(costs), list(accumulate(costs))
        factor = durations.jitter(self._seed, flight.dispatch, client, self.system.jitter)

        def arrives(steps: int) -> float:
            less = replace(work, flops=beside + done[steps - 1])
            return self._alone(client, flight.begins, flight.dispatch, less, factor).arrives

        leaves = self.availability.leaves_at(client, flight.begins)
        return bisect_right(range(1, len(costs)), leaves, key=arrives)

    def _alone(self, client: int, at: float, round: int, work: Work, factor: float) -> Flight:
        """The flight of a client that stays, with connections that it does not share."""
        known = self._parts.get(client)
        if known is None or known[0] != work:
            utilization = self._utilization[self._federation.clients[client].architecture]
            known = self._parts[client] = work, durations.parts(self.devices[client], work, utilization)
        parts = known[1] if factor == 1.0 else durations.jittered(known[1], factor)
        return Flight(at + math.fsum(parts), client, round, at, *parts, lost=False)

    def _shared(self, flights: list[Flight], works: Sequence[Work]) -> list[Flight]:
        """The flights with transfers that share the server's bandwidth, if it has a limit."""
        if self.system.server_bandwidth is None:
            return flights
        limit = 1e6 * self.system.server_bandwidth
        starts = [flight.begins + flight.latency for flight in flights]
        for way in ("down", "up"):
            own = [max(getattr(flight, way), 0.0) for flight in flights]
            sizes = [getattr(work, way) for work in works]
            transfers = [
                durations.Transfer(start, size, durations.BITS * size / alone if alone else math.inf)
                for start, size, alone in zip(starts, sizes, own, strict=True)
            ]
            moving = [number for number, each in enumerate(transfers) if each.bytes]
            ends = dict(
                zip(moving, durations.shared([transfers[number] for number in moving], limit), strict=True)
            )
            seconds = [ends.get(number, start) - start for number, start in enumerate(starts)]
            flights = [
                flight._replace(down=each) if way == "down" else flight._replace(up=each)
                for flight, each in zip(flights, seconds, strict=True)
            ]
            starts = [
                start + getattr(flight, way) + (flight.compute if way == "down" else 0.0)
                for flight, start in zip(flights, starts, strict=True)
            ]
        return [flight._replace(arrives=end) for flight, end in zip(flights, starts, strict=True)]

    def done(self, flight: Flight, work: Work) -> Work:
        """What the client did of that work until it left. Only complete transfers count."""
        if not flight.lost or self.system.costs == "planned":
            return work
        factor = durations.jitter(self._seed, flight.dispatch, flight.client, self.system.jitter)
        seconds = factor * self._computing(flight.client, work.flops, "training")
        share = min(flight.compute / seconds, 1.0) if seconds else 1.0
        received = flight.compute > 0 or flight.up > 0
        return Work(round(share * work.flops), work.down if received else 0, 0)

    def waits(self, flight: Flight, ends: float) -> float:
        """The seconds for which the client waits after its flight until the server aggregates."""
        if self.system.costs == "planned":
            return 0.0 if self.system.schedule in ("buffered", "asynchronous") else ends - flight.arrives
        return 0.0 if flight.lost else ends - flight.arrives

    def choose(
        self, number: int, at: float, busy: frozenset[int], round: int, attempt: int, history: History
    ) -> tuple[int, ...]:
        """So many available clients that are not busy, by the run's selection; if all are, as without a clock."""
        free: Sequence[int] = self._federation.at(round).present_ids
        if busy:
            free = [client for client in free if client not in busy]
        if self._always:
            return self._selector.select(free, number, round, history, attempt)
        free = [client for client in free if self.availability.next_available(client, at) <= at]

        def stays(client: int) -> float:
            return self.availability.leaves_at(client, at) - at

        return self._selector.select(free, number, round, history, attempt, stays)

    def wait(self, at: float, busy: frozenset[int], round: int) -> float:
        """The next time at which a client that is not busy is available; infinite if none ever is."""
        others = (client for client in self._federation.at(round).present_ids if client not in busy)
        return min((self.availability.next_available(client, at) for client in others), default=math.inf)

    def weight(self, staleness: int) -> float:
        """How much an uplink counts that is this many rounds old."""
        single = self.system.schedule == "asynchronous" or self.system.buffer == 1
        mixing = self.system.mixing or (SINGLE if single else 1.0)
        return mixing * self.system.staleness_weight(staleness)

    def server_seconds(self, flops: float) -> float:
        """The seconds of the server's own training."""
        return flops / self._server.flops

    def _computing(self, client: int, flops: float, what: str) -> float:
        """The seconds of so many operations on a client's device."""
        utilization = self._utilization[self._federation.clients[client].architecture]
        return durations.computing(self.devices[client], flops, utilization, what)

    def joules(self, flight: Flight, waited: float) -> Energy:
        """The energy of a flight. The device idles through `waited` seconds after it."""
        return durations.joules(self.devices[flight.client], flight, waited)

    def record(
        self,
        round: int,
        began: float,
        ended: Ended,
        landed: Sequence[InFlight],
        server_flops: float,
        accuracies: Mapping[int, float],
        evaluated: Mapping[int, float],
    ) -> Time:
        """The round on the clock for the ledger. `landed`: the updates of `ended.landed`, in that order.

        accuracies: of each client that has been evaluated. evaluated: operations of each one's evaluation, if they
        count.
        """
        server = self.server_seconds(server_flops)
        flown = list[tuple[FlightRecord, Energy]]()
        for (flight, fate), each in zip(ended.landed, landed, strict=True):
            wait = self.waits(flight, ended.ends)
            did = self.done(flight, Work(each.update.flops, each.down, total_bytes(each.update.uplink)))
            facts: FlightRecord = {
                **{name: value for name, value in flight.facts().items() if name != "lost"},
                "fate": fate,
                "flops": did.flops,
                "bytes": did.down + did.up,
                "wait": wait,
            }
            flown.append((facts, self.joules(flight, wait)))
        wasted = [each for each in flown if each[0]["fate"] != "used"]
        tests = {k: self._computing(k, flops, "evaluation") for k, flops in evaluated.items()}
        slowest = max(tests.values(), default=0.0)
        spent = [self.devices[client].compute_watts * seconds for client, seconds in tests.items()]
        staleness = np.bincount([round - flight.dispatch for flight in ended.used], minlength=1)
        found: Time = {
            "begins": began,
            "aggregates": ended.ends,
            "ends": ended.ends + server + slowest,
            "sent": list(ended.sent),
            "flights": [facts for facts, _ in flown],
            "in_flight": len(ended.flying),
            "staleness": {str(rounds): int(number) for rounds, number in enumerate(staleness) if number},
            "joules": {
                "compute": math.fsum([*(joules.compute for _, joules in flown), *spent]),
                "radio": math.fsum(joules.radio for _, joules in flown),
                "idle": math.fsum(joules.idle for _, joules in flown),
            },
            "participation": len(set(ended.sent)) / len(self._federation.at(round).present),
            "used": len(ended.used) / len(ended.landed) if ended.landed else None,
            "wasted": {
                "seconds": math.fsum(
                    each[part] for each, _ in wasted for part in ("latency", "down", "compute", "up")
                ),
                "flops": math.fsum(each["flops"] for each, _ in wasted),
                "bytes": sum(each["bytes"] for each, _ in wasted),
                "joules": math.fsum(each.total for _, each in wasted),
            },
            "accuracy": {
                "slow": _mean_of(self.slow, accuracies),
                "fast": _mean_of(self.fast, accuracies),
            },
        }
        if self.system.count_evaluation:
            found["evaluation"] = {"seconds": slowest, "flops": sum(evaluated.values())}
        return found


def _mean_of(clients: Sequence[int], accuracies: Mapping[int, float]) -> float | None:
    known = [accuracies[client] for client in clients if client in accuracies]
    return math.fsum(known) / len(known) if known else None


PER_WEIGHT = 4 * 4
"""Estimated bytes of training per weight: the weight, its gradient, and two values of an optimizer, as float32."""


def facts(federation: Federation, times: Availability) -> Sequence[ClientFacts]:
    """The facts about each client on which its device may depend."""
    weights = federation.parameters
    return [
        ClientFacts(
            id=client.id,
            architecture=client.architecture,
            parameters=weights[client.architecture],
            memory=PER_WEIGHT * weights[client.architecture],
            train_size=client.samples,
            available=times.share(client.id),
        )
        for client in federation.clients
    ]


def equipped(federation: Federation, system: SystemConfig) -> Federation:
    """The same federation, whose clients have devices. Raises ConfigError for devices that cannot be given."""
    times = availability(system, len(federation.clients), federation.seed)
    return federation.with_devices(assigned(system, facts(federation, times), federation.seed))
