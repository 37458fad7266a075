"""What happened in a session: its events in words, its milestones, and what each switch and fork changed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from typing import Any, Literal

import numpy as np

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from simulator.base.documents import Event
from simulator.base.units import points
from simulator.engine.progress import Switch
from simulator.metrics.significance import FEW
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import falls
from simulator.results.analysis.overview import read_overview
from simulator.results.analysis.run import Samples, SessionData
from simulator.sessions.reader import parent_folder

MOST = 3
"""Clients that an event names."""


ALARMING = ("warning", "refused", "fell", "noticed", "failed", "interrupted", "silent", "unreadable", "gone")
"""Kinds of events that ask for attention."""


def shown_events(run: SessionData) -> list[Event]:
    """A run's events in order of time, with accuracies that fell far, and what watchers would notice if it has none."""
    samples = Samples.of(run)
    few = samples.test < FEW if samples is not None else None
    fell: list[Event] = [
        {"event": "fell", "at": run.records[round - 1]["timing"]["at"], "round": round, "changes_of": changes}
        for round, changes in falls(run.curves, few=few)
    ]
    told = (run.events, fell, run.noticed, run.outages)
    return list(merge(*told, key=itemgetter("at")))


def description(event: Event) -> str:
    """What an event tells, in a few words; the time and the round are shown beside it."""
    inexact = "; not bit-identical: " + ", ".join(event["inexact"]) if event.get("inexact") else ""
    message = event.get("message")
    match kind := event.get("event"):
        case "started" | "resumed":
            return f"{kind} with {event.get('method')}{inexact}"
        case "switched":
            return f"switched: {', '.join(event.get('changes', ())) or event.get('method')}"
        case "forked":
            changes = ", ".join(event.get("changes", ()))
            where = f"forked from {event.get('name')} at round {event.get('round')}"
            return where + (f": {changes}" if changes else "") + inexact
        case "stopped":
            return f"stopped: {event.get('reason')}"
        case "warning":
            whose = f"client {event['client']}: " if "client" in event else ""
            return f"warning: {whose}{message}"
        case "failed" | "interrupted" | "silent" | "unreadable" | "gone":
            return f"{kind}: {message}"
        case "heard" | "readable":
            return str(message)
        case "refused":
            return f"refused {event.get('command')}: {event.get('reason')}"
        case "noticed":
            follows = {"pause": "; the run pauses", "stop": "; the run stops"}
            return f"{event.get('watcher')}: {message}{follows.get(event.get('action', ''), '')}"
        case "fell":
            clients = event["changes_of"]
            named = [f"client {client} {points(by)} pp" for client, by in clients[:MOST]]
            more = [f"{len(clients) - MOST} more"] if len(clients) > MOST else []
            return f"fell: {', '.join(named + more)}"
        case "nodes":
            on = ", ".join(f"{each['workers']} on {each['node']}" for each in event["nodes"])
            differ = [f"{e['node']}: {', '.join(e['inexact'])}" for e in event["nodes"] if e["inexact"]]
            inexact = f"; not bit-identical: {'; '.join(differ)}" if differ else ""
            return f"clients at a time: {on}{inexact}"
        case "checkpoint":
            return "checkpoint"
    known = ("at", "event", "round", "sha256")
    return " ".join([str(kind), *(f"{key}={value}" for key, value in event.items() if key not in known)])


def is_alarming(event: Event) -> bool:
    return event.get("event") in ALARMING


ROUTINE = 10
"""More lasting checkpoints than this are a routine, and none of them a milestone. The same holds for changes of
clients."""


@dataclass(frozen=True)
class Milestone:
    """At `round`, half-way to the next for what happened between two; `method`: of a switch to another one."""

    round: float
    kind: Literal["switch", "fork", "checkpoint", "clients", "data"]
    method: str | None = None


def milestones(run: SessionData) -> list[Milestone]:
    """By round: switches (without a method: of settings), the fork, changes of the timeline, old checkpoints."""
    found = list[Milestone]()
    for event in run.events:
        match event.get("event"):
            case "switched":
                method = None if event.get("before") == event.get("method") else str(event["method"])
                found.append(Milestone(event["round"] + 0.5, "switch", method))
            case "forked" if event.get("round", 0) > 0:
                found.append(Milestone(event["round"] + 0.5, "fork"))
    lasting = run.checkpoints[: -int(run.config.get("checkpoint", {}).get("keep_last") or 1)]
    kept = [Milestone(round, "checkpoint") for round in lasting if round > 0]
    changed = [
        Milestone(record["round"] - 0.5, "clients" if change["joined"] or change["left"] else "data")
        for record in run.records
        if (change := record.get("timeline")) is not None
    ]
    for routine in (kept, changed):
        found += routine if len(routine) <= ROUTINE else []
    return sorted(found, key=lambda each: each.round)


def switches(run: SessionData) -> list[Switch]:
    """The switches that a checkpoint covers, in order."""
    return [
        Switch(
            each["from_round"],
            each["method"]["name"],
            each["before"],
            tuple(each["changes"]),
            each["adopted"],
        )
        for each in run.history
        if "before" in each
    ]


