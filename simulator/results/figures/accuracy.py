"""Accuracies: over rounds, bytes, operations or seconds; of single clients; against what they cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Annotation

from simulator.base.errors import ConfigError
from simulator.results.analysis.costs import Cost, costs
from simulator.results.analysis.curves import Array
from simulator.results.analysis.measures import Line
from simulator.results.analysis.run import SessionData
from simulator.results.figures import style
from simulator.results.figures.grouped import By, grouped, lines, looks, scaled
from simulator.results.figures.palette import Look
from simulator.results.figures.style import Width

_MARGIN = 0.6
"""Inches that the y axis takes."""
NOT_EVALUATED = "none of these sessions has an accuracy in all of its group; run them further."


def over(runs: Sequence[SessionData], *, x: Cost = "rounds", by: By = (), width: Width = "column") -> Figure:
    """Mean test accuracy over clients against rounds or what they cost; bands are ± 1 sample std over seeds."""
    found = lines(runs, by, lambda run: run.totals.mean, x)
    if not found:
        raise ConfigError(NOT_EVALUATED)
    figure, axes = style.blank(width)
    with style.styled():
        plot = axes[0, 0]
        label, unit = scaled(x, max(float(line.x.max()) for line in found))
        look = looks(runs, by)
        for line in found:
            band(plot, look[line.label], line, 100.0, unit)
        plot.set(xlabel=label, ylabel="mean test accuracy, %")
        if x == "rounds":
            style.whole_numbers(plot)
        plot.grid(True)
        style.legend(plot, len(found))
    return figure


def band(plot: Axes, look: Look, line: Line, scale: float = 1.0, unit: float = 1.0) -> None:
    """A line with its band, in the color, dashes, and mark of its look."""
    x, mean = line.x / unit, line.mean * scale
    plot.plot(x, mean, label=line.label, markevery=max(1, len(x) // 6), **style.stroke(look))
    if line.std is not None:
        spread = line.std * scale
        plot.fill_between(x, mean - spread, mean + spread, color=style.shade(look), alpha=0.18, linewidth=0)


def boxes(
    runs: Sequence[SessionData], *, by: By = (), round: int | None = None, width: Width = "column"
) -> Figure:
    """Test accuracies of single clients after a round (None: the last), of all seeds of a group; a diamond is the mean.

    A box spans the quartiles, its line is the median, whiskers reach to the last client within 1.5 of its height.
    """
    found = {label: _clients(group, round) for label, group in grouped(runs, by).items()}
    found = {label: values for label, values in found.items() if values.size}
    if not found:
        raise ConfigError(NOT_EVALUATED)
    figure, axes = style.blank(width)
    with style.styled():
        plot = axes[0, 0]
        drawn: dict[str, Any] = plot.boxplot(
            [100 * values for values in found.values()],
            widths=0.55,
            patch_artist=True,
            showmeans=True,
            medianprops={"color": "black", "linewidth": 1.0},
            meanprops={
                "marker": "D",
                "markerfacecolor": "white",
                "markeredgecolor": "black",
                "markersize": 4,
            },
            flierprops={"marker": "o", "markersize": 2.5, "markeredgewidth": 0.5},
            whiskerprops={"linewidth": 0.8},
            capprops={"linewidth": 0.8},
        )
        look = looks(runs, by)
        for label, box in zip(found, drawn["boxes"], strict=True):
            box.set(facecolor=style.shade(look[label]), alpha=0.55, linewidth=0.8)
        plot.set(ylabel="test accuracy of a client, %")
        style.named(plot, range(1, len(found) + 1), list(found), style.WIDTHS[width] - _MARGIN)
        plot.grid(True, axis="y")
    return figure


def tradeoff(
    runs: Sequence[SessionData], *, by: By = (), target: float | None = None, width: Width = "column"
) -> Figure:
    """Best mean test accuracy against traffic, a disc's area is the computation; each up to that round, over seeds.

    With a `target` (0…1) the cost is what it took to reach it; groups in which a session did not are left out.
    """
    points = []
    for label, group in grouped(runs, by).items():
        spent = [each for run in group if (each := _at_best(run, target)) is not None]
        if len(spent) == len(group):
            points.append((label, *np.mean(spent, axis=0)))
    if not points:
        raise ConfigError("In no group did all sessions reach the target." if target else NOT_EVALUATED)
    figure, axes = style.blank(width)
    with style.styled():
        plot = axes[0, 0]
        unit_name, unit = scaled("bytes", max(point[2] for point in points))
        most = max(point[3] for point in points) or 1.0
        names: list[Annotation] = []
        look = {label: each for label, each in looks(runs, by).items() if label in {one[0] for one in points}}
        hatch = style.hatches(look.values())
        for label, accuracy, sent, computed in points:
            area = 30 + 370 * computed / most
            plot.scatter(
                sent / unit, 100 * accuracy, s=area, facecolor=style.shade(look[label]), alpha=0.55, edgecolors="black",
                linewidths=0.6, label=label, hatch=hatch[look[label]],
            )  # fmt: skip
            names.append(plot.annotate(
                label, (sent / unit, 100 * accuracy), (0, np.sqrt(area) / 2 + 2), textcoords="offset points",
                ha="center", va="bottom", fontsize=7,
            ))  # fmt: skip
        flops, power = scaled("FLOPs", most)
        said = (
            f"largest disc: {most / power:.3g}{flops.removeprefix('computation, ').replace('10', '·10', 1)}"
        )
        plot.set(xlabel=unit_name, ylabel="test accuracy, %", title=said)
        plot.margins(0.2, 0.25)
        plot.set_xticks([tick for tick in plot.get_xticks() if tick >= 0], minor=False)
        plot.grid(True)
        if _run_together(figure, names):
            discs = [
                Patch(facecolor=style.shade(each), alpha=0.55, edgecolor="black", hatch=hatch[each])
                for each in (look[name.get_text()] for name in names)
            ]
            style.legend_above(figure, discs, [name.get_text() for name in names])
            for name in names:
                name.remove()
    return figure


def short_of(runs: Sequence[SessionData], by: By, target: float) -> list[str]:
    """A sentence for each group in which a session has not reached the target."""
    missing = {
        label: f"{sum(_at_best(run, target) is None for run in group)} of {len(group)}"
        for label, group in grouped(runs, by).items()
    }
    return [
        f"{label} is left out: {number} sessions did not reach {100 * target:g} %."
        for label, number in missing.items()
        if not number.startswith("0 ")
    ]


def _run_together(figure: Figure, names: Sequence[Annotation]) -> bool:
    """Whether names beside their discs would cover each other, or leave the figure."""
    figure.draw_without_rendering()
    boxes = [name.get_window_extent() for name in names]
    return any(
        box.x0 < 0 or box.x1 > figure.bbox.x1 or any(box.overlaps(other) for other in boxes[:place])
        for place, box in enumerate(boxes)
    )


def _at_best(run: SessionData, target: float | None) -> tuple[float, float, float] | None:
    """Accuracy, bytes and operations at the round of the best accuracy, or at the first that reached the target."""
    totals = run.totals
    if not np.isfinite(totals.mean).any():
        return None
    there = np.flatnonzero(totals.mean >= (np.nanmax(totals.mean) if target is None else target))
    if not there.size:
        return None
    at = int(there[0])
    return float(totals.mean[at]), float(costs(totals, "bytes")[at]), float(costs(totals, "FLOPs")[at])


def _clients(group: Sequence[SessionData], round: int | None) -> Array:
    """The clients' accuracies after a round, of all sessions of a group one after the other [clients · seeds]."""
    rows = []
    for run in group:
        curves = run.curves
        if round is not None and not 1 <= round <= curves.rounds:
            raise ConfigError(f"{run.name} has no round {round}; it has {curves.rounds}.")
        if curves.rounds:
            rows.append(curves.accuracy.after(round or curves.rounds))
    values = np.concatenate(rows) if rows else np.zeros(0)
    return np.asarray(values[np.isfinite(values)])
