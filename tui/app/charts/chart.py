"""A line chart on a canvas: axes, band, lines, marks, cursor, and the texts around them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from string import ascii_uppercase

import numpy as np

from simulator.results.analysis.costs import nearest
from simulator.results.figures.palette import OKABE_ITO
from tui.app.charts.canvas import BOLD, DEFAULT, Array, Canvas
from tui.app.charts.figure import KEYS, Band, Figure, Mark, Series
from tui.app.charts.look import Look, blend
from tui.app.charts.plot import (
    NOWHERE,
    PlotArea,
    Spans,
    by_cell,
    counts,
    draw_axes,
    label,
    masks,
    plot_area,
    reading,
    stroked,
)
from tui.common.cells import apart, cell_count, head

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


def draw_legend(canvas: Canvas, entries: Sequence[Entry], rows: int, left: int, look: Look) -> None:
    """Write entries from `left` on into the top `rows` rows, as many as fit. The last says how many are left out."""
    row, column, gap = 0, left, 2
    for place, entry in enumerate(entries):
        left_out = len(entries) - place
        more = f"+{left_out} more"
        last_row, last_entry = row == rows - 1, left_out == 1
        need = entry.width + (0 if last_entry or not last_row else gap + len(more))
        if column > left and column + need > canvas.width:
            if last_row:
                canvas.put(row, column, more if column + len(more) <= canvas.width else "", look.muted)
                return
            row, column = row + 1, left
        canvas.put(row, column, entry.key, entry.fg, BOLD)
        column += len(entry.key) + 1
        canvas.put(row, column, entry.name, look.text if entry.pinned else look.muted)
        column += cell_count(entry.name)
        if entry.reading:
            canvas.put(row, column + 1, entry.reading, look.text, BOLD if entry.pinned else 0)
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


def draw_keys(canvas: Canvas, area: PlotArea, ends: Sequence[tuple[Entry, float]]) -> None:
    """Write each line's key, and its name if it has one here, next to its end.

    If lines end close together, their keys are in separate rows, in the lines' order. ends: entries with the values at
    which their lines leave the plot. Keys without a free row are left out.
    """
    height = area.height
    shares = [(entry, min(max(area.y.fraction(value), 0.0), 1.0)) for entry, value in ends if value == value]
    wanted = sorted(((1 - share) * (height - 1), place) for place, (_, share) in enumerate(shares))[:height]
    rows: list[int] = []
    for place, (row, _) in enumerate(wanted):
        lowest = height - (len(wanted) - place)  # leaves a row for each later key
        rows.append(min(max(int(row + 0.5), rows[-1] + 1 if rows else 0), lowest))
    for (_, place), row in zip(wanted, rows, strict=True):
        entry = shares[place][0]
        right = area.left + area.width + 1
        canvas.put(area.top + row, right, entry.key, entry.fg, BOLD)
        canvas.put(area.top + row, right + len(entry.key) + 1, entry.name, entry.fg)


def draw_marks(
    canvas: Canvas,
    area: PlotArea,
    marks: Sequence[Mark],
    label_row: int | None,
    look: Look,
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
            canvas.put(area.top + row, column, look.glyphs.mark, look.muted)
        if label_row is None:
            continue
        room = max(edge - area.left - 2, 1)
        name = mark.label
        if cell_count(name) > room:
            name = head(name, room - 1) + look.glyphs.ellipsis
        before = column - cell_count(name)
        ways = (
            (look.glyphs.down + name, column),
            (name + look.glyphs.down, before),
            (look.glyphs.down, column),
        )
        for text, start in ways:
            end = start + cell_count(text)
            if area.left <= start and end <= edge and not any(start <= b and a <= end for a, b in taken):
                taken.append((start, end))
                canvas.put(label_row, start, text, look.text)
                break


NAMED = 60  # cells of a chart that has room for names at the lines' ends
HALVES = (ord("▀"), ord("▄"))
TINT = 0.16  # share of its color in a band: visible, but lines on it keep their own colors


@dataclass(frozen=True, eq=False)
class Line:
    """A series with its key, color, rank, and stroke. A line of the crowd has no key."""

    series: Series
    key: str
    fg: int
    stroke: int = 0

    @property
    def layer(self) -> tuple[bool, int, str, int]:
        """Lines of one layer are drawn as one: of the same rank, color, key, and stroke."""
        return self.series.pinned, self.fg, self.key, self.stroke


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of a chart.

    From the top: entries of the legend in some rows, a row for the labels of marks, and the plot. To its right, the
    text at the end of each line with a key, unless the chart is narrow.
    """

    lines: Sequence[Line]
    entries: Sequence[Entry]
    legend: int
    labelled: bool
    area: PlotArea
    ends: Sequence[Entry]


