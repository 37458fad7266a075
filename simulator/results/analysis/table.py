"""The table of `compare`: a row for each group of sessions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from simulator.base.record import SCALARS, Scalar
from simulator.base.units import (
    AT_LEAST,
    NONE,
    amount,
    at_least,
    duration,
    in_unit,
    number,
    size,
    span,
)
from simulator.results.analysis.axes import Difference, Key, MeanStd, spelled
from simulator.results.analysis.caveats import Printed, alike, listed
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.ledger import NO_SCORE, Divergence
from simulator.results.analysis.tabular import (
    Column,
    TextTable,
    axis_columns,
    chosen_columns,
    decimals,
    percent,
    points_with,
)

Select = Literal["eval"]
LOWER_BOUND = "≥ is a lower bound: not every session reached the target, and all rounds of the others count."
PAPER = "paper, %"
INTERVAL = "[low, high] is the 95 % interval of the mean difference over paired seeds (Student's t)."
STD = "± is the sample standard deviation (n − 1) over n sessions."


def _column(scalar: Scalar) -> tuple[str, tuple[str, Callable[[Array], float]]]:
    """The name of its column, 'training loss', 'FLOPs per round', and what that has of a session's rounds."""
    name = scalar.title if scalar.compared == "last" else f"{scalar.title} {scalar.compared}"
    if scalar.compared == "last" or scalar.since_start:
        return name, (scalar.column, lambda each: float(each[-1]))
    return name, (
        scalar.column,
        lambda each: float(each.mean() if scalar.compared == "per round" else each.sum()),
    )


EXTRAS: dict[str, tuple[str, Callable[[Array], float]]] = {
    "area under curve": ("rounds", lambda means: float(means.mean())),
    "10 % quantile": ("clients", lambda clients: float(np.quantile(clients, 0.1))),
    "median client": ("clients", lambda clients: float(np.median(clients))),
    "90 % quantile": ("clients", lambda clients: float(np.quantile(clients, 0.9))),
    "std over clients": ("clients", lambda clients: float(clients.std())),
    "unseen before": ("unseen", lambda means: float(means[0])),
    "unseen after": ("unseen", lambda means: float(means[1])),
    "unseen alone": ("unseen", lambda means: float(means[2])),
    "used uplinks": ("used", lambda each: float(each.mean())),
    "wasted FLOPs": ("wasted", lambda each: float(each.sum())),
    "mean staleness": ("staleness", lambda each: float(each.mean())),
} | dict(_column(each) for each in SCALARS if each.compared)
"""Columns that are shown only if they are named: what they are of, and the number of a session.

The area is the mean of the mean accuracies of all evaluated rounds. Those of clients are over the clients' final
accuracies; std is the population's. Quantiles are interpolated linearly. Uplinks, wasted FLOPs, and staleness need a
computed clock: shares of the dispatches that ended and of their operations, and the mean age of the aggregated uplinks
in rounds. Accuracies of unseen clients are means over them, as last measured: before they adapt, after it, and trained
alone."""
N = TypeVar("N")


@dataclass(frozen=True, kw_only=True)
class Numbers(Generic[N]):
    """What sessions are compared by: test accuracies, 0…1, means over clients alike or weighted.

    selected: of the round that is best on the clients' eval parts. worst: the worst client's accuracy in that round, in
    the last one where nothing is selected. costs: by COST_NUMBERS, what the target took, or all rounds where it was not
    reached; simulated seconds and joules of sessions with a clock.
    """

    best: N
    best_weighted: N
    last: N
    last_weighted: N
    selected: N
    selected_weighted: N
    worst: N
    costs: Mapping[str, N]


NUMBERS = tuple(each.name for each in fields(Numbers) if each.name != "costs")
COST_NUMBERS = ("rounds", "bytes", "flops", "seconds", "simulated", "joules")
"""In the order of COSTS and SIMULATED."""


@dataclass(frozen=True, kw_only=True)
class Row(Numbers[MeanStd | None]):
    """A group: `key` has its value on each axis; `chosen` the settings selected on eval, where it had several.

    Where only `reached` of the n sessions reached the target, all rounds of the others count, and the mean cost is a
    lower bound: `at_least`. `difference` is of `selected` where the table selects, else of `last`.
    """

    key: Key
    label: str
    sessions: tuple[str, ...]
    n: int
    chosen: str
    reached: int
    at_least: bool
    difference: Difference | None
    paper: tuple[Printed, ...]
    own: Mapping[str, MeanStd | None]
    """The user's own metrics on the test part, by name."""
    extras: Mapping[str, MeanStd | None]
    """The extra columns that were asked for, by name; accuracies 0…1."""
    diverged: Divergence

    def accuracy(self, value: MeanStd | None, missing: str = NONE) -> str:
        """The cell of an accuracy, with the number of sessions in which clients diverged."""
        return self.diverged.marked(percent(value, NO_SCORE if self.diverged.untrained else missing))


_JSON = (
    "key", "label", "sessions", "n", "chosen", *NUMBERS, "reached", "at_least", *COST_NUMBERS, "difference",
    "paper", "own", "extras", "diverged",
)  # fmt: skip
"""The order in which programs read a row."""


