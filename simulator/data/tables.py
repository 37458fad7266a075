"""A user's own table: a CSV or Parquet file with a column of classes, and optionally a column of users.

Numbers stay numbers. Texts and truth values become one column of zeros and ones for each value. Or the samples are the
texts of one column. The values and the vocabulary are those of the rows that clients train on.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError, nearest
from simulator.base.extras import library
from simulator.data import words
from simulator.data.pictures import check_memory
from simulator.data.samples import Indices, Labels, SampleSet, UnfittedSet, Values
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
    text: str | None = None
    """The column whose texts are the samples. All other columns but those of classes and users are left out."""

    @classmethod
    def of(cls, config: DataConfig) -> "Columns":
        """The columns that a configuration names."""
        return cls(config.target, config.client, config.ignore, config.text)


NO_COLUMNS = Columns()
Where = Path | str
"""The place of a table, for messages."""


class OwnParts(NamedTuple):
    """Parts of a table that its source has fixed: the first row of its own test set, and its classes, by number."""

    test_from: int | None = None
    classes: tuple[str, ...] | None = None
    types: bool = True
    """Whether it declares the type of each column. A CSV file does not."""


def load(file: Path, columns: Columns) -> UnfittedSet:
    """The rows of a table as samples. Raises ConfigError for wrong columns, DataError for unreadable contents."""
    return samples(file, _read(file), columns, OwnParts(types=file.suffix.lower() == ".parquet"))


def samples(where: Where, table: Any, columns: Columns, own: OwnParts) -> UnfittedSet:
    """The rows of a data frame as samples: its texts, or all its features.

    Raises ConfigError for wrong columns, DataError for contents that are no samples.
    """
    target = target_of(where, list(table), columns)
    labels, classes = labels_of(where, table, target, own)
    first_test = len(labels) if own.test_from is None else own.test_from
    if columns.text is None:
        features = _features(where, table, {target, columns.client, *columns.ignore}, target)
        learn = partial(_learned, where, own.types)
        values, titles = tuple(features.values()), tuple(features)
        found = UnfittedSet(values, learn, labels, classes, first_test, titles)
    else:
        texts = _texts(where, columns.text, table[columns.text])
        found = words.of_texts(texts, labels, classes, first_test)
    if columns.client is None:
        return found
    return found.of_users(names_of_users(where, table, columns.client))


def labels_of(where: Where, table: Any, target: str, own: OwnParts) -> tuple[Labels, tuple[str, ...]]:
    """The class of each row, and the names of the classes in their order. Raises DataError for other values."""
    column = table[target]
    if own.classes is None:
        return _classes(where, column, target)
    _refuse_empty(where, target, column)
    labels = column.to_numpy().astype(np.int64)
    if labels.min() < 0 or labels.max() >= len(own.classes):
        raise DataError(f"{where}: column '{target}' has numbers of no class, such as {labels.min()}.")
    return labels, own.classes


def names_of_users(where: Where, table: Any, column: str) -> list[str]:
    """The user of each row. Raises DataError for an empty cell."""
    _refuse_empty(where, column, table[column])
    return [str(each) for each in table[column].tolist()]


def _learned(
    where: Where, types: bool, rows: UnfittedSet, held: Indices | None
) -> Callable[[UnfittedSet], SampleSet]:
    """The form of rows: a column of numbers as it is, or a column of zeros and ones for each text of the rows `held`.

    A text that none of them has is zero in all these columns. Without declared types, a column has numbers if all of
    `held` have. None: the rule of older sessions, by which all rows count.
    """
    kept: list[list[str] | None] = []
    names: list[str] = []
    for name, values in zip(rows.titles, rows.columns, strict=True):
        chosen = values if held is None else values[held]
        has_numbers = values.dtype != object or not (
            types or held is None or np.isnan(_numbers(chosen)).any()
        )
        texts = None if has_numbers else sorted(set(chosen.tolist()))
        if texts is not None and len(texts) > MOST_VALUES:
            raise DataError(
                f"{where}: column '{name}' has {len(texts):,} different texts, and at most {MOST_VALUES} become "
                f'columns. Leave it out with `data.ignore=["{name}"]`, or train on these texts with '
                f"`data.text={name}`."
            )
        kept.append(texts)
        names += [name] if texts is None else [f"{name} = {text}" for text in texts]
        if len(names) > MOST_COLUMNS:
            raise DataError(
                f"{where} has more than {MOST_COLUMNS:,} columns once its texts are columns of their own. Leave "
                "some out with data.ignore."
            )

    def formed(rows: UnfittedSet) -> SampleSet:
        check_memory(where, 4 * len(names) * len(rows))
        parts: list[Values] = []
        unknown: Counter[str] = Counter()
        for name, values, texts in zip(rows.titles, rows.columns, kept, strict=True):
            if texts is not None:
                column, others = _encoded(values, texts)
                parts += column
                unknown.update(f"{name} = {text}" for text in others)
            elif values.dtype != object:
                parts.append(values)
            else:
                parts.append(_numbers(values))
                if len(odd := values[np.isnan(parts[-1])]):
                    raise DataError(
                        f"{where}: column '{name}' has '{odd[0]}', and all rows that clients train on have numbers "
                        "there. Correct it, or remove the row."
                    )
        try:
            return rows.formed(np.stack(parts, axis=1), TableSpec(len(names)), names, sorted(unknown.items()))
        except DataError as odd:
            raise DataError(f"{where}: {odd}") from odd

    return formed


def _encoded(values: Values, texts: Sequence[str]) -> tuple[list[Values], list[str]]:
    """A column of zeros and ones for each text, and the values that are none of these texts."""
    known = {text: number for number, text in enumerate(texts)}
    number = np.array([known.get(value, -1) for value in values.tolist()])
    return [(number == each).astype(np.float32) for each in range(len(texts))], values[number < 0].tolist()


def _numbers(texts: Values) -> Values:
    """Texts as numbers float32, NaN for those that are none."""
    import pandas as pd

    numbers: Values = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float32)
    return numbers


def _texts(where: Where, name: str, column: Any) -> list[str]:
    """The texts of a column."""
    _refuse_empty(where, name, column)
    texts: list[str] = column.tolist()
    if other := next((each for each in texts if not isinstance(each, str)), None):
        raise DataError(
            f"{where}: column '{name}' has values such as {other!r}, and data.text needs texts. Name another column, "
            "or leave data.text out to use the columns as features."
        )
    check_memory(where, 4 * words.LENGTH * len(texts))
    return texts


def users(file: Path, columns: Columns) -> list[int]:
    """The number of rows of each user, in the order of first rows; empty without a column of users."""
    if columns.client is None:
        return []
    table = _read(file)
    target_of(file, list(table), columns)
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


def target_of(file: Where, names: Sequence[str], columns: Columns) -> str:
    """The column of classes. Checks all columns that the settings name."""
    if columns.target is None:
        raise ConfigError(
            f"{file} is a table, and nothing says which column holds the classes. Set data.target to one of "
            f"{_listed(names)}."
        )
    given = [("data.target", columns.target), ("data.client", columns.client), ("data.text", columns.text)]
    given += [("data.ignore", each) for each in columns.ignore]
    for key, name in given:
        if name is not None and name not in names:
            raise ConfigError(
                f"{key} is '{name}', and {file} has no such column.{nearest(name, names)} It has {_listed(names)}."
            )
    if columns.client == columns.target:
        raise ConfigError(f"data.client and data.target are both '{columns.target}'. Name two columns.")
    if columns.text is not None and columns.text in (columns.target, columns.client):
        other = "data.target" if columns.text == columns.target else "data.client"
        raise ConfigError(f"data.text and {other} are both '{columns.text}'. Name two columns.")
    if columns.text is not None and columns.ignore:
        raise ConfigError(
            "data.ignore changes nothing: with data.text, all other columns are left out. Leave it out."
        )
    return columns.target


def _classes(file: Where, column: Any, name: str) -> tuple[Labels, tuple[str, ...]]:
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


def _features(where: Where, table: Any, left_out: Container[str | None], target: str) -> dict[str, Values]:
    """The columns of features by name: numbers float32, or texts. Truth values are texts."""
    found: dict[str, Values] = {}
    for name in table:
        if name in left_out:
            continue
        column = table[name]
        _refuse_empty(where, name, column, feature=True)
        if column.dtype.kind in "mM":
            raise DataError(
                f"{where}: column '{name}' has times. Turn it into numbers, or leave it out: "
                f'`data.ignore=["{name}"]`.'
            )
        numbers = column.dtype.kind in "iuf"
        found[str(name)] = column.to_numpy(np.float32) if numbers else _as_texts(column)
    if not found:
        raise DataError(f"{where} has no column of features beside '{target}'. Add one.")
    return found


def _as_texts(column: Any) -> Values:
    """A column as texts [n]. Equal ones are one object, to save memory."""
    known: dict[str, str] = {}
    texts = np.empty(len(column), dtype=object)
    texts[:] = [known.setdefault(each, each) for each in map(str, column.to_numpy().tolist())]
    return texts


def _refuse_empty(file: Where, name: str, column: Any, feature: bool = False) -> None:
    empty = np.flatnonzero(column.isna().to_numpy())
    if len(empty):
        more = f" and {len(empty) - 1:,} more" if len(empty) > 1 else ""
        remedy = (
            f'Fill it in, remove the row, or leave the column out: `data.ignore=["{name}"]`.'
            if feature
            else "Fill it in, or remove the row."
        )
        raise DataError(f"{file}: column '{name}' has no value in row {empty[0] + 1:,}{more}. {remedy}")


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
