"""The plot of a line chart: its position, its axes with ticks and labels, and its grid."""

from dataclasses import dataclass
from itertools import pairwise

from tui.app.charts.axis import Axis, labels, whole_ticks
from tui.app.charts.canvas import Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GlyphSet
from tui.common.formatting import spelled


@dataclass(frozen=True)
class PlotArea:
    """The plot's place in the grid, in cells, and its axes."""

    top: int
    left: int
    height: int
    width: int
    x: Axis
    y: Axis

    @property
    def bottom(self) -> int:
        """The row of the x axis."""
        return self.top + self.height

    def column(self, x: float) -> int | None:
        """The column of cells of `x`, counted from the plot's left; None outside of the range."""
        share = self.x.fraction(x)
        return int(share * (self.width - 1) + 0.5) if 0 <= share <= 1 else None

    def x_at(self, column: int) -> float:
        """The x in the middle of a column of cells, counted from the plot's left."""
        return self.x.low + column / max(self.width - 1, 1) * (self.x.high - self.x.low)

    def row(self, y: float) -> int | None:
        """The row of cells of `y`, counted from the plot's top; None outside of the range."""
        share = self.y.fraction(y)
        return int((1 - share) * (self.height - 1) + 0.5) if 0 <= share <= 1 else None

    def y_ticks(self) -> list[float]:
        """About one tick in five rows: three from five rows on, eleven at most.

        Fewer, but at least three, if only those are evenly spaced.
        """
        most = min(max(self.height * 2 // 5, 3 if self.height >= 5 else 2), 11)
        for number in range(most, 2, -1):
            ticks = self.y.ticks(number)
            if len(ticks) > 2 and self._evenly(ticks):
                return ticks
        return self.y.ticks(most)

    def _evenly(self, ticks: list[float]) -> bool:
        rows = [row for row in map(self.row, ticks) if row is not None]
        return len({lower - upper for lower, upper in pairwise(rows)}) == 1

    def x_ticks(self) -> list[float]:
        """About one tick in eight columns. Whole numbers, for rounds, if the range has any."""
        most = max(self.width // 8, 3)
        return whole_ticks(self.x.low, self.x.high, most) or self.x.ticks(most)


def fit(x: Axis, y: Axis, width: int, height: int, above: int, right: int) -> PlotArea:
    """The area that leaves `above` rows above the plot, `right` columns next to it, and room for the labels."""
    axis_rows = 2 if height - above >= 4 else 0
    rows = max(height - above - axis_rows, 1)
    draft = PlotArea(above, 0, rows, 1, x, y)
    gutter = max((len(text) for text in labels(draft.y_ticks())), default=0) + 1
    left = gutter if width - gutter - right >= 10 else 0
    return PlotArea(above, left, rows, max(width - left - right, 1), x, y)


def draw_axes(canvas: Canvas, area: PlotArea, x_label: str, scheme: ColourScheme, glyphs: GlyphSet) -> None:
    """Draw grid, axes, ticks, and labels. Draws nothing if there is no room for axes."""
    if area.left:
        _draw_y(canvas, area, scheme, glyphs)
    if area.bottom + 1 < canvas.height:
        _draw_x(canvas, area, x_label, scheme, glyphs)


def _draw_y(canvas: Canvas, area: PlotArea, scheme: ColourScheme, glyphs: GlyphSet) -> None:
    axis = area.left - 1
    for row in range(area.height):
        canvas.put(area.top + row, axis, glyphs.vertical, scheme.muted)
    ticks = area.y_ticks()
    last = -1
    for tick, text in sorted(zip(ticks, _spelled(labels(ticks), glyphs), strict=True), reverse=True):
        at = area.row(tick)
        if at is None or at == last:
            continue
        last = at
        canvas.put(area.top + at, axis - len(text), text, scheme.muted)
        canvas.put(area.top + at, axis, glyphs.tick_left, scheme.muted)
        if at < area.height - 1:
            canvas.put(area.top + at, area.left, glyphs.grid * area.width, scheme.faint)


def _spelled(texts: list[str], glyphs: GlyphSet) -> list[str]:
    return [spelled(text, glyphs.name) for text in texts]


def _draw_x(canvas: Canvas, area: PlotArea, x_label: str, scheme: ColourScheme, glyphs: GlyphSet) -> None:
    canvas.put(area.bottom, area.left, glyphs.horizontal * area.width, scheme.muted)
    if area.left:
        canvas.put(area.bottom, area.left - 1, glyphs.corner, scheme.muted)
    room = area.left + area.width
    if x_label and len(x_label) + 12 <= area.width:
        room -= len(x_label) + 1
        canvas.put(area.bottom + 1, room + 1, x_label, scheme.muted)
    ticks = area.x_ticks()
    free = 0
    for tick, text in zip(ticks, _spelled(labels(ticks), glyphs), strict=True):
        column = area.column(tick)
        if column is None:
            continue
        start = min(max(area.left + column - (len(text) - 1) // 2, 0), area.left + area.width - len(text))
        if start < free or start + len(text) > room:
            continue
        free = start + len(text) + 1
        canvas.put(area.bottom, area.left + column, glyphs.tick_below, scheme.muted)
        canvas.put(area.bottom + 1, start, text, scheme.muted)
