"""A line chart: its contents (series, a band, marks), and how it is drawn: axes, legend, lines, and a cursor."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import groupby
from string import ascii_uppercase

import numpy as np

from simulator.results.analysis.costs import Cost, nearest
from simulator.results.figures.palette import OKABE_ITO
from tui.app.charts import plot
from tui.app.charts.look import BOLD, DEFAULT, Array, Canvas, Look, blend
from tui.app.charts.plot import Axis, PlotArea, Spans, label, reading
from tui.common.cells import apart, cell_count, head

KEYS = "123456789abcdefghijklmnopqrstuvwxyz"
CROWD = 8  # from this many plain series on, they are a crowd: one muted color, counted in the legend and not named
GUTTER = 5  # about as wide as the y axis, after which the legend begins
NAMED = 60  # cells of a chart that has room for names at the lines' ends
HALVES = (ord("▀"), ord("▄"))
TINT = 0.16  # share of its color in a band: visible, but lines on it keep their own colors


@dataclass(frozen=True, eq=False)
class Series:
    """One line: y [n] over x [n], or over 1…n. NaN is a gap.

    pinned: drawn over all others and always named in the legend (a mean, a pinned client). colour: 0xRRGGBB, or None
    for the palette's next. key: names the line in the plot and the legend; one to three characters, or "" for the next
    of 1…9, a…z. stroke: the number of points between its dashes; 0: no gaps. short: the text at its end, if it is not
    the name.
    """

    name: str
    y: Array
    x: Array | None = None
    pinned: bool = False
    colour: int | None = None
    key: str = ""
    stroke: int = 0
    short: str = ""

    @property
    def drawn_in(self) -> int:
        """Its color, once `lines_of` has chosen one."""
        return DEFAULT if self.colour is None else self.colour

    @cached_property
    def points(self) -> tuple[Array, Array]:
        """x and y as floats, of one length, x ascending and finite."""
        y = np.asarray(self.y, float).ravel()
        x = np.arange(1.0, len(y) + 1) if self.x is None else np.asarray(self.x, float).ravel()
        if len(x) != len(y):
            about = f"series '{self.name}' has {len(y)} values over {len(x)} places"
            raise ValueError(f"{about}; give as many of both")
        if not x.size or (np.isfinite(x[[0, -1]]).all() and np.all(x[1:] >= x[:-1])):  # false for NaN
            return x, y
        kept = np.flatnonzero(np.isfinite(x))
        order = kept[np.argsort(x[kept], kind="stable")]
        return x[order], y[order]

    def known_until(self, x: float) -> Array:
        """The places with a value, up to x."""
        places, values = self.points
        return places[np.isfinite(values) & (places <= x)]

    def value_at(self, x: float, near: bool = False) -> float:
        """The last value at or before `x`, or the nearest unless the line begins half a step later; NaN: none."""
        places, values = self.points
        known = np.isfinite(values) & (near | (places <= x))
        places, values = places[known], values[known]
        begins = places[0] - (places[1] - places[0]) / 2 if near and places.size > 1 else -np.inf
        if not places.size or x < begins:
            return math.nan
        return float(values[nearest(places, x) if near else -1])


@dataclass(frozen=True, eq=False)
class Band:
    """The area between low [n] and high [n] over x [n] (or 1…n), under all lines."""

    name: str
    low: Array
    high: Array
    x: Array | None = None
    colour: int | None = None

    @cached_property
    def edges(self) -> list[Series]:
        return [Series(self.name, edge, self.x) for edge in (self.low, self.high)]

    def looks(self, look: Look) -> tuple[int, int, bool]:
        """Its color, the tint of the background with it, and whether that is drawn, or else a character.

        The color is the requested one, else the palette's second, because its mean often has the first. With 256
        colors, there is no tint of it, so it is gray.
        """
        colour = look.muted
        if look.exact:
            plain = self.colour is None or not look.coloured
            colour = look.series(1) if plain else look.clear(self.colour or 0)
        return colour, look.tint(colour, TINT), look.painted and look.background != DEFAULT


@dataclass(frozen=True)
class Mark:
    """A labeled vertical line at x: a method switch, a fork, a checkpoint."""

    x: float
    label: str


@dataclass(frozen=True, eq=False)
class Figure:
    """All contents of a chart. Ranges of None follow the data.

    unit: of the values ("%", "MiB"), shown after those in the legend. crowd: the noun for lines too many to name.
    bands: possible replacements of the band, for which the axes have room. over: the meaning of x for a run, in
    `x_unit`; None: something else, without a crosshair. named: whether lines also have their names at their ends.
    """

    series: Sequence[Series] = ()
    band: Band | None = None
    marks: Sequence[Mark] = ()
    x_label: str = ""
    unit: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    cursor: float | None = None
    crowd: str = "others"
    bands: Sequence[Band] = ()
    over: Cost | None = None
    x_unit: float = 1.0
    named: bool = False

    @cached_property
    def _curves(self) -> list[tuple[Array, Array]]:
        """The points of all lines, and of the edges of the band and its possible replacements."""
        bands = [*self.bands, *([self.band] if self.band else [])]
        return [one.points for one in (*self.series, *(edge for band in bands for edge in band.edges))]

    @cached_property
    def x_extent(self) -> tuple[float, float]:
        """The first and the last x of all data; (0, 1) without any."""
        known = [x for x, _ in self._curves if x.size]
        return (float(min(x[0] for x in known)), float(max(x[-1] for x in known))) if known else (0.0, 1.0)

    def places(self) -> Array:
        # 100 clients share one x
        apart = {len(one.y) if one.x is None else id(one.x): one for one in self.series}
        return np.unique(np.concatenate([np.empty(0), *(one.points[0] for one in apart.values())]))

    def reading(self, one: Series) -> float:
        """The value of a line at the cursor, or its last visible one. Over rounds, that of `common_round`, if any.

        Over a cost, it is that of the round nearest to the cursor, because sessions pay by the round.
        """
        if (common := self.common_round) is not None:
            return one.value_at(common)
        return one.value_at(self._at, near=self.cursor is not None and self.over not in (None, "rounds"))

    @property
    def _at(self) -> float:
        """The x at which the legend reads the lines."""
        return self.x_axis().high if self.cursor is None else self.cursor

    @property
    def common_round(self) -> float | None:
        """The last visible round of which all named lines that have begun have a value; None if there is none.

        At the cursor, it is the last round until then, if that is the same one for all.
        """
        if self.over != "rounds":
            return None
        named = (one.known_until(self._at) for one in self.series if one.pinned or not self.crowded)
        found = [x if self.cursor is None else x[-1:] for x in named if x.size]
        both = reduce(np.intersect1d, found) if found else np.empty(0)
        return float(both[-1]) if both.size else None

    def read_at(self, one: Series) -> float | None:
        """The x of a line's value in the legend, if that is not the x of all; None if it is."""
        at = self._at
        if self.over is None or self.common_round is not None or not (ends := one.known_until(at)).size:
            return None
        if self.over == "rounds":
            return float(ends[-1]) if ends[-1] < at else None
        step = ends[-1] - ends[-2] if ends.size > 1 else 0.0
        ended = not (one.points[0] > at).any() and at - ends[-1] > step / 2
        return float(ends[-1]) if ended else None

    def x_axis(self) -> Axis:
        return Axis(*plot.spread(*self.x_range or self.x_extent))

    def y_axis(self) -> Axis:
        """The y range shown: the requested one, or one that shows all values within the x range."""
        if self.y_range is not None and self.y_range[1] > self.y_range[0]:
            return Axis(*self.y_range)
        shown, seen = self.x_axis(), [np.empty(0)]
        for x, y in self._curves:
            seen.append(y[(x >= shown.low) & (x <= shown.high)])
        return plot.reach(np.concatenate(seen), ceiling=100.0 if self.unit == "%" else 1.0)

    @cached_property
    def crowded(self) -> bool:
        return sum(not one.pinned for one in self.series) > CROWD


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
        canvas.put(row, column + len(entry.key) + 1, entry.name, look.text if entry.pinned else look.muted)
        if entry.reading:
            at = column + entry.width - len(entry.reading)
            canvas.put(row, at, entry.reading, look.text, BOLD if entry.pinned else 0)
        column += entry.width + gap


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
    """Write keys and names of lines next to their ends [values], in rows of their own and in the lines' order."""
    height, right = area.height, area.left + area.width + 1
    shares = [(entry, min(max(area.y.fraction(value), 0.0), 1.0)) for entry, value in ends if value == value]
    wanted = sorted(((1 - share) * (height - 1), place) for place, (_, share) in enumerate(shares))[:height]
    row = -1
    for place, (ideal, number) in enumerate(wanted):
        lowest = height - (len(wanted) - place)  # leaves a row for each later key
        row, entry = min(max(int(ideal + 0.5), row + 1), lowest), shares[number][0]
        canvas.put(area.top + row, right, entry.key, entry.fg, BOLD)
        canvas.put(area.top + row, right + len(entry.key) + 1, entry.name, entry.fg)


