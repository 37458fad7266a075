"""A user's own table: a CSV or Parquet file with a column of classes, and optionally a column of users.

Columns of numbers stay numbers. Texts and truth values become one column of zeros and ones for each value. Or the
samples are the texts of one column. Statistics, such as these values, are those of the rows that clients train on.

Nothing is guessed cell by cell: a whole column has numbers, or texts, or it is refused. Parquet and Hugging Face
declare which columns have texts. For a CSV file, the section `data` can declare it.
"""

import datetime
import gzip
import io
import re
import unicodedata
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError, nearest
from simulator.base.extras import library
from simulator.base.nested import toml_value
from simulator.data import words
from simulator.data.pictures import check_memory
from simulator.data.samples import Indices, Labels, Reading, SampleSet, UnfittedSet, Values
from simulator.data.specs import TableSpec

MOST_COLUMNS = 10_000
"""The maximum number of columns, in the file and after texts have become columns."""
MOST_VALUES = 100
"""The maximum number of different texts in a column, and of classes."""
MOST_CHARACTERS = 1_000
"""The maximum length of a cell, and of a column's name."""
LONGEST_TEXT = 1_000_000
"""The maximum length of a cell in the column `data.text`."""
EXPANDED = 200
"""A compressed table has at most this many times the bytes of its file."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
TIMES = (datetime.date, datetime.time, datetime.timedelta)
SINGLE = (str, bool, int, float, Decimal, *TIMES)
"""The types of a cell with one value."""

_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d{2})|(19|20)\d{2}-(0[1-9]|1[0-2])"
    rf"|\d{{1,2}}[-. ]{{1,2}}{_MONTH}[- ](\d{{4}}|\d{{2}})|{_MONTH} \d{{1,2}}, \d{{4}})([T ]\d{{1,2}}:\d{{2}}.*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]m)?",
    re.IGNORECASE | re.ASCII,
)
_MARKED = re.compile(
    r"[$€£¥]?\s?[+\-−]?(\d{1,3}([,.' ])\d{3}(\2\d{3})*([.,]\d+)?|\d+([.,]\d+)?)\s?([%‰]|[$€£¥])?"
)
"""Numbers with marks, in any country's notation, percentages, and amounts of money."""
DEFAULTS = DataConfig()
Where = Path | str
"""The place of a table, for messages."""


def number_of(text: str, columns: DataConfig = DEFAULTS) -> float | None:
    mark, group = re.escape(columns.decimal), columns.thousands
    whole = r"\d+" if group is None else rf"(?:\d{{1,3}}(?:{re.escape(group)}\d{{3}})+|\d+)"
    text = _spaced(text)
    if not re.fullmatch(rf"[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?", text, re.ASCII):
        return None
    return float(text.replace(group or "", "").replace(columns.decimal, "."))


class OwnParts(NamedTuple):
    """Parts of a table that its source has fixed: the first row of its own test set, and its classes, by number."""

    test_from: int | None = None
    classes: tuple[str, ...] | None = None
    types: bool = True
    """Whether it declares which columns have texts. A CSV file does not."""


