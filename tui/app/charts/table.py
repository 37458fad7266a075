"""Rows of text in columns on a canvas: which columns fit, their widths, and the order of rows."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from tui.app.charts.look import BOLD, Canvas, Look
from tui.common.cells import apart, cell_count, fit, settled
from tui.common.formatting import sparkline, spelled

Tone = Literal["plain", "muted", "strong", "highlight", "warning", "gain", "loss"]
Order = tuple[int, bool] | None
"""The column by which rows are sorted, and whether from high to low."""
STRETCH = 10  # minimum cells of a column that stretches
TREND = 40  # cells of a sparkline with all the room it needs
LEFT_OUT = 3  # cells for the number of columns without room
Value = float | str | None
"""What rows are sorted by; None: missing."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    title, name: the text in the header, and its name in a sentence ("": the title). numeric: aligned right. stretch: it
    shrinks for others, down to `least` cells, and takes the room that they leave. names: its texts are cut so that they
    can be told apart. worth: if not all columns fit, those with the least worth are left out. least, most: its width in
    cells; without `most`, as wide as its texts. tone: of its texts, if neither row nor cell has one. sort: the order of
    the first sort by it; None: no sort.
    """

    title: str
    name: str = ""
    numeric: bool = False
    stretch: bool = False
    names: bool = False
    worth: int = 1
    least: int = 0
    most: int = 0
    tone: Tone = "plain"
    sort: Literal["rising", "falling"] | None = None


@dataclass(frozen=True)
class Cell:
    """A text with its own tone."""

    text: str
    tone: Tone


@dataclass(frozen=True)
class Trend:
    """Values, NaN = none, shown as a sparkline of at most `width` cells, from 0 to `top`."""

    values: tuple[float, ...]
    top: float = 1.0
    width: int = TREND


@dataclass(frozen=True)
class Row:
    """A row: its item, its texts, its tone, its sort value in each column (None: missing), and its text for filters."""

    key: Hashable
    cells: tuple[str | Cell | Trend, ...]
    tone: Tone = "plain"
    values: tuple[Value, ...] = ()
    search: str = ""
    _widths: dict[str, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def widths(self, glyphs: str) -> tuple[int, ...]:
        """The widths of its cells. A row that stays from one list to the next is measured once."""
        if glyphs not in self._widths:
            self._widths[glyphs] = tuple([_width(cell, glyphs) for cell in self.cells])
        return self._widths[glyphs]


Rows = tuple[Row, ...]


def by_columns(
    keys: Sequence[Hashable],
    columns: Sequence[tuple[Sequence[str | Cell | Trend], Sequence[Value]]],
    search: Sequence[str],
) -> Rows:
    """Rows of these keys. Each column has its cells, and what rows are sorted by in it (empty: nothing)."""
    cells = zip(*(each for each, _ in columns), strict=True)
    values = zip(*(each or [None] * len(keys) for _, each in columns), strict=True)
    rows = zip(keys, cells, values, search, strict=True)
    return tuple([Row(key, row, values=value, search=words) for key, row, value, words in rows])


@dataclass(frozen=True)
class ShownColumn:
    """A shown column: its number, its first cell, and its width."""

    column: int
    left: int
    width: int


def sorted_rows(rows: Rows, column: int, descending: bool) -> Rows:
    """Rows by their values in a column. Equal ones keep their order. Rows without a value are last either way."""
    present = [row for row in rows if not _missing(row.values[column])]
    present.sort(key=lambda row: row.values[column], reverse=descending)  # type: ignore[arg-type, return-value]
    return (*present, *(row for row in rows if _missing(row.values[column])))


def _missing(value: Value) -> bool:
    return value is None or value != value


def widths(columns: Sequence[Column], rows: Rows, order: Order, look: Look) -> list[int]:
    """The widths of each column's texts and title, with a pointer next to the title of the column sorted by."""
    sorted_by = order[0] if order else None
    texts = [1] * len(columns)
    if rows:
        texts = list(map(max, zip(*(row.widths(look.glyphs.name) for row in rows), strict=True)))
    return [
        max(text, _width(column.title, look.glyphs.name) + (place == sorted_by)) if text else 0
        for place, (text, column) in enumerate(zip(texts, columns, strict=True))
    ]


def _width(cell: str | Cell | Trend, glyphs: str) -> int:
    if isinstance(cell, Trend):
        return min(cell.width, len(cell.values))
    text = cell if isinstance(cell, str) else cell.text
    return len(text) if text.isascii() else _width_of(text, glyphs)


@lru_cache(maxsize=4096)
def _width_of(text: str, glyphs: str) -> int:
    """The width of a text with other characters than ASCII: most occur in many rows, and in the next round again."""
    return cell_count(_text(text, glyphs))


