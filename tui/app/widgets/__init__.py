"""The app's own widgets: charts, a heatmap, and a table, all drawn by cells with Textual's line API."""

from tui.app.widgets.canvas_widget import Heatmap, LineChart, Picture
from tui.app.widgets.table import Cell, Column, Row, Table, Trend

__all__ = ["Cell", "Column", "Heatmap", "LineChart", "Picture", "Row", "Table", "Trend"]
