"""What the server knows of the clients from earlier rounds.

It follows from the ledger, so a resumed run knows the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simulator.base.record import Record
from simulator.metrics import by_client


@dataclass(frozen=True)
class Past:
    """The past of one client. See `Candidate`."""

    rounds: int = 0
    last: int | None = None
    loss: float | None = None
    seconds: float | None = None
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
