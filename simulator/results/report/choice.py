"""Which figures some sessions have something to show in, each with the command that draws it."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from simulator.base.errors import HtflError
from simulator.results.analysis.axes import key_of
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.table import Select
from simulator.results.figures import accuracy, cka, coefficients, losses, sensitivity
from simulator.results.figures.partition import partition
from simulator.results.figures.timeline import timeline
from simulator.results.inspection.partition import of_session
from simulator.results.report.pictures import Picture

Kind = tuple[str, tuple[str, ...], str, Callable[[], Figure]]
"""What `htfl-sim plot` calls it, its options besides --by, the caption, and how it is drawn."""
OF_ONE = ("partition", "cka", "timeline")


def pictures(
    names: Sequence[str],
    runs: Sequence[SessionData],
    by: Sequence[str],
    select: Select | None,
    sessions_dir: Path,
    data_dir: Path,
) -> list[Picture]:
    """The figures of sessions that were read in full, grouped by the axes; what has nothing to show is left out.

    names: what was typed for the sessions. The partition is of the first one, whose data are loaded, if they are there.
    """
    first = _name(runs[0].folder, sessions_dir)
    found = []
    for kind, options, caption, draw in (
        *_over_rounds(runs, by),
        *_sensitivities(runs, by, select),
        *_insides(runs, by),
        *_of_one(runs[0], first, data_dir),
    ):
        try:
            figure = draw()
        except HtflError:
            continue
        grouped = [] if kind in (*OF_ONE, "heatmap") else [word for axis in by for word in ("--by", axis)]
        if kind == "sensitivity":
            grouped = [word for axis in by if axis not in options for word in ("--by", axis)]
        of = [first] if kind in OF_ONE else names
        file = "-".join([kind, *options[1:2]]) + ".pdf"
        words = ["htfl-sim", "plot", kind, *of, *grouped, *options, "--out", file]
        found.append(Picture(caption, shlex.join(words), figure))
    return found


def _name(folder: Path, sessions_dir: Path) -> str:
    """What a session is called on the command line."""
    inside = folder.is_relative_to(sessions_dir)
    return folder.relative_to(sessions_dir).as_posix() if inside else str(folder)


def _over_rounds(runs: Sequence[SessionData], by: Sequence[str]) -> Iterator[Kind]:
    seeds = "Mean test accuracy; bands are one sample standard deviation over seeds."
    yield "accuracy", (), seeds, lambda: accuracy.over(runs, by=by)
    if any(run.totals["bytes_up_total"].any() or run.totals["bytes_down_total"].any() for run in runs):
        over = "The same over the bytes sent, up and down."
        yield "accuracy", ("--x", "bytes"), over, lambda: accuracy.over(runs, by=by, x="bytes")
    clients = "Test accuracies of single clients after the last round; a diamond is their mean."
    yield "box", (), clients, lambda: accuracy.boxes(runs, by=by)
    if len({key_of(run, by) for run in runs}) > 1:
        spent = "Best accuracy against traffic; a mark's area is the computation."
        yield "tradeoff", (), spent, lambda: accuracy.tradeoff(runs, by=by)
    yield (
        "loss",
        (),
        "Mean cross-entropy of the clients' models in training, without what methods add to it.",
        lambda: losses.losses(runs, by=by),
    )


def _sensitivities(runs: Sequence[SessionData], by: Sequence[str], select: Select | None) -> Iterator[Kind]:
    """Over each axis of numbers, a line a group of the other axes; a heat map over the first two."""
    numeric = [axis for axis in by if _numeric([key_of(run, (axis,))[0] for run in runs])]
    chosen = ("--select", select) if select else ()
    for axis in numeric:
        others = [each for each in by if each != axis]
        draw = partial(sensitivity.curve, runs, axis=axis, by=others, select=select)
        yield "sensitivity", ("--axis", axis, *chosen), f"Test accuracy over the values of {axis}.", draw
    if len(numeric) > 1:
        one, two = numeric[:2]
        draw = partial(sensitivity.heatmap, runs, axes=(one, two), select=select)
        words = f"Test accuracy over {one} and {two}."
        yield "heatmap", ("--axis", one, "--axis", two, *chosen), words, draw


def _insides(runs: Sequence[SessionData], by: Sequence[str]) -> Iterator[Kind]:
    layers = "CKA between clients, by layer and round."
    yield "cka-curves", (), layers, lambda: cka.curves(runs, by=by)
    inco = "Coefficients of InCo Aggregation, by layer."
    yield "inco", (), inco, lambda: coefficients.coefficients(runs, by=by)


def _of_one(run: SessionData, name: str, data_dir: Path) -> Iterator[Kind]:
    yield "cka", (), f"CKA between the clients of {name}, last measured.", lambda: cka.matrices(run)
    if run.records and "time" in run.records[-1]:
        when = f"Who receives, trains, sends, and waits in the last rounds of {name}, in simulated time."
        yield "timeline", (), when, lambda: timeline(run)
    held = f"Training images of each class that each client of {name} holds."
    yield "partition", (), held, partial(_partition, run.folder, data_dir)


def _partition(folder: Path, data_dir: Path) -> Figure:
    found = of_session(folder, data_dir)
    return partition(found.train, found.classes)


def _numeric(values: Sequence[Any]) -> bool:
    known = {value for value in values if value is not None}
    return len(known) > 1 and all(isinstance(value, int | float) for value in known)
