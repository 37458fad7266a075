"""The app's own widgets: charts, a heatmap, and a table, all drawn by cells with Textual's line API."""

from tui.app.widgets.heatmap import Heatmap
from tui.app.widgets.line_chart import LineChart
from tui.app.widgets.sample_list import SampleList
from tui.app.widgets.scatter import Scatter
from tui.app.widgets.table import Table
from tui.app.widgets.timeline_chart import TimelineChart

__all__ = ["Heatmap", "LineChart", "SampleList", "Scatter", "Table", "TimelineChart"]