@dataclass(frozen=True)
class Table(TextTable[Row]):
    """Rows in the order in which the groups first come; `notes` are what must be known to read them, as sentences."""

    about = ("target", "baseline", "select", "at_time")
    by: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    target: float | None
    baseline: str | None
    select: Select | None
    last: int = 1
    """Rounds over whose mean `last` is."""
    chosen: tuple[str, ...] = ()
    """The columns to print, by their headings or first words; all but the extra ones for none."""
    at_time: float | None = None
    """The simulated seconds by whose end rounds count; None: all of them."""

    def columns(self) -> list[Column[Row]]:
        """Those that it has something to say in, as they are printed."""
        found = axis_columns(self.by)
        if any(row.chosen for row in self.rows):
            found.append(Column("chosen on eval", lambda row: row.chosen or NONE, False))
        found.append(Column("n", lambda row: str(row.n)))
        last = f"last {self.last} rounds" if self.last > 1 else "last"
        if self.at_time is not None:
            last = f"{last} by {span(self.at_time)}" if self.last > 1 else f"at {span(self.at_time)}"
        chosen = {"selected": "selected on eval"} if self.select else {}
        for field, heading in (chosen | {"last": last, "best": "best on test"}).items():
            value: Callable[[Row], MeanStd | None] = attrgetter(field)
            weighted: Callable[[Row], MeanStd | None] = attrgetter(f"{field}_weighted")
            found.append(Column(f"{heading}, %", partial(_accuracy, field), value=value))
            found.append(Column(f"{field}, weighted", partial(_percent, weighted), expendable=True))
        worst: Callable[[Row], MeanStd | None] = attrgetter("worst")
        found.append(Column("worst client, %", partial(_percent, worst), expendable=True, value=worst))
        found += [
            Column(name, lambda row, name=name: decimals(row.own.get(name), 4))  # type: ignore[misc]
            for name in dict.fromkeys(name for row in self.rows for name in row.own)
        ]
        if self.baseline is not None:
            found.append(Column(f"Δ vs {self.baseline} (pp)", _difference))
        if self.target is not None:
            goal = f"{100 * self.target:g} %"
            found.append(Column(f"reach {goal}", lambda row: f"{row.reached} of {row.n}"))
            found.append(Column(f"rounds to {goal}", _rounds))
            clock = any(row.costs["simulated"] for row in self.rows)
            for name, (title, written, expendable) in _COSTS.items():
                if clock or name not in ("simulated", "joules"):
                    found.append(Column(f"{title} to {goal}", _bound(name, written), expendable=expendable))
        found += [_extra(name) for name in (self.rows[0].extras if self.rows else ())]
        if any(row.paper for row in self.rows):
            found.append(Column(PAPER, _paper, False))
        return chosen_columns(found, self.chosen, tuple(EXTRAS))

    def remarks(self) -> list[str]:
        """Its notes, how the experiment of a printed value differs, and what the signs in the shown columns mean."""
        other = _unlike_papers(self.rows) if any(column.name == PAPER for column in self.columns()) else []
        signs = {AT_LEAST: LOWER_BOUND, "±": STD, "[": INTERVAL}
        return [*self.notes, *other, *(sentence for sign, sentence in signs.items() if self.has(sign))]

    def to_json(self) -> dict[str, Any]:
        found = super().to_json()
        rows = [row | row["costs"] for row in found["rows"]]
        return found | {"rows": [{name: row[name] for name in _JSON} for row in rows]}

    def fields(self, row: Row) -> Iterator[tuple[str, Any]]:
        """All that a row has, by name: its place on the axes, each number with its std, the difference."""
        yield from zip(self.by, row.key, strict=True)
        yield from {name: getattr(row, name) for name in ("n", "chosen", "reached", "at_least")}.items()
        yield from row.diverged.fields()
        numbers = {name: getattr(row, name) for name in NUMBERS}
        for name, spread in [*numbers.items(), *row.costs.items(), *row.own.items(), *row.extras.items()]:
            yield name, spread.mean if spread else None
            yield f"{name}_std", spread.std if spread else None
        change, paper = row.difference, row.paper[0] if row.paper else None
        low, high = (change and change.interval) or (None, None)
        yield from {
            "difference": change and change.mean, "difference_low": low, "difference_high": high,
            "pairs": change and change.pairs, "paper": paper and paper.accuracy,
            "paper_place": paper and paper.place, "paper_other": paper and paper.other,
        }.items()  # fmt: skip


