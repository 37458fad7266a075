"""A table of clients, one line each, that updates by line.

    table = ClientTable(glyphs="braille")
    table.show([ClientRow(id=0, model="cnn1", accuracy=0.81, change=+0.012, up=1_200_000, down=1_200_000,
                          history=(0.1, 0.4, 0.81), pinned=True), ...])
    table.sort_by("accuracy", descending=True)      # any of SORTABLE
    table.cycle_sort()                              # the next column; after the last, the first
    table.filter("cnn3 pinned")                     # rows that have every word, in id, model or flags; "" shows all
    table.move(+1); table.put_cursor(client_id)     # the cursor keeps to its client when rows change places
    table.selected                                  # the id under the cursor, or None

Rows are compared as the text they show: `show` with 100 rows of which 5 changed refreshes 5 lines. Columns that do not
fit are left out, the least telling first, and the sparkline takes the space that is left. Flags: ● pinned, ✓ marked
(* and + in ASCII). Keys: up, down, page up, page down, home, end. Posts `ClientTable.CursorMoved` when another client
comes under the cursor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView

from tui.app.drawing.cells import Cells
from tui.app.drawing.colours import Theme
from tui.app.drawing.glyphs import Glyphs, GlyphSet
from tui.app.drawing.table import (
    COLUMNS,
    SORTABLE,
    ClientRow,
    Layout,
    column_at,
    draw_table,
    layout,
    matches,
    sorted_rows,
)
from tui.app.widgets.drawn import Drawn

__all__ = ["SORTABLE", "ClientRow", "ClientTable"]


class ClientTable(Drawn, ScrollView, can_focus=True):
    """Clients by line: id, model, accuracy, change, up, down, sparkline, flags."""

    DEFAULT_CSS = """
    ClientTable { width: 1fr; height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "edge(0)", "first", show=False),
        Binding("end", "edge(-1)", "last", show=False),
    ]

    @dataclass
    class CursorMoved(Message):
        """Client `client` is under the cursor; None: the table shows none."""

        table: "ClientTable"
        client: int | None

        @property
        def control(self) -> "ClientTable":
            return self.table

    def __init__(
        self,
        *,
        glyphs: Glyphs = "braille",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(glyphs=glyphs, name=name, id=id, classes=classes)
        self._all: tuple[ClientRow, ...] = ()
        self._shown: list[ClientRow] = []
        self._query = ""
        self._sort, self._descending = "id", False
        self._cursor: int | None = None  # a client's id
        self._layout = Layout({}, 0)

    def show(self, rows: Sequence[ClientRow]) -> None:
        """Show these clients in place of those shown; lines that come out the same are not refreshed."""
        self._all = tuple(rows)
        self._arrange()

    @property
    def selected(self) -> int | None:
        """The id of the client under the cursor; None while the table shows none."""
        return self._cursor

    @property
    def sort(self) -> tuple[str, bool]:
        """The column the rows are sorted by, and whether from high to low."""
        return self._sort, self._descending

    @property
    def shown(self) -> list[int]:
        """The ids of the clients that pass the filter, in the order shown."""
        return [row.id for row in self._shown]

    def sort_by(self, column: str, descending: bool = False) -> None:
        """Sort by one of COLUMNS; clients without a value come last either way, equal ones by id."""
        if column not in SORTABLE:
            raise ValueError(f"rows cannot be sorted by '{column}'; they can by {', '.join(SORTABLE)}")
        self._sort, self._descending = column, descending
        self._arrange()

    def cycle_sort(self) -> None:
        """Sort by the next column: names from a to z, numbers from high to low."""
        following = SORTABLE[(SORTABLE.index(self._sort) + 1) % len(SORTABLE)]
        self.sort_by(following, descending=COLUMNS[following].numeric and following != "id")

    def filter(self, text: str) -> None:
        """Show only the clients that have every word of `text` in id, model or flags; "" shows all."""
        if text != self._query:
            self._query = text
            self._arrange()

    def move(self, lines: int) -> None:
        """Move the cursor by lines, up to the first or last one."""
        if self._shown:
            self._select(min(max(self._place() + lines, 0), len(self._shown) - 1))

    def put_cursor(self, client: int) -> None:
        """Put the cursor on a client, if it is shown."""
        if client in self.shown:
            self._select(self.shown.index(client))

    def action_move(self, lines: int) -> None:
        self.move(lines)

    def action_page(self, pages: int) -> None:
        self.move(pages * max(self.size.height - 2, 1))

    def action_edge(self, place: int) -> None:
        if self._shown:
            self._select(place % len(self._shown))

    def on_click(self, event: events.Click) -> None:
        """A click on a line puts the cursor there; on the header, sorts by that column, then the other way round."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            column = column_at(self._layout, offset.x)
            if column:
                self.sort_by(column, not self._descending if column == self._sort else column != "model")
        elif self.scroll_offset.y + offset.y - 1 < len(self._shown):
            self._select(self.scroll_offset.y + offset.y - 1)

    def draw(self, width: int, height: int, theme: Theme, glyphs: GlyphSet) -> Cells:
        self._layout = layout(self._all, width)
        in_sight = self._shown[self.scroll_offset.y :]
        return draw_table(in_sight, self._layout, height, self.sort, self._cursor, theme, glyphs)

    def _arrange(self) -> None:
        """Filter and sort anew; the cursor stays on its client, or goes to the first one shown."""
        place = self._place()
        passing = (row for row in self._all if matches(row, self._query))
        self._shown = sorted_rows(passing, self._sort, self._descending)
        self.virtual_size = Size(
            self.size.width, len(self._shown) + 1
        )  # one for the header, which stays in place
        shown = self.shown
        if self._cursor not in shown:
            self._set_cursor(shown[min(place, len(shown) - 1)] if shown else None)
        self.changed()

    def _place(self) -> int:
        """The line of the cursor among the rows shown; 0 where it has none."""
        return self.shown.index(self._cursor) if self._cursor in self.shown else 0

    def _select(self, place: int) -> None:
        """Put the cursor on a line and bring it into sight."""
        self._set_cursor(self._shown[place].id)
        in_sight = max(self.size.height - 1, 1)
        top = min(max(self.scroll_offset.y, place - in_sight + 1), place)
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)

    def _set_cursor(self, client: int | None) -> None:
        if client != self._cursor:
            self._cursor = client
            self.changed()
            self.post_message(self.CursorMoved(self, client))
