"""A table with a column for each seed, in which the cursor is at one of the cells.

    grid = Grid()
    rows = [GridRow("fedgh", ("fedgh",), (cell, None), ("83.5",))]
    grid.show_grid(rows, [Column("setting")], ["s0", "s1"], [Column("mean")])
    grid.seed                   # the number of the seed under the cursor

Left and right move to other seeds. If not all seeds fit, those near the cursor are shown.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.app.charts.canvas import BOLD, Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GLYPHS, GlyphSet
from tui.app.charts.table import Cell, Column, Row, Rows, Tone, layout, widths
from tui.app.widgets import Table
from tui.app.widgets.surface import glyphs_of, room

FIRST, SHOWN, PASSED = 8, 5, 1
"""The worth of the first two columns of seeds in sight, of the others, and of those before them."""


@dataclass(frozen=True)
class GridRow:
    """A row: the texts before the seeds, a cell for each seed (None: there is none), and the texts after them."""

    key: Hashable
    before: tuple[str | Cell, ...]
    cells: tuple[Cell | None, ...]
    after: tuple[str | Cell, ...]
    tone: Tone = "plain"


class Grid(Table):
    """Rows of cells by seed. Enter is `Table.Chosen`, as in every table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "seed(-1)", "seed before", show=False),
        Binding("right,l", "seed(1)", "next seed", show=False),
    ]

    def __init__(self) -> None:
        super().__init__((), cursor=True)
        self._seeds: tuple[str, ...] = ()
        self._before: tuple[Column, ...] = ()
        self._after: tuple[Column, ...] = ()
        self._at = 0
        self._first = 0
        """The first seed in sight."""

    @property
    def seed(self) -> int:
        """The number of the seed under the cursor."""
        return self._at

    def show_grid(
        self, rows: Sequence[GridRow], before: Sequence[Column], seeds: Sequence[str], after: Sequence[Column]
    ) -> None:
        """Replace the contents. The cursor stays."""
        self._before, self._seeds, self._after = tuple(before), tuple(seeds), tuple(after)
        self._at = min(self._at, max(len(seeds) - 1, 0))
        shown = []
        for row in rows:
            cells = (*row.before, *map(_with_room, row.cells), *row.after)
            shown.append(Row(row.key, cells, row.tone, search=str(row.key)))
        self._show(Rows(shown))

    def action_seed(self, steps: int) -> None:
        at = min(max(self._at + steps, 0), max(len(self._seeds) - 1, 0))
        if at != self._at:
            self._at = at
            self._show(self._all)
            self.changed()
            self.post_message(self.CursorMoved(self, self.selected))

    def on_resize(self) -> None:
        super().on_resize()
        self._show(self._all)

    def _show(self, rows: Rows) -> None:
        """Show the rows with the columns near the cursor."""
        if not self._seeds:
            self.show(rows, [*self._before, *self._after])
            return
        wanted = widths(self._columns_from(0), rows, None, GLYPHS[glyphs_of(self)])
        self._first = min(self._first, self._at)
        while self._first < self._at and not self._is_in_sight(wanted):
            self._first += 1
        self.show(rows, self._columns_from(self._first))

    def _is_in_sight(self, wanted: Sequence[int]) -> bool:
        at = len(self._before) + self._at
        places = layout(self._columns_from(self._first), wanted, room(self).width, 1)
        return any(place.column == at for place in places)

    def _columns_from(self, first: int) -> list[Column]:
        """All columns, those of the seeds from `first` on with more worth than those before."""
        seeds = [
            Column(
                f"{seed} ",
                numeric=True,
                worth=PASSED if place < first else FIRST if place < first + 2 else SHOWN,
            )
            for place, seed in enumerate(self._seeds)
        ]
        return [*self._before, *seeds, *self._after]

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        canvas = super().draw(width, height, scheme, glyphs)
        at = len(self._before) + self._at
        place = next((each for each in self._places if each.column == at), None)
        line = self._place() - self.scroll_offset.y + self._header
        if self._seeds and place is not None and self.rows and self._header <= line < height:
            canvas.put(line, place.left, "[", scheme.highlight, BOLD)
            canvas.put(line, place.left + place.width - 1, "]", scheme.highlight, BOLD)
        return canvas


def _with_room(cell: Cell | None) -> Cell | str:
    """The cell with room for the cursor's brackets."""
    return "" if cell is None else replace(cell, text=f" {cell.text} ")