class Column(NamedTuple):
    """A column of a table, and the section `data` that says how to read it. Methods raise DataError for other cells."""

    where: Where
    name: str
    cells: Any
    """A pandas series."""
    columns: DataConfig

    def fault(self, what: str) -> DataError:
        return DataError(f"{self.where}: column '{self.name}' {what}")

    @property
    def without(self) -> str:
        return _key("ignore", [*self.columns.ignore, self.name])

    def labels(self, own: OwnParts) -> tuple[Labels, tuple[str, ...]]:
        """The class of each row, and the names of the classes in their order: of numbers if all are, else of texts."""
        self.refuse_empty()
        if own.classes is not None:
            labels = self.cells.to_numpy().astype(np.int64)
            if labels.min() < 0 or labels.max() >= len(own.classes):
                raise self.fault(f"has numbers of no class, such as {labels.min()}. Name another column.")
            return labels, own.classes
        kind = self.cells.dtype.kind if self.columns.infers else None
        number, held = self.as_texts()
        numbers = [number_of(each) for each in held]
        if kind is not None:
            numbers = [float(each) if kind in "iuf" else None for each in held]
        values = [each for each in numbers if each is not None]
        if len(values) < len(held):
            values = [0.0] * len(held)  # the order is that of texts
        elif any(each != np.floor(each) for each in values):
            raise self.fault(
                "has numbers with fractions, and data.target must be classes. Round or group them."
            )
        order = sorted(range(len(held)), key=lambda each: (values[each], held[each]))
        if not 2 <= len(held) <= MOST_VALUES:
            has = f"{len(held):,} different values" if len(held) > 1 else "a single value"
            raise self.fault(
                f"has {has}, and data.target needs 2 to {MOST_VALUES} classes. Name another column."
            )
        names = [str(int(values[each])) if kind == "f" else held[each] for each in order]
        return np.argsort(order)[number], tuple(names)

    def users(self) -> list[str]:
        self.refuse_empty()
        if self.columns.infers:
            return [str(each) for each in self.cells.tolist()]
        number, names = self.as_texts()
        return [names[each] for each in number.tolist()]

    def texts(self) -> list[str]:
        self.refuse_empty()
        texts: list[Any] = self.cells.tolist()
        for row, each in enumerate(texts):
            if isinstance(each, str) and len(each) > LONGEST_TEXT:
                raise self.too_long(row, each, LONGEST_TEXT)
        other = next((each for each in texts if not isinstance(each, str)), None)
        if other is None and not self.columns.infers:
            other = None if any(number_of(each, self.columns) is None for each in texts) else texts[0]
        if other is not None:
            raise self.fault(
                f"has values such as {_short(other)}, and data.text needs texts. Name another column, or leave "
                "data.text out to use the columns as features."
            )
        check_memory(self.where, 4 * words.LENGTH * len(texts))
        return texts

    def feature(self, types: bool) -> Values:
        """Numbers float32, or texts. Truth values are texts. `types`: whether the source says which columns are."""
        if self.columns.fill is None:
            self.refuse_empty(
                f"Fill it in, use {_key('fill', 'mean')}, or leave the column out: {self.without}."
            )
        kind = self.cells.dtype.kind
        if kind in "mM":
            raise self.times(self.cells)
        if kind in "iuf":
            with np.errstate(over="ignore"):
                return self.finite(self.cells.to_numpy(np.float32))
        if self.columns.infers:
            return _of_different(*self.as_texts())
        number, held = self.different()
        if any(isinstance(each, TIMES) for each in held):
            raise self.times(self.cells)
        are_numbers = [type(each) is not bool and isinstance(each, int | float | Decimal) for each in held]
        numbers: list[float] | None = [float(each) for each in held] if held and all(are_numbers) else None
        if numbers is None:
            number, texts = self.as_texts()
            numbers = self.declared_numbers(number, texts, types)
        if numbers is not None:
            with np.errstate(over="ignore"):
                return self.finite(np.array([*numbers, np.nan]).astype(np.float32)[number])
        if not types:  # pandas reads true, TRUE, and True alike if all are truth values, else as texts
            texts = [each.capitalize() if each.lower() in ("true", "false") else each for each in texts]
        return _of_different(number, texts)

    def declared_numbers(self, number: Indices, texts: list[str], types: bool) -> list[float] | None:
        """The numbers that texts are. None if the column has texts. Raises DataError if that is not clear."""
        columns = self.columns
        is_declared = columns.numbers is not None and self.name in columns.numbers
        if not types or is_declared:
            numbers = [number_of(each, columns) for each in texts]
            plain = [each for each in numbers if each is not None]
            if texts and len(plain) == len(texts):
                return plain
            others = [each for each, found in enumerate(numbers) if found is None]
            if is_declared or (columns.numbers is None and plain):
                raise self.no_number(number, others, texts, bool(plain) and not is_declared)
            marked = [each for each in others if _MARKED.fullmatch(_spaced(texts[each]))]
            if columns.numbers is None and marked:
                raise self.no_number(number, marked, texts, False)
        if columns.numbers is None and (times := [each for each in texts if _DATE.fullmatch(each.strip())]):
            raise self.times(times, f", or use {_key('numbers', [])} if the column has texts")
        return None

    def no_number(
        self, number: Indices, odd: Sequence[int], texts: Sequence[str], has_numbers: bool
    ) -> DataError:
        """The error for the first cell with one of the `odd` texts, with what the user can declare."""
        columns, row = self.columns, int(np.flatnonzero(np.isin(number, odd))[0])
        text = texts[number[row]]
        ways, cell = ["Correct it"], _spaced(text)
        marks = [each for each in cell if each in ",.' "]
        if not _MARKED.fullmatch(cell):
            ways.append(f"{_key('missing', [*columns.missing, cell])} if it means a missing value")
        elif marks:
            if marks.count(marks[-1]) == 1 and marks[-1] in ",." and marks[-1] != columns.decimal:
                ways.append(f"{_key('decimal', toml_value(marks[-1]))} if '{marks[-1]}' is the decimal mark")
            if re.search(rf"{re.escape(marks[0])}\d{{3}}(?!\d)", cell):
                ways.append(f"{_key('thousands', toml_value(marks[0]))} if '{marks[0]}' groups digits")
        if columns.numbers is None:
            ways.append(f"{_key('numbers', [])} if the column has texts")
        problem = "which is no number, and other rows have numbers" if has_numbers else "which is no number"
        if not has_numbers and columns.numbers is None:
            problem = "which may be a number"
        return self.fault(f"has '{_short(text)}' in row {row + 1:,}, {problem}. {', or use '.join(ways)}.")

    def times(self, cells: Any, texts: str = "") -> DataError:
        examples = (f", such as {_short(each)}" for each in cells if each is not None and each == each)
        example = next(examples, "")
        return self.fault(
            f"has dates or times{example}. Turn it into numbers, or leave it out: {self.without}{texts}."
        )

    def finite(self, values: Values) -> Values:
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            row = int(infinite[0])
            raise self.fault(
                f"has {_short(self.cells.iloc[row])} in row {row + 1:,}, which is not finite as a 32-bit number. "
                "Correct it, or remove the row."
            )
        return values

    def refuse_empty(self, remedy: str = "Fill it in, or remove the row.") -> None:
        empty = np.flatnonzero(self.cells.isna().to_numpy())
        if len(empty):
            more = f" and {len(empty) - 1:,} more" if len(empty) > 1 else ""
            raise self.fault(f"has no value in row {empty[0] + 1:,}{more}. {remedy}")

    def as_texts(self) -> tuple[Indices, list[str]]:
        """The number of each cell's text [n], −1 for a missing one, and the different texts."""
        number, held = self.different()
        most = LONGEST_TEXT if self.columns.infers else MOST_CHARACTERS
        if self.columns.infers:  # as numpy's `astype(str)`
            held = [each.decode("ascii") if isinstance(each, bytes) else each for each in held]
        known: dict[str, int] = {}
        place = np.array([known.setdefault(str(each), len(known)) for each in held] + [-1], dtype=np.int64)
        for text, first in known.items():
            if len(text) > most:
                raise self.too_long(int(np.flatnonzero(place[number] == first)[0]), text, most)
        return place[number], list(known)

    def different(self) -> tuple[Indices, list[Any]]:
        """The number of each cell's value [n], −1 for a missing one, and the different values. Refuses nested ones."""
        import pandas as pd

        cells = self.cells
        if isinstance(cells.dtype, pd.CategoricalDtype):
            cells = cells.astype(object)
        try:
            number, held = pd.factorize(cells)
        except TypeError:
            kind = "lists"
        else:
            values = held.tolist()
            other = next((each for each in values if not isinstance(each, SINGLE)), None)
            if other is None or self.columns.infers:
                return number, values
            kind = "bytes" if isinstance(other, bytes) else f"values such as {_short(other)}"
        raise self.fault(
            f"has {kind}, and a cell must be a number or a text. Leave it out: {_key('ignore', [self.name])}."
        )

    def too_long(self, row: int, text: str, most: int) -> DataError:
        return self.fault(
            f"has a cell with {len(text):,} characters in row {row + 1:,}, '{_short(text)}'. At most {most:,} are "
            f"read. Shorten it, or leave the column out: {_key('ignore', [self.name])}."
        )


