"""Where in a run something changed: switches, the fork it began with, its clients, checkpoints that are kept."""

from dataclasses import dataclass
from typing import Literal

from simulator.base.documents import Event
from simulator.base.record import Record
from simulator.results.analysis.run import SessionData

FEW = 10
"""More lasting checkpoints than this are a routine, and none of them a milestone. The same holds for changes of
clients."""


@dataclass(frozen=True)
class Milestone:
    """At `round`, half-way to the next for what happened between two; `method`: of a switch to another one."""

    round: float
    kind: Literal["switch", "fork", "checkpoint", "clients", "data"]
    method: str | None = None


def milestones(run: SessionData) -> list[Milestone]:
    """In order of round: switches (without a method: of settings), the fork, changes of `federation.timeline`, and
    checkpoints that outlast the newest.
    """
    found = [each for event in run.events if (each := _milestone(event)) is not None]
    lasting = run.checkpoints[: -int(run.config.get("checkpoint", {}).get("keep_last") or 1)]
    kept = [Milestone(round, "checkpoint") for round in lasting if round > 0]
    changed = [each for record in run.records if (each := _of_clients(record)) is not None]
    for routine in (kept, changed):
        found += routine if len(routine) <= FEW else []
    return sorted(found, key=lambda each: each.round)


def _of_clients(record: Record) -> Milestone | None:
    """Clients that joined, left, or got other data at the beginning of the round."""
    if (changes := record.get("timeline")) is None:
        return None
    moved = changes["joined"] or changes["left"]
    return Milestone(record["round"] - 0.5, "clients" if moved else "data")


@dataclass(frozen=True)
class Switch:
    """From `from_round` on the method, or the settings, were others; `adopted`: what became of the server's state."""

    from_round: int
    method: str
    before: str
    changes: tuple[str, ...]
    adopted: str | None


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


def _milestone(event: Event) -> Milestone | None:
    match event.get("event"):
        case "switched":
            replaced = event.get("before") != event.get("method")
            return Milestone(event["round"] + 0.5, "switch", str(event["method"]) if replaced else None)
        case "forked" if event.get("round", 0) > 0:
            return Milestone(event["round"] + 0.5, "fork")
    return None
