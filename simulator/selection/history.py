"""What the server knows of clients from earlier rounds. It follows from the ledger, so a resumed run knows the same."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.base.record import Record
from simulator.metrics import by_client
from simulator.models.federation import ClientInfo


@dataclass(frozen=True)
class Seen:
    """What the server has seen of one client in earlier rounds."""

    rounds: int = 0
    """How often it was sent off."""
    last: int | None = None
    """The round in which the server last received its result. None: never."""
    loss: float | None = None
    """Its mean training loss then."""
    seconds: float | None = None
    """The simulated seconds of its last dispatch that has ended. None without a clock."""


@dataclass(frozen=True)
class Candidate(Seen, ClientInfo):
    """A client that is available and not at work. Its past is that before the round."""

    stays: float = math.inf
    """The simulated seconds until it leaves."""


Strategy = Callable[[Sequence[Candidate], int, int, np.random.Generator], Sequence[int]]
"""(candidates, number, round, draws) → the ids of so many of them."""


@dataclass(frozen=True)
class Past(Seen):
    """The past of one client, of which a strategy is not told all."""

    under_way: float | None = None
    """The loss of its last dispatch, which the server learns with the uplink."""


History = Mapping[int, Past]
"""The pasts of the clients that have been sent off, by client."""
NOTHING = Past()


def after(before: History, record: Record) -> History:
    """The pasts after one more record. An uplink that the wire loses tells the server nothing."""
    found, round = dict(before), record["round"]
    losses = dict(by_client.items(record["loss"]["per_client"]))
    diverged, dropped = set(record.get("diverged", ())), set(record.get("dropped", ()))
    for client in record["participants"]:
        past = found.get(client, NOTHING)
        found[client] = replace(past, rounds=past.rounds + 1, under_way=losses.get(client))
    for flight in record["time"]["flights"] if "time" in record else ():
        seconds = flight["arrives"] - flight["begins"]
        found[flight["client"]] = timed(found.get(flight["client"]), seconds, flight["fate"])
    for client in by_client.arrived(record):
        if client not in dropped:
            past = found.get(client, NOTHING)
            found[client] = replace(past, last=round, loss=past.under_way)
    for client in diverged:
        found[client] = replace(found.get(client, NOTHING), last=round, loss=None)
    return found


def timed(before: Past | None, seconds: float, fate: str) -> Past:
    """The past after a flight of so many seconds. One that is lost would have taken at least those."""
    past = before or NOTHING
    return replace(past, seconds=max(seconds, past.seconds or 0.0) if fate == "lost" else seconds)