def draw_chart(figure: Figure, width: int, height: int, look: Look) -> Canvas:
    """`figure` on [height, width] cells. A small grid omits the legend first, then the axes."""
    canvas = look.blank(width, height)
    if width < 2 or height < 1:
        return canvas
    layout = laid_out(figure, width, height, look)
    lines, legend, area = layout.lines, layout.legend, layout.area

    draw_axes(canvas, area, figure.x_label, look)
    if figure.band is not None:
        draw_band(canvas, area, figure.band, look)
    draw_marks(canvas, area, figure.marks, legend if layout.labelled else None, look)
    draw_cursor(canvas, area, figure.cursor, look)
    draw_lines(canvas, area, lines, look)
    if legend:
        draw_legend(canvas, layout.entries, legend, area.left, look)
    if layout.ends:
        values = [line.series.value_at(area.x.high) for line in lines if line.key]
        draw_keys(canvas, area, [*zip(layout.ends, values, strict=True)])
    return canvas


def place_at(figure: Figure, column: int, width: int, height: int, look: Look) -> float | None:
    """The x of a line that is nearest to a column of the chart's cells. None outside of the plot, or without a line."""
    area, places = laid_out(figure, width, height, look).area, figure.places()
    if not places.size or not area.left <= column < area.left + area.width:
        return None
    return float(places[nearest(places, area.x_at(column - area.left))])


def laid_out(figure: Figure, width: int, height: int, look: Look) -> Layout:
    """The layout for [height, width] cells."""
    lines = lines_of(figure, look)
    if look.ascii:
        lines = marked(lines)
    entries = legend_of(figure, lines, look)
    legend = legend_rows(entries, width, height)
    labelled = bool(figure.marks) and height - legend >= 6
    ends = ends_of(figure, lines, width, look) if width >= 30 else []
    right = max((1 + cell_count(f"{one.key} {one.name}".rstrip()) for one in ends), default=0)
    area = plot_area(figure.x_axis(), figure.y_axis(), width, height, legend + labelled, right)
    return Layout(lines, entries, legend, labelled, area, ends)


def lines_of(figure: Figure, look: Look) -> list[Line]:
    """The figure's series with colors and keys, in drawing order: the crowd or the plain lines, then the pinned ones.

    The first series of each kind is last, on top. Lines of the crowd have no key and no color of their own.
    """
    crowded = figure.crowded()
    ground = None if figure.band is None or not look.coloured else band_tint(figure.band, look)
    taken = {one.key for one in figure.series}
    keys = iter([key for key in KEYS if key not in taken])
    crowd, plain, pinned = list[Line](), list[Line](), list[Line]()
    for one in figure.series:
        if crowded and not one.pinned:
            crowd.append(Line(one, "", look.muted))
            continue
        place, stroke = len(plain) + len(pinned), one.stroke
        colour = look.series(place, ground)
        if one.colour is None:
            stroke += place // len(OKABE_ITO)
        elif look.coloured:
            colour = look.clear(one.colour, ground)
        key = one.key or next(keys, "?")
        (pinned if one.pinned else plain).append(Line(one, key, colour, stroke))
    return crowd + plain[::-1] + pinned[::-1]


def marked(lines: Sequence[Line]) -> list[Line]:
    """The lines for ASCII, drawn with their keys' first characters.

    A longer key gets a mark of its own, a capital letter, which no other key is.
    """
    free = iter([*ascii_uppercase, *(key for key in KEYS if all(line.key != key for line in lines))])
    keys = [line.key if len(line.key) < 2 else f"{next(free, '?')} {line.key}" for line in reversed(lines)]
    return [replace(line, key=key) for line, key in zip(lines, reversed(keys), strict=True)]


