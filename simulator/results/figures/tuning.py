"""Tuning: the score of every trial over each hyper-parameter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from simulator.base.errors import ConfigError
from simulator.results.analysis.axes import spelled
from simulator.results.figures import style
from simulator.results.figures.palette import in_order, looks_of
from simulator.results.figures.style import Width


@dataclass(frozen=True)
class Tried:
    """A trial. values: by dotted key. score: on eval, 0…1, after `rounds`. chosen: it is the method's best."""

    method: str
    values: Mapping[str, Any]
    score: float
    rounds: int
    chosen: bool


def tuning(trials: Sequence[Tried], logarithmic: Sequence[str] = (), *, width: Width = "page") -> Figure:
    """One plot for each hyper-parameter: score on eval against its value, a color for each method.

    Trials that ended at an earlier rung are pale, and the chosen ones have a ring. `logarithmic`: keys on a log axis.
    """
    keys = list(dict.fromkeys(key for trial in trials for key in trial.values))
    if not keys:
        raise ConfigError(
            "No trial of this study has finished a round with other values than the method's own."
        )
    names = list(dict.fromkeys(trial.method for trial in trials))
    look = dict(zip(names, looks_of(names) or map(in_order, range(len(names))), strict=True))
    most = max(trial.rounds for trial in trials)
    columns = min(3, len(keys))
    rows = math.ceil(len(keys) / columns)
    figure, plots = style.blank(width, 0.36 * rows, rows, columns)
    with style.styled():
        handles: dict[str, Any] = {}
        for plot in plots.flat[len(keys) :]:
            plot.set_visible(False)
        for plot, key in zip(plots.flat, keys, strict=False):
            mine = [trial for trial in trials if key in trial.values]
            numeric = all(type(trial.values[key]) in (int, float) for trial in mine)
            texts = list(dict.fromkeys(spelled(trial.values[key]) for trial in mine))
            for trial in mine:
                at = trial.values[key] if numeric else texts.index(spelled(trial.values[key]))
                drawn = plot.plot(
                    [at], [100 * trial.score], **{**style.stroke(look[trial.method]), "linestyle": ""},
                    alpha=1.0 if trial.rounds == most else 0.35,
                )  # fmt: skip
                handles.setdefault(trial.method, drawn[0])
                if trial.chosen:
                    plot.plot(
                        [at],
                        [100 * trial.score],
                        "o",
                        markersize=11,
                        markerfacecolor="none",
                        markeredgecolor="black",
                    )
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
