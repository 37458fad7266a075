"""Sessions as a family tree: forks under the session they were forked from."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import DiskError, SessionUnreadable, shown
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.summary import Summary
from simulator.sessions.reader import CheckedReader, parent_folder

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
    found = [branch for each in ordered if each.path not in under for branch in _branches(each, forks, ())]
    # What no root leads to says it descends from itself: files made by hand. It is listed all the same.
    reached = {branch.summary.path for branch in found}
    return found + [Branch(each) for each in ordered if each.path not in reached]


def with_parents(sessions: Sequence[Summary]) -> list[Summary]:
    """The sessions, each fork with the present name of its parent if that is among them: it may have been renamed."""
    names: dict[str | None, list[str]] = {}
    for each in sessions:
        names.setdefault(each.id, []).append(each.name)

    def named(fork: Summary) -> Summary:
        parent = fork.parent
        found = names.get(parent["id"], ()) if parent else ()
        if parent is None or not found or parent["name"] in found:
            return fork
        return replace(fork, parent={**parent, "name": found[0]})

    return list(map(named, sessions))


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


def _branches(session: Summary, forks: dict[str, list[Summary]], last: tuple[bool, ...]) -> Iterator[Branch]:
    yield Branch(session, last, orphan=session.parent is not None and not last)
    children = forks.pop(session.id, []) if session.id else []  # a copied session has its original's id
    for child in children:
        yield from _branches(child, forks, (*last, child is children[-1]))
