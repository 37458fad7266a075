"""Sessions as a family tree: forks under the session they were forked from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tui.cli.summary import Summary


@dataclass(frozen=True)
class Placed:
    """A session's line in the tree: `rule` is drawn before its name, `origin` says where it was forked."""

    summary: Summary
    rule: str = ""
    origin: str = ""


def tree(sessions: Sequence[Summary]) -> list[Placed]:
    """The sessions, oldest first, each followed by its forks. A fork whose parent is not among them is a root."""
    ordered = sorted(sessions, key=lambda each: (each.created or "", each.name))
    ids = {each.id for each in ordered if each.id}
    forks: dict[str, list[Summary]] = {}
    for each in ordered:
        if each.parent and each.parent["id"] in ids and each.parent["id"] != each.id:
            forks.setdefault(each.parent["id"], []).append(each)
    under = {each.path for siblings in forks.values() for each in siblings}
    placed = [line for each in ordered if each.path not in under for line in _branch(each, forks, "", "")]
    # What no root leads to says it descends from itself: files made by hand. It is listed all the same.
    reached = {line.summary.path for line in placed}
    return placed + [Placed(each, "", _origin(each)) for each in ordered if each.path not in reached]


def _branch(session: Summary, forks: dict[str, list[Summary]], rule: str, indent: str) -> Iterator[Placed]:
    gone = " (gone)" if session.parent and not rule else ""
    yield Placed(session, rule, _origin(session) + gone)
    children = forks.pop(session.id, []) if session.id else []  # a copied session has its original's id
    for child in children:
        last = child is children[-1]
        corner, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _branch(child, forks, indent + corner, indent + below)


def _origin(session: Summary) -> str:
    return f"{session.parent['name']}@{session.parent['round']}" if session.parent else ""


def course(session: Summary) -> str | None:
    """The methods in order, as 'fedlora→fedssa@12': fedssa from round 12 on."""
    if not session.history:
        return session.method
    first, *rest = session.history
    return "→".join([first["method"], *(f"{each['method']}@{each['from_round']}" for each in rest)])