def load(file: Path, columns: DataConfig) -> UnfittedSet:
    """The rows of a table as samples. Raises ConfigError for wrong columns, DataError for unreadable contents."""
    table, notes = _read(file, columns)
    found = samples(file, table, columns, OwnParts(types=file.suffix.lower() == ".parquet"))
    if columns.text is not None:
        notes = (*notes, f"texts in column '{columns.text}'")
    return replace(found, reading=found.reading.plus(notes=notes))


def samples(where: Where, table: Any, columns: DataConfig, own: OwnParts) -> UnfittedSet:
    """The rows of a data frame as samples: its texts, or all its features. Raises as `load` does."""

    def column(name: Any) -> Column:
        return Column(where, str(name), table[name], columns)

    target = target_of(where, list(table), columns)
    labels, classes = column(target).labels(own)
    first_test = len(labels) if own.test_from is None else own.test_from
    odd = spelled_alike(f"Column '{target}'", classes)
    if columns.text is None:
        kept = [name for name in table if name not in {target, columns.client, *columns.ignore}]
        if not kept:
            raise DataError(f"{where} has no column of features beside '{target}'. Add one.")
        features = {str(name): column(name).feature(own.types) for name in kept}
        if not columns.infers:
            odd += _row_numbers(where, features, first_test, columns)
            odd += _names_in_doubt(list(table))
        found = UnfittedSet(
            tuple(features.values()),
            partial(_learned, where, own.types or not columns.infers, columns),
            tuple(features),
            labels=labels,
            classes=classes,
            test_from=first_test,
        )
        left_out = [(name, "data.ignore names it") for name in columns.ignore]
    else:
        found = words.of_texts(column(columns.text).texts(), labels, classes, first_test)
        used = {target, columns.client, columns.text}
        left_out = [(str(name), "data.text names another column") for name in table if name not in used]
    if columns.client is not None:
        found = found.of_users(column(columns.client).users())
        odd += spelled_alike(f"Column '{columns.client}'", found.users)
    return replace(found, reading=Reading(tuple(left_out), tuple(odd)))


