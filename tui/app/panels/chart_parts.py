"""What the panels' charts have in common: marks where something changed, names, percentages, sizes in one unit."""

from collections.abc import Iterable

import numpy as np

from htfl_sim.analysis import Array, Curves, Record, SessionData, milestones
from tui.app.charts.figure import Figure, Mark, Series
from tui.common.formatting import size, size_unit

PERCENT = 100.0
"""What an accuracy is multiplied by to be drawn, with the unit "%"."""


def marks(run: SessionData) -> list[Mark]:
    """A vertical mark at every milestone of the run."""
    labels = {"switch": "settings", "fork": "fork", "checkpoint": "kept"}
    return [Mark(each.round, each.method or labels[each.kind]) for each in milestones(run)]


def named_clients(run: SessionData, clients: Iterable[int] | None = None) -> list[str]:
    """Clients by their id and model; all of them for None."""
    models = run.models
    return [f"{client} {models[client]}" for client in (range(len(models)) if clients is None else clients)]


def sizes(*bytes: Array) -> tuple[list[Array], str, float]:
    """Amounts of bytes in the unit of the largest, which is KiB at least; that unit, and how many bytes it is."""
    unit, one = size_unit(max(_most(*bytes), 1024))
    return [each / one for each in bytes], unit, one


def traffic(up: Array, down: Array) -> Figure:
    """Bytes sent up and down, by round. The axis begins at nothing, so that a change looks as large as it is."""
    amounts, unit, _ = sizes(up, down)
    series = [Series(name, amount) for name, amount in zip(("up", "down"), amounts, strict=True)]
    top = _most(*amounts) * 1.05 or 1.0
    return Figure(series, x_label="round", unit=unit, y_range=(0.0, top), over="rounds")


def steady(curves: Curves) -> bool:
    """Whether the same crosses the wire in every round, so that a line of it tells no more than its number."""
    return not (np.ptp(curves.up) or np.ptp(curves.down))


def in_each_round(record: Record) -> str:
    """What crosses the wire where it is the same in every round."""
    up, down = size(record["bytes"]["up"]), size(record["bytes"]["down"])
    return f"{up} up and down per round" if up == down else f"{up} up, {down} down per round"


def losses(mean: Array) -> Figure:
    """The mean training loss [n] of the clients that took part, by round."""
    rounds = np.flatnonzero(np.isfinite(mean))
    return Figure([Series("mean loss", mean[rounds], rounds + 1.0, key="l")], x_label="round", over="rounds")


def _most(*values: Array) -> float:
    return max((float(np.nanmax(one)) for one in values if np.isfinite(one).any()), default=0.0)
