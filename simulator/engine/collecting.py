"""The uplinks of a round: of all participants at once, or in the order of the computed clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulator.base.record import Flight
from simulator.base.tensors import total_bytes
from simulator.clock.durations import Work
from simulator.clock.schedule import Ended, cut
from simulator.engine.client_states import InFlight
from simulator.engine.timing import Clock
from simulator.engine.wire import Wire
from simulator.runners import LocalUpdate
from simulator.selection import History

Begin = Callable[[Sequence[int]], None]
"""Tells that the round starts with these participants."""
Train = Callable[
    [Sequence[int], Mapping[int, LocalUpdate], Mapping[int, int]], tuple[list[LocalUpdate], float]
]
"""Trains clients from the server's present state, but those who have finished, unless they have a limit of steps.

Returns their updates in this order, and the seconds for which the gate held all of them back."""


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
    flops: int = 0
    """Operations of `updates`."""


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
    updates, held = train(participants, finished, {})
    sent = [
        InFlight(update, round, wire.received(update.client.id)) for update in updates if not update.diverged
    ]
    return Collected(
        updates,
        participants,
        changed=tuple(sorted(waiting.union(participants))),
        used=sorted([*in_flight, *sent], key=lambda each: each.client.id),
        held=held,
        flops=sum(update.flops for update in updates),
    )


def waiting_on(each: InFlight) -> InFlight:
    """The same after the round of its dispatch, as a checkpoint gives it back: tensors by name, no single steps."""
    update = replace(each.update, uplink=dict(sorted(each.update.uplink.items())), step_flops=())
    return replace(each, update=update, received=dict(sorted(each.received.items())))


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
    done, updates, held, flops = dict(finished), list[LocalUpdate](), 0.0, 0
    diverged = set[int]()
    of = {each.flight: each for each in in_flight if each.flight is not None}
    has_begun = False

    def send(chosen: Sequence[int], at: float) -> list[Flight]:
        nonlocal has_begun, flops
        if not has_begun:
            begin(chosen)
            has_begun = True
        new = computed(chosen, {})
        done.update(new)
        diverged.update(k for k, update in new.items() if update.diverged)
        flights = sent_off(new, at)
        if clock.system.partial == "send":
            cut_short(new, flights, at)
        updates.extend(new.values())
        flops += sum(update.flops for update in new.values() if update.diverged)
        for k, flight in flights.items():
            did = clock.done(flight, work(new[k]))
            flops += int(did.flops)
            if did.down < wire.sent_down(k):
                wire.down_failed(k)
            of[flight] = InFlight(new[k], round, wire.received(k), flight, did.down)
        return list(flights.values())

    def computed(clients: Sequence[int], limits: Mapping[int, int]) -> dict[int, LocalUpdate]:
        nonlocal held
        found, pause = train(clients, done, limits)
        held += pause
        return {update.client.id: update for update in found}

    def sent_off(new: Mapping[int, LocalUpdate], at: float) -> dict[int, Flight]:
        sound = [k for k, update in new.items() if not update.diverged]
        return dict(zip(sound, clock.flights(sound, at, round, [work(new[k]) for k in sound]), strict=True))

    def work(update: LocalUpdate) -> Work:
        return Work(update.flops, wire.sent_down(update.client.id), total_bytes(update.uplink))

    def cut_short(new: dict[int, LocalUpdate], flights: dict[int, Flight], at: float) -> None:
        """Train clients that leave before they have sent again, for the steps after which they can still send."""
        leaving = {k: new[k] for k, flight in flights.items() if flight.lost}
        if unknown := [k for k, update in leaving.items() if not update.step_flops]:  # after a resume
            for k in unknown:
                del done[k]
            leaving |= computed(unknown, {})
            done.update((k, leaving[k]) for k in unknown)
        due = {k: len(update.step_flops) for k, update in leaving.items()}
        while leaving:
            steps = {
                k: clock.steps_in_time(flights[k], work(update), update.step_flops)
                for k, update in leaving.items()
            }
            steps = {k: number for k, number in steps.items() if number}
            if not steps:
                return
            less = computed(list(steps), steps)
            shorter = sent_off(less, at)
            # An uplink after fewer steps may be larger. The next attempt takes fewer still.
            leaving = {k: less[k] for k, flight in shorter.items() if flight.lost}
            for k, flight in shorter.items():
                if not flight.lost:
                    new[k] = less[k]
                    flights[k] = flight._replace(steps=steps[k], steps_due=due[k])

    def loses(flight: Flight) -> bool:
        return wire.loses(flight.client, flight.dispatch)

    waiting, left = list(of), clock.absent(round)
    of |= {cut(flight, began): of[flight] for flight in waiting if flight.client in left}
    ended = clock.carry_out(round, began, waiting, history, send, diverged, loses)
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
        flying=sorted((waiting_on(of[flight]) for flight in ended.flying), key=lambda each: each.client.id),
        weights={flight.client: clock.weight(round - flight.dispatch) for flight in ended.used},
        began=began,
        ended=ended,
        landed=landed,
        flops=flops,
    )
