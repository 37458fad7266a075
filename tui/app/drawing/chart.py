"""A line chart as cells: frame, band, lines, marks and cursor, legend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tui.app.drawing.axis import label
from tui.app.drawing.cells import BOLD, DEFAULT, Array, Cells
from tui.app.drawing.colours import Theme, blend
from tui.app.drawing.figure import KEYS, Figure, Series
from tui.app.drawing.frame import Frame, draw_frame, fit
from tui.app.drawing.glyphs import GlyphSet
from tui.app.drawing.legend import Entry, draw_keys, draw_legend, draw_marks, legend_rows
from tui.app.drawing.trace import NOWHERE, Spans, by_cell, counts, masks, trace

HALVES = (ord("▀"), ord("▄"))


@dataclass(frozen=True, eq=False)
class Line:
    """A series with the key, colour and standing it is drawn with; a line of the crowd has no key."""

    series: Series
    key: str
    ink: int
    pinned: bool

    @property
    def layer(self) -> tuple[bool, int, str]:
        """Lines of one layer are drawn as one: of one standing, one colour, one key."""
        return self.pinned, self.ink, self.key


def draw_chart(figure: Figure, width: int, height: int, theme: Theme, glyphs: GlyphSet) -> Cells:
    """`figure` on [height, width] cells; on a small grid first the legend, then the axes give way to the plot."""
    cells = Cells.blank(width, height, theme.text, theme.background)
    if width < 2 or height < 1:
        return cells
    lines = lines_of(figure, theme)
    entries = legend_of(figure, lines, theme, glyphs)
    legend = legend_rows(entries, width, height)
    labelled = bool(figure.marks) and height - legend >= 6
    keyed = width >= 30 and any(line.key for line in lines)
    frame = fit(figure.x_axis(), figure.y_axis(), width, height, legend + labelled, 2 if keyed else 0)

    draw_frame(cells, frame, figure.x_label, theme, glyphs)
    draw_band(cells, frame, figure, theme, glyphs)
    draw_marks(cells, frame, figure.marks, legend if labelled else None, theme, glyphs)
    draw_cursor(cells, frame, figure.cursor, theme, glyphs)
    draw_lines(cells, frame, lines, theme, glyphs)
    if legend:
        draw_legend(cells, entries, legend, frame.left, theme)
    if keyed:
        draw_keys(cells, frame, line_ends(frame, lines), frame.height)
    return cells


def lines_of(figure: Figure, theme: Theme) -> list[Line]:
    """The figure's series with colours and keys, in drawing order: the crowd or the plain lines, then the pinned.

    The first series of each kind comes last, on top. Lines of the crowd have neither a key nor a colour of their own.
    """
    crowded = figure.crowded()
    taken = {one.key for one in figure.series}
    keys = iter([key for key in KEYS if key not in taken])
    crowd, plain, pinned = list[Line](), list[Line](), list[Line]()
    for one in figure.series:
        if crowded and not one.pinned:
            crowd.append(Line(one, "", theme.muted, False))
            continue
        colour = theme.series(len(plain) + len(pinned))
        if one.colour is not None and theme.colour:
            colour = theme.clear(one.colour)
        (pinned if one.pinned else plain).append(Line(one, one.key or next(keys, "?"), colour, one.pinned))
    return crowd + plain[::-1] + pinned[::-1]


def legend_of(figure: Figure, lines: Sequence[Line], theme: Theme, glyphs: GlyphSet) -> list[Entry]:
    """Pinned lines, the band, plain lines, the crowd; each line with its value at the cursor, or its last shown."""
    at = figure.cursor if figure.cursor is not None else figure.x_axis().high
    named = [
        Entry(line.key, line.series.name, line.series.value_at(at), line.ink, line.pinned)
        for line in reversed(lines)
        if line.key
    ]
    entries = [entry for entry in named if entry.pinned]
    if figure.band is not None:
        swatch = "▒" if tinted(theme, glyphs) else glyphs.shade
        entries.append(Entry(swatch, figure.band.name, math.nan, band_ink(figure, theme)))
    entries += [entry for entry in named if not entry.pinned]
    crowd = sum(not line.key for line in lines)
    if crowd:
        entries.append(Entry(str(crowd), figure.crowd, math.nan, theme.muted))
    return entries


def draw_lines(cells: Cells, frame: Frame, lines: Sequence[Line], theme: Theme, glyphs: GlyphSet) -> None:
    """Draw the lines layer by layer. Plain lines share the cells they meet in; a pinned line takes its cells."""
    plot = cells.window(frame.top, frame.left, frame.height, frame.width)
    total = np.zeros((frame.height, frame.width), int)
    keys = np.zeros_like(total)
    ink = np.zeros_like(total)
    for (pinned, colour, key), group in groupby(lines, key=lambda line: line.layer):
        dots = dots_of(list(group), frame, glyphs)
        layer = masks(dots, glyphs.dots)
        there = layer > 0
        total = np.where(there, layer, total) if pinned else total | layer
        ink[there] = colour if key else density(dots, theme, glyphs)[there]
        keys[there] = ord(key or ".")
    there = total > 0
    half_tinted = there & np.isin(plot.chars, HALVES)
    plot.paper[half_tinted] = plot.ink[half_tinted]
    plot.chars[there] = glyphs.cells[total[there]] if glyphs.name != "ascii" else keys[there]
    plot.ink[there] = ink[there]
    if not theme.colour and glyphs.name != "ascii":
        write_keys_on_lines(plot, frame, lines)


def dots_of(lines: Sequence[Line], frame: Frame, glyphs: GlyphSet) -> Array:
    """[rows, columns]: how many of the lines have each dot."""
    rows, columns = frame.height * glyphs.dots[0], frame.width * glyphs.dots[1]
    total = np.zeros((rows, columns), int)
    for x, y in stacks([line.series for line in lines]):
        total += counts(trace(frame.x.fractions(x), frame.y.fractions(y), columns, rows), rows)
    return total


def density(dots: Array, theme: Theme, glyphs: GlyphSet) -> Array:
    """[height, width] of colours: the more lines of the crowd meet in a cell, the nearer to the text's colour."""
    most = by_cell(dots, glyphs.dots).max(axis=2)
    share = np.sqrt(most / max(int(most.max()), 1))
    shades = [blend(theme.text, theme.background, 0.72 - 0.5 * step / 5) for step in range(6)]
    return np.asarray(np.array(shades, np.int32)[np.ceil(share * 5).astype(int)])


