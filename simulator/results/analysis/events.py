"""What the events of a session tell, in a few words."""

from collections.abc import Sequence
from heapq import merge
from operator import itemgetter
from typing import cast

from simulator.base.documents import Event
from simulator.base.units import points
from simulator.results.analysis.clients import falls
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.samples import FEW, Samples

MOST = 3
"""Clients that an event names."""


ALARMING = ("warning", "refused", "fell", "noticed", "failed", "interrupted", "silent", "unreadable", "gone")
"""Kinds of events that ask for attention."""


class Fell(Event):
    """What the ledger tells: these clients' accuracy fell, and by how much."""

    changes_of: Sequence[tuple[int, float]]


def shown_events(run: SessionData) -> list[Event]:
    """A run's events in order of time, and among them what its ledger tells, and what happened to the session.

    The ledger tells of clients whose accuracy fell far, and what watchers notice if the session has none of its own.
    """
    samples = Samples.of(run)
    few = samples.test < FEW if samples is not None else None
    fell: list[Fell] = [
        {"event": "fell", "at": run.records[round - 1]["timing"]["at"], "round": round, "changes_of": changes}
        for round, changes in falls(run.curves, few=few)
    ]
    told = (run.events, cast(list[Event], fell), run.noticed, run.outages)
    return list(merge(*told, key=itemgetter("at")))


def description(event: Event) -> str:
    """What an event tells, in a few words; the time and the round are shown beside it."""
    inexact = "; not bit-identical: " + ", ".join(event["inexact"]) if event.get("inexact") else ""
    match event.get("event"):
        case "started" | "resumed" as kind:
            return f"{kind} with {event.get('method')}{inexact}"
        case "switched":
            return "switched: " + (", ".join(event.get("changes", ())) or str(event.get("method")))
        case "forked":
            changes = ", ".join(event.get("changes", ()))
            return (
                f"forked from {event.get('name')} at round {event.get('round')}"
                + (f": {changes}" if changes else "")
                + inexact
            )
        case "stopped":
            return f"stopped: {event.get('reason')}"
        case "warning":
            whose = f"client {event['client']}: " if "client" in event else ""
            return f"warning: {whose}{event.get('message')}"
        case "failed" | "interrupted" | "silent" | "unreadable" | "gone" as kind:
            return f"{kind}: {event.get('message')}"
        case "heard" | "readable":
            return str(event.get("message"))
        case "refused":
            return f"refused {event.get('command')}: {event.get('reason')}"
        case "noticed":
            follows = {"pause": "; the run pauses", "stop": "; the run stops"}.get(
                event.get("action", ""), ""
            )
            return f"{event.get('watcher')}: {event.get('message')}{follows}"
        case "fell":
            clients = cast(Fell, event)["changes_of"]
            named = [f"client {client} {points(by)} pp" for client, by in clients[:MOST]]
            more = len(clients) - MOST
            return "fell: " + ", ".join([*named, f"{more} more"] if more > 0 else named)
        case "nodes":
            on = ", ".join(f"{each['workers']} on {each['node']}" for each in event["nodes"])
            differ = [
                f"{each['node']}: {', '.join(each['inexact'])}" for each in event["nodes"] if each["inexact"]
            ]
            return f"clients at a time: {on}" + (
                f"; not bit-identical: {'; '.join(differ)}" if differ else ""
            )
        case "checkpoint":
            return "checkpoint"
        case kind:
            rest = {
                key: value for key, value in event.items() if key not in ("at", "event", "round", "sha256")
            }
            return " ".join([str(kind), *(f"{key}={value}" for key, value in rest.items())])


def is_alarming(event: Event) -> bool:
    """Whether an event asks for attention."""
    return event.get("event") in ALARMING
