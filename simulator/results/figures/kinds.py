"""The figures that are drawn of several sessions, by the names that users know them by."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from simulator.results.analysis.caveats import unfinished
from simulator.results.analysis.gain import BASELINE, paired_sessions
from simulator.results.analysis.run import SessionData
from simulator.results.figures import accuracy, clients, gains, grouped, sensitivity

OF_SESSIONS: Mapping[str, Callable[..., Figure]] = {
    "accuracy": accuracy.over,
    "box": accuracy.boxes,
    "tradeoff": accuracy.tradeoff,
    "loss": accuracy.losses,
    "metrics": accuracy.metrics,
    "cka-curves": clients.cka_curves,
    "inco": clients.coefficients,
    "sensitivity": sensitivity.curve,
    "heatmap": sensitivity.heatmap,
    "gain-map": gains.gain_map,
    "gain-clients": gains.gain_clients,
    "critical-difference": gains.critical_difference,
    "pareto": gains.pareto,
}
"""Each takes the sessions, and by name what its own signature says."""


def notes(kind: str, runs: Sequence[SessionData], options: Mapping[str, Any]) -> list[str]:
    """What to know of a figure drawn with these options, in sentences."""
    if kind in ("gain-map", "gain-clients"):
        return [*paired_sessions(runs, options.get("baseline") or BASELINE)[1], *unfinished(runs)]
    along = (options["axis"],) if "axis" in options else tuple(options.get("axes", ()))
    by, target = options.get("by") or (), options.get("target")
    left_out = [] if target is None else accuracy.short_of(runs, by, target)
    return grouped.notes(runs, by, along) + left_out