def stacks(series: Sequence[Series]) -> list[tuple[Array, Array]]:
    """x [n] and y [s, n] of the series, those over the same x together."""
    together: dict[tuple[int, int], tuple[Array, list[Array]]] = {}
    for one in series:
        x, y = one.points()
        place = (0 if one.x is None else id(one.x), len(x))
        together.setdefault(place, (x, []))[1].append(y)
    return [(x, np.stack(ys)) for x, ys in together.values() if len(x)]


def write_keys_on_lines(plot: Cells, frame: Frame, lines: Sequence[Line]) -> None:
    """Write each line's key on the line a few times, where colours cannot tell lines apart."""
    keyed = [line for line in lines if line.key]
    for place, line in enumerate(keyed):
        (x, y), = stacks([line.series]) or [(np.empty(0), np.empty((1, 0)))]  # fmt: skip
        spans = trace(frame.x.fractions(x), frame.y.fractions(y), frame.width, frame.height)
        low, _, there = spans.clipped(frame.height)
        stride = max(12, 3 * len(keyed))
        for column in range(stride // 2 + 3 * place, frame.width, stride):
            if there[0, column]:
                plot.put(frame.height - 1 - int(low[0, column]), column, line.key, line.ink, BOLD)


def line_ends(frame: Frame, lines: Sequence[Line]) -> list[tuple[Entry, float]]:
    """The named lines, each with the share of the height at which it leaves the plot on the right."""
    ends = []
    for line in lines:
        value = line.series.value_at(frame.x.high) if line.key else math.nan
        if not math.isnan(value):
            share = min(max(frame.y.fraction(value), 0.0), 1.0)
            ends.append((Entry(line.key, line.series.name, value, line.ink), share))
    return ends


def band_ink(figure: Figure, theme: Theme) -> int:
    """The band's own colour: that asked for, else the palette's second, since its mean often has the first."""
    asked = figure.band.colour if figure.band is not None else None
    return theme.series(1) if asked is None or not theme.colour else theme.clear(asked)


def tinted(theme: Theme, glyphs: GlyphSet) -> bool:
    """Whether a band is a tint of the background, in half cells, rather than a character in whole ones."""
    return theme.colour and theme.background != DEFAULT and glyphs.name != "ascii"


def draw_band(cells: Cells, frame: Frame, figure: Figure, theme: Theme, glyphs: GlyphSet) -> None:
    """Shade the area between the band's edges: by colour behind the lines, else by a character."""
    edges = figure.band_edges()
    if not edges:
        return
    rows = frame.height * (2 if tinted(theme, glyphs) else 1)
    low, high = (
        trace(frame.x.fractions(x), frame.y.fractions(y[None]), frame.width, rows)
        for x, y in (edge.points() for edge in edges)
    )
    there = (low.low != NOWHERE) & (high.low != NOWHERE)
    bottom, top = np.minimum(low.low, high.low), np.maximum(low.high, high.high)
    area = Spans(np.where(there, bottom, NOWHERE), np.where(there, top, NOWHERE))
    halves = counts(area, rows) > 0
    plot = cells.window(frame.top, frame.left, frame.height, frame.width)
    if not tinted(theme, glyphs):
        plot.chars[halves] = ord(glyphs.shade)
        plot.ink[halves] = theme.faint if theme.colour else theme.muted
        return
    tint = blend(theme.background, band_ink(figure, theme), 0.28)
    upper, lower = halves[0::2], halves[1::2]
    plot.paper[upper & lower] = tint
    for half, character in ((upper & ~lower, HALVES[0]), (lower & ~upper, HALVES[1])):
        plot.chars[half] = character
        plot.ink[half] = tint


def draw_cursor(cells: Cells, frame: Frame, cursor: float | None, theme: Theme, glyphs: GlyphSet) -> None:
    """A vertical line at the cursor and its x, written into the axis below."""
    column = frame.column(cursor) if cursor is not None else None
    if column is None or cursor is None:
        return
    for row in range(frame.height):
        cells.put(frame.top + row, frame.left + column, glyphs.cursor, theme.highlight, BOLD)
    if frame.bottom + 1 < cells.height:
        text = f" {label(cursor, 1 if float(cursor).is_integer() else 0)} "
        start = min(max(frame.left + column - len(text) // 2, 0), cells.width - len(text))
        cells.put(frame.bottom, frame.left + column, glyphs.up, theme.highlight, BOLD)
        cells.put(frame.bottom + 1, start, text, theme.highlight, BOLD)
