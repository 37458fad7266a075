"""A user's own table: a CSV or Parquet file with a column of classes, and optionally a column of users.

Numbers stay numbers. Texts and truth values become one column of zeros and ones for each value.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simulator.base.errors import ConfigError, DataError, nearest
from simulator.base.extras import library
from simulator.data.pictures import check_memory
from simulator.data.samples import ArraySet, Values
from simulator.data.specs import TableSpec

SUFFIXES = (".csv", ".parquet")
MOST_COLUMNS = 10_000
"""The maximum number of columns, in the file and after texts have become columns."""
MOST_VALUES = 100
"""The maximum number of different texts in a column, and of classes."""


class Columns(NamedTuple):
    """The columns of a table with a special meaning."""

    target: str | None = None
    client: str | None = None
    ignore: tuple[str, ...] = ()


NO_COLUMNS = Columns()


def load(file: Path, columns: Columns) -> ArraySet:
    """The rows of a table as samples. Raises ConfigError for wrong columns, DataError for unreadable contents."""
    table = _read(file)
    target = _target(file, list(table), columns)
    labels, classes = _classes(file, table[target], target)
    left_out = {target, columns.client, *columns.ignore}
    parts: list[Values] = []
    names: list[str] = []
    for name in table:
        if name not in left_out:
            encoded = _encoded(file, name, table[name])
            parts += encoded.values()
            names += encoded
            if len(parts) > MOST_COLUMNS:
                raise DataError(
                    f"{file} has more than {MOST_COLUMNS:,} columns once its texts are columns of their own. Leave "
                    "some out with data.ignore."
                )
    if not parts:
        raise DataError(f"{file} has no column of features beside '{target}'. Add one.")
    check_memory(file, 4 * len(parts) * len(labels))
    features = np.stack(parts, axis=1)
    try:
        samples = ArraySet.of(TableSpec(len(parts)), (features, labels), classes=classes).named(names)
    except DataError as odd:
        raise DataError(f"{file}: {odd}") from odd
    if columns.client is None:
        return samples
    _refuse_empty(file, columns.client, table[columns.client])
    return samples.of_users([str(each) for each in table[columns.client].tolist()])


def users(file: Path, columns: Columns) -> list[int]:
    """The number of rows of each user, in the order of first rows; empty without a column of users."""
    if columns.client is None:
        return []
    table = _read(file)
    _target(file, list(table), columns)
    counts: list[int] = table[columns.client].value_counts(sort=False, dropna=False).tolist()
    return counts


def _read(file: Path) -> Any:
    """The table as a data frame. The header is read first, because a million columns would fill the memory."""
    import pandas as pd
    from pandas.errors import EmptyDataError, ParserError, ParserWarning

    try:
        if file.suffix.lower() == ".parquet":
            return _read_parquet(file)
        with file.open(encoding="utf-8-sig") as lines:
            header = lines.readline(1 << 20)
        if header.count(",") >= MOST_COLUMNS:
            raise DataError(f"{file} has more than {MOST_COLUMNS:,} columns. Keep those that matter.")
        with warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)
            table = pd.read_csv(
                file, encoding="utf-8-sig", low_memory=False, skipinitialspace=True, index_col=False
            )
    except UnicodeDecodeError as wrong:
        raise DataError(
            f"{file} is not UTF-8 text (byte {wrong.start}). Save it with this encoding."
        ) from wrong
    except EmptyDataError as empty:
        raise DataError(f"{file} is empty. It needs a line of column names, and rows.") from empty
    except ParserWarning as longer:
        raise DataError(
            f"{file} has rows with more values than column names. Give each column a name, and each row as many values."
        ) from longer
    except ParserError as broken:
        raise DataError(
            f"{file} is no table ({' '.join(str(broken).split())}). Correct this line."
        ) from broken
    except (OSError, ValueError) as unreadable:
        raise DataError(f"{file} cannot be read ({unreadable}). Replace it.") from unreadable
    return _checked(file, table)


def _read_parquet(file: Path) -> Any:
    parquet = library("pyarrow.parquet", "parquet")
    try:
        schema = parquet.read_schema(file)
        if len(schema.names) > MOST_COLUMNS:
            raise DataError(f"{file} has {len(schema.names):,} columns. At most {MOST_COLUMNS:,} are read.")
        return _checked(file, parquet.read_table(file).to_pandas(ignore_metadata=True))
    except (OSError, ValueError) as unreadable:  # pyarrow's own errors are ValueErrors
        raise DataError(f"{file} is no Parquet file ({unreadable}). Write it again.") from unreadable


def _checked(file: Path, table: Any) -> Any:
    if not len(table):
        raise DataError(f"{file} has no rows. Add some below its column names.")
    if "\x00" in "".join(map(str, table.columns)):
        raise DataError(f"{file} is no text table: its first line has zero bytes. Save it as CSV.")
    return table


def _target(file: Path, names: Sequence[str], columns: Columns) -> str:
    """The column of classes. Checks all columns that the settings name."""
    if columns.target is None:
        raise ConfigError(
            f"{file} is a table, and nothing says which column holds the classes. Set data.target to one of "
            f"{_listed(names)}."
        )
    given = [("data.target", columns.target), ("data.client", columns.client)]
    given += [("data.ignore", each) for each in columns.ignore]
    for key, name in given:
        if name is not None and name not in names:
            raise ConfigError(
                f"{key} is '{name}', and {file} has no such column.{nearest(name, names)} It has {_listed(names)}."
            )
    if columns.client == columns.target:
        raise ConfigError(f"data.client and data.target are both '{columns.target}'. Name two columns.")
    return columns.target


def _classes(file: Path, column: Any, name: str) -> tuple[Values, tuple[str, ...]]:
    """The class of each row, and the names of the classes in their order."""
    _refuse_empty(file, name, column)
    texts = column.dtype.kind not in "iuf"
    values = column.to_numpy().astype(str) if texts else column.to_numpy()
    if column.dtype.kind == "f" and not (values == np.floor(values)).all():
        raise DataError(
            f"{file}: column '{name}' has numbers with fractions, and data.target must be classes. Round or group them."
        )
    held, labels = np.unique(values, return_inverse=True)
    if not 2 <= len(held) <= MOST_VALUES:
        raise DataError(
            f"{file}: column '{name}' has {len(held):,} different values. data.target needs 2 to {MOST_VALUES} classes."
        )
    whole = [str(int(each)) if not texts else str(each) for each in held]
    return labels.astype(np.int64), tuple(whole)


def _encoded(file: Path, name: str, column: Any) -> dict[str, Values]:
    """A column of numbers as it is, or a column of zeros and ones for each text, by name."""
    _refuse_empty(file, name, column)
    if column.dtype.kind in "iuf":
        return {str(name): column.to_numpy(np.float32)}
    if column.dtype.kind in "mM":
        raise DataError(
            f"{file}: column '{name}' has times. Turn it into numbers, or leave it out: `data.ignore=[\"{name}\"]`."
        )
    texts = column.to_numpy().astype(str)
    held, number = np.unique(texts, return_inverse=True)
    if len(held) > MOST_VALUES:
        raise DataError(
            f"{file}: column '{name}' has {len(held):,} different texts, and at most {MOST_VALUES} become columns. "
            f'Leave it out: `data.ignore=["{name}"]`.'
        )
    return {f"{name} = {text}": (number == each).astype(np.float32) for each, text in enumerate(held)}


def _refuse_empty(file: Path, name: str, column: Any) -> None:
    empty = np.flatnonzero(column.isna().to_numpy())
    if len(empty):
        more = f" and {len(empty) - 1:,} more" if len(empty) > 1 else ""
        raise DataError(
            f"{file}: column '{name}' has no value in row {empty[0] + 1:,}{more}. Fill it in, remove the row, or leave "
            f'the column out: `data.ignore=["{name}"]`.'
        )


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