def _learned(
    where: Where, types: bool, columns: DataConfig, rows: UnfittedSet, held: Indices | None
) -> Callable[[UnfittedSet], SampleSet]:
    """The form of rows: numbers as they are, and a column of zeros and ones for each text of the rows `held`.

    `columns.fill` says which value of these rows replaces a missing one. Without types, a column has numbers if all of
    `held` have: the rule of older sessions. held=None: the rule of still older ones, by which all rows count.
    """
    forms: list[tuple[Column, list[str] | None, Any]] = []
    names: list[str] = []
    for name, values in zip(rows.titles, rows.columns, strict=True):
        column = Column(where, name, values, columns)
        chosen = values if held is None else values[held]
        there = chosen[~_missing(chosen)]
        filling = _filling(column, there) if columns.fill and _missing(values).any() else None
        has_texts = values.dtype == object and (types or held is None or np.isnan(_numbers(chosen)).any())
        texts = sorted(set(there.tolist())) if has_texts else None
        if texts is not None and len(texts) > MOST_VALUES:
            raise column.fault(
                f"has {len(texts):,} different texts, and at most {MOST_VALUES} become columns. Leave it out with "
                f"{column.without}, or train on these texts with {_key('text', name)}."
            )
        forms.append((column, texts, filling))
        names += [name] if texts is None else [f"{name} = {_short(text)}" for text in texts]
        if len(names) > MOST_COLUMNS:
            raise DataError(
                f"{where} has more than {MOST_COLUMNS:,} columns once its texts are columns of their own. Leave "
                "some out with data.ignore."
            )

    def formed(rows: UnfittedSet) -> SampleSet:
        check_memory(where, 4 * len(names) * len(rows))
        parts: list[Values] = []
        unknown: Counter[str] = Counter()
        for values, (column, texts, filling) in zip(rows.columns, forms, strict=True):
            here, fill = f"column '{column.name}'", columns.fill
            if (missing := _missing(values)).any():
                if filling is None:
                    what = f"{_key('fill', fill)} has no value for it" if fill else "data.fill is not set"
                    raise DataError(f"{here} of data.public has missing values, and {what}. Fill them in.")
                values = values.copy()
                values[missing] = filling
            if types and (values.dtype == object) != (texts is not None):
                kinds = ("texts", "numbers") if texts is None else ("numbers", "texts")
                raise DataError(
                    f"{here} has {kinds[0]} in data.public, and {kinds[1]} in {where}. Correct one of them."
                )
            if texts is not None:
                known = {text: number for number, text in enumerate(texts)}
                number = np.array([known.get(value, -1) for value in values.tolist()])
                parts += [(number == each).astype(np.float32) for each in range(len(texts))]
                unknown.update(f"{column.name} = {_short(text)}" for text in values[number < 0].tolist())
            elif values.dtype != object:
                parts.append(values)
            else:
                parts.append(_numbers(values))
                if len(odd := values[np.isnan(parts[-1])]):
                    raise column.fault(
                        f"has '{_short(odd[0])}', and all rows that clients train on have numbers there. Correct it, "
                        "or remove the row."
                    )
        try:
            return rows.formed(np.stack(parts, axis=1), TableSpec(len(names)), names, sorted(unknown.items()))
        except DataError as odd:
            raise DataError(f"{where}: {odd}") from odd

    return formed


