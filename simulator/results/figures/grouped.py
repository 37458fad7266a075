"""Sessions as the lines of a chart: a group's mean over its seeds, with a band of one sample standard deviation."""

from collections.abc import Sequence
from math import log10

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.units import SIZES
from simulator.results.analysis.axes import checked, groups, key_of, varying
from simulator.results.analysis.caveats import caveats, listed, titled
from simulator.results.analysis.costs import SIMULATED, Cost, energy_differs
from simulator.results.analysis.ledger import Divergence
from simulator.results.analysis.measures import Line, Values, averaged
from simulator.results.analysis.run import SessionData
from simulator.results.figures import style
from simulator.results.figures.palette import Look, in_order, looks_of

By = Sequence[str] | str


def axes_of(runs: Sequence[SessionData], by: By) -> tuple[str, ...]:
    """The axes to group by; none said: what the sessions differ in. Raises ConfigError for an unknown one."""
    if not runs:
        raise ConfigError("a figure needs at least one session.")
    return checked(by, runs) or varying(runs) or ("session",)


def notes(runs: Sequence[SessionData], by: By, along: Sequence[str] = ()) -> list[str]:
    """What to know of the groups of a figure, in sentences; `along`: axes that it is drawn over."""
    axes = checked((*along, *([by] if isinstance(by, str) else by)), runs) if along else axes_of(runs, by)
    return caveats(runs, axes)


def grouped(runs: Sequence[SessionData], by: By) -> dict[str, list[SessionData]]:
    """The sessions by the label of their group, without groups that have no score; raises ConfigError if none has."""
    found = every_group(runs, by)
    kept = {label: group for label, group in found.items() if not is_untrained(group)}
    if not kept:
        raise ConfigError(
            f"{listed(list(found))}: every client of a session diverged in every round, so there is no score to draw. "
            "Name other sessions."
        )
    return kept


def is_untrained(runs: Sequence[SessionData]) -> bool:
    """Whether every client of one of the sessions diverged in every round. A mean over the others would hide that."""
    return any(Divergence.of(run.totals).untrained for run in runs)


def every_group(runs: Sequence[SessionData], by: By) -> dict[str, list[SessionData]]:
    """The sessions by the label of their group, in the order in which they come, methods as their papers call them."""
    axes = axes_of(runs, by)
    return {style.label(titled(axes, key)): group for key, group in groups(runs, axes).items()}


def looks(runs: Sequence[SessionData], by: By) -> dict[str, Look]:
    """How each group is drawn, by its label: as its method, where groups are of several; else by its place."""
    found = every_group(runs, by)
    of = [{key_of(run, ("method",))[0] for run in group} for group in found.values()]
    methods = looks_of([each.pop() if len(each) == 1 else None for each in of])
    return dict(zip(found, methods or map(in_order, range(len(found))), strict=True))


def lines(runs: Sequence[SessionData], by: By, values: Values, x: Cost = "rounds") -> list[Line]:
    """A line a group; groups in which some session has no value are left out."""
    if x in SIMULATED and (
        without := [run.name for run in runs if np.isnan(run.totals["simulated_seconds"]).any()]
    ):
        raise ConfigError(
            f"{without[0]} has no computed clock, so nothing can be drawn over {x}. Run it with "
            "`system.devices=phone`, or choose another x axis."
        )
    if x == "joules" and (differ := energy_differs({run.name: [run.config] for run in runs})):
        raise ConfigError(f"{differ[0]} Choose another x axis, or run the sessions anew.")
    found = [averaged(label, group, values, x) for label, group in grouped(runs, by).items()]
    return [line for line in found if line.x.size]


_UNITS = {
    "seconds": (("h", 3600.0), ("min", 60.0), ("s", 1.0)),
    "joules": (("MJ", 1e6), ("kJ", 1e3), ("J", 1.0)),
}


def scaled(x: Cost, most: float) -> tuple[str, float]:
    """What an axis of this cost is called, and by what its numbers are divided: 'traffic, MiB', 1,048,576."""
    match x:
        case "rounds":
            return "round", 1.0
        case "bytes":
            power = next((p for p in range(len(SIZES) - 1, 0, -1) if most >= 2 * 1024**p), 0)
            return f"traffic, {SIZES[power]}", 1024.0**power
        case "FLOPs":
            power = int(log10(most)) // 3 * 3 if most >= 1000 else 0
            raised = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))
            return f"computation, {f'10{raised} ' if power else ''}FLOPs", 10.0**power
    units = _UNITS["joules" if x == "joules" else "seconds"]
    unit, size = next((each for each in units if most >= 2 * each[1]), units[-1])
    name = {"seconds": "time", "simulated seconds": "simulated time", "joules": "energy"}[x]
    return f"{name}, {unit}", size