def _text(cell: str | Cell, glyphs: str) -> str:
    text = cell if isinstance(cell, str) else cell.text
    return settled(text) if glyphs != "ascii" else spelled(text, glyphs)


def layout(columns: Sequence[Column], texts: Sequence[int], width: int, left: int) -> list[ShownColumn]:
    """The columns that fit from cell `left` on into `width` cells, by the widths of their texts."""
    places = _layout(columns, texts, width, left)
    return _layout(columns, texts, width - LEFT_OUT, left) if left_out(texts, places) else places


def left_out(texts: Sequence[int], places: Sequence[ShownColumn]) -> int:
    """The number of columns with texts that have no place."""
    shown = {place.column for place in places}
    return sum(text > 0 and place not in shown for place, text in enumerate(texts))


def _layout(columns: Sequence[Column], texts: Sequence[int], width: int, left: int) -> list[ShownColumn]:
    wanted = [
        max(min(text, column.most or text), 0 if column.stretch else column.least)
        if text or not column.title
        else 0
        for column, text in zip(columns, texts, strict=True)
    ]
    needs = {
        place: min(wanted[place], column.least or STRETCH) if column.stretch else wanted[place]
        for place, column in enumerate(columns)
        if wanted[place]
    }
    while len(needs) > 1 and left + sum(needs.values()) + len(needs) - 1 > width:
        del needs[min(needs, key=lambda place: (columns[place].worth, -place))]
    spare = width - left - sum(needs.values()) - len(needs) + 1
    places = []
    for place, need in needs.items():
        more = max(min(spare, wanted[place] - need), 0)
        spare -= more
        places.append(ShownColumn(place, left, min(need + more, max(width - left, 0))))
        left += need + more + 1
    return places


def draw_header(
    canvas: Canvas,
    columns: Sequence[Column],
    places: Sequence[ShownColumn],
    order: Order,
    missing: int,
    look: Look,
) -> None:
    """The titles in the first row, with a pointer next to that of the column sorted by, if there is one."""
    for place in places:
        column, sorted_by = columns[place.column], order is not None and place.column == order[0]
        pointer = (look.glyphs.down if order[1] else look.glyphs.up) if order and sorted_by else ""
        text = fit(
            pointer + _text(column.title, look.glyphs.name), place.width, look.glyphs.ellipsis, column.numeric
        )
        canvas.put(0, place.left, text, look.highlight if sorted_by else look.muted, BOLD)
    if missing:
        canvas.put(0, canvas.width - LEFT_OUT, f"+{missing}".rjust(LEFT_OUT), look.muted, BOLD)


def shortened(
    columns: Sequence[Column], places: Sequence[ShownColumn], rows: Rows, look: Look
) -> dict[int, dict[str, str]]:
    """For each column of names without enough room: each name as it is shown there, so that all can be told apart."""
    found = {}
    for place in places:
        if columns[place.column].names:
            cells = (row.cells[place.column] for row in rows)
            names = {_text(cell, look.glyphs.name) for cell in cells if not isinstance(cell, Trend)}
            if any(cell_count(name) > place.width for name in names):
                found[place.column] = apart(names, place.width, look.glyphs.ellipsis)
    return found


def draw_row(
    canvas: Canvas,
    row: Row,
    columns: Sequence[Column],
    places: Sequence[ShownColumn],
    names: Mapping[int, Mapping[str, str]],
    under_cursor: bool,
    look: Look,
) -> None:
    """A row as a grid of one row, with its names as in `shortened`."""
    if under_cursor:
        canvas.put(0, 0, look.glyphs.pointer, look.highlight, BOLD)
        if look.coloured:
            look = replace(look, background=look.tint(look.accent, 0.18))
            canvas.bg[:] = look.background
    for place in places:
        cell, column = row.cells[place.column], columns[place.column]
        if isinstance(cell, Trend):
            text = sparkline(cell.values, place.width, look.glyphs.bars, (0.0, cell.top))
            canvas.put(0, place.left, text, look.series(1))
            continue
        own = cell.tone if isinstance(cell, Cell) else column.tone
        tone = own if row.tone == "plain" else row.tone
        bold = BOLD if under_cursor or tone in ("strong", "highlight") else 0
        text = _text(cell, look.glyphs.name)
        text = names.get(place.column, {}).get(text, text)
        text = fit(text, place.width, look.glyphs.ellipsis, column.numeric)
        canvas.put(0, place.left, text, _colour(tone, look), bold)


def _colour(tone: Tone, look: Look) -> int:
    match tone:
        case "muted":
            return look.muted
        case "highlight":
            return look.highlight
        case "warning" | "loss":
            return look.series(5)
        case "gain":
            return look.series(2)
    return look.text