def _missing(values: Values) -> Any:
    """Whether each value [n] is missing: NaN among numbers, None among texts."""
    return values == np.array(None) if values.dtype == object else np.isnan(values)


def _filling(column: Column, values: Values) -> Any:
    """The value that stands for a missing one, from those that clients train on."""
    if not len(values):
        raise column.fault(
            "has no value in any row that clients train on, so nothing can fill it. Leave it out: "
            f"{column.without}."
        )
    fill = column.columns.fill
    if values.dtype != object and fill != "frequent":
        return (np.mean if fill == "mean" else np.median)(values.astype(np.float64))
    counts = Counter(values.tolist())
    return min(counts, key=lambda value: (-counts[value], value))


def _numbers(texts: Values) -> Values:
    """Texts as numbers float32, NaN for those that are none. Used by the rule of older sessions."""
    import pandas as pd

    numbers: Values = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float32)
    return numbers


def _of_different(number: Indices, texts: Sequence[str]) -> Values:
    """A column of texts [n]. Equal ones are one object, to save memory."""
    held = np.empty(len(texts) + 1, dtype=object)
    held[:-1] = texts
    return held[number]  # −1 is the last, which is None


def users(file: Path, columns: DataConfig) -> list[int]:
    if columns.client is None:
        return []
    if file.suffix.lower() == ".parquet":
        table = read_parquet(file, columns, [str(columns.target), columns.client])
    else:
        table, _ = _read(file, columns)
    target_of(file, list(table), columns)
    counts: list[int] = table[columns.client].value_counts(sort=False, dropna=False).tolist()
    return counts


def _read(file: Path, columns: DataConfig) -> tuple[Any, tuple[str, ...]]:
    if file.suffix.lower() == ".parquet":
        return read_parquet(file, columns), ()
    from pandas.errors import EmptyDataError, ParserError, ParserWarning

    try:
        return _read_csv(file, columns)
    except (OSError, ValueError, EOFError, zlib.error, ParserWarning) as failed:
        match failed:
            case UnicodeDecodeError():
                what = f"is not UTF-8 text (byte {failed.start}). Save it as CSV in UTF-8."
            case EmptyDataError():
                what = "is empty. It needs a line of column names, and rows."
            case ParserWarning():
                what = "has rows with more values than column names. "
                what += "Give each column a name, and each row as many values."
            case ParserError():
                what = f"is no table ({' '.join(str(failed).split())}). Correct this line."
            case _:
                what = f"cannot be read ({failed}). Replace it."
        raise DataError(f"{file} {what}") from failed


