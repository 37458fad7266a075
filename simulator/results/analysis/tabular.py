"""A table as text: its columns once, and JSON and CSV with every digit, Markdown, HTML, and LaTeX as printed."""

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from simulator.base.errors import ConfigError, nearest
from simulator.base.units import NONE, cell, escaped, points
from simulator.results.analysis.axes import MeanStd, spelled
from simulator.results.analysis.static_names import titles

if TYPE_CHECKING:
    from pandas import DataFrame

R = TypeVar("R", bound=Any)
_LATEX = str.maketrans(
    {each: f"\\{each}" for each in "&%#_${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"–": "--", "±": r"$\pm$", "−": "$-$", "≥": r"$\geq$", "Δ": r"$\Delta$"}
)

_SETTINGS = {
    "dataset": "data set",
    "data.dataset": "data set",
    "training.lr": "learning rate",
    "federation.clients": "clients",
    "federation.group": "models",
}
"""Display names of settings in LaTeX."""
_GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "eta", "theta", "kappa", "mu", "nu", "rho", "sigma", "tau", "phi",
)  # fmt: skip


@dataclass(frozen=True)
class Column(Generic[R]):
    """Its heading; the text of a row's cell; whether it is a number; how soon it may go where there is no room.

    value: the number over seeds of a column in which more is better. LaTeX marks its best cells.
    """

    name: str
    cell: Callable[[R], str]
    numeric: bool = True
    expendable: bool = False
    value: Callable[[R], MeanStd | None] | None = None