WINDOW = 10
"""The rounds on each side of a change, at most."""


@dataclass(frozen=True)
class Window:
    """Rounds `first` to `last` of a session, under one method. All values are means over the rounds; None: unknown.

    accuracy: 0…1, over the evaluated rounds. change: of the accuracy per round, from the first to the last of these.
    bytes: up and down. simulated: seconds of the computed clock.
    """

    session: str
    method: str
    first: int
    last: int
    accuracy: float | None
    change: float | None
    bytes: float
    seconds: float
    simulated: float | None

    @property
    def rounds(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Effect:
    """A change after `round`: a switch, or a fork with or without changes.

    before, after: the session's rounds on both sides, as far as nothing else changes. beside: the rounds of the fork's
    parent over the same time, as many as the fork has. None without a round. parent: its name.
    """

    round: int
    kind: Literal["switch", "fork"]
    changes: tuple[str, ...]
    before: Window | None
    after: Window | None
    beside: Window | None = None
    parent: str | None = None


def read_effects(run: SessionData) -> list[Effect]:
    """The effects of a session's changes, the newest first. The parent of a fork is read if it is in the folder."""
    about, parent = run.document.get("parent"), None
    folder = parent_folder(about, checkpoints.sessions_folder(run.folder)) if about else None
    if folder is not None:
        with suppress(SessionUnreadable, DiskError, OSError):
            parent = read_overview(folder)
    return effects(run, parent)


def effects(run: SessionData, parent: SessionData | None = None, window: int = WINDOW) -> list[Effect]:
    about, changes = run.document.get("parent"), _changes(run)
    found = []
    for round, (kind, what) in changes.items():
        first = max([round - window, *(each for each in changes if each < round), 0]) + 1
        last = min([round + window, run.totals.rounds, *(each for each in changes if each > round)])
        beside = name = None
        if kind == "fork" and about is not None:
            name = about["name"]
            if parent is not None:
                name = parent.name  # it may have been renamed
                ends = [each for each in _changes(parent) if each > round]
                beside = _window(parent, round + 1, min([round + window, *ends]))
                if beside is not None and last > round:  # as many rounds as the fork has
                    beside = _window(parent, round + 1, min(beside.last, last))
        before, after = _window(run, first, round), _window(run, round + 1, last)
        found.append(Effect(round, kind, what, before, after, beside, name))
    return found[::-1]


def _changes(run: SessionData) -> dict[int, tuple[Literal["switch", "fork"], tuple[str, ...]]]:
    """The session's fork and switches by their rounds, oldest first. Changes at one round are one."""
    found: dict[int, tuple[Literal["switch", "fork"], tuple[str, ...]]] = {}

    def add(round: int, kind: Literal["switch", "fork"], changes: Sequence[Any]) -> None:
        kind, before = found.get(round, (kind, ()))
        found[round] = kind, (*before, *(each for each in map(str, changes) if each not in before))

    if (about := run.document.get("parent")) is not None:
        made = (event.get("changes", []) for event in run.events if event["event"] == "forked")
        add(about["round"], "fork", next(made, []))
    for entry in run.history:
        if "before" in entry:
            add(entry["from_round"] - 1, "switch", entry["changes"])
    for event in run.events:  # the newest one is in no checkpoint yet
        if event["event"] == "switched":
            add(event["round"], "switch", event["changes"])
    return dict(sorted(found.items()))


def _window(run: SessionData, first: int, last: int) -> Window | None:
    """The means over rounds `first` to `last`, or to the last finished one; None without any."""
    last = min(last, run.totals.rounds)
    if first > last:
        return None
    totals, rows = run.totals, slice(first - 1, last)
    accuracy = totals["accuracy"][rows]
    known = np.flatnonzero(np.isfinite(accuracy))
    change = None
    if len(known) > 1:
        change = float(accuracy[known[-1]] - accuracy[known[0]]) / int(known[-1] - known[0])

    def per_round(since_start: Array) -> float:
        before = float(since_start[first - 2]) if first > 1 else 0.0
        return (float(since_start[last - 1]) - before) / (last - first + 1)

    clock = per_round(totals["simulated_seconds"])
    return Window(
        session=run.name,
        method=_method(run, first),
        first=first,
        last=last,
        accuracy=float(accuracy[known].mean()) if len(known) else None,
        change=change,
        bytes=per_round(totals.traffic),
        seconds=float(totals["seconds"][rows].mean()),
        simulated=clock if np.isfinite(clock) else None,
    )


def _method(run: SessionData, round: int) -> str:
    """The method of a round. The history tells it without the ledger."""
    begun = [(entry["from_round"], str(entry["method"]["name"])) for entry in run.history]
    switched = (event for event in run.events if event["event"] == "switched")
    begun += [(event["round"] + 1, str(event["method"])) for event in switched]
    return max((each for each in begun or run.methods if each[0] <= round), key=lambda each: each[0])[1]
