"""Gains over a baseline: by client and round, sorted by client; ranks over conditions; accuracy against its costs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from simulator.base.errors import ConfigError
from simulator.results.analysis.axes import MeanStd, axes, group_label
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.comparison import outcome
from simulator.results.analysis.costs import comparable_costs, pareto_front, spent
from simulator.results.analysis.gain import ALPHA, BASELINE, SessionGain, paired_sessions
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.static_names import titles
from simulator.results.figures import style
from simulator.results.figures.accuracy import NOT_EVALUATED
from simulator.results.figures.grouped import By, axes_of, grouped, looks, scaled
from simulator.results.figures.style import Width

MOST = 6
"""Maps in one figure, at most."""


@style.styled()
def gain_map(
    runs: Sequence[SessionData], *, by: By = (), baseline: str = BASELINE, width: Width = "page"
) -> Figure:
    """Each client's gain by round: a row for a client of a seed, sorted by the gain in the last round.

    One map for each group. Clients of different seeds are different clients, so all of them are rows.
    """
    found = _paired(runs, by, baseline)
    if len(found) > MOST:
        raise ConfigError(
            f"These are {len(found)} groups, and a figure has room for {MOST} maps. Name fewer sessions."
        )
    maps = {label: _over_rounds(pairs) for label, pairs in found.items()}
    most = 100 * (max(float(np.nanmax(np.abs(each))) for each in maps.values()) or 1.0)
    figure, plots = style.several(len(maps), min(3, len(maps)), 0.4, width)
    for plot, (label, values) in zip(plots.flat, maps.items(), strict=False):
        image = plot.imshow(
            100 * values, cmap="PuOr", vmin=-most, vmax=most, aspect="auto", interpolation="nearest",
            extent=(0.5, values.shape[1] + 0.5, len(values) + 0.5, 0.5),
        )  # fmt: skip
        plot.set(title=label, xlabel="round", ylabel="client, sorted")
        style.whole_numbers(plot)
    figure.colorbar(image, ax=list(plots.flat), label=_axis(baseline), pad=0.02)
    return figure


@style.styled()
def gain_clients(
    runs: Sequence[SessionData],
    *,
    by: By = (),
    baseline: str = BASELINE,
    last: int = 1,
    width: Width = "column",
) -> Figure:
    """The gains of all clients of all seeds, sorted; a line for each group. Below zero a client loses."""
    found = _paired(runs, by, baseline, last)
    figure, plot = style.single(width)
    look = looks([pair.run for pairs in found.values() for pair in pairs], by or "method")
    for label, pairs in found.items():
        gains = np.sort(np.concatenate([pair.known for pair in pairs]))
        share = 100 * (np.arange(len(gains)) + 0.5) / len(gains)
        every = max(1, len(gains) // 6)
        plot.plot(share, 100 * gains, label=label, markevery=every, **style.stroke(look[label]))
    plot.axhline(0, color="black", linewidth=0.8)
    plot.set(xlabel="clients, sorted by gain, %", ylabel=_axis(baseline), xlim=(0, 100))
    plot.grid(True)
    style.legend(plot, len(found))
    return figure


@style.styled()
def critical_difference(
    runs: Sequence[SessionData], *, by: By = "method", last: int = 1, width: Width = "column"
) -> Figure:
    """Mean ranks of the groups over conditions (1 is best), and Nemenyi's critical difference (Demšar, JMLR 2006).

    A condition is what else differs: the data set, its partition, the models. Its accuracy is the mean over seeds, so
    that seeds do not count as conditions. Groups that a bar joins do not differ significantly at the 5 % level. Raises
    ConfigError for fewer than two groups or conditions, and for a group that lacks a condition.
    """
    table = _by_condition(runs, by, last)
    labels = list(table)
    conditions = list(dict.fromkeys(name for row in table.values() for name in row))
    for label, row in table.items():
        if missing := [name for name in conditions if name not in row]:
            raise ConfigError(f"{label} has no finished session for {missing[0]}, which others have.")
    if len(labels) < 2 or len(conditions) < 2:
        raise ConfigError(
            f"Ranks need at least two groups and two conditions, such as data sets or partitions. These sessions have "
            f"{len(labels)} groups and {len(conditions)} conditions."
        )
    ranks, difference = mean_ranks(
        np.array([[table[label][name] for label in labels] for name in conditions])
    )
    order = np.argsort(ranks, kind="stable")
    figure, plot = style.single(width, 0.16 + 0.09 * len(labels))
    look = looks(runs, by)
    for place, group in enumerate(order):
        plot.plot(ranks[group], place, **style.stroke(look[labels[group]], linestyle=""))
    for place, (first, last_of) in enumerate(cliques(ranks[order], difference)):
        at = len(labels) - 0.4 + 0.35 * place
        plot.plot([ranks[order][first], ranks[order][last_of]], [at, at], color="black", linewidth=2)
    plot.set_yticks(range(len(labels)), [labels[group] for group in order])
    plot.set(xlabel=f"mean rank over {len(conditions)} conditions")
    plot.set(title=f"critical difference {difference:.2f}")
    plot.invert_yaxis()
    plot.grid(True, axis="x")
    return figure


@style.styled()
def pareto(runs: Sequence[SessionData], *, by: By = (), last: int = 1, width: Width = "page") -> Figure:
    """Test accuracy of the last round against bytes, FLOPs, and seconds of all rounds; means over seeds.

    If all sessions have a computed clock, also against simulated seconds, and joules if all count them by one rule.
    Bars are ± 1 sample standard deviation. A line joins the groups that no other group beats in both.
    """
    found = {}
    for label, group in grouped(runs, by).items():
        accuracies = np.array([outcome(run, None, None, last).last or np.nan for run in group])
        if np.isfinite(accuracies).all():
            found[label] = group, accuracies, [spent(run.totals) for run in group]
    if not found:
        raise ConfigError(NOT_EVALUATED)
    look, handles = looks(runs, by), dict[str, Any]()
    kept = [run for group, *_ in found.values() for run in group]
    shown = [each for each in comparable_costs(kept) if each != "rounds"]
    figure, plots = style.several(len(shown), 3, 0.36, width)
    for plot, cost in zip(plots.flat, shown, strict=False):
        costs = {label: np.array([each[cost] for each in took]) for label, (_, _, took) in found.items()}
        name, unit = scaled(cost, max(float(each.max()) for each in costs.values()))
        points = {
            label: (costs[label].mean() / unit, 100 * values.mean())
            for label, (_, values, _) in found.items()
        }
        plot.plot(*zip(*pareto_front(points), strict=True), color="0.6", linewidth=0.8, zorder=0)
        for label, (x, y) in points.items():
            spread = _std(costs[label] / unit), _std(100 * found[label][1])
            handles[label] = plot.errorbar(
                x, y, xerr=spread[0], yerr=spread[1], capsize=2, elinewidth=0.8,
                **style.stroke(look[label], linestyle=""),
            )  # fmt: skip
        plot.set(xlabel=name)
        plot.grid(True)
    for plot in plots[:, 0]:
        plot.set(ylabel="test accuracy, %")
    style.legend_above(figure, list(handles.values()), list(handles))
    return figure


def mean_ranks(accuracies: Array) -> tuple[Array, float]:
    """[k] the mean ranks of k groups over n conditions, from accuracies [n, k]; and the critical difference.

    Rank 1 has the highest accuracy. Equal accuracies share their mean rank. The difference is q √(k (k + 1) / (6 n)).
    Here q is the 95 % quantile of the studentized range of k groups, divided by √2.
    """
    from scipy import stats

    conditions, groups = accuracies.shape
    ranks = stats.rankdata(-accuracies, axis=1)
    q = stats.studentized_range.ppf(1 - ALPHA, groups, np.inf) / math.sqrt(2)
    return ranks.mean(axis=0), float(q * math.sqrt(groups * (groups + 1) / (6 * conditions)))


def cliques(ranks: Array, difference: float) -> list[tuple[int, int]]:
    """The longest stretches of ascending ranks within the difference: first and last place, two groups or more."""
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.flatnonzero(ranks <= ranks[first] + difference)[-1])
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _paired(
    runs: Sequence[SessionData], by: By, baseline: str, last: int = 1
) -> dict[str, list[SessionGain]]:
    """The pairs by the label of their group."""
    by_run = {pair.run.folder: pair for pair in paired_sessions(runs, baseline, last)[0]}
    groups = grouped([pair.run for pair in by_run.values()], by or "method")
    return {label: [by_run[run.folder] for run in group] for label, group in groups.items()}


def _axis(baseline: str) -> str:
    return f"gain over {titles().get(baseline, baseline)}, pp"


def _over_rounds(pairs: Sequence[SessionGain]) -> Array:
    """[clients of all pairs, rounds] the gains, the clients with the highest last gain first."""
    rounds, tables = min(pair.round for pair in pairs), []
    for pair in pairs:
        own, other = (
            run.curves.accuracy.select(np.arange(run.curves.clients), 0, rounds)
            for run in (pair.run, pair.baseline)
        )
        tables.append(own - other)
    table = np.concatenate(tables, axis=1).T
    return np.asarray(table[np.argsort(-table[:, -1], kind="stable")])


def _by_condition(runs: Sequence[SessionData], by: By, last: int) -> dict[str, dict[str, float]]:
    """The mean accuracy over seeds of each group, by the label of the condition: what differs besides the group."""
    wanted = axes_of(runs, by)
    known = [axes(run) for run in runs]
    others = [
        name
        for name in dict.fromkeys(name for one in known for name in one)
        if name.partition(".")[0] in ("data", "federation")
        and name not in wanted
        and len({one.get(name) for one in known}) > 1
    ]
    found: dict[str, dict[str, float]] = {}
    for label, group in grouped(runs, by).items():
        values: dict[str, list[float | None]] = {}
        for run in group:
            settings = axes(run)
            name = group_label(others, tuple(settings.get(each) for each in others))
            values.setdefault(name, []).append(outcome(run, None, None, last).last)
        means = {name: spread.mean for name, each in values.items() if (spread := MeanStd.of(each))}
        found |= {label: means} if means else {}
    return found


def _std(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
