"""Texts around a line chart's lines: the legend, the keys at the lines' ends, and the labels of marks."""

from collections.abc import Sequence
from dataclasses import dataclass

from tui.app.charts.canvas import BOLD, Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.figure import Mark
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.plot_area import PlotArea
from tui.common.cells import cell_count, head

GUTTER = 5  # about as wide as the y axis, after which the legend begins


@dataclass(frozen=True)
class Entry:
    """One entry of the legend: a key in the line's color, a name, and a value ("": none)."""

    key: str
    name: str
    reading: str
    fg: int
    pinned: bool = False

    @property
    def width(self) -> int:
        return len(self.key) + 1 + cell_count(self.name) + (1 + len(self.reading) if self.reading else 0)


def draw_legend(canvas: Canvas, entries: Sequence[Entry], rows: int, left: int, scheme: ColourScheme) -> None:
    """Write entries from `left` on into the top `rows` rows, as many as fit. The last says how many are left out."""
    row, column, gap = 0, left, 2
    for place, entry in enumerate(entries):
        left_out = len(entries) - place
        more = f"+{left_out} more"
        last_row, last_entry = row == rows - 1, left_out == 1
        need = entry.width + (0 if last_entry or not last_row else gap + len(more))
        if column > left and column + need > canvas.width:
            if last_row:
                canvas.put(row, column, more if column + len(more) <= canvas.width else "", scheme.muted)
                return
            row, column = row + 1, left
        canvas.put(row, column, entry.key, entry.fg, BOLD)
        column += len(entry.key) + 1
        canvas.put(row, column, entry.name, scheme.text if entry.pinned else scheme.muted)
        column += cell_count(entry.name)
        if entry.reading:
            canvas.put(row, column + 1, entry.reading, scheme.text, BOLD if entry.pinned else 0)
            column += 1 + len(entry.reading)
        column += gap


def legend_rows(entries: Sequence[Entry], width: int, height: int) -> int:
    """The number of rows of the legend: as needed, but at most one in six of the chart's, and none on a low chart."""
    if not entries or height < 7:
        return 0
    rows, column = 1, 0
    for entry in entries:
        if column and column + entry.width > width - GUTTER:
            rows, column = rows + 1, 0
        column += entry.width + 2
    return min(rows, max(height // 6, 1))


def draw_keys(canvas: Canvas, area: PlotArea, ends: Sequence[tuple[Entry, float]], height: int) -> None:
    """Write each line's key, and its name if it has one here, next to its end.

    If lines end close together, their keys are in separate rows, in the lines' order. ends: entries with the share of
    the height (0…1) at their lines' ends. Keys without a free row are left out.
    """
    wanted = sorted(
        (((1 - share) * (height - 1), entry) for entry, share in ends if 0 <= share <= 1),
        key=lambda one: one[0],
    )[:height]
    rows: list[int] = []
    for place, (row, _) in enumerate(wanted):
        lowest = height - (len(wanted) - place)  # leaves a row for each later key
        rows.append(min(max(int(row + 0.5), rows[-1] + 1 if rows else 0), lowest))
    for (_, entry), row in zip(wanted, rows, strict=True):
        right = area.left + area.width + 1
        canvas.put(area.top + row, right, entry.key, entry.fg, BOLD)
        canvas.put(area.top + row, right + len(entry.key) + 1, entry.name, entry.fg)


def draw_marks(
    canvas: Canvas,
    area: PlotArea,
    marks: Sequence[Mark],
    label_row: int | None,
    scheme: ColourScheme,
    glyphs: GlyphSet,
) -> None:
    """Draw the marks' lines, and in `label_row` those of their labels that do not touch each other.

    A label starts above its line, ends there if that space is taken, or is left out. Newer marks choose first.
    """
    taken: list[tuple[int, int]] = []
    edge = area.left + area.width
    for mark in sorted(marks, key=lambda one: one.x, reverse=True):
        column = area.column(mark.x)
        if column is None:
            continue
        column += area.left
        for row in range(area.height):
            canvas.put(area.top + row, column, glyphs.mark, scheme.muted)
        if label_row is None:
            continue
        room = max(edge - area.left - 2, 1)
        name = mark.label
        if cell_count(name) > room:
            name = head(name, room - 1) + glyphs.ellipsis
        before = column - cell_count(name)
        ways = ((glyphs.down + name, column), (name + glyphs.down, before), (glyphs.down, column))
        for text, start in ways:
            end = start + cell_count(text)
            if area.left <= start and end <= edge and not any(start <= b and a <= end for a, b in taken):
                taken.append((start, end))
                canvas.put(label_row, start, text, scheme.text)
                break
