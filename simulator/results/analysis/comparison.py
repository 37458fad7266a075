"""Compares sessions in a table: accuracies, the cost of reaching a target, and the settings that differ."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from simulator.base.errors import ConfigError
from simulator.base.nested import flattened
from simulator.base.record import SCALARS, Scalar
from simulator.base.units import (
    AT_LEAST,
    NONE,
    amount,
    at_least,
    duration,
    in_unit,
    number,
    seconds_of,
    size,
    span,
)
from simulator.results.analysis import axes, caveats
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import best_round
from simulator.results.analysis.costs import COSTS, SIMULATED, Cost, energy_differs, reached, spent
from simulator.results.analysis.gain import final_accuracies
from simulator.results.analysis.ledger import NO_SCORE, Divergence, Totals
from simulator.results.analysis.run import SessionData
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
class Row(Numbers[axes.MeanStd | None]):
    """A group: `key` has its value on each axis; `chosen` the settings selected on eval, where it had several.

    Where only `reached` of the n sessions reached the target, all rounds of the others count, and the mean cost is a
    lower bound: `at_least`. `difference` is of `selected` where the table selects, else of `last`.
    """

    key: axes.Key
    label: str
    sessions: tuple[str, ...]
    n: int
    chosen: str
    reached: int
    at_least: bool
    difference: axes.Difference | None
    paper: tuple[caveats.Printed, ...]
    own: Mapping[str, axes.MeanStd | None]
    """The user's own metrics on the test part, by name."""
    extras: Mapping[str, axes.MeanStd | None]
    """The extra columns that were asked for, by name; accuracies 0…1."""
    diverged: Divergence

    def accuracy(self, value: axes.MeanStd | None, missing: str = NONE) -> str:
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
        found = axis_columns(self.by)
        if any(row.chosen for row in self.rows):
            found.append(Column("chosen on eval", lambda row: row.chosen or NONE, False))
        found.append(Column("n", lambda row: str(row.n)))
        last = f"last {self.last} rounds" if self.last > 1 else "last"
        if self.at_time is not None:
            last = f"{last} by {span(self.at_time)}" if self.last > 1 else f"at {span(self.at_time)}"
        chosen = {"selected": "selected on eval"} if self.select else {}
        for field, heading in (chosen | {"last": last, "best": "best on test"}).items():
            found.append(Column(f"{heading}, %", partial(_accuracy, field), value=attrgetter(field)))
            weighted = partial(_percent, f"{field}_weighted")
            found.append(Column(f"{field}, weighted", weighted, expendable=True))
        worst = partial(_percent, "worst")
        found.append(Column("worst client, %", worst, expendable=True, value=attrgetter("worst")))
        found += [
            Column(name, lambda row, name=name: decimals(row.own.get(name), 4))  # type: ignore[misc]
            for name in dict.fromkeys(name for row in self.rows for name in row.own)
        ]
        if self.baseline is not None:
            found.append(Column(f"Δ vs {self.baseline} (pp)", _change))
        if self.target is not None:
            goal = f"{100 * self.target:g} %"
            found.append(Column(f"reach {goal}", lambda row: f"{row.reached} of {row.n}"))
            found.append(Column(f"rounds to {goal}", _rounds))
            clock = any(row.costs["simulated"] for row in self.rows)
            for name, (title, written, expendable) in _COSTS.items():
                if clock or name not in ("simulated", "joules"):
                    found.append(Column(f"{title} to {goal}", _bound(name, written), expendable=expendable))
        found += [_extra_column(name) for name in (self.rows[0].extras if self.rows else ())]
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
class Pivot(TextTable[dict[Any, Row]]):
    """A paper's table: a row for each value of the first axis, and a column for each of the second.

    A cell is the accuracy selected on eval, or else the last one. A row has its cells by the value of the second axis.
    """

    table: Table

    @property
    def rows(self) -> tuple[dict[Any, Row], ...]:  # type: ignore[override]
        found: dict[Any, dict[Any, Row]] = {}
        for row in self.table.rows:
            found.setdefault(row.key[0], {})[row.key[1]] = row
        return tuple(found.values())

    def columns(self) -> list[Column[dict[Any, Row]]]:
        """The first axis, then a column for each value of the second."""
        first, second = self.table.by
        found = [Column[dict[Any, Row]](first, lambda cells: axes.spelled(_first(cells)), False)]
        for value in sorted(dict.fromkeys(row.key[1] for row in self.table.rows), key=_ordered):
            name = f"{second.rpartition('.')[2]} {axes.spelled(value)}, %"
            found.append(Column(name, partial(self._cell, value), value=partial(self._of, value)))
        return found

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

    def fields(self, row: dict[Any, Row]) -> Iterator[tuple[str, Any]]:
        """The value of the first axis, and each cell's mean, std, and n; accuracies 0…1."""
        yield self.table.by[0], _first(row)
        for key, each in row.items():
            value, name = self._of(key, row), f"{self.table.by[1]}={axes.spelled(key)}"
            yield from {name: value and value.mean, f"{name}_std": value and value.std}.items()
            yield from {f"{name}_n": each.n, f"{name}_diverged": each.diverged.sessions}.items()

    def to_json(self) -> dict[str, Any]:
        """The table that it is made of."""
        return self.table.to_json()

    def _of(self, value: Any, cells: dict[Any, Row]) -> axes.MeanStd | None:
        found = cells.get(value)
        return None if found is None else found.selected if self.table.select else found.last

    def _cell(self, value: Any, cells: dict[Any, Row]) -> str:
        return cells[value].accuracy(self._of(value, cells)) if value in cells else NONE


