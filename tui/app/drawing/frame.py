"""The frame of a line chart: where the plot lies, its axes with ticks and labels, and its grid."""

from dataclasses import dataclass

from tui.app.drawing.axis import Axis, labels, whole_ticks
from tui.app.drawing.cells import Cells
from tui.app.drawing.colours import Theme
from tui.app.drawing.glyphs import GlyphSet


@dataclass(frozen=True)
class Frame:
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
        """The column of cells of `x`, counted from the plot's left; None outside the range."""
        share = self.x.fraction(x)
        return int(share * (self.width - 1) + 0.5) if 0 <= share <= 1 else None

    def row(self, y: float) -> int | None:
        """The row of cells of `y`, counted from the plot's top; None outside the range."""
        share = self.y.fraction(y)
        return int((1 - share) * (self.height - 1) + 0.5) if 0 <= share <= 1 else None

    def y_ticks(self) -> list[float]:
        """Two ticks in about five rows: three from five rows on, eleven at most."""
        return self.y.ticks(min(max(self.height * 2 // 5, 3 if self.height >= 5 else 2), 11))

    def x_ticks(self) -> list[float]:
        """One tick in about eight columns; whole numbers, for rounds, where the range has any."""
        most = max(self.width // 8, 3)
        return whole_ticks(self.x.low, self.x.high, most) or self.x.ticks(most)


def fit(x: Axis, y: Axis, width: int, height: int, above: int, right: int) -> Frame:
    """The frame that leaves `above` rows over the plot, `right` columns beside it and room for the labels."""
    axis_rows = 2 if height - above >= 4 else 0
    rows = max(height - above - axis_rows, 1)
    draft = Frame(above, 0, rows, 1, x, y)
    gutter = max((len(text) for text in labels(draft.y_ticks())), default=0) + 1
    left = gutter if width - gutter - right >= 10 else 0
    return Frame(above, left, rows, max(width - left - right, 1), x, y)


def draw_frame(cells: Cells, frame: Frame, x_label: str, theme: Theme, glyphs: GlyphSet) -> None:
    """Draw grid, axes, ticks and labels; where there is no room for axes, nothing."""
    if frame.left:
        _draw_y(cells, frame, theme, glyphs)
    if frame.bottom + 1 < cells.height:
        _draw_x(cells, frame, x_label, theme, glyphs)


def _draw_y(cells: Cells, frame: Frame, theme: Theme, glyphs: GlyphSet) -> None:
    axis = frame.left - 1
    for row in range(frame.height):
        cells.put(frame.top + row, axis, glyphs.vertical, theme.muted)
    ticks = frame.y_ticks()
    last = -1
    for tick, text in sorted(zip(ticks, labels(ticks), strict=True), reverse=True):
        at = frame.row(tick)
        if at is None or at == last:
            continue
        last = at
        cells.put(frame.top + at, axis - len(text), text, theme.muted)
        cells.put(frame.top + at, axis, glyphs.tick_left, theme.muted)
        if at < frame.height - 1:
            cells.put(frame.top + at, frame.left, glyphs.grid * frame.width, theme.faint)


def _draw_x(cells: Cells, frame: Frame, x_label: str, theme: Theme, glyphs: GlyphSet) -> None:
    cells.put(frame.bottom, frame.left, glyphs.horizontal * frame.width, theme.muted)
    if frame.left:
        cells.put(frame.bottom, frame.left - 1, glyphs.corner, theme.muted)
    room = frame.left + frame.width
    if x_label and len(x_label) + 12 <= frame.width:
        room -= len(x_label) + 1
        cells.put(frame.bottom + 1, room + 1, x_label, theme.muted)
    ticks = frame.x_ticks()
    free = 0
    for tick, text in zip(ticks, labels(ticks), strict=True):
        column = frame.column(tick)
        if column is None:
            continue
        start = min(max(frame.left + column - (len(text) - 1) // 2, 0), frame.left + frame.width - len(text))
        if start < free or start + len(text) > room:
            continue
        free = start + len(text) + 1
        cells.put(frame.bottom, frame.left + column, glyphs.tick_below, theme.muted)
        cells.put(frame.bottom + 1, start, text, theme.muted)
