"""The app's own widgets: LineChart, Heatmap and ClientTable, all drawn cell by cell with Textual's line API."""

from tui.app.widgets.client_table import ClientRow, ClientTable
from tui.app.widgets.heatmap import Heatmap
from tui.app.widgets.line_chart import LineChart

__all__ = ["ClientRow", "ClientTable", "Heatmap", "LineChart"]
