"""InCo Aggregation's coefficients of Theorem 3.1, layer by layer."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from simulator.base.errors import ConfigError
from simulator.results.analysis.run import SessionData
from simulator.results.figures import style
from simulator.results.figures.grouped import By, grouped
from simulator.results.figures.losses import values_of
from simulator.results.figures.style import Width

SYMBOLS = {"theta": "θ", "beta": "β"}


def coefficients(runs: Sequence[SessionData], *, by: By = (), width: Width = "page") -> Figure:
    """θ and β of every layer that learns from a shallower one, as heat over rounds, in the order in which they stand.

    A row of two plots a group; over seeds the mean. Blue is below zero, where the gradients conflict, red above. Raises
    ConfigError where no session's method has them.
    """
    groups = {label: group for label, group in grouped(runs, by).items() if all(map(layers_of, group))}
    if not groups:
        raise ConfigError("none of these sessions was run by InCo Aggregation, whose θ and β these are.")
    inches = style.WIDTHS[width]
    height = sum(0.55 + 0.115 * len(layers_of(group[0])) for group in groups.values())
    figure, axes = style.blank(width, height / inches, len(groups), 2)
    with style.styled():
        for row, (label, group) in enumerate(groups.items()):
            layers = layers_of(group[0])
            for column, (key, symbol) in enumerate(SYMBOLS.items()):
                plot = axes[row, column]
                values = _values(group, key, layers)
                reach = float(np.nanmax(np.abs(values))) or 1.0
                image = plot.imshow(
                    values, aspect="auto", cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest",
                    extent=(0.5, values.shape[1] + 0.5, len(layers) - 0.5, -0.5),
                )  # fmt: skip
                plot.set(title=f"{symbol}, {label}", xlabel="round")
                plot.set_yticks(range(len(layers)), [_short(each) for each in layers] if column == 0 else [])
                plot.tick_params(axis="y", labelsize=6)
                style.whole_numbers(plot)
                figure.colorbar(image, ax=plot, pad=0.02)
    return figure


def layers_of(run: SessionData) -> list[str]:
    """The layers with a θ, from shallow to deep as their names order them."""
    names = run.records[-1].get("method_metrics", {}) if run.records else {}
    return [name.removeprefix("theta/") for name in names if name.startswith("theta/")]


def _values(group: Sequence[SessionData], key: str, layers: Sequence[str]) -> np.ndarray:
    """[layers, rounds], the mean over the sessions up to the shortest."""
    tables = [np.array([values_of(f"{key}/{layer}")(run) for layer in layers]) for run in group]
    length = min(table.shape[1] for table in tables)
    return np.asarray(np.mean([table[:, :length] for table in tables], axis=0))


def _short(layer: str) -> str:
    return layer.removesuffix(".weight")
