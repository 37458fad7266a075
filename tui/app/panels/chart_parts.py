"""Common to the panels' charts: marks of changes, names, percentages, and sizes in one unit."""

from collections.abc import Iterable

import numpy as np

from htfl_sim.analysis import Array, Curves, Record, SessionData, milestones
from tui.app.charts.figure import Figure, Mark, Series
from tui.common.formatting import size, size_unit

PERCENT = 100.0
"""An accuracy is multiplied by this, with the unit "%"."""


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
    series = [Series(name, amount) for name, amount in zip(("up", "down"), amounts, strict=True)]
    top = _most(*amounts) * 1.05 or 1.0
    return Figure(series, x_label="round", unit=unit, y_range=(0.0, top), over="rounds")


def steady(curves: Curves) -> bool:
    """Whether every round sends the same bytes, so that a line would show only one number."""
    return not (np.ptp(curves.up) or np.ptp(curves.down))


def in_each_round(record: Record) -> str:
    """The sentence for the same bytes in every round."""
    up, down = size(record["bytes"]["up"]), size(record["bytes"]["down"])
    return f"{up} up and down per round" if up == down else f"{up} up, {down} down per round"


def losses(mean: Array) -> Figure:
    """The mean training loss [n] of the participants, by round."""
    rounds = np.flatnonzero(np.isfinite(mean))
    return Figure([Series("mean loss", mean[rounds], rounds + 1.0, key="l")], x_label="round", over="rounds")


def _most(*values: Array) -> float:
    return max((float(np.nanmax(one)) for one in values if np.isfinite(one).any()), default=0.0)
