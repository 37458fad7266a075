"""The client table as cells: which columns fit, and a row's text in them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tui.app.drawing.cells import BOLD, Cells
from tui.app.drawing.colours import OKABE_ITO, Theme, blend
from tui.app.drawing.glyphs import GlyphSet
from tui.app.drawing.sparkline import sparkline
from tui.common.formatting import short

TREND = 6, 40  # the narrowest and the widest sparkline


@dataclass(frozen=True, eq=False)
class ClientRow:
    """One client. accuracy: 0…1, None = never evaluated; change: its difference to the round before; up, down: bytes;
    history: past accuracies, NaN = none; key: the character of its line in the chart, shown if it is pinned."""

    id: int
    model: str
    accuracy: float | None = None
    change: float | None = None
    up: float = 0
    down: float = 0
    history: Sequence[float] = ()
    pinned: bool = False
    marked: bool = False
    key: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its title, width (0: as wide as its texts), text, the value it is sorted by, None = missing."""

    title: str
    width: int
    text: Callable[[ClientRow], str]
    value: Callable[[ClientRow], float | str | None] | None
    numeric: bool = True


def _percent(share: float | None, signed: bool) -> str:
    if share is None or math.isnan(share):
        return "-"
    points = round(100 * share, 1) + 0.0  # no minus before a zero
    return (f"{points:+.1f}" if points else "0.0") if signed else f"{points:.1f}%"


COLUMNS: dict[str, Column] = {
    "flags": Column("", 2, lambda row: "", lambda row: 2 * row.pinned + row.marked),
    "id": Column("id", 0, lambda row: str(row.id), lambda row: row.id),
    "model": Column("model", 0, lambda row: row.model, lambda row: row.model.casefold(), numeric=False),
    "accuracy": Column("acc", 6, lambda row: _percent(row.accuracy, False), lambda row: row.accuracy),
    "change": Column("+/-", 6, lambda row: _percent(row.change, True), lambda row: row.change),
    "up": Column("up", 6, lambda row: short(row.up), lambda row: row.up),
    "down": Column("down", 6, lambda row: short(row.down), lambda row: row.down),
    "trend": Column("trend", 0, lambda row: "", None),
}
SORTABLE = tuple(name for name, column in COLUMNS.items() if column.value is not None)
_BY_WORTH = ("id", "accuracy", "flags", "change", "model", "trend", "up", "down")
_LONGEST_MODEL = 14


@dataclass(frozen=True)
class Layout:
    """The columns shown, as name → (first cell, width), and the width of the whole."""

    places: dict[str, tuple[int, int]]
    width: int


def layout(rows: Sequence[ClientRow], width: int) -> Layout:
    """The columns that fit into `width` cells, the most telling first; the sparkline takes what is left."""
    widths = {name: column.width for name, column in COLUMNS.items()}
    widths["id"] = max([len("id") + 1, *(len(str(row.id)) for row in rows)])
    widths["model"] = min(max([len("model") + 1, *(len(row.model) for row in rows)]), _LONGEST_MODEL)
    widths["trend"] = TREND[0]
    kept, used = set[str](), 1  # the cursor's column
    for name in _BY_WORTH:
        if used + widths[name] + 1 <= width:
            kept.add(name)
            used += widths[name] + 1
    if "trend" in kept:
        widths["trend"] = min(widths["trend"] + width - used, TREND[1])
    places, left = dict[str, tuple[int, int]](), 1
    for name in COLUMNS:
        if name in kept:
            places[name] = (left, widths[name])
            left += widths[name] + 1
    return Layout(places, width)


def column_at(shown: Layout, x: int) -> str | None:
    """The sortable column under cell `x` of the header, if there is one."""
    for name, (left, width) in shown.places.items():
        if left <= x <= left + width and name in SORTABLE:
            return name
    return None


