"""A table of sessions, and the table as text: JSON and CSV with every digit, Markdown and LaTeX as printed."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from simulator.base.names import cell, escaped
from simulator.base.units import AT_LEAST, NONE, amount, at_least, duration, points, size
from simulator.results.analysis.averages import Difference, MeanStd
from simulator.results.analysis.axes import Key, spelled
from simulator.results.analysis.printed import Printed

if TYPE_CHECKING:
    from pandas import DataFrame

Select = Literal["eval"]
LOWER_BOUND = "≥ is a lower bound: not every session reached the target, and all rounds of the others count."
STD = "± is the sample standard deviation (n − 1) over n sessions."
_NUMBERS = (
    "best", "best_weighted", "last", "last_weighted", "selected", "selected_weighted", "worst",
    "rounds", "bytes", "flops", "seconds",
)  # fmt: skip
_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "–": "--",
        "±": r"$\pm$",
    }
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "−": "$-$",
        "≥": r"$\geq$",
        "Δ": r"$\Delta$",
    }
)


@dataclass(frozen=True)
class Row:
    """A group: `key` has its value on each axis; `chosen` the settings selected on eval, where it had several.

    rounds, bytes, flops, seconds: what the target took the n sessions. Where only `reached` of them reached it, all
    rounds of the others count, and the mean is a lower bound: `at_least`. `difference` is of `selected` where the
    table selects, else of `last`.
    """

    key: Key
    label: str
    sessions: tuple[str, ...]
    n: int
    chosen: str
    best: MeanStd | None
    best_weighted: MeanStd | None
    last: MeanStd | None
    last_weighted: MeanStd | None
    selected: MeanStd | None
    selected_weighted: MeanStd | None
    worst: MeanStd | None
    reached: int
    at_least: bool
    rounds: MeanStd | None
    bytes: MeanStd | None
    flops: MeanStd | None
    seconds: MeanStd | None
    difference: Difference | None
    paper: tuple[Printed, ...]
    own: Mapping[str, MeanStd | None]
    """The user's own metrics on the test part, by name."""


@dataclass(frozen=True)
class Table:
    """Rows in the order in which the groups first come; `notes` are what must be known to read them, as sentences."""

    by: tuple[str, ...]
    target: float | None
    baseline: str | None
    select: Select | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def columns(self) -> list["Column"]:
        """Those that it has something to say in, as they are printed."""
        return _columns(self)

    def remarks(self) -> list[str]:
        """What stands above it: its notes, in what a printed value's experiment was another one, what ± is."""
        return _remarks(self)

    def to_json(self) -> dict[str, Any]:
        """For programs: every number with its std and n; accuracies 0…1."""
        return _as_json(self)

    def to_csv(self) -> str:
        """The same as CSV, a line a row, empty where there is nothing."""
        return _as_csv(self)

    def to_markdown(self) -> str:
        """A Markdown table under its notes; accuracies in per cent."""
        return _as_markdown(self)

    def to_latex(self) -> str:
        """A tabular for the package booktabs, its notes as comments above; accuracies in per cent."""
        return _as_latex(self)

    def to_frame(self) -> "DataFrame":
        """A pandas data frame: the columns of `to_csv`, with numbers as numbers; accuracies 0…1."""
        from pandas import DataFrame

        return DataFrame([dict(_fields(self, row)) for row in self.rows])

    def _repr_html_(self) -> str:
        """What a notebook shows: the table as it is printed, under its notes."""
        return _as_html(self)


@dataclass(frozen=True)
class Column:
    """Its heading; the text of a row's cell; whether it is a number; how soon it may go where there is no room."""

    name: str
    cell: Callable[[Row], str]
    numeric: bool = True
    expendable: bool = False


def _columns(table: Table) -> list[Column]:
    """Those that the table has something to say in, as they are printed."""
    found = [Column(axis, _axis(place), False) for place, axis in enumerate(table.by)]
    if any(row.chosen for row in table.rows):
        found.append(Column("chosen on eval", lambda row: row.chosen or NONE, False))
    found.append(Column("n", lambda row: str(row.n)))
    if table.select:
        found.append(Column("selected on eval, %", lambda row: _percent(row.selected, "not measured")))
        found.append(
            Column("selected, weighted", lambda row: _percent(row.selected_weighted), expendable=True)
        )
    found += [
        Column("last, %", lambda row: _percent(row.last)),
        Column("last, weighted", lambda row: _percent(row.last_weighted), expendable=True),
        Column("best on test, %", lambda row: _percent(row.best)),
        Column("best, weighted", lambda row: _percent(row.best_weighted), expendable=True),
        Column("worst client, %", lambda row: _percent(row.worst), expendable=True),
    ]
    found += [
        Column(name, lambda row, name=name: _decimals(row.own.get(name)))  # type: ignore[misc]
        for name in dict.fromkeys(name for row in table.rows for name in row.own)
    ]
    if table.baseline is not None:
        found.append(Column(f"Δ vs {table.baseline} (pp)", _difference))
    if table.target is not None:
        to = f"to {100 * table.target:g} %"
        found += [
            Column(f"reach {100 * table.target:g} %", lambda row: f"{row.reached} of {row.n}"),
            Column(f"rounds {to}", _rounds),
            Column(f"bytes {to}", lambda row: _bound(row, size(_mean(row.bytes)))),
            Column(f"FLOPs {to}", lambda row: _bound(row, amount(_mean(row.flops))), expendable=True),
            Column(f"time {to}", lambda row: _bound(row, duration(_mean(row.seconds))), expendable=True),
        ]
    if any(row.paper for row in table.rows):
        found.append(Column("paper, %", _paper, False))
    return found