def legend_of(figure: Figure, lines: Sequence[Line], look: Look) -> list[Entry]:
    """Pinned lines, the band, plain lines, and the crowd. Each line has its value at the cursor, or its last shown one.

    Values side by side are of the same round, which comes first if it is not that of the cursor or of the longest
    line. At a cursor, and over a cost, a line that ends earlier says where. The ranges of band and crowd are
    shown only at a cursor.
    """

    def reach(ends: Sequence[Series]) -> str:
        values = [] if figure.cursor is None else [figure.reading(one) for one in ends]
        known = [value for value in values if not math.isnan(value)]
        if not known:
            return ""
        text = f"{reading(min(known), figure.unit).split()[0]}{look.glyphs.dash}{reading(max(known), figure.unit)}"
        return look.spelled(text)

    named = [
        Entry(line.key, one.name, look.spelled(legend_value(figure, one)), line.fg, one.pinned)
        for line in reversed(lines)
        if line.key and (one := line.series)
    ]
    entries = [Entry("at", f"r{common:.0f}", "", look.muted)] if (common := earlier_round(figure)) else []
    entries += [entry for entry in named if entry.pinned]
    if figure.band is not None:
        swatch = "▒" if tinted(look) else look.glyphs.shade
        colour = band_colour(figure.band, look)
        entries.append(Entry(swatch, figure.band.name, reach(figure.band.edges()), colour))
    entries += [entry for entry in named if not entry.pinned]
    crowd = [line.series for line in lines if not line.key]
    if crowd:
        entries.append(Entry(str(len(crowd)), figure.crowd, reach(crowd), look.muted))
    return entries


def legend_value(figure: Figure, one: Series) -> str:
    """The legend's value of a line, with its x if that is not the x of all."""
    value, at = figure.reading(one), figure.read_at(one)
    if math.isnan(value):
        return ""
    where = "" if at is None else f" (r{at:.0f})" if figure.over == "rounds" else f" (to {label(at)})"
    return f"{reading(value, figure.unit)}{where}"


def earlier_round(figure: Figure) -> float | None:
    """The round of the legend's values, if it is not the one that a reader expects: the cursor's, or the last."""
    common = figure.common_round
    if common is None:
        return None
    ends = [known[-1] for one in figure.series if (known := one.known_until(figure.x_axis().high)).size]
    return common if common < (max(ends) if figure.cursor is None else figure.cursor) else None


def ends_of(figure: Figure, lines: Sequence[Line], width: int, look: Look) -> list[Entry]:
    """The key of each line that has one, and its name if there is room."""
    room = width // 5 if figure.named and width >= NAMED else 0
    keyed = [(line, line.series.short or line.series.name) for line in lines if line.key]
    shown = apart({name for _, name in keyed}, room, look.glyphs.ellipsis)
    return [Entry(line.key, shown[name], "", line.fg) for line, name in keyed]


def draw_lines(canvas: Canvas, area: PlotArea, lines: Sequence[Line], look: Look) -> None:
    """Draw the lines layer by layer. Plain lines share the cells where they meet. A pinned line replaces others."""
    plot = area.window(canvas)
    total = np.zeros((area.height, area.width), int)
    keys = np.zeros_like(total)
    fg = np.zeros_like(total)
    for (pinned, colour, key, stroke), group in groupby(lines, key=lambda line: line.layer):
        dots = dots_of(list(group), area, look)
        if not look.ascii:  # whose lines have marks
            dots = stroked(dots, stroke, look.glyphs.dots[0])
        layer = masks(dots, look.glyphs.dots)
        there = layer > 0
        total = np.where(there, layer, total) if pinned else total | layer
        fg[there] = colour if key else density(dots, look)[there]
        keys[there] = ord(key[:1] or ".")
    there = total > 0
    half_tinted = there & np.isin(plot.chars, HALVES)
    plot.bg[half_tinted] = plot.fg[half_tinted]
    plot.chars[there] = look.glyphs.cells[total[there]] if not look.ascii else keys[there]
    plot.fg[there] = fg[there]
    if not look.coloured and not look.ascii:
        write_keys_on_lines(plot, area, lines)


def dots_of(lines: Sequence[Line], area: PlotArea, look: Look) -> Array:
    """[rows, columns]: the number of lines with each dot."""
    total = np.zeros((area.height * look.glyphs.dots[0], area.width * look.glyphs.dots[1]), int)
    for x, y in stacks([line.series for line in lines]):
        total += area.dots(x, y, look.glyphs.dots)
    return total


def density(dots: Array, look: Look) -> Array:
    """[height, width] of colors: closer to the text's color where more lines of the crowd meet."""
    most = by_cell(dots, look.glyphs.dots).max(axis=2)
    share = np.sqrt(most / max(int(most.max()), 1))
    shades = [blend(look.text, look.background, 0.72 - 0.5 * step / 5) for step in range(6)]
    return np.asarray(np.array(shades, np.int32)[np.ceil(share * 5).astype(int)])


