"""Many sessions at once, each read no further than is asked of it: a listing, a table of a hundred, a tree of forks."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import checkpoints
from checkpoints import Damaged, DiskError, SessionUnreadable, shown
from simulator.base.documents import Entry
from simulator.base.record import Record, legible
from simulator.results.analysis.ledger import Divergence, Lines, totals_of, well_formed
from simulator.results.analysis.run import SessionData
from simulator.sessions.history import settings_in_force
from simulator.sessions.reader import CheckedReader, parent_folder


class Since(TypedDict):
    """A method, and the round from which on it was in force."""

    from_round: int
    method: str


@dataclass(frozen=True)
class Summary:
    """One line of `htfl-sim sessions`. Accuracies are means over clients; `bytes` is the size on disk, if asked for.

    parent: {'id', 'name', 'round'} of the session it was forked from. history: each method, and from which round on.
    `rounds` and `method` are those in force. untrained: every client diverged in every round, so there is no accuracy.
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
        }
        with suppress(Damaged):  # that is for `verify` to say, and no reason not to list the session
            facts |= checkpoints.marks_of(folder)._asdict()
    return Summary(**asdict(here) | legible(facts))


def untrained(session: CheckedReader, last: Record | None) -> bool:
    """Whether every client diverged in every round up to `last`, the last record."""
    if last is None or len(last["participants"]) != len(last.get("diverged", ())):
        return False
    return Divergence.of(totals_of(session.records())).untrained > 0


def _methods(history: Sequence[Entry]) -> tuple[Since, ...]:
    """The history without the entries that changed settings of the same method."""
    found: list[Since] = []
    for entry in history:
        name = entry["method"]["name"]
        if not found or found[-1]["method"] != name:
            found.append({"from_round": entry["from_round"], "method": name})
    return tuple(found)


@dataclass(frozen=True)
class Fault:
    """A session that could not be read, and why."""

    folder: Path
    error: str


def read_overview(folder: Path) -> SessionData:
    """A session as it is now, its ledger verified and its totals read. Raises SessionUnreadable or DiskError."""
    session = CheckedReader(folder)
    kept, newest = tuple(session.rounds()), session.newest()
    history = legible(newest.history) if newest else []
    document = legible(session.document)
    ledger = Lines(folder, tuple(session.lines()), session.clients)
    with well_formed(folder):
        config: dict[str, Any] = settings_in_force(document, history)
        config["method"]["name"], config["data"]["dataset"]
    ledger.totals  # noqa: B018 - read now, so that damage is reported here
    return SessionData(
        folder,
        document=document,
        history=tuple(history),
        config=config,
        ledger=ledger,
        checkpoints=kept,
        state=session.state(),
    )


def read_overviews(
    folders: Iterable[Path], look: Callable[[Path], SessionData] = read_overview
) -> tuple[list[SessionData], list[Fault]]:
    """Those that can be read, in order, and the others. Hashing one overlaps reading the next. look: reads one."""

    def attempt(folder: Path) -> SessionData | Fault:
        try:
            return look(folder)
        except (SessionUnreadable, DiskError, OSError) as error:
            return Fault(folder, shown(str(error)))

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        found = list(pool.map(attempt, folders))
    runs = [each for each in found if isinstance(each, SessionData)]
    return runs, [each for each in found if isinstance(each, Fault)]


Origins = Mapping[str, tuple[str, int]]
"""Sessions by their ids: the name, and the number of first rounds that they have in common with another session."""


@dataclass(frozen=True)
class Branch:
    """A session's place in the tree."""

    summary: Summary
    last: tuple[bool, ...] = ()
    """From the root's children down to itself: whether each is the last of its siblings; () for a root."""
    orphan: bool = False
    """Whether the session it was forked from is not among them."""


def tree(sessions: Sequence[Summary]) -> list[Branch]:
    """The sessions, oldest first, each followed by its forks. A fork whose parent is not among them is a root."""
    ordered = sorted(sessions, key=lambda each: (each.created or "", each.name))
    ids = {each.id for each in ordered if each.id}
    forks: dict[str, list[Summary]] = {}
    for each in ordered:
        if each.parent and each.parent["id"] in ids and each.parent["id"] != each.id:
            forks.setdefault(each.parent["id"], []).append(each)
    under = {each.path for siblings in forks.values() for each in siblings}

    def branches(session: Summary, last: tuple[bool, ...]) -> Iterator[Branch]:
        yield Branch(session, last, orphan=session.parent is not None and not last)
        children = forks.pop(session.id, []) if session.id else []  # a copied session has its original's id
        for child in children:
            yield from branches(child, (*last, child is children[-1]))

    found = [branch for each in ordered if each.path not in under for branch in branches(each, ())]
    # What no root leads to says it descends from itself: files made by hand. It is listed all the same.
    reached = {branch.summary.path for branch in found}
    return found + [Branch(each) for each in ordered if each.path not in reached]


def with_parents(sessions: Sequence[Summary]) -> list[Summary]:
    """The sessions, each fork with the present name of its parent if that is among them: it may have been renamed."""
    names: dict[str | None, list[str]] = {}
    for each in sessions:
        names.setdefault(each.id, []).append(each.name)
    found = []
    for each in sessions:
        parent = each.parent
        known = names.get(parent["id"], []) if parent else []
        renamed = parent | {"name": known[0]} if parent and known and parent["name"] not in known else parent
        found.append(replace(each, parent=renamed))
    return found


def forks_of(folder: Path) -> list[dict[str, Any]]:
    """The sessions of the same folder that were forked from a session: name, and round. Damaged ones are left out."""
    id, beside, found = CheckedReader(folder).document["id"], [], []
    with suppress(DiskError):  # a folder that may be entered and not listed
        beside = checkpoints.sessions(checkpoints.sessions_folder(folder.resolve()))
    for path in beside:
        with suppress(SessionUnreadable, DiskError, OSError):
            parent = CheckedReader(path).parent
            if parent and parent["id"] == id:
                found.append({"name": shown(checkpoints.name_of(path)), "round": parent["round"]})
    return found


def origins(run: SessionData) -> Origins:
    """The session itself and those that it descends from, as far as their folders are there."""
    shared, folder = run.totals.rounds, run.folder
    found = {str(run.document.get("id", folder)): (run.name, shared)}
    about = run.document.get("parent")
    while about is not None and about["id"] not in found:
        shared = min(shared, about["round"])
        found[about["id"]] = about["name"], shared
        place = parent_folder(about, checkpoints.sessions_folder(folder.resolve()))
        if place is None:
            break
        with suppress(SessionUnreadable, DiskError, OSError):
            about, folder = CheckedReader(place).document["parent"], place
    return found
