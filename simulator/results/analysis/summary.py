"""A session in a few facts; damage becomes an error that names the session.

A listing of hundreds of sessions reads session.json, the newest checkpoint and the ledger's last line of each, no more.
The whole ledger is read only if no client trained in the last round.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable, shown
from simulator.base.documents import Entry
from simulator.base.record import Record, legible
from simulator.results.analysis.divergence import Divergence
from simulator.results.analysis.well_formed import well_formed
from simulator.sessions.reader import CheckedReader


class Since(TypedDict):
    """A method, and the round from which on it was in force."""

    from_round: int
    method: str


@dataclass(frozen=True)
class Summary:
    """One line of `htfl-sim sessions`. Accuracies are means over clients; `bytes` is the size on disk, if asked for.

    `parent` is {'id', 'name', 'round'} of the session it was forked from; `history` has the method and from which
    round on, once for every switch to another; `rounds` and `method` are those in force. `untrained`: every client
    diverged in every round, so that there is no accuracy.
    """

    name: str
    path: str
    state: str
    id: str | None = None
    parent: dict[str, Any] | None = None
    method: str | None = None
    history: tuple[Since, ...] = ()
    dataset: str | None = None
    round: int | None = None
    rounds: int | None = None
    accuracy: float | None = None
    best: float | None = None
    best_round: int | None = None
    created: str | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    bytes: int | None = None
    error: str | None = None
    untrained: bool = False

    @classmethod
    def read(cls, folder: Path, sized: bool = False) -> "Summary":
        """What a session came to; one that cannot be read is 'damaged' and says why."""
        size = checkpoints.size_on_disk(folder) if sized else None
        here = cls(checkpoints.name_of(folder), str(folder), "damaged", bytes=size)
        try:
            return _summary(here, folder)
        except (SessionUnreadable, DiskError, OSError) as error:
            return cls(**asdict(here) | {"error": shown(str(error))})

    @property
    def methods(self) -> tuple[tuple[int, str], ...]:
        """The methods in order, each with the round from which on it is in force; none of a damaged session."""
        return tuple((each["from_round"], each["method"]) for each in self.history)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _summary(here: Summary, folder: Path) -> Summary:
    session = CheckedReader(folder)
    manifest = session.newest()
    last = session.last_record(manifest)
    failed = untrained(session, last)
    scored = None if failed else last
    with well_formed(folder):
        document = session.document
        config = document["config"]
        history = manifest.history if manifest else []
        settings = history[-1]["settings"] if history and "settings" in history[-1] else config
        methods = _methods(history) or ({"from_round": 1, "method": config["method"]["name"]},)
        facts = {
            "state": session.state(),
            "id": document["id"],
            "parent": document["parent"],
            "method": methods[-1]["method"],
            "history": methods,
            "dataset": Path(config["data"]["dataset"]).name,
            "round": last["round"] if last else 0,
            "rounds": settings["rounds"],
            "accuracy": scored["accuracy"]["mean"] if scored else None,
            "best": scored["accuracy"]["best_mean"] if scored else None,
            "best_round": session.best_round(scored),
            "created": document["created"],
            "untrained": failed,
            **_marks(folder)._asdict(),
        }
    return Summary(**asdict(here) | legible(facts))


def untrained(session: CheckedReader, last: Record | None) -> bool:
    """Whether every client diverged in every round up to `last`, the last record."""
    if last is None:
        return False
    return (
        len(last["participants"]) == len(last.get("diverged", ()))
        and Divergence.of_records(session.records()).untrained > 0
    )


def _marks(folder: Path) -> checkpoints.Marks:
    """None where the file is damaged: that is for `verify` to say, and no reason not to list the session."""
    with suppress(Damaged):
        return checkpoints.marks_of(folder)
    return checkpoints.Marks()


def _methods(history: Sequence[Entry]) -> tuple[Since, ...]:
    """The history without the entries that changed settings of the same method."""
    found: list[Since] = []
    for entry in history:
        name = entry["method"]["name"]
        if not found or found[-1]["method"] != name:
            found.append({"from_round": entry["from_round"], "method": name})
    return tuple(found)
