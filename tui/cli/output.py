"""Tables and JSON on stdout, messages on stderr, and the line there while a command waits."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from rich import box
from rich.console import Console, JustifyMethod, OverflowMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tui.common.errors import OutputClosed
from tui.common.formatting import NONE, printable

if TYPE_CHECKING:
    from simulator.results.analysis.tabular import TextTable

UNLIMITED = 10_000
"""Columns without a terminal's limit: in a pipe, no cell may be cut."""
AT_ONCE_SECONDS = 0.25
"""Seconds until the line of a Ticker appears. Faster answers need no line."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise OutputClosed


def _console(stream: IO[str], drawn: bool = False) -> Console:
    width = None if drawn or stream.isatty() else UNLIMITED
    how: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
    return _Console(file=stream, width=width, force_terminal=drawn or None, **how)


def stdout() -> Console:
    """The console for results."""
    return _console(sys.stdout)


def stderr(drawn: bool = False) -> Console:
    """The console for progress and messages. `drawn` forces it to be a terminal."""
    return _console(sys.stderr, drawn)


def say(message: str, style: str = "") -> None:
    """Print a message for the user on stderr."""
    tell(Text(printable(message), style=style))


def emit(value: Any, *, indent: int | None = 2) -> None:
    """Print a JSON value on stdout, flushed; paths are texts. With `indent` None, on one line."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=os.fspath)
    if not text.isprintable():  # JSON may contain control characters, which would steer a terminal
        text = "".join(
            char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text
        )
    write(f"{text}\n")


def write(text: str, file: IO[str] | None = None) -> None:
    """Print text unchanged, flushed, on stdout or on `file`."""
    try:
        print(text, end="", file=file, flush=True)
    except BrokenPipeError:
        raise OutputClosed from None


def answer(as_json: bool, value: Any, *parts: Table | Text | str) -> None:
    """Print a value for programs, or these parts of a page for people."""
    if as_json:
        emit(value)
    else:
        show(*parts)


def show(*parts: Table | Text | str) -> None:
    """Print parts of a page on stdout, one below the other."""
    _print(stdout(), parts)


def tell(*parts: Table | Text | str) -> None:
    """Print parts of a page on stderr."""
    _print(stderr(), parts)


def _print(console: Console, parts: Iterable[Table | Text | str]) -> None:
    parts = [printable(part) if isinstance(part, str) else part for part in parts]
    if console.is_terminal:
        for part in parts:
            console.print(part)
        return
    with console.capture() as padded:
        for part in parts:
            console.print(part)
    write("\n".join(line.rstrip() for line in padded.get().splitlines()) + "\n", console.file)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], expendable: Sequence[str] = ()) -> Table:
    """A table: plain and aligned in a pipe, ruled in a terminal. A leading '>' aligns a column right.

    If the terminal is too narrow, the `expendable` columns are left out one by one, and a line says so.
    """
    names, cells = list(columns), [list(row) for row in rows]
    console = stdout()
    unlimited = console.options.update(max_width=UNLIMITED)
    result = _table(names, cells)
    for name in expendable:
        if console.measure(result, options=unlimited).maximum <= console.width:
            break
        at = [each.lstrip(">") for each in names].index(name)
        names.pop(at)
        for row in cells:
            row.pop(at)
        result = _table(names, cells)
        result.caption = "More columns in a wider terminal or a pipe."
    return result


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    ruled = sys.stdout.isatty()
    style, padding = ("bold", (0, 1, 0, 0)) if ruled else ("", (0, 1))
    result = Table(box=box.SIMPLE_HEAD if ruled else None, header_style=style, padding=padding)
    result.pad_edge, result.show_edge, result.caption_justify = False, False, "left"
    written = [[cell if isinstance(cell, Text) else printable(dash(cell)) for cell in row] for row in rows]
    for number, column in enumerate(columns):
        # Prose may wrap. Names and numbers stay whole.
        short = number == 0 or all(len(row[number]) <= 16 for row in written)
        justify: JustifyMethod = "right" if column.startswith(">") else "left"
        overflow: OverflowMethod = "ellipsis" if short else "fold"
        result.add_column(column.removeprefix(">"), justify=justify, no_wrap=short, overflow=overflow)
    for row in written:
        result.add_row(*row)
    return result


Cells = dict[str, str | Callable[[Any], object]]


def listing(items: Iterable[object], cells: Cells) -> Table:
    """A table with a row for each item. A cell is an attribute of that name, or what a function returns."""
    read = [attrgetter(each) if isinstance(each, str) else each for each in cells.values()]
    return table(list(cells), [[cell(item) for cell in read] for item in items])


def warn(sentences: Iterable[str]) -> None:
    """Print warnings to stderr."""
    for sentence in sentences:
        say(f"warning: {sentence}", "yellow")


def facts(pairs: Mapping[str, object] | Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair per line. Pairs without a value are left out."""
    result = Table(box=None, show_header=False, pad_edge=False)
    result.add_column(style="bold")
    result.add_column(overflow="fold")
    for name, value in pairs.items() if isinstance(pairs, Mapping) else pairs:
        if value not in (None, ""):
            result.add_row(name, value if isinstance(value, Text) else printable(value))
    return result


def heading(text: str) -> Text:
    """A heading above a part of a page."""
    return Text(f"\n{printable(text)}", style="bold")


def dash(value: object) -> str:
    """A value as a cell: a dash for nothing, a list for several values."""
    if value is None:
        return NONE
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def show_table(result: "TextTable[Any]") -> None:
    """A table of the public API, and below it what a reader must know."""
    columns = result.columns()
    rows = [[column.cell(row) for column in columns] for row in result.rows]
    names = [(">" if column.numeric else "") + column.name for column in columns]
    show(table(names, rows, [column.name for column in columns if column.expendable]))
    for remark in result.remarks():
        show(remark)


class Ticker:
    """A line that is updated in place on a terminal. Elsewhere, it is written once."""

    def __init__(self) -> None:
        console, self._shown, self._began = stderr(), "", time.monotonic()
        live = Live(console=console, auto_refresh=False, transient=True)
        self._live = live if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        if kind is KeyboardInterrupt:
            say("No longer waiting; the command stays asked for.")

    def show(self, text: str) -> None:
        """Replace the text of the line."""
        if time.monotonic() - self._began < AT_ONCE_SECONDS:
            return
        if self._live and text != self._shown:
            self._live.update(Text(printable(text)), refresh=True)
        elif not self._shown:
            say(text)
        self._shown = text

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._live:
            self._live.console.print(Text(printable(text)))
        else:
            say(text)
