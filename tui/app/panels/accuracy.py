"""Accuracy over the rounds: band and mean, all lines, clients × rounds. Then loss, F1, and the user's own metrics.

With a partner, also its mean, the gain over it, and the gain as clients × rounds.
"""

import numpy as np
from numpy.typing import NDArray
from textual.app import ComposeResult
from textual.containers import Container

from simulator.results.analysis.client_values import Array
from simulator.results.analysis.quantiles import quantiles
from simulator.results.figures.palette import OKABE_ITO
from tui.app.charts.figure import Band, Figure, Series
from tui.app.messages import ClientSelected, CrosshairMoved
from tui.app.panels import gains
from tui.app.panels.chart_parts import PERCENT, marks, measures
from tui.app.panels.client_rows import shown
from tui.app.view import ACCURACIES, GAIN, View
from tui.app.widgets import Heatmap, LineChart
from tui.app.widgets.surface import glyphs_of
from tui.common.formatting import spelled

MEAN = OKABE_ITO[0]
BAND = (0.1, 0.9)


class AccuracyChart(Container):
    """The chart in `View.chart`'s mode, with the pinned clients on top."""

    DEFAULT_CSS = "AccuracyChart { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines = LineChart()
        self._accuracies = Heatmap(value_range=(0.0, PERCENT), unit="%", axes=("client", "round"))
        self._gains = Heatmap(unit="pp", axes=("client", "round"), signed=True)
        self._accuracies.display = self._gains.display = False
        self._map = self._accuracies
        """The map in use."""
        self.comparing = False
        """Whether the gains over the partner are shown as a map, in place of the chart."""
        self._rounds: NDArray[np.int_] = np.empty(0, int)
        self._column: int | None = None
        self._clients: list[int] = []

    def compose(self) -> ComposeResult:
        yield self._lines
        yield self._accuracies
        yield self._gains

    def show(self, view: View) -> None:
        as_map = self.comparing or view.mode == ACCURACIES[2]
        self._map = self._gains if self.comparing else self._accuracies
        for each in (self._lines, self._accuracies, self._gains):
            each.display = each is (self._map if as_map else self._lines)
        if self.comparing:
            self._show_gains(view)
        elif as_map:
            self._show_map(view)
        elif view.mode == GAIN:
            self._lines.show(gains.figure(view))
        elif view.mode in ACCURACIES:
            self._show_lines(view)
        else:
            self._lines.show(measures(view, view.mode))

    def _show_lines(self, view: View) -> None:
        curves, models, every = view.curves, view.run.models, view.mode == ACCURACIES[1]
        rounds = curves.evaluated
        mean, x = curves["accuracy"][rounds - 1] * PERCENT, rounds.astype(float)
        series = [Series("mean", mean, x, pinned=True, colour=MEAN, key="m")]
        series += gains.partner_mean(view)
        pinned = [client for client in sorted(view.pinned) if client < curves.clients]
        others = [client for client in shown(view) if client not in view.pinned] if every else []
        accuracy = curves.accuracy.select([*pinned, *others])[rounds - 1].T * PERCENT
        series += [
            Series(models[client], own, x, pinned=client in view.pinned, key=str(client))
            for client, own in zip([*pinned, *others], accuracy, strict=True)
        ]
        band = None
        if not every:
            low, high = curves.accuracy.by_round(_band)[rounds - 1].T * PERCENT
            band = Band(spelled("middle 80 % of clients", glyphs_of(self)), low, high, x, colour=MEAN)
        self._lines.show(Figure(series, band, marks(view.run), "round", "%", crowd="clients", over="rounds"))

    def _show_map(self, view: View) -> None:
        curves = view.curves
        self._rounds = rounds = curves.evaluated
        self._clients = clients = shown(view)
        self._map.show(
            curves.accuracy.select(clients)[rounds - 1].T * PERCENT,
            [str(client) for client in clients],
            [str(round) for round in rounds],
        )
        self._map.home = (_first_row(view), max(len(rounds) - 1, 0))

    def _show_gains(self, view: View) -> None:
        self._clients, self._rounds, found = gains.table(view)
        self._map.scale(gains.reach(found))
        self._map.show(found, list(map(str, self._clients)), list(map(str, self._rounds)))
        self._map.home = (_first_row(view), max(len(self._rounds) - 1, 0))

    def point(self, view: View) -> None:
        """Put the map's cursor in the view's column. The cursor of the lines is set with all others."""
        at = view.cursor()
        self._column = None if at is None else max(int((self._rounds <= at).sum()) - 1, 0)
        if not self._map.display:
            return
        row, _ = self._map.cursor or (_first_row(view), None)
        selected = self._clients.index(view.client) if view.client in self._clients else None
        self._map.mark(row=selected)
        if selected is not None:
            row = selected
        if self._column is None:
            if self._map.cursor is not None:
                self._map.action_hide_cursor()
        elif (row, self._column) != self._map.cursor:
            self._map.put_cursor(row, self._column)

    def on_heatmap_cursor_moved(self, message: Heatmap.CursorMoved) -> None:
        """The crosshair and the selected client follow the map's cursor."""
        message.stop()  # its rows may be a part of the clients
        if message.cell != self._map.cursor:  # an older message, from before the cursor moved on
            return
        if message.cell is not None and self._map.has_focus:
            self.post_message(ClientSelected(self._clients[message.cell[0]]))
        column = message.cell and message.cell[1]
        if column != self._column:
            round = None if column is None else float(self._rounds[column])
            self.post_message(CrosshairMoved(None if round is None else ("rounds", round)))


def _band(accuracy: Array) -> Array:
    """[n, 2] the lower and upper edge of the band over clients [n, k]."""
    return np.stack(quantiles(accuracy, BAND), axis=1)


def _first_row(view: View) -> int:
    """The row of the map for a new cursor: the selected client's, else that of the first pinned one."""
    clients = shown(view)
    first = min(view.pinned, default=0) if view.client is None else view.client
    return clients.index(first) if first in clients else 0
