"""Accuracies, losses, and methods' own numbers: over rounds or costs; of single clients; against what they cost."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from simulator.base.errors import ConfigError, nearest
from simulator.base.record import Record
from simulator.base.units import SIZES
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.costs import Cost, costs
from simulator.results.analysis.ledger import NUMBERS
from simulator.results.analysis.measures import Line
from simulator.results.analysis.run import SessionData
from simulator.results.figures import style
from simulator.results.figures.grouped import By, grouped, lines, looks, scaled
from simulator.results.figures.palette import Look
from simulator.results.figures.style import Width

_MARGIN = 0.6
"""Inches that the y axis takes."""
WIDE = 30
"""Traffic of one group that is this many times another's is drawn on a logarithmic axis."""
MOST_TICKS = 6
NOT_EVALUATED = "none of these sessions has an accuracy in all of its group; run them further."


@style.styled()
def over(runs: Sequence[SessionData], *, x: Cost = "rounds", by: By = (), width: Width = "column") -> Figure:
    """Mean test accuracy over clients against rounds or what they cost; bands are ± 1 sample std over seeds."""
    found = lines(runs, by, lambda run: run.totals["accuracy"], x)
    if not found:
        raise ConfigError(NOT_EVALUATED)
    figure, plot = style.single(width)
    label, unit = scaled(x, max(float(line.x.max()) for line in found))
    look = looks(runs, by)
    for line in found:
        band(plot, look[line.label], line, x, unit, 100.0)
    plot.set(xlabel=label, ylabel="mean test accuracy, %")
    style.legend(plot, len(found))
    return figure


