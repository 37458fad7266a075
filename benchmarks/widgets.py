"""`python -m benchmarks.widgets`: what it costs to draw the app's widgets, and what is sent when little changes.

Setting: a screen of 120 × 40 cells. "drawn": cells from data. "in all": from new data to the bytes for the terminal,
which is what a refresh of the screen takes. "lines": how many of the widget's lines were sent again. Times are the
processor's, as other programs may run.
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table as Report
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widget import Widget

from tui.app.charts.canvas import Array
from tui.app.charts.figure import Band, Figure, Mark, Series
from tui.app.charts.glyphs import GLYPHS
from tui.app.panels.client_rows import COLUMNS, rows_of
from tui.app.widgets import Heatmap, LineChart, Table
from tui.app.widgets.canvas_widget import CanvasWidget
from tui.app.widgets.surface import glyphs_of, scheme_of

SIZE = 120, 40
CLIENTS, ROUNDS = 100, 500
REPEATS = 15


@dataclass(frozen=True)
class Case:
    """A widget, and what shows it the data of turn 0, 1, 2…"""

    name: str
    widget: CanvasWidget
    data: Callable[[int], Callable[[], None]]


@dataclass(frozen=True)
class Cost:
    """Milliseconds (medians), and the lines sent again."""

    drawn: float
    in_all: float
    lines: float


class Stage(App[None]):
    """An app of one widget."""

    CSS = "Screen { layout: vertical; }"

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self._widget = widget

    def compose(self) -> ComposeResult:
        yield self._widget


def curves(turn: int) -> Array:
    """[clients, rounds + turn] accuracies that rise and flicker; a turn is a round more."""
    rounds = np.arange(1, ROUNDS + turn + 1)
    draw = np.random.default_rng(0)
    best, pace = draw.uniform(0.5, 0.9, (CLIENTS, 1)), draw.uniform(20, 120, (CLIENTS, 1))
    flicker = draw.normal(0, 0.02, (CLIENTS, ROUNDS + REPEATS + 1))[:, : len(rounds)]
    return np.asarray(np.clip(best * (1 - np.exp(-rounds / pace)) + flicker, 0, 1))


def chart_cases() -> list[Case]:
    """A band with a mean and three pinned clients; all lines."""
    banded, crowded = LineChart(), LineChart()

    def band(turn: int) -> Callable[[], None]:
        y = curves(turn)
        low, high = np.quantile(y, (0.1, 0.9), axis=0)
        pinned = [Series(f"client {one}", y[one], pinned=True) for one in range(3)]
        mean = Series("mean", y.mean(axis=0), pinned=True)
        figure = Figure([mean, *pinned], Band("10–90 %", low, high), [Mark(200, "fedgh")], y_range=(0, 1))
        return lambda: banded.show(figure)

    def crowd(turn: int) -> Callable[[], None]:
        lines = [Series(f"client {one}", y, pinned=one < 3) for one, y in enumerate(curves(turn))]
        return lambda: crowded.show(Figure(lines, y_range=(0, 1), crowd="clients"))

    return [
        Case("LineChart: band, mean, 3 pinned × 500", banded, band),
        Case("LineChart: 100 lines × 500", crowded, crowd),
    ]


def heat_case(clustered: bool) -> Case:
    """A 100 × 100 matrix, all of it new each turn."""
    heatmap = Heatmap(value_range=(0, 1), axes=("client", "client"))
    heatmap.clustered = clustered

    def data(turn: int) -> Callable[[], None]:
        features = np.random.default_rng(turn).normal(size=(CLIENTS, 6))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        return lambda: heatmap.show((features @ features.T) ** 2)

    return Case(f"Heatmap: 100 × 100{', clustered' if clustered else ''}", heatmap, data)


def table_case(changed: int) -> Case:
    """100 clients, of whom `changed` have a new accuracy each turn."""
    table = Table(COLUMNS, cursor=True, sort="id")
    y = curves(0)

    models = [f"cnn{client % 5 + 1}" for client in range(CLIENTS)]
    accuracy, change, sent = y[:, -1].copy(), np.full(CLIENTS, 0.001), np.full(CLIENTS, 1.2e6)

    def data(turn: int) -> Callable[[], None]:
        accuracy[:changed], change[:changed] = 0.5 + turn / 100, turn / 1000
        numbers = accuracy.copy(), change.copy(), sent, sent
        shown = rows_of(range(CLIENTS), models, *numbers, histories=y[:, -40:])
        return lambda: table.show(shown)

    return Case(f"Table: 100 clients, {changed} changed", table, data)


async def measure(case: Case) -> Cost:
    """Show new data turn by turn and time what that takes."""
    app, widget = Stage(case.widget), case.widget
    drawn, in_all, lines = list[float](), list[float](), list[int]()
    async with app.run_test(size=SIZE) as pilot:
        case.data(0)()
        await pilot.pause()
        for turn in range(1, REPEATS + 1):
            show = case.data(turn)
            began = time.thread_time()
            show()
            widget._renew()
            dirty = {line for region in widget._repaint_regions for line in region.line_range}
            strips = widget.render_lines(Region(0, 0, *widget.size))
            "".join(strips[line].render(app.console) for line in sorted(dirty))
            in_all.append(time.thread_time() - began)
            lines.append(len(dirty))

            began = time.thread_time()
            widget.draw(*widget.content_size, scheme_of(widget), GLYPHS[glyphs_of(widget)])
            drawn.append(time.thread_time() - began)
            await pilot.pause()
    return Cost(1e3 * statistics.median(drawn), 1e3 * statistics.median(in_all), statistics.median(lines))


def main() -> None:
    """Measure and print."""
    report = Report(title=f"Widgets alone on a screen of {SIZE[0]} × {SIZE[1]}, medians of {REPEATS}")
    for column in ("widget", "drawn, ms", "in all, ms", "lines sent"):
        report.add_column(column, justify="left" if column == "widget" else "right")
    for case in [*chart_cases(), heat_case(False), heat_case(True), *map(table_case, (100, 5, 0))]:
        cost = asyncio.run(measure(case))
        report.add_row(case.name, f"{cost.drawn:.1f}", f"{cost.in_all:.1f}", f"{cost.lines:.0f}")
    Console().print(report)


if __name__ == "__main__":
    main()