def draw_marks(
    canvas: Canvas, area: PlotArea, marks: Sequence[Mark], label_row: int | None, look: Look
) -> None:
    """Draw the marks' lines, and in `label_row` those of their labels that do not touch each other."""
    taken: list[tuple[int, int]] = []
    edge, room, down = area.left + area.width, max(area.width - 2, 1), look.glyphs.down
    for mark in sorted(marks, key=lambda one: one.x, reverse=True):
        if (column := area.column(mark.x)) is None:
            continue
        column += area.left
        for row in range(area.height):
            canvas.put(area.top + row, column, look.glyphs.mark, look.muted)
        if label_row is None:
            continue
        name = mark.label
        if cell_count(name) > room:
            name = head(name, room - 1) + look.glyphs.ellipsis
        for text, start in ((down + name, column), (name + down, column - cell_count(name)), (down, column)):
            end = start + cell_count(text)
            if area.left <= start and end <= edge and not any(start <= b and a <= end for a, b in taken):
                taken.append((start, end))
                canvas.put(label_row, start, text, look.text)
                break


@dataclass(frozen=True, eq=False)
class Layout:
    """From the top: `legend` rows of entries, a row for the labels of marks, and the plot, with `ends` on its right."""

    lines: Sequence[Series]
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
    legend, area = layout.legend, layout.area
    plot.draw_axes(canvas, area, figure.x_label, look)
    if figure.band is not None:
        draw_band(canvas, area, figure.band, look)
    draw_marks(canvas, area, figure.marks, legend if layout.labelled else None, look)
    draw_cursor(canvas, area, figure.cursor, look)
    draw_lines(canvas, area, layout.lines, look)
    if legend:
        draw_legend(canvas, layout.entries, legend, area.left, look)
    if layout.ends:
        values = [line.value_at(area.x.high) for line in layout.lines if line.key]
        draw_keys(canvas, area, [*zip(layout.ends, values, strict=True)])
    return canvas