def stacks(series: Sequence[Series]) -> list[tuple[Array, Array]]:
    """x [n] and y [s, n] of the series, with those over the same x together."""
    together: dict[tuple[int, int], tuple[Array, list[Array]]] = {}
    for one in series:
        x, y = one.points()
        place = (0 if one.x is None else id(one.x), len(x))
        together.setdefault(place, (x, []))[1].append(y)
    return [(x, np.stack(ys)) for x, ys in together.values() if len(x)]


def write_keys_on_lines(plot: Canvas, area: PlotArea, lines: Sequence[Line]) -> None:
    """Write each line's key on the line a few times if colors cannot tell lines apart."""
    keyed = [line for line in lines if line.key]
    room = 2 + max((len(line.key) for line in keyed), default=0)
    stride = max(12, room * len(keyed))
    for place, line in enumerate(keyed):
        (x, y), = stacks([line.series]) or [(np.empty(0), np.empty((1, 0)))]  # fmt: skip
        low, _, there = area.trace(x, y, (1, 1)).clipped(area.height)
        start, end = stride // 2 + room * place, area.width - len(line.key) + 1
        for column in range(start if start < end else start - stride, end, stride):
            if there[0, column]:
                plot.put(area.height - 1 - int(low[0, column]), column, line.key, line.fg, BOLD)


def band_colour(band: Band, look: Look) -> int:
    """A band's color: the requested one, else the palette's second, because its mean often has the first.

    With 256 colors, there is no tint of it, so it is gray.
    """
    if not look.exact:
        return look.muted
    return look.series(1) if band.colour is None or not look.coloured else look.clear(band.colour)


def tinted(look: Look) -> bool:
    """Whether a band is a tint of the background in half cells, and not a character in whole cells."""
    return look.coloured and look.background != DEFAULT and not look.ascii


def band_tint(band: Band, look: Look) -> int:
    """The color of a band that is a tint."""
    return look.tint(band_colour(band, look), TINT)


def draw_band(canvas: Canvas, area: PlotArea, band: Band, look: Look) -> None:
    """Shade the area between the band's edges: by color behind the lines, or by a character."""
    as_tint = tinted(look)
    halves_of = (2 if as_tint else 1, 1)
    low, high = (area.trace(x, y[None], halves_of) for x, y in (edge.points() for edge in band.edges()))
    there = (low.low != NOWHERE) & (high.low != NOWHERE)
    bottom, top = np.minimum(low.low, high.low), np.maximum(low.high, high.high)
    spans = Spans(np.where(there, bottom, NOWHERE), np.where(there, top, NOWHERE))
    halves = counts(spans, area.height * halves_of[0]) > 0
    plot = area.window(canvas)
    if not as_tint:
        plot.chars[halves] = ord(look.glyphs.shade)
        plot.fg[halves] = look.muted
        return
    tint = band_tint(band, look)
    upper, lower = halves[0::2], halves[1::2]
    plot.bg[upper & lower] = tint
    for half, character in ((upper & ~lower, HALVES[0]), (lower & ~upper, HALVES[1])):
        plot.chars[half] = character
        plot.fg[half] = tint


def draw_cursor(canvas: Canvas, area: PlotArea, cursor: float | None, look: Look) -> None:
    """A vertical line at the cursor, with its x in the axis below."""
    column = area.column(cursor) if cursor is not None else None
    if column is None or cursor is None:
        return
    for row in range(area.height):
        canvas.put(area.top + row, area.left + column, look.glyphs.cursor, look.highlight, BOLD)
    if area.bottom + 1 < canvas.height:
        text = look.spelled(f" {label(cursor, 1 if float(cursor).is_integer() else 0)} ")
        start = min(max(area.left + column - len(text) // 2, 0), canvas.width - len(text))
        _clear_words(canvas.chars[area.bottom + 1], start, start + len(text))
        canvas.put(area.bottom, area.left + column, look.glyphs.up, look.highlight, BOLD)
        canvas.put(area.bottom + 1, start, text, look.highlight, BOLD)


def _clear_words(row: Array, start: int, end: int) -> None:
    """Clear the cells start…end of a row, and the rest of the words in them: a lost digit changes a number."""
    blank = row == ord(" ")
    while start > 0 and not blank[start - 1]:
        start -= 1
    while end < len(row) and not blank[end]:
        end += 1
    row[start:end] = ord(" ")
