"""The events of `federation.timeline` with their clients: who is present when, and whose data change."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.federation_section import TimelineEvent


@dataclass(frozen=True)
class Happening:
    """An event with its clients, ascending. number: its place in the table, from 0, which keys its draws."""

    number: int
    event: TimelineEvent
    clients: tuple[int, ...]

    @property
    def round(self) -> int:
        return self.event.round


class Timeline(NamedTuple):
    """All events in order of rounds, and the clients that are absent before the first round."""

    happenings: tuple[Happening, ...] = ()
    absent: frozenset[int] = frozenset()

    @property
    def rounds(self) -> list[int]:
        """The rounds with an event, ascending."""
        return sorted({each.round for each in self.happenings})

    @property
    def data(self) -> tuple[Happening, ...]:
        """The events that change data."""
        return tuple(each for each in self.happenings if each.event.event == "data")

    def absent_at(self, round: int) -> frozenset[int]:
        """The clients that are absent in a round."""
        away = set(self.absent)
        for each in self.happenings:
            if each.round <= round and each.event.event == "leave":
                away.update(each.clients)
            elif each.round <= round and each.event.event == "join":
                away.difference_update(each.clients)
        return frozenset(away)


def resolved(events: Sequence[TimelineEvent], clients: int, unseen: Collection[int], seed: int) -> Timeline:
    """The events with their clients; `seed` is the data's. Raises ConfigError for events that contradict each other.

    A client whose first event is to join is absent before. Fractions of joining and leaving clients are drawn among
    those that no list names.
    """

    def fault(number: int, what: str) -> ConfigError:
        return ConfigError(f"federation.timeline, entry {number + 1} (round {events[number].round}): {what}.")

    def drawn(number: int, share: float, pool: Sequence[int]) -> list[int]:
        """A share of the clients that may take part, to the nearest whole number, drawn from `pool`."""
        wanted = int(len(seen) * share + 0.5)
        if not 0 < wanted <= len(pool):
            can = f"clients = {share:g} are {wanted} clients, and {len(pool)} can be drawn"
            raise fault(number, f"{can}. Use another fraction")
        draw = rng.numpy_stream(seed, "timeline/clients", number).choice(len(pool), wanted, replace=False)
        return sorted(pool[each] for each in draw)

    order = sorted(range(len(events)), key=lambda number: events[number].round)
    seen = [client for client in range(clients) if client not in unseen]
    listed: dict[int, str] = {}
    for number in order:
        event = events[number]
        for client in event.clients if isinstance(event.clients, tuple) else ():
            if client >= clients:
                raise fault(number, f"there is no client {client}. Use 0 to {clients - 1}")
            if event.event == "data":
                continue
            if client in unseen:
                raise fault(number, f"client {client} is unseen and never takes part. Name another client")
            listed.setdefault(client, event.event)
    away = {client for client, first in listed.items() if first == "join"}
    others = [client for client in seen if client not in listed]
    joining: dict[int, list[int]] = {}
    for number in order:  # those that join begin absent, so they are drawn first
        event = events[number]
        if event.event == "join" and isinstance(event.clients, float):
            joining[number] = drawn(number, event.clients, [each for each in others if each not in away])
            away.update(joining[number])
    absent, left, found = frozenset(away), set[int](), list[Happening]()
    for number in order:
        event = events[number]
        if number in joining:
            named = joining[number]
        elif event.clients == "left":
            named = sorted(left)
            if not named:
                raise fault(number, "no client has left before. Name clients, or give a fraction")
        elif isinstance(event.clients, float):
            pool = seen if event.event == "data" else [each for each in others if each not in away]
            named = drawn(number, event.clients, pool)
        else:
            named = sorted(range(clients) if event.clients is None else event.clients)
        gone = [client for client in named if client in away]
        there = [client for client in named if client not in away]
        if event.event == "leave" and gone:
            what = f"client {gone[0]} is absent and cannot leave. Let it join first, or remove it"
            raise fault(number, what)
        if event.event == "join" and there:
            what = f"client {there[0]} is present and cannot join. Let it leave first, or remove it"
            raise fault(number, what)
        if event.divides and len(named) < 2:
            raise fault(number, "a new partition needs at least two clients. Name more")
        if event.event == "leave":
            away.update(named)
            left.update(named)
        elif event.event == "join":
            away.difference_update(named)
            left.difference_update(named)
        if len(away) == len(seen):
            raise fault(number, "no client would be present. Leave at least one")
        found.append(Happening(number, event, tuple(named)))
    return Timeline(tuple(found), absent)
