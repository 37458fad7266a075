"""Which figures some sessions have something to show in, each with the command that draws it."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from simulator.analysis.axes import key_of
from simulator.analysis.run import Run
from simulator.errors import ConfigError, DataError
from simulator.figures import accuracy, coefficients, losses, sensitivity, similarity
from simulator.figures.partition import partition
from simulator.inspection.representations import class_counts
from simulator.report.pictures import Picture

Kind = tuple[str, tuple[str, ...], str, Callable[[], Figure]]
"""What `htfl-sim plot` calls it, its options besides --by, the caption, and how it is drawn."""


def pictures(names: Sequence[str], runs: Sequence[Run], by: Sequence[str], data_dir: Path) -> list[Picture]:
    """The figures of sessions that were read in full, grouped by the axes; kinds that have nothing to show are left out.

    names: what was typed for the sessions. The partition is of the first one, whose data are loaded, if they are there.
    """
    found = []
    for kind, options, caption, draw in _kinds(runs, by, data_dir):
        try:
            figure = draw()
        except (ConfigError, DataError):
            continue
        of = [runs[0].label] if kind in ("partition", "cka") else names
        grouped = [] if kind in ("partition", "cka", "heatmap") else [w for axis in by for w in ("--by", axis)]
        words = ["htfl-sim", "plot", kind, *of, *grouped, *options, "--out", f"{kind}.pdf"]
        found.append(Picture(caption, shlex.join(words), figure))
    return found


def _kinds(runs: Sequence[Run], by: Sequence[str], data_dir: Path) -> Iterator[Kind]:
    first = runs[0]
    seeds = "Mean test accuracy; bands are one sample standard deviation over seeds."
    yield "accuracy", (), seeds, lambda: accuracy.over(runs, by=by)
    if any(run.totals.up.any() or run.totals.down.any() for run in runs):
        over = "The same over the bytes sent, up and down."
        yield "accuracy", ("--x", "bytes"), over, lambda: accuracy.over(runs, by=by, x="bytes")
    clients = "Test accuracies of single clients after the last round; a diamond is their mean."
    yield "box", (), clients, lambda: accuracy.boxes(runs, by=by)
    if len({key_of(run, by) for run in runs}) > 1:
        spent = "Best accuracy against traffic; a disc's area is the computation."
        yield "tradeoff", (), spent, lambda: accuracy.tradeoff(runs, by=by)
    yield "loss", (), "Training losses by phase.", lambda: losses.losses(runs, by=by)
    yield from _sensitivities(runs, by)
    layers = "CKA between clients, by layer and round."
    yield "cka-curves", (), layers, lambda: similarity.curves(runs, by=by)
    matrices = f"CKA between the clients of {first.label}, last measured."
    yield "cka", (), matrices, lambda: similarity.matrices(first)
    yield "inco", (), "Coefficients of InCo Aggregation, by layer.", lambda: coefficients.coefficients(runs, by=by)
    held = f"Training images of each class that each client of {first.label} holds."
    yield "partition", (), held, lambda: partition(*class_counts(first.folder, data_dir))


def _sensitivities(runs: Sequence[Run], by: Sequence[str]) -> Iterator[Kind]:
    """Over each axis of numbers; a heatmap over the first two."""
    numeric = [axis for axis in by if _numeric([key_of(run, (axis,))[0] for run in runs])]
    for axis in numeric:
        others = [each for each in by if each != axis]
        words = "Last mean test accuracy over the values of a setting."
        yield "sensitivity", ("--axis", axis), words, lambda a=axis, o=others: sensitivity.curve(runs, axis=a, by=o)
    if len(numeric) > 1:
        one, two = numeric[:2]
        words = "Last mean test accuracy over two settings."
        axes = ("--axis", one, "--axis", two)
        yield "heatmap", axes, words, lambda: sensitivity.heatmap(runs, axes=(one, two))


def _numeric(values: Sequence[Any]) -> bool:
    known = {value for value in values if value is not None}
    return len(known) > 1 and all(isinstance(value, int | float) for value in known)