def place_at(figure: Figure, column: int, width: int, height: int, look: Look) -> float | None:
    """The x of a line that is nearest to a column of the chart's cells. None outside of the plot, or without a line."""
    area, places = laid_out(figure, width, height, look).area, figure.places()
    if not places.size or not area.left <= column < area.left + area.width:
        return None
    return float(places[nearest(places, area.x_at(column - area.left))])


def laid_out(figure: Figure, width: int, height: int, look: Look) -> Layout:
    lines = lines_of(figure, look)
    if look.ascii:  # drawn with their keys' first characters: a longer key gets a mark of its own
        free = iter([*ascii_uppercase, *(key for key in KEYS if all(line.key != key for line in lines))])
        for place in reversed(range(len(lines))):
            if len(key := lines[place].key) > 1:
                lines[place] = replace(lines[place], key=f"{next(free, '?')} {key}")
    entries = legend_of(figure, lines, look)
    legend = legend_rows(entries, width, height)
    labelled = bool(figure.marks) and height - legend >= 6
    ends = list[Entry]()
    if width >= 30:  # the key of each line that has one, and its name if there is room
        room = width // 5 if figure.named and width >= NAMED else 0
        keyed = [line for line in lines if line.key]
        shown = apart({line.short or line.name for line in keyed}, room, look.glyphs.ellipsis)
        ends = [Entry(line.key, shown[line.short or line.name], "", line.drawn_in) for line in keyed]
    right = max((1 + cell_count(f"{one.key} {one.name}".rstrip()) for one in ends), default=0)
    area = plot.plot_area(figure.x_axis(), figure.y_axis(), width, height, legend + labelled, right)
    return Layout(lines, entries, legend, labelled, area, ends)


