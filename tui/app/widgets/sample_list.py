"""Samples of a client in the terminal.

held = SampleList()
held.show(samples)
"""

from simulator.results.inspection.client_samples import ClientSamples
from tui.app.charts.canvas import Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.samples import draw_samples
from tui.app.widgets.canvas_widget import CanvasWidget


class SampleList(CanvasWidget, can_focus=True):
    """One sample of each class that a client trains on."""

    DEFAULT_CSS = "SampleList { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.samples: ClientSamples | None = None

    def show(self, samples: ClientSamples) -> None:
        """Replace the contents."""
        self.samples = samples
        self.changed()

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        if self.samples is None:
            return Canvas.blank(width, height, scheme.text, scheme.background)
        return draw_samples(self.samples, width, height, scheme, glyphs)
