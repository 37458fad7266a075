"""The order of a round on the clock: who is sent off when, whose uplinks arrive, and which of them the round uses.

A client is trained as soon as it is sent off, so its seconds are known. Flights are in the order of their arrivals, and
equal ones in the order of clients, so runners can train the clients in any order.
"""

import math
from bisect import insort
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.record import Flight
from simulator.base.system_section import SystemConfig

Fate = Literal["used", "late", "stale", "lost", "dropped"]
"""late: after the end of its round, where it does not count. stale: older than `max_staleness`. lost: the client left
before it had sent. dropped: the wire lost the uplink."""


Fates = Sequence[tuple[Flight, Fate]]


def cut(flight: Flight, leaves: float) -> Flight:
    """The flight if it arrives by then, and else as much of it as passes until its client leaves."""
    if leaves >= flight.arrives:
        return flight
    left, parts = leaves - flight.begins, list[float]()
    for seconds in (flight.latency, flight.down, flight.compute, flight.up):
        parts.append(min(left, seconds))
        left -= parts[-1]
    latency, down, compute, up = parts
    short = flight._replace(arrives=leaves, latency=latency, down=down, compute=compute, up=up)
    return short._replace(lost=True, steps=None, steps_due=None)


_ALWAYS_AT_WORK = ("buffered", "asynchronous")
"""The schedules that send a client off as soon as another one has arrived."""

Choose = Callable[[int, float, frozenset[int], int], Sequence[int]]
"""(number, time, busy clients, attempt) → so many clients that are available, or fewer if there are no more."""
Send = Callable[[Sequence[int], float], Sequence[Flight]]
"""Trains clients from the server's present state, sent off at this time."""
Wait = Callable[[float, frozenset[int]], float]
"""(time, busy clients) → the next time at which another client is available; infinite if none ever is."""
Loses = Callable[[Flight], bool]
"""Whether the uplink is lost on the wire. The server notices when it would have arrived."""


def arrive_all(flight: Flight) -> bool:
    """A wire that loses no uplink."""
    return False


@dataclass
class Ended:
    """What a round came to on the clock. ends: when the server has the uplinks that it aggregates."""

    ends: float
    landed: list[tuple[Flight, Fate]] = field(default_factory=list)
    """The flights that ended in the round, in the order of time."""
    flying: list[Flight] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    """The clients that were sent off in the round, in the order of time."""

    @property
    def used(self) -> list[Flight]:
        """The flights whose uplinks are aggregated, in client order."""
        return sorted(
            (flight for flight, fate in self.landed if fate == "used"), key=lambda flight: flight.client
        )


