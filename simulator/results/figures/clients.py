"""What is inside clients: CKA of their models, InCo's coefficients, features in the plane, and who holds what."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from simulator.base.errors import ConfigError, nearest
from simulator.results.analysis.ledger import last_measured
from simulator.results.analysis.run import SessionData
from simulator.results.figures import palette, style
from simulator.results.figures.accuracy import values_of
from simulator.results.figures.grouped import By, grouped, looks
from simulator.results.figures.palette import in_order
from simulator.results.figures.style import Width
from simulator.results.inspection.client_samples import Embedding

if TYPE_CHECKING:  # needs torch
    from simulator.results.inspection.partition import Partition

NOT_MEASURED = (
    "{} has no CKA in its ledger; run with `cka.every=5`, or see `htfl-sim checkpoint SESSION --cka`."
)


@style.styled()
def cka_matrices(
    run: SessionData, *, round: int | None = None, layers: Sequence[str] = (), width: Width = "page"
) -> Figure:
    """CKA of every pair of clients, a matrix a layer, shallow to deep, at the last measurement up to `round`."""
    every = run.ledger.whole.measured
    found = last_measured(every, every[-1].round if round is None else round) if every else None
    if found is None:
        raise ConfigError(NOT_MEASURED.format(run.name))
    chosen = _known_layers(found.layers, layers)
    most = 6 if width == "page" else 3
    columns = len(chosen) if len(chosen) <= most else most - 2 * (width == "page")
    rows = math.ceil(len(chosen) / columns)
    figure, axes = style.blank(width, 0.08 + 0.92 * rows / columns, rows, columns, len(chosen))
    for plot, layer in zip(axes.flat, chosen, strict=False):
        matrix = found.matrix(layer)
        plot.imshow(matrix, vmin=0, vmax=1, cmap=style.heat(), interpolation="nearest")
        plot.set(title=style.label(layer))
        plot.spines[:].set_visible(False)
        ticks = range(0, len(matrix), max(1, len(matrix) // 5))
        named = [str(found.clients[tick]) for tick in ticks]
        plot.set_xticks(ticks, named)
        plot.set_yticks(ticks, named)
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="CKA", shrink=0.85, pad=0.01)
    figure.supxlabel(f"client (round {found.round}{found.whom})", fontsize=8)
    figure.supylabel("client", fontsize=8)
    return figure


@style.styled()
def cka_curves(
    runs: Sequence[SessionData], *, by: By = (), layers: Sequence[str] = (), width: Width = "page"
) -> Figure:
    """Mean CKA over pairs of clients: left by round, a line a layer and group; right by layer at the last measurement.

    Over seeds the mean; a group is drawn at the rounds that all its sessions measured. Of one group every layer has a
    color, dashes, and a mark; of several every group has a color and dashes, and the layers differ in marks.
    """
    groups = {}
    for label, group in grouped(runs, by).items():
        if rounds := sorted(
            set.intersection(*({one.round for one in run.ledger.whole.measured} for run in group))
        ):
            groups[label] = group, rounds
    if not groups:
        raise ConfigError(NOT_MEASURED.format(", ".join(run.name for run in runs)))
    measured = [run.ledger.whole.measured[-1].layers for group, _ in groups.values() for run in group]
    chosen = _known_layers(tuple(dict.fromkeys(layer for each in measured for layer in each)), layers)
    figure, axes = style.blank(width, 0.38, 1, 2)
    by_round, by_layer = axes[0]
    look, several, keys = looks(runs, by), len(groups) > 1, list[Line2D]()
    for label, (group, rounds) in groups.items():
        own = {"color": style.shade(look[label]), "linestyle": style.DASHES[look[label].dashes]}
        keys += [Line2D([], [], **own)] if several else []
        measured_at = [{one.round: one for one in run.ledger.whole.measured} for run in group]
        tables = [[[at[round].mean(layer) for layer in chosen] for round in rounds] for at in measured_at]
        means = np.mean(tables, axis=0)  # [rounds, layers], over the sessions
        # Models of other kinds have other layers.
        there = np.flatnonzero(np.isfinite(means).any(axis=0)).tolist()
        for depth in there:
            by_round.plot(
                rounds, means[:, depth], **style.stroke(in_order(depth), **(own if several else {}))
            )
        by_layer.plot(there, means[-1, there], **own, marker="o")
    by_round.set(xlabel="round", ylabel="mean CKA over pairs")
    by_layer.set(xlabel="layer, shallow to deep", title="at the last measurement")
    names = list(map(style.label, chosen))
    style.named(by_layer, range(len(chosen)), names, style.WIDTHS[width] / 2 - 0.4)
    for plot in (by_round, by_layer):
        plot.grid(True)
    style.whole_numbers(by_round)
    of_layer = {"color": "#555555", "linestyle": ""} if several else {}
    keys += [Line2D([], [], **style.stroke(in_order(depth), **of_layer)) for depth in range(len(chosen))]
    style.legend_above(figure, keys, [*(groups if several else ()), *names])
    return figure


def _known_layers(layers: tuple[str, ...], wanted: Sequence[str]) -> tuple[str, ...]:
    """The layers that are wanted, of these; all where none is. Raises ConfigError."""
    for layer in wanted:
        if layer not in layers:
            there = ", ".join(layers)
            raise ConfigError(f"no layer '{layer}' was measured.{nearest(layer, layers)} There are: {there}.")
    return tuple(wanted) or layers


SYMBOLS = {"theta": "θ", "beta": "β"}


@style.styled()
def coefficients(runs: Sequence[SessionData], *, by: By = (), width: Width = "page") -> Figure:
    """θ and β of every layer that learns from a shallower one, as heat over rounds, in the order in which they stand.

    A row of two plots a group; over seeds the mean. Blue is below zero, where the gradients conflict, red above. Raises
    ConfigError where no session's method has them.
    """
    groups = {label: group for label, group in grouped(runs, by).items() if all(map(layers_of, group))}
    if not groups:
        raise ConfigError("none of these sessions was run by InCo Aggregation, whose θ and β these are.")
    height = sum(0.55 + 0.115 * len(layers_of(group[0])) for group in groups.values())
    figure, axes = style.blank(width, height / style.WIDTHS[width], len(groups), 2)
    for row, (label, group) in enumerate(groups.items()):
        layers = layers_of(group[0])
        for column, (key, symbol) in enumerate(SYMBOLS.items()):
            plot = axes[row, column]
            tables = [np.array([values_of(f"{key}/{layer}")(run) for layer in layers]) for run in group]
            length = min(table.shape[1] for table in tables)
            values = np.mean([table[:, :length] for table in tables], axis=0)  # [layers, rounds]
            reach = float(np.nanmax(np.abs(values))) or 1.0
            image = plot.imshow(
                values, aspect="auto", cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest",
                extent=(0.5, length + 0.5, len(layers) - 0.5, -0.5),
            )  # fmt: skip
            plot.set(title=f"{symbol}, {label}", xlabel="round")
            names = [each.removesuffix(".weight") for each in layers] if column == 0 else []
            plot.set_yticks(range(len(layers)), names)
            plot.tick_params(axis="y", labelsize=6)
            style.whole_numbers(plot)
            figure.colorbar(image, ax=plot, pad=0.02)
    return figure


def layers_of(run: SessionData) -> list[str]:
    """The layers with a θ, from shallow to deep as their names order them."""
    names = run.records[-1].get("method_metrics", {}) if run.records else {}
    return [name.removeprefix("theta/") for name in names if name.startswith("theta/")]


@style.styled()
def embedding(found: Embedding, *, width: Width = "page") -> Figure:
    """Points in the plane twice: colored by class, and by client; anchors are larger and outlined.

    What the anchors are (guiding vectors, prototypes) stands in the legend. Axes of t-SNE have no unit and no scale.
    """
    figure, axes = style.blank(width, 0.52, 1, 2)
    names = [str(client) for client in range(int(found.clients.max()) + 1)]
    by_class, by_client = axes[0]
    _scatter(by_class, found, found.labels, list(map(style.label, found.classes)), "class")
    _scatter(by_client, found, found.clients, names, "client")
    outlined: Any = {"s": 45, "edgecolors": "black", "linewidths": 1.0, "zorder": 3}
    for (x, y), label in zip(found.anchors, found.anchor_labels, strict=True):
        colour, marker = look(int(label), len(found.classes))
        by_class.scatter(x, y, color=colour, marker=marker, **outlined)
        by_client.scatter(x, y, color="white", marker="o", **outlined)
    return figure


_SHAPES = ("o", "^", "s")


def look(place: int, of: int) -> tuple[str, str]:
    """Colour and mark of the `place`-th of so many: the series' colours, one mark after the other, else the heat."""
    colours = len(palette.OKABE_ITO)
    if of <= colours * len(_SHAPES):
        return style.colour(place), _SHAPES[place // colours]
    return to_hex(style.heat()(place / max(of - 1, 1))), "o"


def _scatter(plot: Axes, found: Embedding, of: NDArray[np.int64], names: list[str], title: str) -> None:
    present = sorted({int(each) for each in of})
    for each in present:
        colour, marker = look(each, len(names))
        own = found.points[of == each]
        plot.scatter(own[:, 0], own[:, 1], s=7, color=colour, marker=marker, linewidths=0, label=names[each])
    plot.set(title=f"by {title}", xticks=[], yticks=[])
    plot.spines[:].set_visible(True)
    handles = [_key(names[each], *look(each, len(names))) for each in present] if len(present) <= 24 else []
    if found.anchor_kind:
        handles.append(_key(found.anchor_kind, "white", "o", markersize=6, markeredgecolor="black"))
    if handles:
        plot.legend(
            handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.02), fontsize=6, handletextpad=0.1,
            ncols=style.balanced(len(handles), 5)[0], columnspacing=0.8,
        )  # fmt: skip


