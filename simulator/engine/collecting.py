"""The uplinks of a round: of all participants at once, or in the order of the computed clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simulator.base.tensors import total_bytes
from simulator.clock.durations import Work
from simulator.clock.schedule import Ended, Flight, carry_out
from simulator.engine.client_states import InFlight
from simulator.engine.timing import Clock
from simulator.engine.wire import Wire
from simulator.runners import LocalUpdate
from simulator.selection import History

Begin = Callable[[Sequence[int]], None]
"""Tells that the round starts with these participants."""
Train = Callable[[Sequence[int], Mapping[int, LocalUpdate]], tuple[list[LocalUpdate], float]]
"""Trains clients from the server's present state, but those who have finished. Returns their updates in this order, and
the seconds for which the gate held all of them back."""


@dataclass(frozen=True)
class Collected:
    """What a round has of its clients before the server's part.

    updates: those computed in the round, in client order. used, unused: whose uplinks arrived, to be aggregated or not.
    changed: whom to evaluate. held: seconds for which the gate held all clients back.
    """

    updates: list[LocalUpdate]
    participants: tuple[int, ...]
    changed: tuple[int, ...]
    used: Sequence[InFlight]
    held: float
    unused: Sequence[InFlight] = ()
    flying: Sequence[InFlight] = ()
    weights: Mapping[int, float] = field(default_factory=dict)
    """Of used uplinks, if not 1."""
    began: float = 0.0
    """When the round began on the clock."""
    ended: Ended | None = None
    """The round on the clock, if there is one."""
    landed: Sequence[InFlight] = ()
    """The updates of `ended.landed`, in that order."""


def at_once(
    round: int,
    in_flight: Sequence[InFlight],
    drawn: Sequence[int],
    wire: Wire,
    begin: Begin,
    train: Train,
    finished: Mapping[int, LocalUpdate],
) -> Collected:
    """The uplinks of a round without a clock: those of all that were drawn, and those in flight."""
    waiting = {each.client.id for each in in_flight}
    participants = tuple(k for k in drawn if k not in waiting)
    begin(participants)
    updates, held = train(participants, finished)
    sent = [
        InFlight(update, round, wire.received(update.client.id)) for update in updates if not update.diverged
    ]
    return Collected(
        updates,
        participants,
        changed=tuple(sorted(waiting.union(participants))),
        used=sorted([*in_flight, *sent], key=lambda each: each.client.id),
        held=held,
    )


def on_the_clock(
    clock: Clock,
    round: int,
    began: float,
    history: History,
    in_flight: Sequence[InFlight],
    wire: Wire,
    begin: Begin,
    train: Train,
    finished: Mapping[int, LocalUpdate],
) -> Collected:
    """The uplinks that the schedule gives the round. Clients are trained as soon as they are sent off."""
    done, updates, held = dict(finished), list[LocalUpdate](), 0.0
    diverged = set[int]()
    of = {each.flight: each for each in in_flight if each.flight is not None}
    has_begun = False

    def choose(number: int, at: float, busy: frozenset[int], attempt: int) -> tuple[int, ...]:
        return clock.choose(number, at, busy | diverged, round, attempt, history)

    def wait(at: float, busy: frozenset[int]) -> float:
        return clock.wait(at, busy | diverged)

    def send(chosen: Sequence[int], at: float) -> list[Flight]:
        nonlocal held, has_begun
        if not has_begun:
            begin(chosen)
            has_begun = True
        new, pause = train(chosen, done)
        held += pause
        updates.extend(new)
        done.update((update.client.id, update) for update in new)
        diverged.update(update.client.id for update in new if update.diverged)
        sound = [update for update in new if not update.diverged]
        works = [
            Work(update.flops, wire.sent_down(update.client.id), total_bytes(update.uplink))
            for update in sound
        ]
        flights = clock.flights([update.client.id for update in sound], at, round, works)
        for update, flight in zip(sound, flights, strict=True):
            k = update.client.id
            of[flight] = InFlight(update, round, wire.received(k), flight, wire.sent_down(k))
        return flights

    def loses(flight: Flight) -> bool:
        return wire.loses(flight.client, flight.dispatch)

    ended = carry_out(clock.system, round, clock.participants, began, list(of), choose, send, wait, loses)
    if not has_begun:
        begin(())
    landed = [of[flight] for flight, _ in ended.landed]
    updates.sort(key=lambda update: update.client.id)
    return Collected(
        updates,
        participants=tuple(sorted(ended.sent)),
        changed=tuple(sorted({*(each.client.id for each in landed), *diverged})),
        used=[of[flight] for flight in ended.used],
        held=held,
        unused=[of[flight] for flight, fate in ended.landed if fate in ("late", "stale", "dropped")],
        flying=tuple(of[flight] for flight in ended.flying),
        weights={flight.client: clock.weight(round - flight.dispatch) for flight in ended.used},
        began=began,
        ended=ended,
        landed=landed,
    )
