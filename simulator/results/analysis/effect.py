"""What changed at each switch and fork: accuracy, bytes, and seconds of ten rounds before it and ten after it.

    for effect in read_effects(run):       # the newest first
        effect.after.accuracy - effect.before.accuracy
        effect.beside                      # the same rounds of the parent, which went on without the change

Later rounds have also trained longer. So before and after alone do not show what the change caused: the same rounds of
the parent do.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.overview import read_overview
from simulator.results.analysis.run import SessionData
from simulator.sessions.reader import parent_folder

WINDOW = 10
"""The rounds on each side of a change, at most."""


@dataclass(frozen=True)
class Window:
    """Rounds `first` to `last` of a session, under one method. All values are means over the rounds.

    accuracy: 0…1, over the rounds that were evaluated; None without any. change: of the accuracy per round, from the
    first to the last of these; None with fewer than two. bytes: up and down. simulated: seconds of the computed clock;
    None without one.
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

    before, after: the session's rounds on both sides, as far as nothing else changes; None without a round. beside: the
    rounds of the fork's parent over the same time, as many as the fork has; None if it has none. parent: its name.
    """

    round: int
    kind: Literal["switch", "fork"]
    changes: tuple[str, ...]
    before: Window | None
    after: Window | None
    beside: Window | None = None
    parent: str | None = None


@dataclass(frozen=True)
class _Change:
    round: int
    kind: Literal["switch", "fork"]
    changes: tuple[str, ...]


def read_effects(run: SessionData) -> list[Effect]:
    """The effects of a session's changes, the newest first. The parent of a fork is read if it is in the folder."""
    return effects(run, read_parent(run))


def effects(run: SessionData, parent: SessionData | None = None, window: int = WINDOW) -> list[Effect]:
    """The effects of a session's changes, the newest first."""
    about, changes = run.document.get("parent"), _changes(run)
    bounds = [each.round for each in changes]
    found = []
    for place, each in enumerate(changes):
        first = max(each.round - window, *bounds[:place], 0) + 1
        last = min([each.round + window, run.totals.rounds, *bounds[place + 1 :]])
        beside = name = None
        if each.kind == "fork" and about is not None:
            name = about["name"]
            if parent is not None:
                name = parent.name  # it may have been renamed
                ends = [other.round for other in _changes(parent) if other.round > each.round]
                beside = _window(parent, each.round + 1, min([each.round + window, *ends]))
                if beside is not None and last > each.round:  # as many rounds as the fork has
                    beside = _window(parent, each.round + 1, min(beside.last, last))
        before, after = _window(run, first, each.round), _window(run, each.round + 1, last)
        found.append(Effect(each.round, each.kind, each.changes, before, after, beside, name))
    return found[::-1]


def read_parent(run: SessionData) -> SessionData | None:
    """The session that a session was forked from; None if it was not, or if its folder lacks the parent."""
    about = run.document.get("parent")
    if about is None or (folder := parent_folder(about, checkpoints.sessions_folder(run.folder))) is None:
        return None
    with suppress(SessionUnreadable, DiskError, OSError):
        return read_overview(folder)
    return None


def _changes(run: SessionData) -> list[_Change]:
    """The session's fork and switches by their rounds, oldest first. Changes at one round are one."""
    found: dict[int, _Change] = {}

    def add(round: int, kind: Literal["switch", "fork"], changes: Sequence[Any]) -> None:
        before = found.get(round)
        more = [each for each in map(str, changes) if before is None or each not in before.changes]
        found[round] = _Change(
            round, before.kind if before else kind, (*(before.changes if before else ()), *more)
        )

    if (about := run.document.get("parent")) is not None:
        made = next((event.get("changes", []) for event in run.events if event["event"] == "forked"), [])
        add(about["round"], "fork", made)
    for entry in run.history:
        if "before" in entry:
            add(entry["from_round"] - 1, "switch", entry["changes"])
    for event in run.events:  # the newest one is in no checkpoint yet
        if event["event"] == "switched":
            add(event["round"], "switch", event["changes"])
    return [found[round] for round in sorted(found)]


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
    clock = _per_round(totals["simulated_seconds"], first, last)
    return Window(
        session=run.name,
        method=_method(run, first),
        first=first,
        last=last,
        accuracy=float(accuracy[known].mean()) if len(known) else None,
        change=change,
        bytes=_per_round(totals["bytes_up_total"] + totals["bytes_down_total"], first, last),
        seconds=float(totals["seconds"][rows].mean()),
        simulated=clock if np.isfinite(clock) else None,
    )


def _method(run: SessionData, round: int) -> str:
    """The method of a round. The history tells it without the ledger."""
    begun = [(entry["from_round"], str(entry["method"]["name"])) for entry in run.history]
    begun += [
        (event["round"] + 1, str(event["method"])) for event in run.events if event["event"] == "switched"
    ]
    return max((each for each in begun or run.methods if each[0] <= round), key=lambda each: each[0])[1]


def _per_round(totals: Array, first: int, last: int) -> float:
    """The mean over rounds of what `totals` adds up since round 1."""
    before = float(totals[first - 2]) if first > 1 else 0.0
    return (float(totals[last - 1]) - before) / (last - first + 1)