def _key(label: str, colour: str, marker: str, markersize: float = 3.5, **options: Any) -> Line2D:
    look: Any = {"linestyle": "", "color": colour, "marker": marker, "markersize": markersize}
    return Line2D([], [], label=label, **look, **options)


@style.styled()
def partition(held: "Partition", *, width: Width = "column") -> Figure:
    """A bubble for every client and class, its area the training samples; none where it has none."""
    counts, classes = np.asarray(held.counts["train"], np.int64), held.classes
    clients, known = counts.shape
    if not counts.any():
        raise ConfigError("the partition has no samples to show.")
    most, wide = int(counts.max()), max(clients, known)
    figure, plot = style.single(width, min(1.4, 0.32 + 0.52 * known / wide))
    client, label = np.nonzero(counts)
    largest = (0.72 * 72 * (style.WIDTHS[width] - 1.1) / wide) ** 2
    plot.scatter(
        client, label, s=np.maximum(largest * counts[client, label] / most, 1.0), color=style.colour(4),
        alpha=0.75, linewidths=0,
    )  # fmt: skip
    every = max(1, known // 30)
    names = list(map(style.label, classes)) if known <= 30 else [str(number) for number in range(known)]
    plot.set_xticks(range(0, clients, max(1, clients // 20)))
    plot.set_yticks(range(0, known, every), names[::every])
    plot.set(xlabel="client", ylabel="class", title=f"largest bubble: {most:,} training samples")
    plot.set(xlim=(-0.7, clients - 0.3), ylim=(-0.7, known - 0.3))
    plot.grid(True)
    return figure
