"""How alike clients' models are: CKA matrices of layers, and its mean by round and by layer."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simulator.base.errors import ConfigError, nearest
from simulator.results.analysis.cka import CkaMeasurement, last_measured
from simulator.results.analysis.run import SessionData
from simulator.results.figures import style
from simulator.results.figures.grouped import By, grouped, looks
from simulator.results.figures.palette import in_order
from simulator.results.figures.style import Width

NOT_MEASURED = (
    "{} has no CKA in its ledger; run with `cka.every=5`, or see `htfl-sim checkpoint SESSION --cka`."
)


def matrices(
    run: SessionData, *, round: int | None = None, layers: Sequence[str] = (), width: Width = "page"
) -> Figure:
    """CKA of every pair of clients, a matrix a layer, shallow to deep, at the last measurement up to `round`."""
    found = _measured(run, round)
    chosen = _known_layers(found.layers, layers)
    most = 6 if width == "page" else 3
    columns = len(chosen) if len(chosen) <= most else most - 2 * (width == "page")
    rows = math.ceil(len(chosen) / columns)
    figure, axes = style.blank(width, 0.08 + 0.92 * rows / columns, rows, columns)
    with style.styled():
        for plot, layer in zip(axes.flat, chosen, strict=False):
            plot.imshow(found.matrix(layer), vmin=0, vmax=1, cmap=style.heat(), interpolation="nearest")
            plot.set(title=style.label(layer))
            plot.spines[:].set_visible(False)
            every = max(1, len(found.matrix(layer)) // 5)
            ticks = range(0, len(found.matrix(layer)), every)
            named = [str(found.clients[tick]) for tick in ticks]
            plot.set_xticks(ticks, named)
            plot.set_yticks(ticks, named)
        for plot in axes.flat[len(chosen) :]:
            plot.set_visible(False)
        figure.colorbar(axes[0, 0].images[0], ax=axes, label="CKA", shrink=0.85, pad=0.01)
        figure.supxlabel(f"client (round {found.round}{found.whom})", fontsize=8)
        figure.supylabel("client", fontsize=8)
    return figure


def curves(
    runs: Sequence[SessionData], *, by: By = (), layers: Sequence[str] = (), width: Width = "page"
) -> Figure:
    """Mean CKA over pairs of clients: left by round, a line a layer and group; right by layer at the last measurement.

    Over seeds the mean; a group is drawn at the rounds that all its sessions measured. Of one group every layer has a
    color, dashes, and a mark; of several every group has a color and dashes, and the layers differ in marks.
    """
    groups = {
        label: group for label, group in grouped(runs, by).items() if all(r.ledger.measured for r in group)
    }
    if not groups:
        raise ConfigError(NOT_MEASURED.format(", ".join(run.name for run in runs)))
    measured = [run.ledger.measured[-1].layers for group in groups.values() for run in group]
    chosen = _known_layers(tuple(dict.fromkeys(layer for each in measured for layer in each)), layers)
    figure, axes = style.blank(width, 0.38, 1, 2)
    several = len(groups) > 1
    with style.styled():
        by_round, by_layer = axes[0]
        look = looks(runs, by)
        for label, group in groups.items():
            color, dashes = style.shade(look[label]), style.DASHES[look[label].dashes]
            rounds = sorted(set.intersection(*({one.round for one in run.ledger.measured} for run in group)))
            means = _means(group, rounds, chosen)
            there = np.flatnonzero(
                np.isfinite(means).any(axis=0)
            ).tolist()  # models of other kinds have other layers
            for depth in there:
                layer = style.stroke(in_order(depth))
                if several:
                    layer |= {"color": color, "linestyle": dashes}
                by_round.plot(rounds, means[:, depth], **layer)
            by_layer.plot(there, means[-1, there], color=color, linestyle=dashes, marker="o")
        by_round.set(xlabel="round", ylabel="mean CKA over pairs")
        by_layer.set(xlabel="layer, shallow to deep", title="at the last measurement")
        style.named(
            by_layer, range(len(chosen)), list(map(style.label, chosen)), style.WIDTHS[width] / 2 - 0.4
        )
        for plot in (by_round, by_layer):
            plot.grid(True)
        style.whole_numbers(by_round)
        keys = [
            Line2D([], [], color=style.shade(look[label]), linestyle=style.DASHES[look[label].dashes])
            for label in (groups if several else ())
        ]
        of_layer = {"color": "#555555", "linestyle": ""} if several else {}
        keys += [Line2D([], [], **(style.stroke(in_order(depth)) | of_layer)) for depth in range(len(chosen))]
        style.legend_above(figure, keys, [*(groups if several else ()), *map(style.label, chosen)])
    return figure


def _means(group: Sequence[SessionData], rounds: Sequence[int], layers: Sequence[str]) -> np.ndarray:
    """[rounds, layers], over the sessions."""
    tables = []
    for run in group:
        at = {one.round: one for one in run.ledger.measured}
        tables.append([[at[round].mean(layer) for layer in layers] for round in rounds])
    return np.asarray(np.mean(tables, axis=0))


def _measured(run: SessionData, round: int | None) -> CkaMeasurement:
    every = run.ledger.measured
    found = (every[-1] if every else None) if round is None else last_measured(every, round)
    if found is None:
        raise ConfigError(NOT_MEASURED.format(run.name))
    return found


def _known_layers(layers: tuple[str, ...], wanted: Sequence[str]) -> tuple[str, ...]:
    """The layers that are wanted, of these; all where none is. Raises ConfigError."""
    for layer in wanted:
        if layer not in layers:
            there = ", ".join(layers)
            raise ConfigError(f"no layer '{layer}' was measured.{nearest(layer, layers)} There are: {there}.")
    return tuple(wanted) or layers
