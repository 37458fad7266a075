"""Clients over simulated time in cells: each shows what its client did for most of the cell's time."""

from collections.abc import Callable

import numpy as np

from simulator.results.analysis.timeline import Timeline
from tui.app.charts.chart import Entry, draw_legend, legend_rows
from tui.app.charts.look import BOLD, Canvas, Look
from tui.app.charts.plot import Axis, PlotArea, draw_axes
from tui.common.cells import cell_count

UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))
FRAME = 3  # rows of the rounds' numbers and of the x axis
PHASES: dict[str, tuple[str, str, str, int | None]] = {
    "latency": ("latency", "·", ".", None),
    "down": ("downlink", "▼", "v", 1),
    "compute": ("training", "█", "#", 4),
    "up": ("uplink", "▲", "^", 0),
    "wait": ("waiting", "─", "-", None),
}
"""By phase its name, its characters, without and with ASCII, and the series whose color it has."""
WASTED = {
    "lost": ("lost", "×", "x"),
    "late": ("late", "!", "!"),
    "stale": ("too old", "!", "!"),
    "dropped": ("lost on the wire", "?", "?"),
}
"""By fate of unused work its name, and its characters, without and with ASCII."""
ALARM = 5  # the series whose color unused work has
Make = Callable[[int], Timeline]
"""The timeline of at most so many clients."""


def draw_timeline(make: Make, width: int, height: int, look: Look) -> Canvas:
    """A timeline on [height, width] cells: a row for each client, and a line and a number at the end of each round."""
    canvas = look.blank(width, height)
    if height < FRAME + 1:
        return canvas
    found = make(height - FRAME)
    legend = legend_rows(_entries(found, look), width, height)
    if len(found.clients) > height - legend - FRAME:
        found = make(height - legend - FRAME)
    names, top = list(map(str, found.clients)), legend + 1
    gutter, rows = max(map(cell_count, names), default=0) + 1, len(names)
    if width < gutter + 10 or not found.ends > found.begins:
        return canvas
    if legend:
        draw_legend(canvas, _entries(found, look), legend, 0, look)
    plot = canvas.window(top, gutter, rows, width - gutter)
    second, unit = next((each for each in UNITS if found.ends >= 2 * each[0]), UNITS[-1])
    area = PlotArea(0, 0, rows, plot.width, Axis(found.begins / second, found.ends / second), Axis(0, 1))
    label = ", ".join(filter(None, (found.reduced, f"simulated {unit}")))
    draw_axes(canvas.window(top, gutter, rows + 2, plot.width), area, label, look)
    for row, name in enumerate(names):
        canvas.put(top + row, gutter - 1 - cell_count(name), name, look.muted)
    free = plot.width + 1
    for round, end in reversed(found.marks):  # with its number above, the newest first, if there is room
        if (column := area.column(end / second)) is None:
            continue
        for row in range(rows):
            plot.put(row, column, look.glyphs.mark, look.muted)
        start = min(max(column - len(str(round)) + 1, 0), plot.width - len(str(round)))
        if start + len(str(round)) < free:
            canvas.put(top - 1, gutter + start, str(round), look.muted)
            free = start
    for row, client in enumerate(found.clients):
        _draw_client(plot, row, client, found, look)
    return canvas


def _entries(found: Timeline, look: Look) -> list[Entry]:
    phases = {phase for each in found.dispatches for phase, _, _ in each.parts}
    fates = {each.fate for each in found.dispatches if each.arrives <= found.ends}
    shown = [(PHASES[each], _colour(each, look)) for each in PHASES if each in phases]
    shown += [((*WASTED[each], None), look.series(ALARM)) for each in WASTED if each in fates]
    return [Entry(signs[look.ascii], name, "", fg, pinned=True) for (name, *signs, _), fg in shown]


def _colour(phase: str, look: Look) -> int:
    series = PHASES[phase][-1]
    return look.muted if series is None else look.series(series)


def _draw_client(plot: Canvas, row: int, client: int, found: Timeline, look: Look) -> None:
    """The row of a client. A cell shows the phase that takes most of its time, if that is more than half of it."""
    cells, span = plot.width, found.ends - found.begins
    edges = np.linspace(found.begins, found.ends, cells + 1)
    shares, wasted = dict.fromkeys(PHASES, np.zeros(cells)), np.zeros(cells)
    own = [each for each in found.dispatches if each.client == client]
    for each in own:
        for phase, start, end in each.parts:
            inside = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
            covered = np.clip(inside, 0, None) / (span / cells)  # the share of each cell's time
            shares[phase] = shares[phase] + covered
            wasted += covered * each.wasted
    totals = np.sum(list(shares.values()), axis=0)
    for column in np.flatnonzero(totals >= 0.5).tolist():
        doing = max(PHASES, key=lambda phase: shares[phase][column])
        pale = wasted[column] > 0.5 * totals[column]
        sign = PHASES[doing][1 + look.ascii]
        plot.put(row, column, str(sign), look.muted if pale else _colour(doing, look))
    for each in own:
        if each.wasted and each.arrives <= found.ends:
            column = min(int((each.arrives - found.begins) / span * cells), cells - 1)
            plot.put(row, column, WASTED[each.fate][1 + look.ascii], look.series(ALARM), BOLD)
