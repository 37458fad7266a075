"""How much a setting matters: a curve over one axis, a heat map over two, the score of every trial of a tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from simulator.base.errors import ConfigError
from simulator.results.analysis.axes import MeanStd, checked, group_label, groups, spelled
from simulator.results.analysis.comparison import Select, outcome
from simulator.results.analysis.run import SessionData
from simulator.results.figures import style
from simulator.results.figures.grouped import By, every_group, is_untrained, looks
from simulator.results.figures.palette import in_order, looks_of
from simulator.results.figures.style import Width


@style.styled()
def curve(
    runs: Sequence[SessionData],
    *,
    axis: str,
    by: By = (),
    select: Select | None = None,
    width: Width = "column",
) -> Figure:
    """Accuracy, mean ± sample std over seeds, against the values of one axis; a line a group of `by`.

    The accuracy is the last round's, or with select 'eval' that of the round best on the clients' eval parts.
    """
    checked((axis,), runs)
    named = every_group(runs, by) if by else {"": list(runs)}
    lines = {label: _spreads(group, (axis,), select) for label, group in named.items()}
    values = _ordered({key[0] for line in lines.values() for key in line})
    if len(values) < 2:
        raise ConfigError(f"'{axis}' has one value in these sessions; a curve takes two.")
    figure, plot = style.single(width)
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    look = looks(runs, by) if by else {"": in_order(0)}
    for label, line in lines.items():
        there = [value for value in values if (value,) in line]
        plot.errorbar(
            there if numeric else [values.index(value) for value in there],
            [100 * line[value,].mean for value in there],
            [100 * (line[value,].std or 0.0) for value in there],
            capsize=2, label=label, elinewidth=0.8, **style.stroke(look[label]),
        )  # fmt: skip
    if numeric and min(values) > 0 and max(values) / min(values) >= 50:
        plot.set_xscale("log")
    plot.set_xticks(values if numeric else range(len(values)), list(map(spelled, values)))
    plot.minorticks_off()
    plot.set(xlabel=axis, ylabel=_measure(select))
    plot.grid(True)
    style.legend(plot, len(lines))
    return figure


@style.styled()
def heatmap(
    runs: Sequence[SessionData],
    *,
    axes: tuple[str, str],
    select: Select | None = None,
    width: Width = "column",
) -> Figure:
    """Accuracy, mean over seeds, for every value of one axis (down) and of another (across)."""
    checked(axes, runs)
    found = _spreads(runs, axes, select)
    down, across = (_ordered({key[place] for key in found}) for place in (0, 1))
    if len(down) * len(across) < 2:
        raise ConfigError(f"'{axes[0]}' and '{axes[1]}' have one value each in these sessions.")
    table = np.full((len(down), len(across)), np.nan)
    for (row, column), spread in found.items():
        table[down.index(row), across.index(column)] = 100 * spread.mean
    low, high = float(np.nanmin(table)), float(np.nanmax(table))
    figure, plot = style.single(width, min(1.1, 0.35 + 0.12 * len(down)))
    image = plot.imshow(table, cmap=style.heat(), aspect="auto", interpolation="nearest")
    plot.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            dark = high > low and (value - low) / (high - low) <= 0.55
            centered: Any = {"ha": "center", "va": "center", "fontsize": 7}
            plot.text(column, row, f"{value:.1f}", color="white" if dark else "black", **centered)
    plot.set_xticks(range(len(across)), list(map(spelled, across)))
    plot.set_yticks(range(len(down)), list(map(spelled, down)))
    plot.set(xlabel=axes[1], ylabel=axes[0])
    figure.colorbar(image, ax=plot, label=_measure(select), pad=0.02)
    return figure


def _spreads(
    runs: Sequence[SessionData], axes: tuple[str, ...], select: Select | None
) -> dict[tuple[Any, ...], MeanStd]:
    """The accuracies over seeds, by the values on the axes. Raises ConfigError where one was not measured on eval."""
    found = {}
    for key, group in groups(runs, axes).items():
        if len({run.trial for run in group}) > 1:
            raise ConfigError(
                f"{group_label(axes, key)} has several trials of a tuning study, and trials are not seeds. "
                "Draw them with kind 'tuning'."
            )
        if is_untrained(group):
            continue
        each = [outcome(run, None, select) for run in group]
        if select and (missing := [one.run.name for one in each if one.selected is None]):
            raise ConfigError(f"not measured on eval: {', '.join(missing)}.")
        spread = MeanStd.of([one.selected if select else one.last for one in each])
        if spread is not None:
            found[key] = spread
    return found


def _ordered(values: set[Any]) -> list[Any]:
    return sorted(
        values, key=lambda value: (isinstance(value, str), value is None, value if value is not None else 0)
    )


def _measure(select: Select | None) -> str:
    return f"test accuracy, % ({'selected on eval' if select else 'last round'})"


@dataclass(frozen=True)
class Tried:
    """A trial of a method. values: by dotted key. score: on eval, 0…1, after `rounds`. chosen: it is the best."""

    values: Mapping[str, Any]
    score: float
    rounds: int
    chosen: bool


@style.styled()
def tuning(
    trials: Mapping[str, Sequence[Tried]], logarithmic: Sequence[str] = (), *, width: Width = "page"
) -> Figure:
    """One plot for each hyper-parameter: score on eval against its value, a color for each method. trials: by method.

    Trials that ended at an earlier rung are pale, and the chosen ones have a ring. `logarithmic`: keys on a log axis.
    """
    every = [(method, trial) for method, each in trials.items() for trial in each]
    keys = list(dict.fromkeys(key for _, trial in every for key in trial.values))
    if not keys:
        raise ConfigError(
            "No trial of this study has finished a round with other values than the method's own."
        )
    names = [method for method, each in trials.items() if each]
    look = dict(zip(names, looks_of(names) or map(in_order, range(len(names))), strict=True))
    most, handles = max(trial.rounds for _, trial in every), dict[str, Any]()
    ring: Any = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": "black"}
    figure, plots = style.several(len(keys), min(3, len(keys)), 0.36, width)
    for plot, key in zip(plots.flat, keys, strict=False):
        mine = [(method, trial) for method, trial in every if key in trial.values]
        numeric = all(type(trial.values[key]) in (int, float) for _, trial in mine)
        texts = list(dict.fromkeys(spelled(trial.values[key]) for _, trial in mine))
        for method, trial in mine:
            at = trial.values[key] if numeric else texts.index(spelled(trial.values[key]))
            drawn = plot.plot(
                [at], [100 * trial.score], **style.stroke(look[method], linestyle=""),
                alpha=1.0 if trial.rounds == most else 0.35,
            )  # fmt: skip
            handles.setdefault(method, drawn[0])
            if trial.chosen:
                plot.plot([at], [100 * trial.score], "o", **ring)
        if numeric and key in logarithmic:
            plot.set_xscale("log")
            plot.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            plot.xaxis.set_minor_formatter(NullFormatter())
        elif not numeric:
            plot.set_xticks(range(len(texts)), texts)
        plot.set(xlabel=key)
        plot.grid(True)
    plots[0, 0].set(ylabel="score on eval, %")
    style.legend_above(figure, list(handles.values()), list(handles))
    return figure
