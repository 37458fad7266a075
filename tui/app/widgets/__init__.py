"""The app's own widgets: charts, a heatmap, and a table, all drawn by cells with Textual's line API."""

from tui.app.widgets.canvas_widget import Heatmap, LineChart, SampleList, Scatter, TimelineChart
from tui.app.widgets.table import Table

__all__ = ["Heatmap", "LineChart", "SampleList", "Scatter", "Table", "TimelineChart"]
