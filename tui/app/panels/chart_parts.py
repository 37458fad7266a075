"""Common to the panels' charts: marks of changes, names, percentages, and sizes in one unit."""

from collections.abc import Iterable

import numpy as np

from simulator.base.record import Record
from simulator.base.sections import PARTS
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import best_round, change_over
from simulator.results.analysis.curves import Curves
from simulator.results.analysis.milestones import milestones
from simulator.results.analysis.parts import client_on_part, part_means
from simulator.results.analysis.run import SessionData
from tui.app.charts.figure import Figure, Mark, Series
from tui.app.view import View
from tui.common.formatting import NONE, at_round, percent, points, size, size_unit

NO_SESSION = "No session is open. Press n to start a run or s to list sessions."
OPENING = "Opening the session…"
FIRST_CKA = "CKA is first measured after round 1."
PERCENT = 100.0
"""An accuracy is multiplied by this, with the unit "%"."""
RECENT = 5
"""Rounds whose change shows whether the accuracy still rises."""


def unread(view: View) -> str | None:
    """Why nothing is known of the session shown; None if it has been read."""
    if not view.run.name:
        return NO_SESSION
    return view.run.error or (None if view.run.document else OPENING)


def awaited_cka(view: View) -> str:
    """When CKA is first measured, in a run that measures it by default and has no round yet; else nothing."""
    settings = view.run.config.get("cka", {})
    return FIRST_CKA if not view.run.round and settings.get("every", 0) is None else ""


def marks(run: SessionData) -> list[Mark]:
    """A vertical mark at every milestone of the run."""
    labels = {
        "switch": "settings",
        "fork": "fork",
        "checkpoint": "kept",
        "clients": "clients",
        "data": "data",
    }
    return [Mark(each.round, each.method or labels[each.kind]) for each in milestones(run)]


def named_clients(run: SessionData, clients: Iterable[int] | None = None) -> list[str]:
    """Clients by their id and model; all of them for None."""
    models = run.models
    return [f"{client} {models[client]}" for client in (range(len(models)) if clients is None else clients)]


def sizes(*bytes: Array) -> tuple[list[Array], str, float]:
    """Bytes in the unit of the largest value, at least KiB; that unit, and its number of bytes."""
    unit, one = size_unit(max(_most(*bytes), 1024))
    return [each / one for each in bytes], unit, one


def traffic(up: Array, down: Array) -> Figure:
    """Bytes sent up and down, by round. The axis starts at 0, so that a change keeps its proportion."""
    amounts, unit, _ = sizes(up, down)
    series = [Series(name, amount, key=name[0]) for name, amount in zip(("up", "down"), amounts, strict=True)]
    top = _most(*amounts) * 1.05 or 1.0
    return Figure(series, x_label="round", unit=unit, y_range=(0.0, top), over="rounds")


def steady(curves: Curves) -> bool:
    """Whether every round sends the same bytes, so that a line would show only one number."""
    return not (np.ptp(curves["bytes_up"]) or np.ptp(curves["bytes_down"]))


def silent(curves: Curves) -> bool:
    """Whether no round sends anything, as in Standalone."""
    return steady(curves) and not (curves["bytes_up"].any() or curves["bytes_down"].any())


def in_each_round(record: Record) -> str:
    """The sentence for the same bytes in every round."""
    if not (record["bytes"]["up"] or record["bytes"]["down"]):
        return f"{record['method']} sends nothing"
    up, down = size(record["bytes"]["up"]), size(record["bytes"]["down"])
    return f"{up} up and down per round" if up == down else f"{up} up, {down} down per round"


def at_best(accuracies: Array) -> str:
    """The best of accuracies by round [n], with its round."""
    best, when = best_round(accuracies)
    return at_round(best, when) if when else NONE


def recent(accuracies: Array) -> tuple[str, ...]:
    """The last of accuracies by round [n], with its changes in a round and over RECENT rounds. Then in fewer words.

    One change alone is never that over several rounds if the last round went the other way.
    """
    last, found = percent(accuracies[-1]), [change_over(accuracies, wanted) for wanted in (1, RECENT)]
    said = [
        f"{points(change)} pp in {f'{rounds} rounds' if rounds > 1 else 'a round'}"
        for change, rounds in dict.fromkeys(found)
        if rounds
    ]
    if not said:
        return (last,)
    alone = said[-1] if found[0][0] * found[1][0] >= 0 else said[0]
    return f"{last} ({', '.join(said)})", f"{last} ({alone})", last


def titled(measure: str) -> str:
    """A measure of the ledger in words."""
    return "F1" if measure == "f1" else measure


def measures(view: View, measure: str, brief: bool = False) -> Figure:
    """The means of a measure on each part of the split by round, and of the loss also in training.

    Pinned clients have their values on the test part. brief: without clients and marks.
    """
    run, models, title = view.run, view.run.models, titled(measure)
    found = [("training loss", "l", view.curves.loss.means())] if measure == "loss" else []
    found += [(f"{part} {title}", part[0], part_means(run.records, part, measure)) for part in PARTS]
    pinned = [] if brief else [client for client in sorted(view.pinned) if client < view.curves.clients]
    found += [
        (
            f"{models[client]} test {title}",
            str(client),
            client_on_part(run.records, "test", measure, client),
        )
        for client in pinned
    ]
    unit, scale = ("%", PERCENT) if measure == "f1" else ("", 1.0)
    series = [drawn for name, key, values in found if len((drawn := by_round(name, key, values * scale)).y)]
    return Figure(series, None, [] if brief else marks(run), "round", unit, over="rounds")


def by_round(name: str, key: str, values: Array) -> Series:
    """The line of one number per round [n], over the rounds that have it."""
    rounds = np.flatnonzero(np.isfinite(values))
    return Series(name, values[rounds], rounds + 1.0, pinned=True, key=key)


def _most(*values: Array) -> float:
    return max((float(np.nanmax(one)) for one in values if np.isfinite(one).any()), default=0.0)