@dataclass(frozen=True)
class Pivot(TextTable[tuple[Row, ...]]):
    """A paper's table: a row for each value of the first axis, and a column for each of the second.

    A cell is the accuracy selected on eval, or else the last one. A row has the cells of its value, in any order.
    """

    table: Table

    @property
    def rows(self) -> tuple[tuple[Row, ...], ...]:  # type: ignore[override]
        found: dict[Any, list[Row]] = {}
        for row in self.table.rows:
            found.setdefault(row.key[0], []).append(row)
        return tuple(map(tuple, found.values()))

    def columns(self) -> list[Column[tuple[Row, ...]]]:
        """The first axis, then a column for each value of the second."""
        first, second = self.table.by
        values = sorted(dict.fromkeys(row.key[1] for row in self.table.rows), key=_ordered)
        return [Column(first, lambda rows: spelled(rows[0].key[0]), False)] + [
            Column(
                f"{second.rpartition('.')[2]} {spelled(value)}, %",
                partial(self._cell, value),
                value=partial(self._of, value),
            )
            for value in values
        ]

    def remarks(self) -> list[str]:
        """What is in a cell, over how many sessions, and the table's own remarks."""
        last = self.table.last
        of = "in the last round" if last == 1 else f"over the last {last} rounds"
        if self.table.at_time is not None:
            of += f" by {span(self.table.at_time)} of simulated time"
        what = "selected on eval" if self.table.select else of
        counts = sorted({row.n for row in self.table.rows})
        n = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        return [f"Mean test accuracy {what}; n = {n} sessions in a cell.", *self.table.remarks()]

    def fields(self, row: tuple[Row, ...]) -> Iterator[tuple[str, Any]]:
        """The value of the first axis, and each cell's mean, std, and n; accuracies 0…1."""
        yield self.table.by[0], row[0].key[0]
        for each in row:
            value, name = self._of(each.key[1], row), f"{self.table.by[1]}={spelled(each.key[1])}"
            yield from {name: value and value.mean, f"{name}_std": value and value.std}.items()
            yield from {f"{name}_n": each.n, f"{name}_diverged": each.diverged.sessions}.items()

    def to_json(self) -> dict[str, Any]:
        """The table that it is made of."""
        return self.table.to_json()

    def _of(self, value: Any, rows: tuple[Row, ...]) -> MeanStd | None:
        found = next((row for row in rows if row.key[1] == value), None)
        return None if found is None else found.selected if self.table.select else found.last

    def _cell(self, value: Any, rows: tuple[Row, ...]) -> str:
        found = next((row for row in rows if row.key[1] == value), None)
        return NONE if found is None else found.accuracy(self._of(value, rows))


def _ordered(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, str(value)


def _extra(name: str) -> Column[Row]:
    kind, _ = EXTRAS[name]
    if kind == "staleness":
        return Column(name, lambda row: number(_mean(row.extras[name]), 2))
    unit = next((each.unit for each in SCALARS if each.column == kind), "share")
    if unit == "share":
        return Column(f"{name}, %", lambda row: percent(row.extras[name]))
    return Column(name, lambda row: in_unit(_mean(row.extras[name]), unit))


def _unlike_papers(rows: Sequence[Row]) -> list[str]:
    """In what rows are no experiments of papers. What several rows have alike is said once."""
    places = {row.label: row.paper[0].place.split(", ") for row in rows if row.paper}
    labels = alike((row.label, each) for row in rows if row.paper for each in row.paper[0].details)
    found = []
    for named, shared in alike((detail, tuple(each)) for detail, each in labels.items()).items():
        first, *others = (places[label] for label in named)
        place = ", ".join(word for word in first if all(word in other for other in others))
        value = "are not comparable with printed values"
        value = value if others else "is not comparable with the printed value"
        found.append(f"{listed(named)} {value} ({place}): {', '.join(shared)}.")
    return found


def _accuracy(field: str, row: Row) -> str:
    value: MeanStd | None = getattr(row, field)
    if field == "best":
        return percent(value)
    return row.accuracy(value, "not measured" if field == "selected" else NONE)


def _percent(value: Callable[[Row], MeanStd | None], row: Row) -> str:
    return percent(value(row))


def _rounds(row: Row) -> str:
    took = row.costs["rounds"]
    if row.at_least and took:
        return at_least(took.mean)
    return decimals(took, 1 if took and took.std is not None else 0)


_COSTS: dict[str, tuple[str, Callable[[float | None], str], bool]] = {
    "bytes": ("bytes", size, False),
    "flops": ("FLOPs", amount, True),
    "seconds": ("time", duration, True),
    "simulated": ("simulated time", duration, False),
    "joules": ("joules", amount, False),
}
"""By number what its column is called, how it is written, and whether it may go."""


def _bound(name: str, written: Callable[[float | None], str]) -> Callable[[Row], str]:
    """A cost as it is, or as the least that it can be."""

    def text(row: Row) -> str:
        found = written(_mean(row.costs[name]))
        return f"{AT_LEAST}{found}" if row.at_least and found != NONE else found

    return text


def _mean(spread: MeanStd | None) -> float | None:
    return spread.mean if spread else None


def _difference(row: Row) -> str:
    return NONE if row.difference is None else points_with(row.difference.mean, row.difference.interval)


def _paper(row: Row) -> str:
    """The printed values, each once, and a plain word where the experiment was another one."""
    if not row.paper:
        return NONE
    values = dict.fromkeys(
        "failed to converge" if each.accuracy is None else f"{100 * each.accuracy:.2f}" for each in row.paper
    )
    other = row.paper[0].other
    return " / ".join(values) + (f" ({other})" if other else "")
