"""All details of a session, as `show` prints them and `hs.sessions.details` returns them."""

import math
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Command, SessionUnreadable, UnfinishedRound
from simulator.base.documents import Event
from simulator.base.nested import toml_value
from simulator.base.record import Record
from simulator.engine.progress import Switch
from simulator.results.analysis.clients import ClientResult, results
from simulator.results.analysis.comparison import Standing, standing
from simulator.results.analysis.events import Effect, read_effects, switches
from simulator.results.analysis.events import description as event_text
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import Divergence, well_formed
from simulator.results.analysis.overview import Summary, forks_of
from simulator.results.analysis.run import SessionData
from simulator.sessions.history import SETTINGS, younger
from simulator.sessions.reader import CheckedReader, parent_folder

__all__ = [
    "ClientResult",
    "Command",
    "Details",
    "Event",
    "Record",
    "Switch",
    "changeable_sections",
    "event_text",
    "toml_value",
]


@dataclass(frozen=True)
class Details:
    """All details in `htfl-sim show`. `record` is the chosen round's; None before the first."""

    run: SessionData
    summary: Summary
    record: Record | None
    forks: list[dict[str, Any]]
    """The session's forks in the same folder, each with its name and the round."""
    unfinished: UnfinishedRound | None
    effects: list[Effect]
    """What each switch, and the fork, changed: rounds before and after it, the newest first."""

    @classmethod
    def read(cls, folder: Path, round: int | None = None) -> "Details":
        """The details of the session in a folder, with the record of a round (None: the last).

        Raises SessionUnreadable if the session is damaged or has no record of the round.
        """
        run, about = read(folder), Summary.read(folder, sized=True)
        if about.error:
            raise SessionUnreadable(about.error)
        record = run.record(round)
        if round is not None and record is None:
            has = f"rounds 1 to {run.round}" if run.round else "no round yet"
            raise SessionUnreadable(f"{folder} has no record of round {round}; it has {has}.")
        reader = CheckedReader(folder)
        unfinished, parent = reader.unfinished_round(), reader.document["parent"]
        if parent and (origin := parent_folder(parent, checkpoints.sessions_folder(folder))):
            about = replace(about, parent={**parent, "name": checkpoints.name_of(origin)})
        return cls(run, about, record, forks_of(folder), unfinished, read_effects(run))

    @property
    def switches(self) -> list[Switch]:
        """Each switch to another method or other settings, in order."""
        return switches(self.run)

    @property
    def clients(self) -> list[ClientResult]:
        """Every client after the chosen round."""
        group = self.run.document["config"]["federation"]["group"]
        return results(self.record, group) if self.record else []

    @property
    def kept_clients(self) -> list[int]:
        """The clients of the unfinished round that have finished."""
        return kept_clients(self.unfinished) if self.unfinished else []

    @property
    def standing(self) -> Standing:
        """The session's target accuracy, and what it took to reach it."""
        return standing(self.run)

    @property
    def as_before(self) -> dict[str, Any]:
        """Settings that are newer than the session, with the values that it keeps."""
        return younger(self.run.document["config"])

    def well_formed(self) -> AbstractContextManager[None]:
        """Within it, missing parts of the session's files raise Damaged instead of Python's errors."""
        return well_formed(self.run.folder)

    def to_json(self) -> dict[str, Any]:
        """The details for programs: the whole accuracy curve, and the chosen round's ledger record."""
        run, unfinished, stands = self.run, self.unfinished, self.standing
        took = stands.reached
        costs = [None if math.isnan(each) else each for each in took.values()] if took else []
        names = ("round", "bytes", "flops", "seconds", "simulated", "joules")
        return self.summary.to_json() | {
            "config": run.document["config"],
            "settings": run.config,
            "switches": [asdict(switch) for switch in self.switches],
            "effects": [asdict(effect) for effect in self.effects],
            "children": self.forks,
            "pending": [asdict(command) for command in run.pending],
            "partial": unfinished and {"round": unfinished.round, "clients": self.kept_clients},
            "environment": run.document["environment"],
            "diverged": asdict(Divergence.of(run.totals)),
            "curve": [record["accuracy"]["mean"] for record in run.records],
            "target": {"accuracy": stands.target, "reached": took and dict(zip(names, costs, strict=True))},
            "record": self.record,
            "clients": [asdict(client) for client in self.clients],
            "checkpoints": run.checkpoints,
            "events": run.events,
            "event_faults": run.event_faults,
        }


def changeable_sections() -> tuple[str, ...]:
    """The sections of a configuration that a switch may change, except the method's."""
    return SETTINGS


def kept_clients(unfinished: UnfinishedRound) -> list[int]:
    """The clients of an unfinished round that have finished."""
    return sorted(int(client) for client in unfinished.note.get("clients", {}))