class TextTable(ABC, Generic[R]):
    """What a table of rows needs to be written: its columns, its remarks, and the fields of a row."""

    by: tuple[str, ...]
    rows: tuple[R, ...]
    notes: tuple[str, ...]
    about: ClassVar[tuple[str, ...]] = ()
    """The other fields that `to_json` has."""

    @abstractmethod
    def columns(self) -> list[Column[R]]:
        """Those that it has something to say in, as they are printed."""

    @abstractmethod
    def remarks(self) -> list[str]:
        """What a reader must know to judge it, as sentences."""

    def has(self, sign: str) -> bool:
        """Whether a cell, as it is printed, contains the sign."""
        return any(sign in column.cell(row) for column in self.columns() for row in self.rows)

    @abstractmethod
    def fields(self, row: R) -> Iterator[tuple[str, Any]]:
        """All that a row has, by name; accuracies 0…1."""

    def to_json(self) -> dict[str, Any]:
        """For programs: every number with its std and n; accuracies, gains, and shares 0…1."""
        rows = [asdict(row) | {"key": dict(zip(self.by, row.key, strict=True))} for row in self.rows]
        fields = {name: getattr(self, name) for name in self.about}
        return {"by": list(self.by), **fields, "notes": list(self.notes), "rows": rows}

    def to_csv(self) -> str:
        """The fields as CSV, a line a row, empty where there is nothing."""
        text = io.StringIO()
        lines = [dict(self.fields(row)) for row in self.rows]
        names = list(dict.fromkeys(name for line in lines for name in line))
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: cell(value) for name, value in line.items()} for line in lines)
        return text.getvalue()

    def to_markdown(self) -> str:
        """A Markdown table, its notes below; accuracies in per cent."""
        shown = self.columns()
        rows = [[column.name for column in shown], ["--:" if column.numeric else "---" for column in shown]]
        rows += [[escaped(column.cell(row)).replace("|", "\\|") for column in shown] for row in self.rows]
        lines = [f"| {' | '.join(cells)} |" for cells in rows]
        return "\n".join([*lines, *(f"\n> {escaped(note)}" for note in self.remarks())]) + "\n"

    def to_latex(self) -> str:
        """A tabular for the package booktabs, its notes below it; accuracies in per cent.

        The best mean of a column is bold, and the second best underlined, where the 95 % interval over seeds of each
        ends above that of the next. Methods have the names of their papers, and settings those of formulas.
        """
        shown, names = self.columns(), titles()
        alignment = "".join("r" if column.numeric else "l" for column in shown)
        marked = [(column, _marks(column, self.rows)) for column in shown]
        rows = [[_heading(column.name) for column in shown]]
        for place, row in enumerate(self.rows):
            texts = [(column.cell(row), marks.get(place, "{}")) for column, marks in marked]
            rows.append([mark.replace("{}", _in_latex(escaped(names.get(t, t)))) for t, mark in texts])
        head, *body = [" & ".join(cells) + r" \\" for cells in rows]
        lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *body]
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [rf"\par{{\footnotesize {_in_latex(escaped(note))}}}" for note in self.remarks()]
        return "\n".join(lines) + "\n"

    def to_frame(self) -> "DataFrame":
        """A pandas data frame: the columns of `to_csv`, with numbers as numbers; accuracies 0…1."""
        from pandas import DataFrame

        return DataFrame([dict(self.fields(row)) for row in self.rows])

    def _repr_html_(self) -> str:
        """What a notebook shows: the table as it is printed, with its notes."""
        shown = self.columns()
        notes = [f"<p><small>{escape(note)}</small></p>" for note in self.remarks()]
        head = "".join(f"<th>{escape(column.name)}</th>" for column in shown)
        lines = ["".join(f"<td>{escape(column.cell(row))}</td>" for column in shown) for row in self.rows]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return "".join([f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", *notes])


def chosen_columns(
    columns: Sequence[Column[R]], names: Sequence[str], extra: Sequence[str] = ()
) -> list[Column[R]]:
    """The columns of these names, in that order; all of them for no name.

    A name is a heading, or its first words: 'last' is 'last, %'. Raises ConfigError for a name of no column, with all
    names there are; `extra` are those that come only if they are named.
    """
    known, found = {column.name: column for column in columns}, []
    for name in names:
        fitting = [each for each in known if each == name or each.startswith(name)]
        if not fitting:
            every = dict.fromkeys([*known, *extra])
            raise ConfigError(
                f"There is no column '{name}'.{nearest(name, every)} The columns are: {'; '.join(every)}."
            )
        found.append(known[name if name in known else fitting[0]])
    return found if names else list(columns)


def axis_columns(by: Sequence[str]) -> list[Column[Any]]:
    """A column for each axis: the value that a row's key has there."""
    return [
        Column(axis, lambda row, place=place: spelled(row.key[place]), False)  # type: ignore[misc]
        for place, axis in enumerate(by)
    ]


def percent(value: MeanStd | None, missing: str = NONE) -> str:
    """A number over seeds in per cent, with ± its standard deviation."""
    return missing if value is None else decimals(value, 2, 100)


def decimals(value: MeanStd | None, digits: int, scale: int = 1) -> str:
    """`scale` times a number over seeds, with ± its standard deviation."""
    if value is None:
        return NONE
    numbers = [value.mean] if value.std is None else [value.mean, value.std]
    return " ± ".join(f"{scale * each:.{digits}f}" for each in numbers)


def points_with(mean: float, interval: tuple[float, float] | None) -> str:
    """A difference in percent points, with its interval if it has one."""
    return points(mean) + (f" [{', '.join(map(points, interval))}]" if interval else "")


def _marks(column: Column[R], rows: Sequence[R]) -> dict[int, str]:
    """What the best and the second best cell of a column are put in, by the row's place."""
    if column.value is None:
        return {}
    values = [(place, column.value(row)) for place, row in enumerate(rows)]
    ranked = sorted(((p, v) for p, v in values if v is not None), key=lambda each: -each[1].mean)
    found, pairs = {}, zip(ranked, ranked[1:], (r"\textbf{{}}", r"\underline{{}}"), strict=False)
    for (place, value), (_, lower), mark in pairs:
        above, below = value.interval, lower.interval
        if above is None or below is None or above[0] <= below[1]:
            break
        found[place] = mark
    return found


def _heading(name: str) -> str:
    """A heading in LaTeX: a setting by its display name, or as its Greek letter. 'alpha 0.1, %' is one of a pivot."""
    if name in _SETTINGS:
        return _SETTINGS[name]
    key, space, rest = name.partition(" ")
    letter, _, index = key.rpartition(".")[2].partition("_")
    if letter in _GREEK and ("." in key or space):
        below = rf"\{index}" if index in _GREEK else index
        symbol = rf"$\{letter}{f'_{{{below}}}' if below else ''}$"
        return f"{symbol} = {_in_latex(rest)}" if space else symbol
    return _in_latex(
        key.rpartition(".")[2].replace("_", " ") if re.fullmatch(r"[a-z_]+\.[\w.]+", name) else name
    )


def _in_latex(text: str) -> str:
    return text.translate(_LATEX)