def draw_table(
    rows: Sequence[ClientRow],
    shown: Layout,
    height: int,
    order: tuple[str, bool],
    cursor: int | None,
    theme: Theme,
    glyphs: GlyphSet,
) -> Cells:
    """The header and the first height − 1 of `rows`; `order`: column and direction; `cursor`: a client's id."""
    cells = Cells.blank(shown.width, height, theme.text, theme.background)
    draw_header(cells, shown, order, theme, glyphs)
    for line, row in enumerate(rows[: max(height - 1, 0)], start=1):
        draw_row(cells.window(line, 0, 1, shown.width), row, shown, row.id == cursor, theme, glyphs)
    return cells


def draw_header(cells: Cells, shown: Layout, order: tuple[str, bool], theme: Theme, glyphs: GlyphSet) -> None:
    """The titles; that of the column sorted by has a pointer beside it."""
    for name, (left, width) in shown.places.items():
        column, sorted_by = COLUMNS[name], name == order[0]
        pointer = (glyphs.down if order[1] else glyphs.up) if sorted_by else ""
        text = (pointer + column.title)[:width]
        cells.put(
            0,
            left + (width - len(text) if column.numeric and name != "trend" else 0),
            text,
            theme.highlight if sorted_by else theme.muted,
            BOLD,
        )


def draw_row(
    cells: Cells, row: ClientRow, shown: Layout, under_cursor: bool, theme: Theme, glyphs: GlyphSet
) -> None:
    """One client in a grid of one row. The cursor is a pointer, and a tint where there is colour."""
    if under_cursor:
        cells.put(0, 0, glyphs.pointer, theme.highlight, BOLD)
        if theme.colour:
            cells.paper[:] = blend(theme.background, theme.accent, 0.18)
    for name, (left, width) in shown.places.items():
        column = COLUMNS[name]
        if name == "flags":
            draw_flags(cells, row, left, theme, glyphs)
            continue
        if name == "trend":
            cells.put(0, left, sparkline(row.history, width, glyphs), theme.series(1))
            continue
        text = column.text(row)
        if len(text) > width:
            text = text[: width - 1] + glyphs.ellipsis
        bold = BOLD if under_cursor or name == "accuracy" else 0
        cells.put(
            0, left + (width - len(text) if column.numeric else 0), text, ink_of(name, row, theme), bold
        )


def draw_flags(cells: Cells, row: ClientRow, left: int, theme: Theme, glyphs: GlyphSet) -> None:
    """Pinned: its key in the chart, or a dot; marked: a tick."""
    plain = glyphs.name == "ascii"
    if row.pinned:
        cells.put(0, left, row.key or ("*" if plain else "●"), theme.highlight, BOLD)
    if row.marked:
        cells.put(0, left + 1, "+" if plain else "✓", theme.highlight, BOLD)


def ink_of(name: str, row: ClientRow, theme: Theme) -> int:
    """The colour of a text: gains and losses have their own beside their sign, what is said in passing is muted."""
    if name == "change" and theme.colour and row.change is not None and abs(row.change) >= 0.0005:
        return theme.clear(OKABE_ITO[2] if row.change > 0 else OKABE_ITO[5])
    return theme.muted if name in ("model", "up", "down", "change") else theme.text


def matches(row: ClientRow, query: str) -> bool:
    """Whether every word of `query` is in the client's id, model or flags."""
    flags = f"{'pinned' if row.pinned else ''} {'marked' if row.marked else ''}"
    text = f"{row.id} {row.model} {flags}".casefold()
    return all(word in text for word in query.casefold().split())


def sorted_rows(rows: Iterable[ClientRow], column: str, descending: bool) -> list[ClientRow]:
    """Rows by a column's value, equal ones by id; rows without a value come last either way."""
    value = COLUMNS[column].value
    assert value is not None
    by_id = sorted(rows, key=lambda row: row.id)
    missing = [row for row in by_id if _missing(value(row))]
    present = [row for row in by_id if not _missing(value(row))]
    return sorted(present, key=value, reverse=descending) + missing  # type: ignore[arg-type]


def _missing(value: float | str | None) -> bool:
    return value is None or value != value