def band(plot: Axes, look: Look, line: Line, over: Cost, unit: float, scale: float = 1.0) -> None:
    """A line over rounds or costs with its band, in the color, dashes, and mark of its look; and a grid."""
    x, mean = line.x / unit, line.mean * scale
    plot.plot(x, mean, label=line.label, markevery=max(1, len(x) // 6), **style.stroke(look))
    if line.std is not None:
        spread = line.std * scale
        plot.fill_between(x, mean - spread, mean + spread, color=style.shade(look), alpha=0.18, linewidth=0)
    if over == "rounds":
        style.whole_numbers(plot)
    plot.grid(True)


@style.styled()
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
    figure, plot = style.single(width)
    diamond = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4}
    drawn: dict[str, Any] = plot.boxplot(
        [100 * values for values in found.values()],
        widths=0.55,
        patch_artist=True,
        showmeans=True,
        medianprops={"color": "black", "linewidth": 1.0},
        meanprops=diamond,
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


def _clients(group: Sequence[SessionData], round: int | None) -> Array:
    """The clients' accuracies after a round, of all sessions of a group one after the other [clients · seeds]."""
    rows = [np.zeros(0)]
    for run in group:
        curves = run.curves
        if round is not None and not 1 <= round <= curves.rounds:
            raise ConfigError(f"{run.name} has no round {round}; it has {curves.rounds}.")
        if curves.rounds:
            rows.append(curves.accuracy.after(round or curves.rounds))
    values = np.concatenate(rows)
    return np.asarray(values[np.isfinite(values)])


@style.styled()
def tradeoff(
    runs: Sequence[SessionData], *, by: By = (), target: float | None = None, width: Width = "column"
) -> Figure:
    """Best mean test accuracy against traffic, a mark's area is the computation; each up to that round, over seeds.

    With a `target` (0…1) the cost is what it took to reach it; groups in which a session did not are left out. The axis
    of traffic is logarithmic if one group sends many times as much as another.
    """
    points = []
    for label, group in grouped(runs, by).items():
        spent = [each for run in group if (each := _at_best(run, target)) is not None]
        if len(spent) == len(group):
            points.append((label, *np.mean(spent, axis=0)))
    if not points:
        raise ConfigError("In no group did all sessions reach the target." if target else NOT_EVALUATED)
    figure, plot = style.single(width)
    unit, ticks = _traffic_axis(plot, [point[2] for point in points])
    most = max(point[3] for point in points) or 1.0
    of_all, labels, names = looks(runs, by), [point[0] for point in points], []
    look = {label: each for label, each in of_all.items() if label in labels}
    marks = dict(zip(look, style.marks(look.values()), strict=True))
    for label, accuracy, sent, computed in points:
        area = 30 + 370 * computed / most
        plot.scatter(
            sent / unit, 100 * accuracy, s=area, label=label, marker=marks[label], facecolor=style.shade(look[label]),
            alpha=0.55, edgecolors="black", linewidths=0.6, zorder=2 - computed / most,
        )  # fmt: skip
        names.append(plot.annotate(
            label, (sent / unit, 100 * accuracy), (0, np.sqrt(area) / 2 + 2), textcoords="offset points",
            ha="center", va="bottom", fontsize=7,
        ))  # fmt: skip
    flops, power = scaled("FLOPs", most)
    said = f"largest mark: {most / power:.3g}{flops.removeprefix('computation, ').replace('10', '·10', 1)}"
    plot.set(ylabel="test accuracy, %", title=said)
    plot.margins(0.2, 0.25)
    if ticks:
        plot.set_xticks([*ticks], [*ticks.values()])
        plot.xaxis.set_minor_locator(NullLocator())
    else:
        plot.set_xticks([tick for tick in plot.get_xticks() if tick >= 0], minor=False)
    plot.grid(True)
    figure.draw_without_rendering()
    boxes = [name.get_window_extent() for name in names]
    if any(  # names would cover each other, or leave the figure
        box.x0 < 0 or box.x1 > figure.bbox.x1 or any(box.overlaps(other) for other in boxes[:place])
        for place, box in enumerate(boxes)
    ):
        keys = [
            Line2D([], [], linestyle="", marker=marks[label], markersize=6, alpha=0.55,
                   markerfacecolor=style.shade(look[label]), markeredgecolor="black")
            for label in labels
        ]  # fmt: skip
        style.legend_above(figure, keys, labels)
        for name in names:
            name.remove()
    return figure


def _traffic_axis(plot: Axes, sent: Sequence[float]) -> tuple[float, dict[float, str]]:
    """Scale and label the axis of traffic. Returns what bytes are divided by, and a logarithmic axis's ticks."""
    some = [each for each in sent if each > 0]
    if not some or max(some) < WIDE * min(some):
        name, unit = scaled("bytes", max(sent))
        plot.set_xlabel(name)
        return unit, {}
    nothing = len(some) < len(sent)
    if nothing:  # zero has a place beside the decades
        plot.set_xscale("symlog", linthresh=min(some), linscale=0.5)
    else:
        plot.set_xscale("log")
    plot.set_xlabel("traffic, logarithmic")
    decades = {
        float(many * 1024**power): f"{many} {unit}"
        for power, unit in enumerate(SIZES)
        for many in (1, 10, 100)
        if min(some) / 2 <= many * 1024**power <= 2 * max(some)
    }
    shown = list(decades.items())[:: math.ceil(len(decades) / MOST_TICKS)]
    return 1.0, ({0.0: "0"} if nothing else {}) | dict(shown)


def short_of(runs: Sequence[SessionData], by: By, target: float) -> list[str]:
    """A sentence for each group in which a session has not reached the target."""
    return [
        f"{label} is left out: {missing} of {len(group)} sessions did not reach {100 * target:g} %."
        for label, group in grouped(runs, by).items()
        if (missing := sum(_at_best(run, target) is None for run in group))
    ]


def _at_best(run: SessionData, target: float | None) -> tuple[float, float, float] | None:
    """Accuracy, bytes and operations at the round of the best accuracy, or at the first that reached the target."""
    totals, accuracy = run.totals, run.totals["accuracy"]
    if not np.isfinite(accuracy).any():
        return None
    there = np.flatnonzero(accuracy >= (np.nanmax(accuracy) if target is None else target))
    if not there.size:
        return None
    at = int(there[0])
    return float(accuracy[at]), float(costs(totals, "bytes")[at]), float(costs(totals, "FLOPs")[at])


PLAIN, OBJECTIVE = "cross_entropy", "objective"
"""The cross-entropy of the clients' own models, and all that their first phase minimizes."""
TITLES = {PLAIN: "cross-entropy", OBJECTIVE: "objective of the first phase"}
IN_PLACE = "{} (whole objective)"
"""The label of a line of sessions that have not recorded the cross-entropy."""
LARGEST = 12
"""Plots of one figure."""


def losses(
    runs: Sequence[SessionData],
    *,
    metrics: Sequence[str] = (),
    x: Cost = "rounds",
    by: By = (),
    width: Width | None = None,
) -> Figure:
    """Mean losses in training, a plot each; by default the cross-entropy alone, which all methods have.

    metrics: 'cross_entropy', 'objective' (all that the first phase minimizes), and losses in `method_metrics`. Groups
    without cross-entropy show their objective in its place, which their labels say. Raises ConfigError for other names.
    """
    known = [PLAIN, OBJECTIVE, *(name for name in names_of(runs) if name.endswith("_loss"))]
    _refuse_unknown(metrics, known, "loss")
    chosen = list(metrics) or [PLAIN]
    return _plots(runs, chosen, x, by, width or ("column" if len(chosen) == 1 else "page"))


def metrics(
    runs: Sequence[SessionData],
    *,
    metrics: Sequence[str] = (),
    x: Cost = "rounds",
    by: By = (),
    width: Width = "page",
) -> Figure:
    """Numbers that methods put into `method_metrics`, users' own metrics, and scalars by their columns, a plot each.

    None named: all there are, losses and scalars apart. Raises ConfigError for a name that no session has, and where
    there are more than fit into a figure.
    """
    known = names_of(runs)
    _refuse_unknown(metrics, [*known, *(each.column for each in NUMBERS)], "metric")
    chosen = list(metrics) or [name for name in known if not name.endswith("_loss")]
    if not chosen:
        raise ConfigError("These sessions have no metrics of their own and no numbers in method_metrics.")
    if len(chosen) > LARGEST:
        raise ConfigError(f"{len(chosen)} metrics do not fit into one figure; name up to {LARGEST} of them.")
    return _plots(runs, chosen, x, by, width)


def _refuse_unknown(names: Sequence[str], known: Sequence[str], kind: str) -> None:
    for name in (name for name in names if name not in known):
        there = ", ".join(known[:LARGEST]) or "none"
        raise ConfigError(f"no session here has a {kind} '{name}'.{nearest(name, known)} There are: {there}.")


def names_of(runs: Sequence[SessionData]) -> list[str]:
    """The numbers in the sessions' method_metrics and users' own metrics, in the order of their names."""
    numbers = (each for run in runs for record in run.records for each in _numbers(record).items())
    return sorted({name for name, value in numbers if isinstance(value, int | float)})


def _numbers(record: Record) -> dict[str, Any]:
    """A record's method_metrics, and users' own metrics as `test_NAME` and `eval_NAME`."""
    own = {
        f"{part}_{name}": values["mean"]
        for part, measured in record.get("evaluation", {}).items()
        for name, values in measured.get("metrics", {}).items()
    }
    return {**record.get("method_metrics", {}), **own}


def values_of(name: str) -> Callable[[SessionData], Array]:
    """The values of a loss, a metric, or a scalar [n], NaN where a round has none."""
    scalar = next((each for each in NUMBERS if each.column == name), None)

    def value(record: Record) -> float:
        found = record["loss"]["mean"] if name == OBJECTIVE else _numbers(record).get(name)
        if found is None and scalar is not None:
            found = scalar.of(record)
        if name == PLAIN:  # earlier versions had it as a metric of some methods
            found = record["loss"].get(PLAIN, _numbers(record).get(f"{PLAIN}_loss"))
        return float(found) if isinstance(found, int | float) else math.nan

    return lambda run: np.array([value(record) for record in run.records], float)


def _lines(runs: Sequence[SessionData], by: By, name: str, x: Cost) -> list[Line]:
    """The lines of a plot. For the cross-entropy, a group in which a session has none has its objective."""
    value = values_of(name)
    found = lines(runs, by, value, x)
    if name != PLAIN:
        return found
    drawn = {line.label for line in found}
    without = [
        label
        for label, group in grouped(runs, by).items()
        if label not in drawn or not all(np.isfinite(value(run)).any() for run in group)
    ]
    others = [line for line in lines(runs, by, values_of(OBJECTIVE), x) if line.label in without]
    kept = [line for line in found if line.label not in without]
    return kept + [replace(line, label=IN_PLACE.format(line.label)) for line in others]


@style.styled()
def _plots(runs: Sequence[SessionData], names: Sequence[str], x: Cost, by: By, width: Width) -> Figure:
    look = looks(runs, by)
    look |= {IN_PLACE.format(label): each for label, each in look.items()}
    drawn = {name: found for name in names if (found := _lines(runs, by, name, x))}
    if not drawn:
        raise ConfigError("none of these sessions has a loss in all of its group; run them further.")
    columns, rows = style.balanced(len(drawn), 3 if width == "page" else 1)
    figure, axes = style.blank(width, 0.05 + 0.78 * rows / columns, rows, columns, len(drawn))
    label, unit = scaled(x, max(float(line.x.max()) for found in drawn.values() for line in found))
    handles: dict[str, Any] = {}
    for plot, (name, found) in zip(axes.flat, drawn.items(), strict=False):
        for line in found:
            band(plot, look[line.label], line, x, unit)
        plot.set(xlabel=label, title=TITLES.get(name, name.removesuffix("_loss").replace("_", " ")))
        handles |= {text: handle for handle, text in zip(*plot.get_legend_handles_labels(), strict=True)}
    axes[0, 0].set_ylabel("mean loss in training" if drawn.keys() & TITLES.keys() else "value")
    if len(handles) > 1:
        style.legend_above(figure, list(handles.values()), list(handles))
    return figure