def lines_of(figure: Figure, look: Look) -> list[Series]:
    """The series with colors, keys, and strokes, in drawing order: the crowd or the plain lines, then pinned ones.

    The first series of each kind is last, on top. Lines of the crowd have no key and no color of their own.
    """
    ground = None if figure.band is None or not look.coloured else figure.band.looks(look)[1]
    taken = {one.key for one in figure.series}
    keys = iter([key for key in KEYS if key not in taken])
    crowd, plain, pinned = list[Series](), list[Series](), list[Series]()
    for one in figure.series:
        if figure.crowded and not one.pinned:
            crowd.append(replace(one, key="", colour=look.muted, stroke=0))
            continue
        place, stroke = len(plain) + len(pinned), one.stroke
        colour = look.series(place, ground)
        if one.colour is None:
            stroke += place // len(OKABE_ITO)
        elif look.coloured:
            colour = look.clear(one.colour, ground)
        line = replace(one, key=one.key or next(keys, "?"), colour=colour, stroke=stroke)
        (pinned if one.pinned else plain).append(line)
    return crowd + plain[::-1] + pinned[::-1]


def legend_of(figure: Figure, lines: Sequence[Series], look: Look) -> list[Entry]:
    """Pinned lines, the band, plain lines, and the crowd. Each line has its value at the cursor, or its last shown one.

    Values side by side are of the same round, which comes first if it is not that of the cursor or of the longest
    line. Otherwise, a line that ends earlier says where.
    """

    def value_of(one: Series) -> str:
        value, at = figure.reading(one), figure.read_at(one)
        if math.isnan(value):
            return ""
        where = "" if at is None else f" (r{at:.0f})" if figure.over == "rounds" else f" (to {label(at)})"
        return look.spelled(f"{reading(value, figure.unit)}{where}")

    def range_of(ends: Sequence[Series]) -> str:
        values = [] if figure.cursor is None else [figure.reading(one) for one in ends]
        known = [value for value in values if not math.isnan(value)]
        if not known:
            return ""
        low = reading(min(known), figure.unit).split()[0]
        return look.spelled(f"{low}{look.glyphs.dash}{reading(max(known), figure.unit)}")

    keyed = [line for line in reversed(lines) if line.key]
    named = [Entry(line.key, line.name, value_of(line), line.drawn_in, line.pinned) for line in keyed]
    entries = list[Entry]()
    if common := figure.common_round:
        ends = [known[-1] for one in figure.series if (known := one.known_until(figure.x_axis().high)).size]
        if common < (max(ends) if figure.cursor is None else figure.cursor):
            entries.append(Entry("at", f"r{common:.0f}", "", look.muted))
    entries += [entry for entry in named if entry.pinned]
    if (band := figure.band) is not None:
        colour, _, tinted = band.looks(look)
        swatch = "▒" if tinted else look.glyphs.shade
        entries.append(Entry(swatch, band.name, range_of(band.edges), colour))
    entries += [entry for entry in named if not entry.pinned]
    if crowd := [line for line in lines if not line.key]:
        entries.append(Entry(str(len(crowd)), figure.crowd, range_of(crowd), look.muted))
    return entries


def draw_lines(canvas: Canvas, area: PlotArea, lines: Sequence[Series], look: Look) -> None:
    """Draw the lines layer by layer. Plain lines share the cells where they meet. A pinned line replaces others."""
    cells, (down, across) = area.window(canvas), look.glyphs.dots
    total = np.zeros((area.height, area.width), int)
    keys, fg = np.zeros_like(total), np.zeros_like(total)
    for (pinned, colour, key, stroke), group in groupby(
        lines, key=lambda line: (line.pinned, line.drawn_in, line.key, line.stroke)
    ):
        dots = np.zeros((area.height * down, area.width * across), int)  # the number of lines with each dot
        together: dict[tuple[int, int], list[tuple[Array, Array]]] = {}  # those over the same x
        for line in group:
            together.setdefault((id(line.x), len(line.points[0])), []).append(line.points)
        for points in together.values():
            dots += area.dots(points[0][0], np.stack([y for _, y in points]), look.glyphs.dots)
        if not look.ascii:  # whose lines have marks
            dots = plot.stroked(dots, stroke, down)
        layer = plot.masks(dots, look.glyphs.dots)
        there = layer > 0
        total = np.where(there, layer, total) if pinned else total | layer
        fg[there] = colour if key else density(dots, look)[there]
        keys[there] = ord(key[:1] or ".")
    there = total > 0
    half_tinted = there & np.isin(cells.chars, HALVES)
    cells.bg[half_tinted] = cells.fg[half_tinted]
    cells.chars[there] = look.glyphs.cells[total[there]] if not look.ascii else keys[there]
    cells.fg[there] = fg[there]
    if not look.coloured and not look.ascii:
        write_keys_on_lines(cells, area, lines)


