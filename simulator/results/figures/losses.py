"""Losses in training, and what methods say of themselves, over rounds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from simulator.base.errors import ConfigError, nearest
from simulator.base.record import Record
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.costs import Cost
from simulator.results.analysis.measures import Line
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.totals import NUMBERS
from simulator.results.figures import style
from simulator.results.figures.accuracy import band
from simulator.results.figures.grouped import By, grouped, lines, looks, scaled
from simulator.results.figures.style import Width

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

    None named: all there are, losses and scalars apart.

    Raises ConfigError for a name that no session has, and where there are more than fit into a figure.
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
    for name in names:
        if name not in known:
            there = ", ".join(known[:LARGEST]) or "none"
            raise ConfigError(
                f"no session here has a {kind} '{name}'.{nearest(name, known)} There are: {there}."
            )


def names_of(runs: Sequence[SessionData]) -> list[str]:
    """The numbers in the sessions' method_metrics and users' own metrics, in the order of their names."""
    return sorted(
        {
            name
            for run in runs
            for record in run.records
            for name, value in _numbers(record).items()
            if isinstance(value, int | float)
        }
    )


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
    scalars = {each.column: each for each in NUMBERS}

    def value(record: Record) -> float:
        found = record["loss"]["mean"] if name == OBJECTIVE else _numbers(record).get(name)
        if found is None and name in scalars:
            found = scalars[name].of(record)
        if name == PLAIN:  # earlier versions had it as a metric of some methods
            found = record["loss"].get(PLAIN, _numbers(record).get(f"{PLAIN}_loss"))
        return float(found) if isinstance(found, int | float) else math.nan

    return lambda run: np.array([value(record) for record in run.records], float)


def _lines(runs: Sequence[SessionData], by: By, name: str, x: Cost) -> list[Line]:
    """The lines of a plot. For the cross-entropy, a group in which a session has none has its objective."""
    found = lines(runs, by, values_of(name), x)
    if name != PLAIN:
        return found
    value, drawn = values_of(PLAIN), {line.label for line in found}
    without = [
        label
        for label, group in grouped(runs, by).items()
        if label not in drawn or not all(np.isfinite(value(run)).any() for run in group)
    ]
    others = [line for line in lines(runs, by, values_of(OBJECTIVE), x) if line.label in without]
    return [line for line in found if line.label not in without] + [
        replace(line, label=IN_PLACE.format(line.label)) for line in others
    ]


def _plots(runs: Sequence[SessionData], names: Sequence[str], x: Cost, by: By, width: Width) -> Figure:
    look = looks(runs, by)
    look |= {IN_PLACE.format(label): each for label, each in look.items()}
    drawn = {name: found for name in names if (found := _lines(runs, by, name, x))}
    if not drawn:
        raise ConfigError("none of these sessions has a loss in all of its group; run them further.")
    columns, rows = style.balanced(len(drawn), 3 if width == "page" else 1)
    figure, axes = style.blank(width, 0.05 + 0.78 * rows / columns, rows, columns)
    labels = list(dict.fromkeys(line.label for found in drawn.values() for line in found))
    most = max(float(line.x.max()) for found in drawn.values() for line in found)
    label, unit = scaled(x, most)
    with style.styled():
        for plot, (name, found) in zip(axes.flat, drawn.items(), strict=False):
            for line in found:
                band(plot, look[line.label], line, unit=unit)
            plot.set(xlabel=label, title=TITLES.get(name, name.removesuffix("_loss").replace("_", " ")))
            if x == "rounds":
                style.whole_numbers(plot)
            plot.grid(True)
        for plot in axes.flat[len(drawn) :]:
            plot.set_visible(False)
        axes[0, 0].set_ylabel("mean loss in training" if drawn.keys() & TITLES.keys() else "value")
        handles = {
            text: handle
            for plot in axes.flat[: len(drawn)]
            for handle, text in zip(*plot.get_legend_handles_labels(), strict=True)
        }
        if len(labels) > 1:
            style.legend_above(figure, [handles[text] for text in labels], labels)
    return figure
