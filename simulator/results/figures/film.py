"""Films: rounds of a session one after the other, as a GIF."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.animation import PillowWriter
from matplotlib.figure import Figure

from simulator.base.errors import ConfigError
from simulator.results.analysis.cka import CkaMeasurement
from simulator.results.analysis.run import SessionData
from simulator.results.figures import style
from simulator.results.figures.cka import known_layers, of_measurement
from simulator.results.figures.embedding import embedding
from simulator.results.figures.grouped import looks
from simulator.results.figures.style import Width
from simulator.results.inspection.embedding import Embedding

DPI = 100
Draw = Callable[[Figure], object]
"""Draws a frame in a figure, which it empties first."""


def save(path: Path, draws: Sequence[Draw], seconds: float) -> None:
    """Write a GIF of these frames, each shown for so many seconds, that starts over. Raises ConfigError, or OSError."""
    if path.suffix.lower() != ".gif":
        raise ConfigError(f"a film is written as .gif; '{path.name}' ends otherwise.")
    figure = Figure(layout="constrained")
    writer = PillowWriter(fps=1 / seconds)  # type: ignore[arg-type]  # any number
    with style.styled():
        draws[0](figure)  # so that the file has its size
        with writer.saving(figure, str(path), DPI):
            for draw in draws:
                draw(figure)
                writer.grab_frame()


def accuracy(run: SessionData, rounds: Sequence[int], *, width: Width = "column") -> list[Draw]:
    """The mean test accuracy up to each round, and the clients' accuracies as thin lines."""
    curves = run.curves
    x = np.arange(1, curves.rounds + 1)
    every = 100 * np.array([curves.accuracy.after(round) for round in x.tolist()]).reshape(len(x), -1)
    mean = 100 * np.asarray(run.totals.mean)
    color = style.shade(next(iter(looks([run], ()).values())))

    def draw(figure: Figure, round: int) -> None:
        _, axes = style.blank(width, figure=figure)
        with style.styled():
            plot = axes[0, 0]
            plot.plot(x[:round], every[:round], color="#BBBBBB", linewidth=0.6)
            plot.plot(x[:round], mean[:round], color=color, linewidth=1.6)
            plot.plot(x[round - 1], mean[round - 1], color=color, marker="o")
            known = every[np.isfinite(every)]
            low, high = (known.min(), known.max()) if known.size else (0.0, 100.0)
            plot.set(xlim=(0.5, len(x) + 0.5), ylim=(max(low - 3, 0), min(high + 3, 100)))
            plot.set(xlabel="round", ylabel="test accuracy, %")
            plot.set_title(f"{style.label(run.name)}, round {round}: mean {mean[round - 1]:.1f} %")
            style.whole_numbers(plot)
            plot.grid(True)

    return [lambda figure, round=round: draw(figure, round) for round in rounds]  # type: ignore[misc]


def cka(
    name: str, measured: Sequence[CkaMeasurement], layers: Sequence[str] = (), *, width: Width = "page"
) -> list[Draw]:
    """The matrices of the layers that all measurements have. Raises ConfigError for a layer that one lacks."""
    common = tuple(layer for layer in measured[0].layers if all(layer in one.layers for one in measured))
    chosen = known_layers(common, layers)

    def draw(figure: Figure, found: CkaMeasurement) -> None:
        of_measurement(found, chosen, width=width, figure=figure)
        _title(figure, f"{name}, round {found.round}")

    return [lambda figure, found=found: draw(figure, found) for found in measured]  # type: ignore[misc]


def tsne(name: str, found: Sequence[Embedding], *, width: Width = "page") -> list[Draw]:
    """The samples in the plane. The axes are the same in all frames."""
    places = np.concatenate([np.concatenate([each.points, each.anchors]) for each in found])
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.04 * (high - low) + 1e-9

    def draw(figure: Figure, one: Embedding) -> None:
        about = (one.labels, one.clients, one.classes, one.anchors, one.anchor_labels, one.anchor_kind)
        embedding(one.points, *about, width=width, figure=figure)
        for plot in figure.axes:
            plot.set_xlim(low[0] - margin[0], high[0] + margin[0])
            plot.set_ylim(low[1] - margin[1], high[1] + margin[1])
        _title(figure, f"{name}, round {one.round}")

    return [lambda figure, one=one: draw(figure, one) for one in found]  # type: ignore[misc]


def _title(figure: Figure, text: str) -> None:
    with style.styled():
        figure.suptitle(style.label(text), fontsize=9)