def _read_csv(file: Path, columns: DataConfig) -> tuple[Any, tuple[str, ...]]:
    """The table of a CSV file. The header is read first, because a million columns would fill the memory."""
    import pandas as pd

    with _opened(file) as stream:
        header = _header(stream.read(1 << 20).decode("utf-8-sig", "replace"))
    separator = "," if columns.infers else _separator(file, header)
    if header.count(separator) >= MOST_COLUMNS:
        raise DataError(f"{file} has more than {MOST_COLUMNS:,} columns. Keep those that matter.")
    how: dict[str, Any] = {"encoding": "utf-8-sig", "index_col": False, "skipinitialspace": separator != "\t"}
    if not columns.infers:
        how |= {"sep": separator, "keep_default_na": False, "na_values": ["", *columns.missing]}
        with _opened(file) as stream:
            first = pd.read_csv(stream, nrows=1, header=None, dtype=str, **{**how, "na_filter": False})
        raw = [str(each) for each in first.to_numpy()[0]]
        refuse_repeated(file, [each.strip() for each in raw if each.strip()])
        roles = {each.strip() for each in {columns.target, columns.client, columns.text} if each is not None}
        texts = {each for each in raw if each.strip() in roles or columns.thousands or columns.decimal != "."}
        how |= {"dtype": dict.fromkeys(texts, str)}
    with warnings.catch_warnings(), _opened(file) as stream:
        from pandas.errors import ParserWarning

        warnings.simplefilter("error", ParserWarning)
        table = pd.read_csv(stream, low_memory=False, **how)
    table = _checked(file, table)
    if columns.infers:
        return table, ()
    table.columns = [str(each).strip() for each in table.columns]
    return table, (f"separated by {SEPARATORS[separator]}",)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    if not file.name.lower().endswith(".gz"):
        with file.open("rb") as stream:
            yield stream
        return
    most = min(EXPANDED * max(file.stat().st_size, 1 << 12), psutil.virtual_memory().available // 4)
    content = io.BytesIO()
    with gzip.open(file) as stream:
        while chunk := stream.read(1 << 20):
            content.write(chunk)
            if content.tell() > most:
                raise DataError(
                    f"{file} has more than {most:,} bytes once it is decompressed. Decompress it yourself."
                )
    content.seek(0)
    yield content


def _header(start: str) -> str:
    """The line of column names, which may have line breaks in quotes. It is the first line that is not blank."""
    found = re.match(r'(?:[ ]*[\r\n])*((?:[^"\r\n]+|"[^"]*"?)*)', start)
    return found[1] if found else ""


def _separator(file: Path, header: str) -> str:
    """The separator of a table, from its name and the line of column names."""
    if re.fullmatch(r'"?sep=.?"?', header):
        raise DataError(
            f"{file}: its first line is '{header}', and must have the names of the columns. Remove it."
        )
    plain = re.sub(r'"[^"]*"', "", header)
    found = [each for each in SEPARATORS if each in plain]
    if file.name.lower().removesuffix(".gz").endswith(".tsv"):
        found = ["\t"] if "\t" in found or not header else []
    if header and not found:
        raise DataError(
            f"{file}: its first line, '{_short(header)}', does not separate names of columns. Save it with commas, or "
            "with tabs and the ending .tsv."
        )
    if "," in found or not found:
        return ","
    if len(found) > 1:
        kinds = " and ".join(SEPARATORS[each] for each in found)
        raise DataError(
            f"{file}: the line of column names has {kinds}, so the separator is not clear. Save it with commas."
        )
    return found[0]


def read_parquet(file: Path, columns: DataConfig, only: Sequence[str] | None = None) -> Any:
    """The columns of a Parquet file that are read, or `only` these, as a data frame. Other columns are empty."""
    parquet = library("pyarrow.parquet", "parquet")
    try:
        with parquet.ParquetFile(file) as opened:
            schema, held = opened.schema_arrow, opened.metadata
            if len(schema.names) > MOST_COLUMNS:
                raise DataError(
                    f"{file} has {len(schema.names):,} columns. At most {MOST_COLUMNS:,} are read."
                )
            if columns.infers:
                return _checked(file, parquet.read_table(file).to_pandas(ignore_metadata=True))
            refuse_repeated(file, schema.names)
            target_of(file, schema.names, columns)
            kept = [each for each in schema.names if each not in columns.ignore]
            if only is not None or columns.text is not None:
                kept = [
                    each for each in kept if each in (only or {columns.target, columns.client, columns.text})
                ]
            for name in kept:
                if (kind := nested(schema.field(name).type)) is not None:
                    keys = [key for key in ("target", "client", "text") if getattr(columns, key) == name]
                    column = Column(file, name, None, columns)
                    remedy = (
                        f"Name another column with data.{keys[0]}"
                        if keys
                        else f"Leave it out: {column.without}"
                    )
                    raise column.fault(f"has {kind}, and a cell must be a number or a text. {remedy}.")
            sizes = sum(held.row_group(each).total_byte_size for each in range(held.num_row_groups))
            check_memory(file, max(0 if only else 2 * sizes, 8 * held.num_rows * len(kept)))
            table = opened.read(columns=kept).to_pandas(ignore_metadata=True)
    except (OSError, ValueError, TypeError, NotImplementedError) as unreadable:  # also pyarrow's
        raise DataError(f"{file} is no Parquet file ({unreadable}). Write it again.") from unreadable
    for name in kept if columns.missing else ():
        if table[name].dtype.kind not in "biufmM":
            table[name] = table[name].mask(table[name].isin(columns.missing))
    return _checked(file, table.reindex(columns=schema.names))


def refuse_repeated(file: Path, names: Sequence[str]) -> None:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(
            f"{file} has several columns named '{_short(repeated[0])}'. Rename all but one: the first line must have "
            "the names of the columns."
        )


def image_column(file: Path, columns: DataConfig) -> str | None:
    """The one column of encoded images in a Parquet file, in the form of Hugging Face. None without."""
    if file.suffix.lower() != ".parquet" or columns.infers or columns.text is not None:
        return None
    parquet = library("pyarrow.parquet", "parquet")
    try:
        schema = parquet.read_schema(file)
    except (OSError, ValueError):
        return None  # reading it says why
    left_out = {columns.target, columns.client, *columns.ignore}
    images = [each.name for each in schema if is_image(each.type) and each.name not in left_out]
    if len(images) > 1:
        raise ConfigError(
            f"{file} has several columns of images: {', '.join(images)}. Leave all but one out: "
            f"{_key('ignore', [*columns.ignore, *images[1:]])}."
        )
    return images[0] if images else None


def is_image(kind: Any) -> bool:
    types = library("pyarrow", "parquet").types
    if not types.is_struct(kind) or {each.name for each in kind} != {"bytes", "path"}:
        return False
    content = kind.field("bytes").type
    return bool(types.is_binary(content) or types.is_large_binary(content))


def nested(kind: Any) -> str | None:
    """What a Parquet column has instead of one number or text in a cell; None if it has."""
    types = library("pyarrow", "parquet").types
    if types.is_dictionary(kind):
        return nested(kind.value_type)
    if is_image(kind):
        return "images"
    checks = {
        "structs": types.is_struct,
        "maps": types.is_map,
        "lists": lambda each: types.is_nested(each) and not types.is_struct(each),
        "bytes": lambda each: "binary" in str(each),
    }
    return next((name for name, check in checks.items() if check(kind)), None)


def _checked(file: Path, table: Any) -> Any:
    if not len(table):
        raise DataError(f"{file} has no rows. Add some below its column names.")
    if "\x00" in "".join(map(str, table.columns)):
        raise DataError(f"{file} is no text table: its first line has zero bytes. Save it as CSV in UTF-8.")
    if long := next((str(each) for each in table.columns if len(str(each)) > MOST_CHARACTERS), None):
        raise DataError(
            f"{file} has a column name with {len(long):,} characters, '{_short(long)}'. Use up to "
            f"{MOST_CHARACTERS:,}: the first line must have the names of the columns."
        )
    return table


def target_of(file: Where, names: Sequence[str], columns: DataConfig) -> str:
    """The column of classes. Checks all columns that the settings name."""
    if columns.target is None:
        raise ConfigError(
            f"{file} is a table, and nothing says which column holds the classes. Set data.target to one of "
            f"{_listed(names)}."
        )
    given = [("data.target", columns.target), ("data.client", columns.client), ("data.text", columns.text)]
    given += [("data.ignore", each) for each in columns.ignore]
    declared = () if columns.infers or columns.numbers is None else columns.numbers
    given += [("data.numbers", each) for each in declared]
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
    if columns.text is not None and (columns.ignore or declared or columns.fill):
        key = "ignore" if columns.ignore else "numbers" if declared else "fill"
        raise ConfigError(
            f"data.{key} changes nothing: with data.text, all other columns are left out. Leave it out."
        )
    if wrong := [
        each for each in declared if each in {columns.target, columns.client, columns.text, *columns.ignore}
    ]:
        raise ConfigError(
            f"data.numbers names '{wrong[0]}', which is no column of features: another key names it too. Leave it out "
            "of one of them."
        )
    return columns.target


def _spaced(text: str) -> str:
    """A cell without spaces at its ends, and with plain spaces inside and plain apostrophes between digits."""
    return re.sub(r"(?<=\d)’(?=\d)", "'", text.strip().replace("\u00a0", " ").replace("\u202f", " "))


def _row_numbers(where: Where, features: dict[str, Values], rows: int, columns: DataConfig) -> list[str]:
    """What to say of columns that number the rows. Raises DataError for one without a name."""
    said = []
    for name, values in features.items():
        if values.dtype == object or rows < 2:
            continue
        whole, without = values[:rows].astype(np.float64), Column(where, name, None, columns).without
        counts = f"({whole[0]:g}, {whole[1]:g}, …)"
        if re.fullmatch(r"(Unnamed: \d+)?|__index_level_\d+__", name):
            if (whole == np.floor(whole)).all() and (whole >= 0).all():
                raise DataError(
                    f"{where}: the column without a name ('{name}') looks like an index {counts}. Leave it out: "
                    f"{without}, or give it a name if it is a feature."
                )
        elif any((whole == np.arange(start, rows + start)).all() for start in (0, 1)):
            said.append(
                f"Column '{name}' numbers the rows {counts} and is a feature. Leave it out with {without} if it only "
                "names them."
            )
    return said


def _names_in_doubt(names: Sequence[str]) -> list[str]:
    """What to say of column names that look like a row. Numbers from 0 or 1 may be names."""
    numbers = [str(each) for each in names if number_of(str(each)) is not None]
    counted = [[str(each) for each in range(start, start + len(numbers))] for start in (0, 1)]
    if not numbers or numbers in counted:
        return []
    return [
        f"The names of columns have numbers, such as {numbers[0]}. If the first line is a row, add a line of names "
        "above it."
    ]


def spelled_alike(what: str, texts: Collection[str]) -> list[str]:
    """What to say of values that look the same and are different texts."""
    first: dict[object, str] = {}
    for text in texts:
        number, look = number_of(text), unicodedata.normalize("NFKC", text).strip().casefold()
        other = first.setdefault(look if number is None else number, text)
        if other != text:
            return [f"{what} has '{other[:40]}' and '{text[:40]}', which are different texts."]
    return []


def _key(key: str, value: object) -> str:
    return f"`data.{key}={value if isinstance(value, str) else toml_value(value)}`"


def _short(value: object, most: int = 40) -> str:
    text = " ".join(str(value)[: most + 1].split())
    return text if len(text) <= most else f"{text[:most]}…"


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(map(_short, names[:most])) + (", …" if len(names) > most else "")
