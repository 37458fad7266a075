"""Accuracy over the rounds, in three modes: band and mean, all lines, clients × rounds."""

from textual.app import ComposeResult
from textual.containers import Container

from simulator.analysis.quantiles import quantiles
from simulator.figures.palette import OKABE_ITO
from tui.app.charts.figure import Band, Figure, Series
from tui.app.panels.chart_parts import PERCENT, marks
from tui.app.panels.client_rows import shown
from tui.app.view import View
from tui.app.widgets import Heatmap, LineChart
from tui.app.widgets.surface import glyphs_of
from tui.common.formatting import spelled

MODES = ("band and mean", "all clients", "clients × rounds")
MEAN = OKABE_ITO[0]
BAND = (0.1, 0.9)


class AccuracyChart(Container):
    """The chart of `View.chart`'s mode, with the pinned clients on top and a cursor at the round travelled to."""

    DEFAULT_CSS = "AccuracyChart { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines = LineChart()
        self._map = Heatmap(value_range=(0.0, PERCENT), unit="%", axes=("client", "round"))
        self._map.display = False
        self._travelled = False

    def compose(self) -> ComposeResult:
        yield self._lines
        yield self._map

    def show(self, view: View) -> None:
        as_map = view.chart == 2
        self._lines.display, self._map.display = not as_map, as_map
        if as_map:
            self._show_map(view)
        else:
            self._show_lines(view)

    def _show_lines(self, view: View) -> None:
        curves, models = view.curves, view.run.models
        rounds = curves.evaluated
        mean, accuracy = curves.mean[rounds - 1] * PERCENT, curves.accuracy[rounds - 1] * PERCENT
        x = rounds.astype(float)
        series = [Series("mean", mean, x, pinned=True, colour=MEAN, key="m")]
        series += [
            Series(models[client], accuracy[:, client], x, pinned=True, key=str(client))
            for client in sorted(view.pinned)
            if client < curves.clients
        ]
        band = None
        if view.chart == 0:
            low, high = quantiles(accuracy, BAND)
            band = Band(spelled("10–90 %", glyphs_of(self)), low, high, x, colour=MEAN)
        else:
            series += [
                Series(models[client], accuracy[:, client], x, key=str(client))
                for client in shown(view)
                if client not in view.pinned
            ]
        self._lines.show(
            Figure(series, band, marks(view.run), "round", "%", cursor=view.cursor, crowd="clients")
        )

    def _show_map(self, view: View) -> None:
        curves = view.curves
        rounds = curves.evaluated
        clients = shown(view)
        self._map.show(
            curves.accuracy[rounds - 1][:, clients].T * PERCENT,
            [str(client) for client in clients],
            [str(round) for round in rounds],
        )
        if view.replaying and rounds.size:
            column = int((rounds <= view.shown).sum()) - 1
            first = clients.index(min(view.pinned)) if view.pinned else 0
            row = self._map.cursor[0] if self._map.cursor else first
            self._map.put_cursor(row, max(column, 0))
        elif self._travelled:
            self._map.action_hide_cursor()
        self._travelled = view.replaying