@dataclass(frozen=True)
class Round:
    """A round from `now` on, with flights of earlier rounds and the usual number of participants."""

    rules: SystemConfig
    round: int
    participants: int
    now: float
    flying: Sequence[Flight]
    choose: Choose
    send: Send
    wait: Wait
    loses: Loses = arrive_all

    def carry_out(self, left: Collection[int] = ()) -> Ended:
        """left: clients that are absent from this round on. Of their flights, those that have not arrived are lost."""
        lost = [each for each in self.flying if each.client in left and each.arrives > self.now]
        staying = replace(self, flying=[each for each in self.flying if each not in lost])
        ended = staying.buffered() if self.rules.schedule in _ALWAYS_AT_WORK else staying.awaited()
        ended.landed[:0] = [(cut(flight, self.now), "lost") for flight in sorted(lost)]
        return ended

    def awaited(self) -> Ended:
        """The clients are sent off together, and the round ends when enough of them have arrived."""
        rules, participants, now = self.rules, self.participants, self.now
        wanted = participants if rules.schedule != "over_selection" else rules.select or participants
        if wanted < participants:
            raise ConfigError(
                f"system.select is {wanted}, fewer than the {participants} participants that end a round. Set it to "
                f"{participants} or more."
            )
        busy = frozenset(flight.client for flight in self.flying)
        chosen = self.choose(wanted, now, busy, 0)
        while not chosen and not self.flying:  # nobody is there: the server waits
            now = _next(now, self.wait(now, busy))
            chosen = self.choose(wanted, now, busy, 0)
        ended = Ended(now, sent=list(chosen))
        every = sorted([*self.flying, *self.send(chosen, now)])
        fates = [(flight, self._fate(flight)) for flight in every]
        ended.ends = max(now, _end(rules, self.round, participants, now, fates))
        used = 0
        for flight, fate in fates:
            if flight.arrives > ended.ends:
                ended.flying.append(flight)
                continue
            used += fate == "used"
            surplus = rules.schedule == "over_selection" and used > participants
            ended.landed.append((flight, "late" if surplus and fate == "used" else fate))
        return ended

    def buffered(self) -> Ended:
        """At most `in_flight` clients are always at work. The uplink that fills the buffer ends the round."""
        limit, wanted = self.rules.in_flight or self.participants, self.rules.buffer or 1
        if wanted > limit:
            raise ConfigError(
                f"system.buffer is {wanted}, and at most {limit} clients are at work: the buffer would wait for "
                "clients that wait for it. Set system.in_flight to at least system.buffer."
            )
        ended = Ended(self.now, flying=sorted(self.flying))
        used, back = 0, set[int]()
        attempt = 0
        while used < wanted:
            # Who is back is not sent off again in this round: what its first uplink did is not yet applied.
            free = limit - len(ended.flying)
            busy = frozenset({*back, *(flight.client for flight in ended.flying)})
            if free > 0 and (chosen := self.choose(free, ended.ends, busy, attempt)):
                attempt += 1
                ended.sent += chosen
                for flight in self.send(chosen, ended.ends):
                    insort(ended.flying, flight)
            if not ended.flying:
                if used:
                    break  # all who could come are in the buffer
                if math.isinf(following := self.wait(ended.ends, busy)) and (ended.sent or back):
                    break  # all who could come are back, or have diverged
                ended.ends = _next(ended.ends, following)
                continue
            flight = ended.flying.pop(0)
            ended.ends = max(ended.ends, flight.arrives)
            fate = self._fate(flight)
            ended.landed.append((flight, fate))
            back.add(flight.client)
            used += fate == "used"
        return ended

    def _fate(self, flight: Flight) -> Fate:
        """What becomes of the uplink if it arrives in this round."""
        rules, age = self.rules, self.round - flight.dispatch
        if flight.lost:
            return "lost"
        if age > 0 and rules.late == "drop" and rules.schedule not in _ALWAYS_AT_WORK:
            return "late"
        if rules.max_staleness is not None and age > rules.max_staleness:
            return "stale"
        return "dropped" if self.loses(flight) else "used"


def _end(rules: SystemConfig, round: int, participants: int, now: float, fates: Fates) -> float:
    """When the round ends, by the fates of flights in the order of their arrivals.

    The server does not wait for uplinks too old to count, and notices what is lost when that happens. If nothing has
    arrived by the rule, it waits for the first that counts.
    """
    if not fates:
        return now
    awaited = [flight for flight, fate in fates if fate not in ("late", "stale")]
    if not awaited:  # nobody was free: the round ends when somebody is
        return fates[0][0].arrives
    last = awaited[-1].arrives
    counting = [flight.arrives for flight, fate in fates if fate == "used"]
    match rules.schedule:
        case "deadline":
            if rules.deadline is not None:
                limit = now + rules.deadline
            else:  # a quantile of the participants' seconds, which is one of them
                sent = [flight.arrives for flight in awaited if flight.dispatch == round] or [now]
                limit = float(np.quantile(sent, rules.deadline_quantile or 1.0, method="inverted_cdf"))
            return min(last, max(limit, counting[0] if counting else last))
        case "over_selection":
            return counting[participants - 1] if len(counting) >= participants else last
    return last


def _next(now: float, following: float) -> float:
    if math.isinf(following):
        raise ConfigError(
            f"No client is available any more after {now:g} simulated seconds. Use fewer rounds, or another "
            "availability."
        )
    return following