def density(dots: Array, look: Look) -> Array:
    """[height, width] of colors: closer to the text's color where more lines of the crowd meet."""
    most = plot.by_cell(dots, look.glyphs.dots).max(axis=2)
    share = np.sqrt(most / max(int(most.max()), 1))
    shades = [blend(look.text, look.background, 0.72 - 0.5 * step / 5) for step in range(6)]
    return np.asarray(np.array(shades, np.int32)[np.ceil(share * 5).astype(int)])


def write_keys_on_lines(cells: Canvas, area: PlotArea, lines: Sequence[Series]) -> None:
    """Write each line's key on the line a few times if colors cannot tell lines apart."""
    keyed = [line for line in lines if line.key]
    room = 2 + max((len(line.key) for line in keyed), default=0)
    stride = max(12, room * len(keyed))
    for place, line in enumerate(keyed):
        x, y = line.points
        low, _, there = area.trace(x, y[None], (1, 1)).clipped(area.height)
        start, end = stride // 2 + room * place, area.width - len(line.key) + 1
        for column in range(start if start < end else start - stride, end, stride):
            if column >= 0 and there[0, column]:
                cells.put(area.height - 1 - int(low[0, column]), column, line.key, line.drawn_in, BOLD)


def draw_band(canvas: Canvas, area: PlotArea, band: Band, look: Look) -> None:
    """Shade the area between the band's edges: by a tint in half cells behind the lines, or by a character."""
    _, tint, as_tint = band.looks(look)
    halves_of = (2 if as_tint else 1, 1)
    low, high = (area.trace(x, y[None], halves_of) for x, y in (edge.points for edge in band.edges))
    there = (low.low != plot.NOWHERE) & (high.low != plot.NOWHERE)
    bottom, top = np.minimum(low.low, high.low), np.maximum(low.high, high.high)
    spans = Spans(np.where(there, bottom, plot.NOWHERE), np.where(there, top, plot.NOWHERE))
    halves = plot.counts(spans, area.height * halves_of[0]) > 0
    cells = area.window(canvas)
    if not as_tint:
        cells.chars[halves] = ord(look.glyphs.shade)
        cells.fg[halves] = look.muted
        return
    upper, lower = halves[0::2], halves[1::2]
    cells.bg[upper & lower] = tint
    for half, character in ((upper & ~lower, HALVES[0]), (lower & ~upper, HALVES[1])):
        cells.chars[half] = character
        cells.fg[half] = tint


def draw_cursor(canvas: Canvas, area: PlotArea, cursor: float | None, look: Look) -> None:
    """A vertical line at the cursor, with its x in the axis below."""
    if cursor is None or (column := area.column(cursor)) is None:
        return
    at = area.left + column
    for row in range(area.height):
        canvas.put(area.top + row, at, look.glyphs.cursor, look.highlight, BOLD)
    if area.bottom + 1 < canvas.height:
        text = look.spelled(f" {label(cursor, 1 if float(cursor).is_integer() else 0)} ")
        left = start = min(max(at - len(text) // 2, 0), canvas.width - len(text))
        end, row_below = start + len(text), canvas.chars[area.bottom + 1]
        blank = row_below == ord(" ")
        # Also the rest of the words there goes: a lost digit changes a number.
        while left > 0 and not blank[left - 1]:
            left -= 1
        while end < len(blank) and not blank[end]:
            end += 1
        row_below[left:end] = ord(" ")
        canvas.put(area.bottom, at, look.glyphs.up, look.highlight, BOLD)
        canvas.put(area.bottom + 1, start, text, look.highlight, BOLD)
