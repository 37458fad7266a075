"""A table of text, drawn line by line: what the panels list, with or without a cursor."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView

from tui.app.charts.look import BOLD, Canvas, Look
from tui.app.widgets.canvas_widget import CanvasWidget
from tui.app.widgets.screen import room
from tui.common.cells import apart, cell_count, fit, settled
from tui.common.formatting import sparkline, spelled
from tui.common.fuzzy import fits

Tone = Literal["plain", "muted", "strong", "highlight", "warning", "gain", "loss"]
COLOURED: dict[str, int] = {"warning": 5, "loss": 5, "gain": 2}
"""The series whose color a tone has."""
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

    @property
    def called(self) -> str:
        return self.name or self.title


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


AnyCell = str | Cell | Trend


@dataclass(frozen=True)
class Row:
    """A row: its item, its texts, its tone, its sort value in each column (None: missing), and its text for filters."""

    key: Hashable
    cells: tuple[AnyCell, ...]
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
    columns: Sequence[tuple[Sequence[AnyCell], Sequence[Value]]],
    search: Sequence[str],
) -> Rows:
    """Rows of these keys. Each column has its cells, and what rows are sorted by in it (empty: nothing)."""
    cells = zip(*(each for each, _ in columns), strict=True)
    values = zip(*(each or [None] * len(keys) for _, each in columns), strict=True)
    rows = zip(keys, cells, values, search, strict=True)
    return tuple([Row(key, row, values=value, search=words) for key, row, value, words in rows])


def sorted_rows(rows: Rows, column: int, descending: bool) -> Rows:
    """Rows by their values in a column. Equal ones keep their order. Rows without a value are last either way."""
    missing = [value is None or value != value for value in (row.values[column] for row in rows)]
    present = [row for row, gone in zip(rows, missing, strict=True) if not gone]
    present.sort(key=lambda row: row.values[column], reverse=descending)  # type: ignore[arg-type, return-value]
    return (*present, *(row for row, gone in zip(rows, missing, strict=True) if gone))


def _width(cell: AnyCell, glyphs: str) -> int:
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


class Place(NamedTuple):
    """A shown column: its number, its first cell, and its width."""

    column: int
    left: int
    width: int


def layout(columns: Sequence[Column], texts: Sequence[int], width: int, left: int) -> list[Place]:
    """The columns that fit from cell `left` on into `width` cells, by the widths of their texts."""
    places = _layout(columns, texts, width, left)
    return _layout(columns, texts, width - LEFT_OUT, left) if left_out(texts, places) else places


def left_out(texts: Sequence[int], places: Sequence[Place]) -> int:
    """The number of columns with texts that have no place."""
    shown = {place.column for place in places}
    return sum(text > 0 and place not in shown for place, text in enumerate(texts))


def _layout(columns: Sequence[Column], texts: Sequence[int], width: int, left: int) -> list[Place]:
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
        places.append(Place(place, left, min(need + more, max(width - left, 0))))
        left += need + more + 1
    return places


class Table(CanvasWidget, ScrollView, can_focus=True):
    """Rows of text under a header, which is left out if no column has a title and counts columns without room.

    The cursor keeps to its row's key. With `follows`, a table that shows its last row keeps showing it.
    """

    DEFAULT_CSS = """
    Table { width: 1fr; height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "edge(-1)", "first", show=False),
        Binding("end,G", "edge(1)", "last", show=False),
        Binding("enter", "choose", "choose", show=False),
    ]

    @dataclass
    class CursorMoved(Message):
        """The row of `key` is under the cursor; None: the table has no rows."""

        table: "Table"
        key: Hashable | None

    @dataclass
    class Chosen(Message):
        """Enter was pressed on the row of `key`."""

        table: "Table"
        key: Hashable

    @dataclass
    class Sorted(Message):
        """The order of rows was changed by a key or a click."""

        table: "Table"

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        cursor: bool = False,
        follows: bool = False,
        sort: str | None = None,
    ) -> None:
        """`sort`: the column by which rows are sorted at first; None: they stay in the given order."""
        super().__init__()
        self._columns = tuple(columns)
        self._all: Rows = ()
        self.rows: Rows = ()
        """The rows shown, in their order: those that pass the filter."""
        self.selected: Hashable | None = None
        """The key under the cursor; None without a cursor."""
        self._keys: list[Hashable] = []
        self._has_cursor, self._follows = cursor, follows
        self._order = (self._place_of(sort), False) if sort else None  # column, descending
        self._query = ""
        self._widths: list[int] | None = None  # None: to be measured
        self._places: list[Place] = []
        self._names: dict[int, dict[str, str]] = {}
        """For each column of names without enough room: each name as it is shown there."""
        self._room = Size(0, 0)  # at the last resize

    @property
    def filled(self) -> bool:
        return bool(self._all)

    @property
    def sort(self) -> tuple[str, bool]:
        """The column by which rows are sorted ("" for none), and whether from high to low."""
        return ("", False) if self._order is None else (self._columns[self._order[0]].called, self._order[1])

    def show(self, rows: Iterable[Row], columns: Sequence[Column] | None = None) -> None:
        """Show these rows (under these columns). The same rows again cost nothing."""
        given = tuple(columns) if columns is not None else self._columns
        rows = tuple(rows)
        if rows == self._all and given == self._columns:
            return
        at_end = self.scroll_offset.y >= self._last_offset()
        self._all, self._columns, self._widths = rows, given, None
        self._arrange()
        if self._follows and at_end:
            self.call_after_refresh(self._to_end, self.scroll_offset.y)

    def filter(self, words: str) -> None:
        if words != self._query:
            self._query = words
            self._arrange()

    def sort_by(self, name: str, descending: bool = False) -> None:
        self._order, self._widths = (self._place_of(name), descending), None
        self._arrange()

    def reverse_sort(self) -> None:
        name, descending = self.sort
        self.sort_by(name, not descending)
        self.post_message(self.Sorted(self))

    def cycle_sort(self) -> None:
        """Sort by the next sortable column, in its own direction."""
        able = [place for place, column in enumerate(self._columns) if column.sort]
        following = (able.index(self._order[0]) + 1) % len(able) if self._order else 0
        self._sort_its_way(self._columns[able[following]])

    def put_cursor(self, key: Hashable) -> None:
        """Put the cursor on the row of a key, if it is shown."""
        if key in self._keys:
            self._set_cursor(key)
            self.show_cursor()

    def show_cursor(self) -> None:
        """Scroll until the row of the cursor is visible."""
        place = self._place()
        in_sight = max(room(self).height - self._header, 1)
        top = min(max(self.scroll_offset.y, place - in_sight + 1), place)
        if top != self.scroll_offset.y:
            self._scroll(top)

    def action_move(self, lines: int) -> None:
        if not self._has_cursor:
            self._scroll(self.scroll_offset.y + lines)
        elif self.rows:
            self.put_cursor(self._keys[min(max(self._place() + lines, 0), len(self.rows) - 1)])

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(room(self).height - 2, 1))

    def action_edge(self, way: int) -> None:
        self.action_move(way * (len(self.rows) + 1))

    def action_choose(self) -> None:
        if self.selected is not None:
            self.post_message(self.Chosen(self, self.selected))

    def on_resize(self) -> None:
        if self._follows:
            ends = self._last_offset(), self._last_offset(self._room)
            if not self._room or self.scroll_offset.y >= min(ends):
                self.call_after_refresh(self._to_end, self.scroll_offset.y)
        elif self.selected is not None and room(self) != self._room:
            self.call_after_refresh(self.show_cursor)
        self._room = room(self)

    def on_click(self, event: events.Click) -> None:
        """A click on a row puts the cursor there. On the header, it sorts by that column, and then in reverse."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        line = self.scroll_offset.y + offset.y - self._header
        if offset.y < self._header:
            for number, left, width in self._places:
                if left <= offset.x <= left + width and self._columns[number].sort:
                    if self._order is not None and self._order[0] == number:
                        self.reverse_sort()
                    else:
                        self._sort_its_way(self._columns[number])
                    return
        elif self._has_cursor and line < len(self.rows):
            self.put_cursor(self._keys[line])

    def measured(self, rows: Rows, columns: Sequence[Column], look: Look) -> list[int]:
        """The widths of each column's texts and title, with a pointer next to the title of the column sorted by."""
        glyphs, texts = look.glyphs.name, [1] * len(columns)
        if rows:
            texts = list(map(max, zip(*(row.widths(glyphs) for row in rows), strict=True)))
        sorted_by = self._order[0] if self._order else None
        return [
            max(text, _width(column.title, glyphs) + (place == sorted_by)) if text else 0
            for place, (text, column) in enumerate(zip(texts, columns, strict=True))
        ]

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        canvas = look.blank(width, height)
        before = self._places
        if self._widths is None:
            before, self._widths = [], self.measured(self._all, self._columns, look)
        self._places = layout(self._columns, self._widths, width, int(self._has_cursor))
        if self._places != before:
            self._shorten(look)
        if self._header:
            self._draw_header(canvas, look)
        top, lines = self.scroll_offset.y, max(height - self._header, 0)
        for line, row in enumerate(self.rows[top : top + lines], self._header):
            self._draw_row(canvas.window(line, 0, 1, width), row, look)
        return canvas

    def _shorten(self, look: Look) -> None:
        """Cut the names of columns without enough room, so that all can be told apart."""
        self._names = {}
        for number, _, width in self._places:
            if self._columns[number].names:
                cells = (row.cells[number] for row in self._all)
                names = {_text(cell, look.glyphs.name) for cell in cells if not isinstance(cell, Trend)}
                if any(cell_count(name) > width for name in names):
                    self._names[number] = apart(names, width, look.glyphs.ellipsis)

    def _draw_header(self, canvas: Canvas, look: Look) -> None:
        """The titles in the first row, with a pointer next to that of the column sorted by, if there is one."""
        for number, left, width in self._places:
            column, pointer = self._columns[number], ""
            if sorted_by := self._order is not None and number == self._order[0]:
                pointer = look.glyphs.down if self.sort[1] else look.glyphs.up
            text = pointer + _text(column.title, look.glyphs.name)
            text = fit(text, width, look.glyphs.ellipsis, column.numeric)
            canvas.put(0, left, text, look.highlight if sorted_by else look.muted, BOLD)
        if missing := left_out(self._widths or (), self._places):
            canvas.put(0, canvas.width - LEFT_OUT, f"+{missing}".rjust(LEFT_OUT), look.muted, BOLD)

    def _draw_row(self, canvas: Canvas, row: Row, look: Look) -> None:
        under_cursor = self._has_cursor and row.key == self.selected
        if under_cursor:
            canvas.put(0, 0, look.glyphs.pointer, look.highlight, BOLD)
            if look.coloured:
                look = replace(look, background=look.tint(look.accent, 0.18))
                canvas.bg[:] = look.background
        for number, left, width in self._places:
            cell, column = row.cells[number], self._columns[number]
            if isinstance(cell, Trend):
                text = sparkline(cell.values, width, look.glyphs.bars, (0.0, cell.top))
                canvas.put(0, left, text, look.series(1))
                continue
            own = cell.tone if isinstance(cell, Cell) else column.tone
            tone = own if row.tone == "plain" else row.tone
            text = _text(cell, look.glyphs.name)
            text = self._names.get(number, {}).get(text, text)
            text = fit(text, width, look.glyphs.ellipsis, column.numeric)
            colour = {"muted": look.muted, "highlight": look.highlight}.get(tone, look.text)
            colour = look.series(COLOURED[tone]) if tone in COLOURED else colour
            canvas.put(0, left, text, colour, BOLD if under_cursor or tone in ("strong", "highlight") else 0)

    def _arrange(self) -> None:
        """Filter and sort again. The cursor stays on its row, or goes to one near its place."""
        before = self._place()
        self.rows = self._all
        if self._query:
            self.rows = tuple([row for row in self._all if fits(row.search, self._query)])
        if self._order is not None:
            self.rows = sorted_rows(self.rows, *self._order)
        self.virtual_size = Size(room(self).width, len(self.rows) + self._header)
        self._keys = keys = [row.key for row in self.rows]
        if self._has_cursor and self.selected not in keys:
            self._set_cursor(keys[min(before, len(keys) - 1)] if keys else None)
        self.changed()

    @property
    def _header(self) -> int:
        return int(any(column.title for column in self._columns))

    def _place_of(self, name: str) -> int:
        """The number of the column of this name. Raises ValueError for one without a sort."""
        able = {column.called: place for place, column in enumerate(self._columns) if column.sort}
        if name not in able:
            raise ValueError(f"rows cannot be sorted by '{name}'; they can by {', '.join(able)}")
        return able[name]

    def _sort_its_way(self, column: Column) -> None:
        self.sort_by(column.called, column.sort == "falling")
        self.post_message(self.Sorted(self))

    def _place(self) -> int:
        """The line of the cursor; 0 without a cursor."""
        return self._keys.index(self.selected) if self.selected in self._keys else 0

    def _set_cursor(self, key: Hashable | None) -> None:
        if key != self.selected:
            self.selected = key
            self.changed()
            self.post_message(self.CursorMoved(self, key))

    def _last_offset(self, size: Size | None = None) -> int:
        return max(len(self.rows) + self._header - (size or room(self)).height, 0)

    def _to_end(self, seen: int) -> None:
        """Show the last row, unless the table was scrolled since its first row was `seen`."""
        if seen == self.scroll_offset.y and seen != self._last_offset():
            self._scroll(self._last_offset())

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=top, animate=False, force=True)
