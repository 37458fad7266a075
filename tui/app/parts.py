"""What keys do to a part of the visible panel: give it the whole screen, zoom into its chart."""

from abc import abstractmethod

from tui.app.key_order import KeysInOrder
from tui.app.panels.base import Part
from tui.app.view import Panel, in_sight
from tui.app.widgets import LineChart


class PartsApp(KeysInOrder):
    """An app of panels that are made of parts, one of which may have the focus."""

    @property
    @abstractmethod
    def panel(self) -> Panel:
        """The visible panel."""

    def action_maximise(self) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif (widget := self.focused or self._chart()) is not None:
            part = next(
                (each for each in widget.ancestors if isinstance(each, Part)), widget
            )  # with its title
            self.screen.maximize(part, container=False)

    def action_zoom(self, direction: int) -> None:
        if (chart := self._chart()) is not None:
            {1: chart.zoom_in, -1: chart.zoom_out, 0: chart.reset_view}[direction]()

    def action_pan(self, share: float) -> None:
        if (chart := self._chart()) is not None:
            chart.pan(share)

    def _chart(self, over_rounds: bool = False) -> LineChart | None:
        """The chart with the focus, else the panel's first visible one; of those alone that can have the crosshair."""
        charts = list(self.panel.query(LineChart))
        shown = [chart for chart in charts if chart.is_on_screen]
        if not shown and self.screen.maximized is None:  # a panel that has just come up is not laid out yet
            shown = [chart for chart in charts if in_sight(chart)]
        able = (chart for chart in (self.focused, *shown) if isinstance(chart, LineChart))
        return next((chart for chart in able if not over_rounds or chart.figure.over is not None), None)
