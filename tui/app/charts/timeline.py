"""Clients over simulated time in cells: each shows what its client did for most of the cell's time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.results.analysis.timeline import Timeline
from tui.app.charts.canvas import BOLD, Array, Canvas
from tui.app.charts.chart import Entry, draw_legend, legend_rows
from tui.app.charts.look import Look
from tui.app.charts.plot import Axis, PlotArea, draw_axes
from tui.common.cells import cell_count

UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))
FRAME = 3  # rows of the rounds' numbers and of the x axis


@dataclass(frozen=True)
class _Phase:
    name: str
    glyph: str
    ascii: str
    series: int | None


_PHASES = (
    _Phase("latency", "·", ".", None),
    _Phase("downlink", "▼", "v", 1),
    _Phase("training", "█", "#", 4),
    _Phase("uplink", "▲", "^", 0),
    _Phase("waiting", "─", "-", None),
)
_ORDER = {"latency": 0, "down": 1, "compute": 2, "up": 3, "wait": 4}
_WASTED = {"lost": ("×", "x"), "late": ("!", "!"), "stale": ("!", "!"), "dropped": ("?", "?")}
_WASTED_NAMES = {"lost": "lost", "late": "late", "stale": "too old", "dropped": "lost on the wire"}


Make = Callable[[int], Timeline]
"""The timeline of at most so many clients."""


def draw_timeline(make: Make, width: int, height: int, look: Look) -> Canvas:
    """A timeline on [height, width] cells: a row for each client, and a line with its number at the end of each round.

    Work that is not used is gray, with a mark at its end. If not all clients have a row, the x axis says how many do.
    """
    canvas = look.blank(width, height)
    if height < FRAME + 1:
        return canvas
    plain = look.ascii
    found = make(height - FRAME)
    legend = legend_rows(_entries(found, plain, look), width, height)
    if len(found.clients) > height - legend - FRAME:
        found = make(height - legend - FRAME)
    names = list(map(str, found.clients))
    gutter = max(map(cell_count, names), default=0) + 1
    if width < gutter + 10 or not found.ends > found.begins:
        return canvas
    if legend:
        draw_legend(canvas, _entries(found, plain, look), legend, 0, look)
    rows = len(names)
    top = legend + 1
    plot = canvas.window(top, gutter, rows, width - gutter)
    second, unit = next((each for each in UNITS if found.ends >= 2 * each[0]), UNITS[-1])
    axis = Axis(found.begins / second, found.ends / second)
    area = PlotArea(0, 0, rows, plot.width, axis, Axis(0, 1))
    label = ", ".join(filter(None, (found.reduced, f"simulated {unit}")))
    draw_axes(canvas.window(top, gutter, rows + 2, plot.width), area, label, look)
    for row, name in enumerate(names):
        canvas.put(top + row, gutter - 1 - cell_count(name), name, look.muted)
    _draw_rounds(canvas, plot, found, (top, gutter), area, second, look)
    for row, client in enumerate(found.clients):
        _draw_client(plot, row, client, found, look, plain)
    return canvas


def _entries(found: Timeline, plain: bool, look: Look) -> list[Entry]:
    phases = {_ORDER[phase] for each in found.dispatches for phase, _, _ in each.parts}
    fates = {each.fate for each in found.dispatches if each.arrives <= found.ends}
    entries = [
        Entry(phase.ascii if plain else phase.glyph, phase.name, "", _colour(phase, look), pinned=True)
        for place, phase in enumerate(_PHASES)
        if place in phases
    ]
    return entries + [
        Entry(signs[plain], _WASTED_NAMES[fate], "", _alarm(look), pinned=True)
        for fate, signs in _WASTED.items()
        if fate in fates
    ]


def _colour(phase: _Phase, look: Look) -> int:
    return look.muted if phase.series is None else look.series(phase.series)


def _alarm(look: Look) -> int:
    return look.series(5)


def _draw_rounds(
    canvas: Canvas,
    plot: Canvas,
    found: Timeline,
    corner: tuple[int, int],
    area: PlotArea,
    second: float,
    look: Look,
) -> None:
    """Lines at the ends of rounds, and their numbers above, the newest first, where there is room."""
    top, left = corner
    free = plot.width + 1
    for round, end in reversed(found.marks):
        if (column := area.column(end / second)) is None:
            continue
        for row in range(plot.height):
            plot.put(row, column, look.glyphs.mark, look.muted)
        text = str(round)
        start = min(max(column - len(text) + 1, 0), plot.width - len(text))
        if start + len(text) < free:
            canvas.put(top - 1, left + start, text, look.muted)
            free = start


def _draw_client(plot: Canvas, row: int, client: int, found: Timeline, look: Look, plain: bool) -> None:
    """The row of a client. A cell shows the phase that takes most of its time, if that is more than half of it."""
    cells = plot.width
    shares = np.zeros((len(_PHASES), cells))
    wasted = np.zeros(cells)
    for each in found.dispatches:
        if each.client != client:
            continue
        for phase, start, end in each.parts:
            covered = _covered(start, end, found, cells)
            shares[_ORDER[phase]] += covered
            if each.wasted:
                wasted += covered
    shown = np.flatnonzero(shares.sum(axis=0) >= 0.5)
    for column in shown.tolist():
        doing = _PHASES[int(shares[:, column].argmax())]
        pale = wasted[column] > 0.5 * shares[:, column].sum()
        colour = look.muted if pale else _colour(doing, look)
        plot.put(row, column, doing.ascii if plain else doing.glyph, colour)
    for each in found.dispatches:
        if each.client == client and each.wasted and each.arrives <= found.ends:
            place = (each.arrives - found.begins) / (found.ends - found.begins)
            column = min(int(place * cells), cells - 1)
            plot.put(row, column, _WASTED[each.fate][plain], _alarm(look), BOLD)


def _covered(start: float, end: float, found: Timeline, cells: int) -> Array:
    """[cells] the share of each cell's time that is within start…end."""
    edges = np.linspace(found.begins, found.ends, cells + 1)
    width = (found.ends - found.begins) / cells
    inside = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
    return np.asarray(np.clip(inside, 0, None) / width)
