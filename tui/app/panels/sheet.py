"""A table of text, drawn line by line: what the panels list, with or without a cursor.

    sheet = Sheet([Column("name"), Column("bytes", numeric=True), Column("", stretch=True)], cursor=True)
    sheet.show([Row(key, ("adapter", "1.2M", "…"))])
    sheet.selected                      # the key under the cursor
    sheet.put_cursor(key)

Columns that do not fit are left out, those of the least worth first; what stretches is cut with an ellipsis. The cursor
keeps to its row's key when rows change places. With `follows`, a sheet that shows its last row keeps showing it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView

from tui.app.drawing.cells import BOLD, Cells
from tui.app.drawing.colours import Theme, blend
from tui.app.drawing.glyphs import Glyphs, GlyphSet
from tui.app.widgets.drawn import Drawn
from tui.common.formatting import spelled

Tone = Literal["plain", "muted", "strong", "warning"]
STRETCH = 10  # what a column that stretches has at least


@dataclass(frozen=True)
class Column:
    """A column: its title, whether flush right, whether it takes what is left, and its worth when room is short."""

    title: str
    numeric: bool = False
    stretch: bool = False
    worth: int = 1


@dataclass(frozen=True)
class Row:
    """A row: what it is of, its texts, how it is said."""

    key: Hashable
    cells: tuple[str, ...]
    tone: Tone = "plain"


class Sheet(Drawn, ScrollView, can_focus=True):
    """Rows of text under a header, which is left out where no column has a title."""

    DEFAULT_CSS = """
    Sheet { width: 1fr; height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "edge(0)", "first", show=False),
        Binding("end", "edge(-1)", "last", show=False),
        Binding("enter", "choose", "choose", show=False),
    ]

    @dataclass
    class CursorMoved(Message):
        """The row of `key` is under the cursor; None: the sheet shows none."""

        sheet: "Sheet"
        key: Hashable | None

        @property
        def control(self) -> "Sheet":
            return self.sheet

    @dataclass
    class Chosen(Message):
        """Enter was pressed on the row of `key`."""

        sheet: "Sheet"
        key: Hashable

        @property
        def control(self) -> "Sheet":
            return self.sheet

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        cursor: bool = False,
        follows: bool = False,
        glyphs: Glyphs = "braille",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(glyphs=glyphs, id=id, classes=classes)
        self._columns = tuple(columns)
        self._rows: tuple[Row, ...] = ()
        self._has_cursor, self._follows = cursor, follows
        self._cursor: Hashable | None = None
        self._widths: list[int] = []

    @property
    def rows(self) -> tuple[Row, ...]:
        return self._rows

    @property
    def selected(self) -> Hashable | None:
        """The key under the cursor; None without one."""
        return self._cursor

    def show(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> None:
        """Show these rows (under these columns) in place of those shown; the same ones cost nothing."""
        before = self._place()
        given = tuple(columns) if columns is not None else self._columns
        rows = tuple(self._spelled(row) for row in rows)
        if rows == self._rows and given == self._columns:
            return
        at_end = self.scroll_offset.y >= self._last_offset()
        self._rows, self._columns = rows, given
        self._measure()
        if self._has_cursor and self._cursor not in {row.key for row in self._rows}:
            self._set_cursor(self._rows[min(before, len(self._rows) - 1)].key if self._rows else None)
        if self._follows and at_end:
            self.call_after_refresh(self._to_end)
        self.changed()

    def put_cursor(self, key: Hashable) -> None:
        """Put the cursor on the row of a key, if it is there."""
        for place, row in enumerate(self._rows):
            if row.key == key:
                self._select(place)

    def action_move(self, lines: int) -> None:
        if not self._has_cursor:
            self.scroll_to(y=self.scroll_offset.y + lines, animate=False)
        elif self._rows:
            self._select(min(max(self._place() + lines, 0), len(self._rows) - 1))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.size.height - 2, 1))

    def action_edge(self, place: int) -> None:
        self.action_move((1 if place else -1) * (len(self._rows) + 1))

    def action_choose(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Chosen(self, self._cursor))

    def on_resize(self) -> None:
        if self._follows:
            self.call_after_refresh(self._to_end)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self._has_cursor:
            return
        place = self.scroll_offset.y + offset.y - self._header
        if offset.y >= self._header and place < len(self._rows):
            self._select(place)

    def draw(self, width: int, height: int, theme: Theme, glyphs: GlyphSet) -> Cells:
        cells = Cells.blank(width, height, theme.text, theme.background)
        places = self._places(width)
        if self._header:
            for column, left, room in places:
                text = fit(self._columns[column].title, room, self._columns[column].numeric, glyphs)
                cells.put(0, left, text, theme.muted, BOLD)
        top = self.scroll_offset.y
        for line, row in enumerate(self._rows[top : top + max(height - self._header, 0)], self._header):
            self._draw_row(cells.window(line, 0, 1, width), row, places, theme, glyphs)
        return cells

    def _draw_row(
        self, cells: Cells, row: Row, places: list[tuple[int, int, int]], theme: Theme, glyphs: GlyphSet
    ) -> None:
        ink = {"muted": theme.muted, "warning": theme.series(5)}.get(row.tone, theme.text)
        under_cursor = self._has_cursor and row.key == self._cursor
        if under_cursor:
            cells.put(0, 0, glyphs.pointer, theme.highlight, BOLD)
            if theme.colour:
                cells.paper[:] = blend(theme.background, theme.accent, 0.18)
        for column, left, room in places:
            text = fit(row.cells[column], room, self._columns[column].numeric, glyphs)
            cells.put(0, left, text, ink, BOLD if under_cursor or row.tone == "strong" else 0)

    def _spelled(self, row: Row) -> Row:
        return replace(row, cells=tuple(spelled(cell, self.glyphs) for cell in row.cells))

    @property
    def _header(self) -> int:
        """The rows that the titles take."""
        return int(any(column.title for column in self._columns))

    def _measure(self) -> None:
        self._widths = [
            max([len(column.title), *(len(row.cells[place]) for row in self._rows)])
            for place, column in enumerate(self._columns)
        ]
        self.virtual_size = Size(self.size.width, len(self._rows) + self._header)

    def _places(self, width: int) -> list[tuple[int, int, int]]:
        """The columns shown: which, its first cell, its width."""
        left = int(self._has_cursor)
        needs = {
            place: min(need, STRETCH) if self._columns[place].stretch else need
            for place, need in enumerate(self._widths or [len(one.title) for one in self._columns])
        }
        while len(needs) > 1 and left + sum(needs.values()) + len(needs) - 1 > width:
            del needs[min(needs, key=lambda place: (self._columns[place].worth, -place))]
        spare = width - left - sum(needs.values()) - len(needs) + 1
        places = []
        for place, need in needs.items():
            room = need
            if self._columns[place].stretch and self._widths:
                room = need + max(min(spare, self._widths[place] - need), 0)
                spare -= room - need
            places.append((place, left, min(room, max(width - left, 0))))
            left += room + 1
        return places

    def _place(self) -> int:
        """The line of the cursor; 0 where there is none."""
        return next((place for place, row in enumerate(self._rows) if row.key == self._cursor), 0)

    def _select(self, place: int) -> None:
        """Put the cursor on a row and bring it into sight."""
        self._set_cursor(self._rows[place].key)
        in_sight = max(self.size.height - self._header, 1)
        top = min(max(self.scroll_offset.y, place - in_sight + 1), place)
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)

    def _set_cursor(self, key: Hashable | None) -> None:
        if key != self._cursor:
            self._cursor = key
            self.changed()
            self.post_message(self.CursorMoved(self, key))

    def _last_offset(self) -> int:
        return max(len(self._rows) + self._header - self.size.height, 0)

    def _to_end(self) -> None:
        if self.scroll_offset.y != self._last_offset():
            self.scroll_to(y=self._last_offset(), animate=False)


def fit(text: str, room: int, numeric: bool, glyphs: GlyphSet) -> str:
    """`text` in `room` cells: flush right if numeric, cut with an ellipsis where it is too long."""
    if len(text) > room:
        text = text[: max(room - 1, 0)] + glyphs.ellipsis if room else ""
    return text.rjust(room) if numeric else text.ljust(room)