def _first(cells: dict[Any, Row]) -> Any:
    """The value that the cells of a row have on the first axis."""
    return next(iter(cells.values())).key[0]


def _ordered(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, str(value)


def _extra_column(name: str) -> Column[Row]:
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
    labels = caveats.alike((row.label, each) for row in rows if row.paper for each in row.paper[0].details)
    found = []
    for named, shared in caveats.alike((detail, tuple(each)) for detail, each in labels.items()).items():
        first, *others = (places[label] for label in named)
        place = ", ".join(word for word in first if all(word in other for other in others))
        value = "are not comparable with printed values"
        value = value if others else "is not comparable with the printed value"
        found.append(f"{caveats.listed(named)} {value} ({place}): {', '.join(shared)}.")
    return found


def _accuracy(field: str, row: Row) -> str:
    value: axes.MeanStd | None = getattr(row, field)
    if field == "best":
        return percent(value)
    return row.accuracy(value, "not measured" if field == "selected" else NONE)


def _percent(field: str, row: Row) -> str:
    return percent(getattr(row, field))


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


def _mean(spread: axes.MeanStd | None) -> float | None:
    return spread.mean if spread else None


def _change(row: Row) -> str:
    return points_with(row.difference.mean, row.difference.interval) if row.difference else NONE


def _paper(row: Row) -> str:
    """The printed values, each once, and a plain word where the experiment was another one."""
    if not row.paper:
        return NONE
    values = dict.fromkeys(
        "failed to converge" if each.accuracy is None else f"{100 * each.accuracy:.2f}" for each in row.paper
    )
    other = row.paper[0].other
    return " / ".join(values) + (f" ({other})" if other else "")


_SEPARATE = "Group by these to separate them, or select the best on eval."


@dataclass(frozen=True, eq=False)
class Standing:
    """A session's best and last mean accuracy, and the cost of reaching a target. None: not measured, or no score."""

    run: SessionData
    best: float | None
    last: float | None
    reached: dict[Cost, float] | None
    target: float
    untrained: bool = False
    """Whether every client diverged in every round, so that it has no score."""


def standing(run: SessionData, target: float | None = None, upto: int | None = None) -> Standing:
    """A session's standing towards a target accuracy (0…1), up to a round (None: the last). target None: its own
    `until`, or else the highest multiple of 0.05 that it reached.
    """
    if target is None:
        target = float(run.config.get("until") or 0.0) or common_target([run])
    totals, mean = run.totals, run.totals["accuracy"][:upto]
    measured = mean[np.isfinite(mean)]
    untrained = Divergence.of(totals).untrained > 0
    if untrained or not measured.size:
        return Standing(run, None, None, None, target, untrained)
    return Standing(run, float(measured.max()), float(measured[-1]), reached(totals, target), target)


def common_round(runs: Sequence[SessionData]) -> int | None:
    """The last round that all runs have evaluated, except those that have none yet; None if there is no such round."""
    rounds = [each for run in runs if (each := np.flatnonzero(np.isfinite(run.totals["accuracy"]))).size]
    both = reduce(np.intersect1d, rounds) if rounds else np.empty(0)
    return int(both[-1]) + 1 if both.size else None


def common_target(runs: Sequence[SessionData]) -> float:
    """The highest multiple of 0.05 that the best accuracy of every run reaches, except of runs that have none yet."""
    best = min((each for run in runs if (each := standing(run, 0.0).best) is not None), default=0.0)
    return math.floor(best * 20 + 1e-9) / 20


def differences(runs: Sequence[SessionData]) -> list[tuple[str, tuple[Any, ...]]]:
    """The settings that differ between runs, by dotted name, with each run's value. None: it has no such setting."""
    flat = [flattened(run.config) for run in runs]
    names = dict.fromkeys(name for one in flat for name in one)
    rows = [(name, tuple(one.get(name) for one in flat)) for name in names]
    return [row for row in rows if any(value != row[1][0] for value in row[1])]


@dataclass(frozen=True, kw_only=True)
class SessionResult(Numbers[float | None]):
    """The results of one session. None: not measured, or the session has no score."""

    run: SessionData
    on_eval: float | None
    reached: bool
    own: Mapping[str, float | None]
    """The user's own metrics on the test part, by name, in the round that `worst` is of."""
    extras: Mapping[str, float | None]
    """The extra columns that were asked for."""
    diverged: Divergence


def table(
    runs: Sequence[SessionData],
    by: Sequence[str] | str = (),
    target: float | None = None,
    baseline: str | None = None,
    select: Select | None = None,
    last: int = 1,
    columns: Sequence[str] = (),
    at_time: float | str | None = None,
) -> Table:
    """The sessions grouped by axes: dotted settings, or 'method', 'dataset', 'session'; none: what they differ in.

    baseline: a value on the first axis ('standalone'), or 'AXIS=VALUE'; what differs in the other axes has a baseline
    of its own. select 'eval': of each group the settings and rounds that are best on eval. last: the last accuracy is
    the mean over this many last rounds. columns: the columns to show, in this order; EXTRAS are shown only if named.
    at_time: only the rounds that had ended by this simulated time count, and sessions that end before are left out.
    Raises ConfigError for an unknown axis or column, a baseline that no group is, a target outside 0…1.
    """
    if last < 1:
        raise ConfigError(f"`last={last}` is not a number of rounds. Use 1 or more.")
    if target is not None and not 0 <= target <= 1:
        raise ConfigError(f"the target is an accuracy from 0 to 1, as 0.9; it is {target:g}.")
    asked, moved = list(runs), list[str]()
    seconds = None if at_time is None else parsed_time(at_time)
    if seconds is not None:
        runs, moved = upto_time(runs, seconds)
    wanted = axes.checked(by, runs) or axes.varying(runs) or ("session",)
    extras = [name for name in EXTRAS if any(name.startswith(each) for each in columns)]
    notes = _of_data(runs) + (caveats.unfinished(asked) if seconds is None else moved) + _switched(runs)
    found: dict[axes.Key, tuple[str, list[SessionResult]]] = {}
    of_groups, named = list[caveats.Note](), list[set[str]]()
    for key, group in axes.groups(runs, wanted).items():
        outcomes = [outcome(run, target, select, last, extras) for run in group]
        chosen, outcomes, about = _point(axes.group_label(wanted, key), outcomes, select)
        found[key] = chosen, outcomes
        of_groups += about
        named.append(set(axes.varying(group)) if chosen else set())
    kept = {axes.group_label(wanted, key): outcomes for key, (_, outcomes) in found.items()}
    sessions = {label: [each.run for each in outcomes] for label, outcomes in kept.items()}
    configs = {label: [run.config for run in each] for label, each in sessions.items()}
    # A setting whose chosen value is shown in every row needs no note.
    differ = caveats.rows_differ(configs, (*wanted, *(set.intersection(*named) if named else ())))
    if target is not None or any(EXTRAS[name][0] == "joules" for name in extras):
        differ += energy_differs(configs)
    baselines = _baselines(wanted, list(found), baseline)
    rows = []
    for key, (chosen, outcomes) in found.items():
        against = found[baselines[key]][1] if key in baselines and baselines[key] != key else []
        rows.append(_row(wanted, key, chosen, outcomes, against, select))
    notes += [
        *caveats.joined(of_groups),
        *caveats.averaged(sessions, _SEPARATE),
        *caveats.dependent(caveats.members(sessions)),
    ]
    # Not by label, as two are alike where values differ from the seventh digit on.
    diverged = caveats.divergences(
        (row.label, [each.diverged for each in outcomes])
        for row, (_, outcomes) in zip(rows, found.values(), strict=True)
    )
    notes = list(dict.fromkeys([*diverged, *differ, *notes]))
    made = Table(wanted, tuple(rows), tuple(notes), target, baseline, select, last, tuple(columns), seconds)
    made.columns()  # raises for an unknown one
    return made


def outcome(
    run: SessionData,
    target: float | None,
    select: Select | None,
    last_rounds: int = 1,
    extras: Sequence[str] = (),
) -> SessionResult:
    """The results of a session. If every update diverged, it has only costs."""
    totals, diverged = run.totals, Divergence.of(run.totals)
    if diverged.untrained:  # one that has learned nothing has no result
        none = {each.column: np.full(totals.rounds, np.nan) for each in SCALARS if each.unit == "share"}
        totals = replace(totals, arrays={**totals.arrays, **none})
    round = (best_round(totals["eval_accuracy"])[1] or None) if select else None
    mean, weighted = totals["accuracy"], totals["accuracy_weighted"]
    measured = np.flatnonzero(np.isfinite(mean))
    at = round if select else int(measured[-1]) + 1 if measured.size else None
    took = None if target is None else reached(totals, target)
    every = None if target is None else took or spent(totals)
    return SessionResult(
        best=_at(mean, best_round(mean)[1] or None),
        best_weighted=_at(weighted, best_round(weighted)[1] or None),
        last=_mean_of_last(mean, last_rounds),
        last_weighted=_mean_of_last(weighted, last_rounds),
        selected=_at(mean, round),
        selected_weighted=_at(weighted, round),
        worst=_at(totals["accuracy_min"], at),
        costs={
            name: None if every is None or math.isnan(every[cost]) else every[cost]
            for name, cost in zip(COST_NUMBERS, (*COSTS, *SIMULATED), strict=True)
        },
        run=run,
        on_eval=_at(totals["eval_accuracy"], round),
        reached=took is not None,
        own=_own(run, at),
        extras={name: _extra(run, totals, last_rounds, name) for name in extras},
        diverged=diverged,
    )


def _extra(run: SessionData, totals: Totals, last: int, name: str) -> float | None:
    """A session's value in an extra column. EXTRAS has its kind and how it is folded to a number."""
    kind, fold = EXTRAS[name]
    scored = bool(np.isfinite(totals["accuracy"]).any())
    times = [record["time"] for record in run.records if "time" in record] if kind in _OF_CLOCK else []
    flights = [flight for time in times for flight in time["flights"]]
    used = np.array([flight["fate"] == "used" for flight in flights], float)
    match kind:
        case "rounds":
            values = totals["accuracy"]
        case "clients":
            values = final_accuracies(run, totals.rounds, last) if scored else used
        case "unseen":  # before they adapt, after it, and trained alone
            known = scored and run.config.get("federation", {}).get("unseen")
            measured = [record["unseen"] for record in run.records if "unseen" in record] if known else []
            means = [each[when]["mean"] for each in measured[-1:] for when in ("before", "after", "alone")]
            values = np.array(means, float)
        case "used":
            values = used
        case "wasted":
            flops = np.array([flight["flops"] for flight in flights], float)
            values = flops * (1 - used) / flops.sum() if flops.sum() else flops
        case "staleness":
            ages = [age for time in times for age in time["staleness"].items()]
            values = np.array([float(rounds) for rounds, number in ages for _ in range(number)])
        case column:
            values = totals[column]
    if kind != "unseen":
        values = values[np.isfinite(values)]
    number = fold(values) if len(values) else math.nan
    return number if math.isfinite(number) else None


_OF_CLOCK = ("used", "wasted", "staleness")


def _own(run: SessionData, round: int | None) -> dict[str, float | None]:
    """The user's own metrics on the test part after a round."""
    names = run.config.get("evaluation", {}).get("metrics", ())
    if not names or round is None:
        return {}
    part = run.records[round - 1].get("evaluation", {}).get("test")
    measured = part.get("metrics", {}) if part else {}
    return {name: measured[name]["mean"] if name in measured else None for name in names}


def _row(
    by: Sequence[str],
    key: axes.Key,
    chosen: str,
    outcomes: Sequence[SessionResult],
    against: Sequence[SessionResult],
    select: Select | None,
) -> Row:
    diverged = Divergence.over(each.diverged for each in outcomes)
    at_least = any(each.costs["rounds"] is not None and not each.reached for each in outcomes)
    measured = bool(select) and all(each.selected is not None for each in outcomes)

    def spreads(of_sessions: Sequence[Mapping[str, float | None]]) -> dict[str, axes.MeanStd | None]:
        found: dict[str, axes.MeanStd | None] = {}
        for name in dict.fromkeys(name for one in of_sessions for name in one):
            values = [one.get(name) for one in of_sessions]
            # A mean without the sessions that have no score would hide them.
            found[name] = None if diverged.untrained and None in values else axes.MeanStd.of(values)
        return found

    left_out = () if measured else ("selected", "selected_weighted", *(["worst"] if select else []))
    numbers = spreads([{name: getattr(each, name) for name in NUMBERS} for each in outcomes])
    costs = {name: axes.MeanStd.of(each.costs[name] for each in outcomes) for name in COST_NUMBERS}
    return Row(
        **numbers | dict.fromkeys(left_out),
        costs={name: replace(took, std=None) if took and at_least else took for name, took in costs.items()},
        key=key,
        label=axes.group_label(by, key),
        sessions=tuple(each.run.name for each in outcomes),
        n=len(outcomes),
        chosen=chosen,
        reached=sum(each.reached for each in outcomes),
        at_least=at_least,
        difference=None
        if any(each.diverged.untrained for each in (*outcomes, *against))
        else axes.paired(_by_seed(outcomes, select), _by_seed(against, select)),
        paper=caveats.printed([each.run for each in outcomes]),
        own=spreads([each.own for each in outcomes]),
        extras=spreads([each.extras for each in outcomes]),
        diverged=diverged,
    )


def _point(
    label: str, outcomes: list[SessionResult], select: Select | None
) -> tuple[str, list[SessionResult], list[caveats.Note]]:
    """The settings of a row in words, if there are several to choose from; their outcomes; and notes on the choice."""
    differ = axes.varying([each.run for each in outcomes])
    points: dict[axes.Key, list[SessionResult]] = {}
    for each in outcomes:
        points.setdefault(axes.key_of(each.run, differ), []).append(each)
    missing = [each.run.name for each in outcomes if each.selected is None and not each.diverged.untrained]
    if select and missing:
        return "", outcomes, [(label, "not measured on eval", ", ".join(missing))]
    chosen, kept, notes = "", outcomes, list[caveats.Note]()
    if len(points) > 1 and select:
        on_eval = {key: [one.on_eval or 0.0 for one in each] for key, each in points.items()}
        key = max(points, key=lambda each: math.fsum(on_eval[each]) / len(on_eval[each]))
        kept = points[key]
        chosen = ", ".join(f"{axis}={axes.spelled(value)}" for axis, value in zip(differ, key, strict=True))
        notes.append((label, f"of {len(points)} settings the best on eval", chosen))
    if len(points) == 1 or select:
        number = Counter(axes.seeds_of(each.run.config) for each in kept)
        if twice := sorted(seeds for seeds in number if number[seeds] > 1):
            words = ", ".join(axes.seed_words(*seeds) for seeds in twice)
            notes.append((label, f"several sessions of seed {words}; nothing is paired", ""))
    return chosen, kept, notes


def _by_seed(
    outcomes: Sequence[SessionResult], select: Select | None
) -> Mapping[tuple[int, int, int], float]:
    """The accuracy that is compared, by seed; nothing where a seed has several."""
    found: dict[tuple[int, int, int], float] = {}
    for each in outcomes:
        value, seeds = each.selected if select else each.last, axes.seeds_of(each.run.config)
        if seeds in found:
            return {}
        if value is not None:
            found[seeds] = value
    return found


def _baselines(by: Sequence[str], keys: Sequence[axes.Key], baseline: str | None) -> dict[axes.Key, axes.Key]:
    """The baseline of each group: the baseline's value on its axis, and the group's own values on the others."""
    if baseline is None:
        return {}
    axis, equals, value = baseline.rpartition("=")
    place = by.index(axis) if equals and axis in by else 0
    text = value if equals else baseline
    there = [key for key in keys if axes.spelled(key[place]) == text]
    if not there or (equals and axis not in by):
        known = ", ".join(dict.fromkeys(axes.spelled(key[place]) for key in keys))
        raise ConfigError(f"no group is the baseline '{baseline}': {by[place]} is one of {known}.")
    rest = {(*key[:place], *key[place + 1 :]): key for key in there}
    return {key: rest[other] for key in keys if (other := (*key[:place], *key[place + 1 :])) in rest}


def _of_data(runs: Sequence[SessionData]) -> list[str]:
    """A note if sessions with the same data settings have other images or another partition."""
    prints: dict[axes.Key, set[str]] = {}
    for run in runs:
        known = axes.axes(run)
        names = sorted(name for name in known if name.startswith("data.") and name not in axes.SEEDS)
        settings = ((name, known.get(name)) for name in ("federation.clients", "federation.unseen", *names))
        key = (axes.seeds_of(run.config)[0], *settings)
        prints.setdefault(key, set()).add(str(run.document.get("data_fingerprint", "")))
    note = "Sessions of one seed and the same data settings have different images or another partition."
    return [note] if any(len(each) > 1 for each in prints.values()) else []


def _switched(runs: Sequence[SessionData]) -> list[str]:
    words = []
    for run in runs:
        course = dict.fromkeys(entry["method"]["name"] for entry in run.history)
        words += [f"{run.name} ({' → '.join(course)})"] if len(course) > 1 else []
    return [f"Not of one method: {', '.join(words)}."] if words else []


def _at(values: Array, round: int | None) -> float | None:
    value = math.nan if round is None else float(values[round - 1])
    return None if math.isnan(value) else value


def _mean_of_last(values: Array, rounds: int) -> float | None:
    """The mean of the last so many measured values; None without any."""
    known = values[np.isfinite(values)][-rounds:]
    return math.fsum(known) / len(known) if len(known) else None


def parsed_time(time: float | str) -> float:
    """A simulated time in seconds, from seconds or text such as '2h'. Raises ConfigError."""
    try:
        seconds = seconds_of(time)
    except ValueError as fault:
        raise ConfigError(f"at_time: {fault}.") from fault
    if not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise ConfigError(f"at_time is {time!r}, and a simulated time is above 0. An example: `at_time=2h`.")
    return float(seconds)


def upto_time(runs: Sequence[SessionData], seconds: float) -> tuple[list[SessionData], list[str]]:
    """The sessions with only the rounds that had ended by this simulated time, and notes on those that are left out:
    those that end before, whose accuracy then nobody knows, and those whose first round ends later.

    Raises ConfigError if a session has no clock, or if no session is left.
    """
    found, short, late = list[SessionData](), list[str](), list[str]()
    for run in runs:
        clock = run.totals["simulated_seconds"]
        if np.isnan(clock).any():
            raise ConfigError(
                f"{run.name} has no computed clock, so it has no simulated time. Run it with "
                "`system.devices=phone`, or leave out `at_time`."
            )
        ended = int(np.searchsorted(clock, seconds, side="right"))
        if not clock.size or clock[-1] < seconds:
            short.append(f"{run.name} ({span(float(clock[-1])) if clock.size else 'no round'})")
        elif not ended:
            late.append(f"{run.name} (first round: {span(float(clock[0]))})")
        else:
            found.append(replace(run, ledger=run.ledger.upto(ended)))
    notes = [
        f"Left out, because they {why} {span(seconds)} of simulated time: {', '.join(names)}."
        for why, names in (("end before", short), ("have no round by", late))
        if names
    ]
    if not found:
        raise ConfigError(f"No session can be compared. {' '.join(notes)} Choose another `at_time`.")
    return found, notes


@dataclass(frozen=True)
class Setting:
    """A setting by its dotted name. value, other: None where it is unset. differs: whether they are unequal."""

    name: str
    value: Any
    other: Any
    differs: bool


def described(config: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> list[Setting]:
    """Every setting of either, those that differ first, else in the configuration's order. other None: none differs."""
    own = flattened(config)
    beside = own if other is None else flattened(other)
    found = [
        Setting(name, own.get(name), beside.get(name), own.get(name) != beside.get(name))
        for name in dict.fromkeys([*own, *beside])
    ]
    return sorted(found, key=lambda each: not each.differs)