def _remarks(table: Table) -> list[str]:
    """What stands above the table: its own notes, and how a printed value's experiment was another one."""
    other = dict.fromkeys(
        f"{row.label} is not what was printed ({each.place}): {', '.join(each.details)}."
        for row in table.rows
        for each in row.paper[:1]
        if each.details
    )
    if any(row.at_least for row in table.rows):
        other |= {LOWER_BOUND: None}
    return [*table.notes, *other, *([STD] if any(row.n > 1 for row in table.rows) else [])]


def _as_json(table: Table) -> dict[str, Any]:
    return {
        "by": list(table.by),
        "target": table.target,
        "baseline": table.baseline,
        "select": table.select,
        "notes": list(table.notes),
        "rows": [asdict(row) | {"key": dict(zip(table.by, row.key, strict=True))} for row in table.rows],
    }


def _as_csv(table: Table) -> str:
    text = io.StringIO()
    lines = [dict(_fields(table, row)) for row in table.rows]
    names = dict.fromkeys(name for line in lines for name in line)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: cell(value) for name, value in line.items()} for line in lines)
    return text.getvalue()


def _as_markdown(table: Table) -> str:
    shown = _columns(table)
    lines = [f"> {escaped(note)}\n" for note in _remarks(table)]
    lines.append(_piped(column.name for column in shown))
    lines.append(_piped("--:" if column.numeric else "---" for column in shown))
    lines += [_piped(column.cell(row).replace("|", "\\|") for column in shown) for row in table.rows]
    return "\n".join(lines) + "\n"


def _as_latex(table: Table) -> str:
    shown = _columns(table)
    alignment = "".join("r" if column.numeric else "l" for column in shown)
    lines = [f"% {escaped(note)}" for note in _remarks(table)]
    lines += [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", _ampersands(column.name for column in shown)]
    lines += [r"\midrule", *(_ampersands(column.cell(row) for column in shown) for row in table.rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _as_html(table: Table) -> str:
    shown = _columns(table)
    notes = [f"<p><small>{escape(note)}</small></p>" for note in _remarks(table)]
    head = "".join(f"<th>{escape(column.name)}</th>" for column in shown)
    lines = ["".join(f"<td>{escape(column.cell(row))}</td>" for column in shown) for row in table.rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return "".join([*notes, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"])


def _fields(table: Table, row: Row) -> Iterator[tuple[str, Any]]:
    yield from zip(table.by, row.key, strict=True)
    yield from {"n": row.n, "chosen": row.chosen, "reached": row.reached, "at_least": row.at_least}.items()
    for name in _NUMBERS:
        spread: MeanStd | None = getattr(row, name)
        yield name, spread.mean if spread else None
        yield f"{name}_std", spread.std if spread else None
    for own, spread in row.own.items():
        yield own, spread.mean if spread else None
        yield f"{own}_std", spread.std if spread else None
    change = row.difference
    low, high = change.interval if change and change.interval else (None, None)
    yield from {"difference": change and change.mean, "difference_low": low, "difference_high": high}.items()
    yield "pairs", change.pairs if change else None
    paper = row.paper[0] if row.paper else None
    yield from {"paper": paper and paper.accuracy, "paper_place": paper and paper.place}.items()
    yield "paper_other", paper and paper.other


def _axis(place: int) -> Callable[[Row], str]:
    return lambda row: spelled(row.key[place])


def _percent(spread: MeanStd | None, missing: str = NONE) -> str:
    if spread is None:
        return missing
    return f"{100 * spread.mean:.2f}" + ("" if spread.std is None else f" ± {100 * spread.std:.2f}")


def _plain(spread: MeanStd | None) -> str:
    if spread is None:
        return NONE
    return f"{spread.mean:.0f}" if spread.std is None else f"{spread.mean:.1f} ± {spread.std:.1f}"


def _rounds(row: Row) -> str:
    return at_least(row.rounds.mean) if row.at_least and row.rounds else _plain(row.rounds)


def _bound(row: Row, text: str) -> str:
    """A cost as it is, or as the least that it can be."""
    return f"{AT_LEAST}{text}" if row.at_least and text != NONE else text


def _mean(spread: MeanStd | None) -> float | None:
    return spread.mean if spread else None


def _decimals(spread: MeanStd | None) -> str:
    if spread is None:
        return NONE
    return f"{spread.mean:.4f}" + ("" if spread.std is None else f" ± {spread.std:.4f}")


def _difference(row: Row) -> str:
    if row.difference is None:
        return NONE
    interval = row.difference.interval
    shown = f" [{', '.join(points(end) for end in interval)}]" if interval else ""
    return points(row.difference.mean) + shown


def _paper(row: Row) -> str:
    """The printed values, each once, and a plain word where the experiment was another one."""
    if not row.paper:
        return NONE
    values = dict.fromkeys(
        "failed to converge" if each.accuracy is None else f"{100 * each.accuracy:.2f}" for each in row.paper
    )
    other = row.paper[0].other
    return " / ".join(values) + (f" ({other})" if other else "")


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Iterable[str]) -> str:
    return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"
