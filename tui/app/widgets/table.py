"""A table of text, drawn line by line: what the panels list, with or without a cursor.

Columns that do not fit are left out, those of the least worth first, and counted in the header; what stretches is cut
with an ellipsis. The cursor keeps to its row's key when rows change places. With `follows`, a table that shows its last
row keeps showing it. Lines that come out the same are not sent again.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView

from tui.app.charts.look import Canvas, Look
from tui.app.charts.table import (
    Column,
    Row,
    Rows,
    ShownColumn,
    draw_header,
    draw_row,
    layout,
    left_out,
    shortened,
    sorted_rows,
    widths,
)
from tui.app.widgets.canvas_widget import CanvasWidget
from tui.app.widgets.screen import room
from tui.common.fuzzy import fits


class Table(CanvasWidget, ScrollView, can_focus=True):
    """Rows of text under a header. The header is left out if no column has a title."""

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
        id: str | None = None,
    ) -> None:
        """`sort`: the column by which rows are sorted at first; None: they stay in the given order."""
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._all: Rows = ()
        self._rows: Rows = ()
        self._keys: list[Hashable] = []
        self._has_cursor, self._follows = cursor, follows
        self._order = (self._place_of(sort), False) if sort else None
        self._query = ""
        self._cursor: Hashable | None = None
        self._widths: list[int] | None = None  # None: to be measured
        self._places: list[ShownColumn] = []
        self._names: dict[int, dict[str, str]] = {}
        self._room = Size(0, 0)  # at the last resize

    @property
    def rows(self) -> Rows:
        """The rows shown, in their order: those that pass the filter."""
        return self._rows

    @property
    def filled(self) -> bool:
        """Whether it has rows, with or without the filter."""
        return bool(self._all)

    @property
    def selected(self) -> Hashable | None:
        """The key under the cursor; None without a cursor."""
        return self._cursor

    @property
    def sort(self) -> tuple[str, bool]:
        """The column by which rows are sorted ("" for none), and whether from high to low."""
        return ("", False) if self._order is None else (_name(self._columns[self._order[0]]), self._order[1])

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
        """Show only the rows that contain every word; "" shows all."""
        if words != self._query:
            self._query = words
            self._arrange()

    def sort_by(self, name: str, descending: bool = False) -> None:
        """Sort by the column of this name."""
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
        self._sort_its_way(able[following])

    def put_cursor(self, key: Hashable) -> None:
        """Put the cursor on the row of a key, if it is shown."""
        if key in self._keys:
            self._select(self._keys.index(key))

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
        elif self._rows:
            self._select(min(max(self._place() + lines, 0), len(self._rows) - 1))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(room(self).height - 2, 1))

    def action_edge(self, way: int) -> None:
        self.action_move(way * (len(self._rows) + 1))

    def action_choose(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Chosen(self, self._cursor))

    def on_resize(self) -> None:
        if self._follows:
            ends = self._last_offset(), self._last_offset(self._room)
            if not self._room or self.scroll_offset.y >= min(ends):
                self.call_after_refresh(self._to_end, self.scroll_offset.y)
        elif self._cursor is not None and room(self) != self._room:
            self.call_after_refresh(self.show_cursor)
        self._room = room(self)

    def on_click(self, event: events.Click) -> None:
        """A click on a row puts the cursor there. On the header, it sorts by that column, and then in reverse."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        line = self.scroll_offset.y + offset.y - self._header
        if offset.y < self._header:
            self._sort_at(offset.x)
        elif self._has_cursor and line < len(self._rows):
            self._select(line)

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        canvas = look.blank(width, height)
        before = self._places
        if self._widths is None:
            before, self._widths = [], widths(self._columns, self._all, self._order, look)
        self._places = layout(self._columns, self._widths, width, int(self._has_cursor))
        if self._places != before:
            self._names = shortened(self._columns, self._places, self._all, look)
        if self._header:
            missing = left_out(self._widths, self._places)
            draw_header(canvas, self._columns, self._places, self._order, missing, look)
        top, lines = self.scroll_offset.y, max(height - self._header, 0)
        for line, row in enumerate(self._rows[top : top + lines], self._header):
            here = self._has_cursor and row.key == self._cursor
            window = canvas.window(line, 0, 1, width)
            draw_row(window, row, self._columns, self._places, self._names, here, look)
        return canvas

    def _arrange(self) -> None:
        """Filter and sort again. The cursor stays on its row, or goes to one near its place."""
        before = self._place()
        self._rows = self._all
        if self._query:
            self._rows = tuple([row for row in self._all if fits(row.search, self._query)])
        if self._order is not None:
            self._rows = sorted_rows(self._rows, *self._order)
        self.virtual_size = Size(room(self).width, len(self._rows) + self._header)
        self._keys = keys = [row.key for row in self._rows]
        if self._has_cursor and self._cursor not in keys:
            self._set_cursor(keys[min(before, len(keys) - 1)] if keys else None)
        self.changed()

    @property
    def _header(self) -> int:
        return int(any(column.title for column in self._columns))

    def _place_of(self, name: str) -> int:
        """The number of the column of this name. Raises ValueError for one without a sort."""
        able = {_name(column): place for place, column in enumerate(self._columns) if column.sort}
        if name not in able:
            raise ValueError(f"rows cannot be sorted by '{name}'; they can by {', '.join(able)}")
        return able[name]

    def _sort_at(self, x: int) -> None:
        for place in self._places:
            if place.left <= x <= place.left + place.width and self._columns[place.column].sort:
                if self._order is not None and self._order[0] == place.column:
                    self.reverse_sort()
                else:
                    self._sort_its_way(place.column)
                return

    def _sort_its_way(self, column: int) -> None:
        self.sort_by(_name(self._columns[column]), self._columns[column].sort == "falling")
        self.post_message(self.Sorted(self))

    def _place(self) -> int:
        """The line of the cursor; 0 without a cursor."""
        return self._keys.index(self._cursor) if self._cursor in self._keys else 0

    def _select(self, place: int) -> None:
        self._set_cursor(self._keys[place])
        self.show_cursor()

    def _set_cursor(self, key: Hashable | None) -> None:
        if key != self._cursor:
            self._cursor = key
            self.changed()
            self.post_message(self.CursorMoved(self, key))

    def _last_offset(self, size: Size | None = None) -> int:
        return max(len(self._rows) + self._header - (size or room(self)).height, 0)

    def _to_end(self, seen: int) -> None:
        """Show the last row, unless the table was scrolled since its first row was `seen`."""
        if seen == self.scroll_offset.y and seen != self._last_offset():
            self._scroll(self._last_offset())

    def _scroll(self, top: int) -> None:
        """Scroll this row to the top."""
        self.scroll_to(y=top, animate=False, force=True)


def _name(column: Column) -> str:
    return column.name or column.title
