"""Tidy tables as CSV: a header, a line per row, nothing in place of what there is not."""

import csv
import errno
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from simulator.base.errors import cannot_write
from simulator.base.record import Record
from simulator.base.units import cell
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.tidy import SESSION_TABLES, Tidy


def text(table: Tidy, header: bool = True) -> str:
    """The table as CSV."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    if header:
        writer.writerow(map(cell, table.columns))
    writer.writerows(map(cell, row) for row in table.rows)
    return written.getvalue()


class CsvFile:
    """A table of a session, written whole whenever there is more: a switch of method may bring new columns."""

    def __init__(self, path: Path, what: str) -> None:
        """Raises ConfigError if a folder has the file's name."""
        if path.is_dir():
            raise cannot_write(path, IsADirectoryError(errno.EISDIR, ""))
        self._path = path
        self._what = what

    def begin(self, run: SessionData) -> None:
        self._write(run)

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        self._write(run)

    def close(self) -> None:
        return

    def _write(self, run: SessionData) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.write_text(text(SESSION_TABLES[self._what](run)), encoding="utf-8")
        beside.replace(self._path)


class CsvStream:
    """The same, line by line, as it comes. Its columns are those of the first rounds."""

    def __init__(self, stream: IO[str], what: str) -> None:
        self._stream = stream
        self._what = what
        self._columns: tuple[str, ...] | None = None
        self._rows = 0

    def begin(self, run: SessionData) -> None:
        if not run.live:  # all that there will be
            self._write(run)

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        self._write(run)

    def close(self) -> None:
        return

    def _write(self, run: SessionData) -> None:
        table = SESSION_TABLES[self._what](run)
        header = self._columns is None
        self._columns = self._columns or table.columns
        kept = [table.columns.index(name) if name in table.columns else None for name in self._columns]
        rows = tuple(
            tuple(None if place is None else row[place] for place in kept) for row in table.rows[self._rows :]
        )
        self._rows = len(table.rows)
        self._stream.write(text(Tidy(self._columns, rows), header))
        self._stream.flush()
