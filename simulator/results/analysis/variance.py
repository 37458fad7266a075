"""How much of the variance over seeds comes from the data, the initial weights, and the rest of training.

Random effects by sums of squares (ANOVA). N sessions have all combinations of the seeds' values. A seed A with a values
has SS_A = N/a · Σ (mean of a value − mean of all)², and MS_A = SS_A / (a − 1). The main effects leave the sum of
squares of the rest, with N − 1 − Σ (a − 1) degrees of freedom. The variance of A is (MS_A − MS_rest) · a/N, or 0 if
this is negative. The rest contains interactions of seeds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from simulator.base.errors import ConfigError
from simulator.base.units import NONE
from simulator.results.analysis.axes import Key, checked, group_label, groups, seeds_of, varying
from simulator.results.analysis.caveats import unfinished
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.tabular import Column, TextTable, axis_columns

PARTS = ("data", "init", "training")
REST = "rest"
_CROSS = "Cross them in a sweep, for example `over={'seed.data': [0, 1], 'seed.init': [0, 1]}`."
ABOUT = (
    "Each share is a part's variance of the last mean accuracy, estimated from sums of squares. The rest contains "
    "interactions of seeds. A negative estimate counts as 0."
)


@dataclass(frozen=True)
class VarianceRow:
    """Variances of accuracies 0…1 in `n` sessions. None: a seed with one value; `rest` if only one seed varies."""

    key: Key
    label: str
    n: int
    mean: float
    data: float | None
    init: float | None
    training: float | None
    rest: float | None

    @property
    def total(self) -> float:
        return math.fsum(getattr(self, part) or 0.0 for part in (*PARTS, REST))

    def share(self, part: str) -> float | None:
        """The part's share of the total, 0…1. None for an unknown part, and if nothing varies."""
        value = getattr(self, part)
        return None if value is None or not self.total else value / self.total


@dataclass(frozen=True)
class VarianceTable(TextTable[VarianceRow]):
    by: tuple[str, ...]
    rows: tuple[VarianceRow, ...]
    notes: tuple[str, ...] = ()

    def columns(self) -> list[Column[VarianceRow]]:
        return [
            *axis_columns(self.by),
            Column("n", lambda row: str(row.n)),
            Column("last, %", lambda row: f"{100 * row.mean:.2f}"),
            Column("std (pp)", lambda row: f"{100 * math.sqrt(row.total):.2f}"),
            *(Column(f"{part}, %", partial(_share, part)) for part in (*PARTS, REST)),
        ]

    def remarks(self) -> list[str]:
        return [*self.notes, ABOUT]

    def fields(self, row: VarianceRow) -> Iterator[tuple[str, Any]]:
        """The key, the mean, and each variance, of accuracies 0…1."""
        yield from zip(self.by, row.key, strict=True)
        yield from ((name, getattr(row, name)) for name in ("n", "mean", *PARTS, REST))


def variances(runs: Sequence[SessionData], by: Sequence[str] | str = ()) -> VarianceTable:
    """The variance over seeds of the last mean test accuracy, for groups as in `comparison.table`.

    Raises ConfigError if a group's seeds are not crossed: every combination of their values once.
    """
    wanted = checked(by, runs) or varying(runs) or ("dataset",)
    rows = []
    for key, group in groups(runs, wanted).items():
        label = group_label(wanted, key)
        if settings := varying(group):
            raise ConfigError(
                f"{label} has sessions with different {', '.join(settings)}. Choose others with `by`."
            )
        found = decomposed(_values(label, group), label)
        rows.append(VarianceRow(key, label, len(group), **found))
    return VarianceTable(wanted, tuple(rows), tuple(unfinished(runs)))


def decomposed(values: Mapping[tuple[int, int, int], float], label: str) -> dict[str, Any]:
    """The mean, and the variances of the parts and the rest, of values by the seeds of data, init, and training."""
    levels = [sorted({seeds[place] for seeds in values}) for place in range(len(PARTS))]
    if not any(len(each) > 1 for each in levels):
        raise ConfigError(f"{label} has one value of each seed, so nothing varies. {_CROSS}")
    wanted = list(product(*levels))
    if missing := [seeds for seeds in wanted if seeds not in values]:
        raise ConfigError(
            f"The seeds of {label} are not crossed: {len(missing)} of {len(wanted)} combinations are missing. {_CROSS}"
        )
    n, mean = len(values), math.fsum(values.values()) / len(values)
    squares: dict[str, tuple[float, int]] = {}
    for place, part in enumerate(PARTS):
        a = len(levels[place])
        if a > 1:
            means = (
                math.fsum(each for seeds, each in values.items() if seeds[place] == level) / (n // a)
                for level in levels[place]
            )
            squares[part] = n // a * math.fsum((each - mean) ** 2 for each in means), a - 1
    total = math.fsum((each - mean) ** 2 for each in values.values())
    freedom = n - 1 - sum(degrees for _, degrees in squares.values())
    left = max(total - math.fsum(each for each, _ in squares.values()), 0.0)
    rest = left / freedom if freedom else None
    found = {
        part: max(sum_of_squares / degrees - (rest or 0.0), 0.0) * (degrees + 1) / n
        for part, (sum_of_squares, degrees) in squares.items()
    }
    return {"mean": mean, **dict.fromkeys(PARTS), **found, REST: rest}


def _values(label: str, group: Sequence[SessionData]) -> dict[tuple[int, int, int], float]:
    """The last measured mean accuracy of each session, by its three seeds."""
    found: dict[tuple[int, int, int], float] = {}
    for run in group:
        seeds = seeds_of(run.config)
        measured = [float(each) for each in run.totals["accuracy"] if not math.isnan(each)]
        if not measured:
            raise ConfigError(f"{run.name} has no test accuracy yet. Leave it out, or run it first.")
        if seeds in found:
            raise ConfigError(f"{label} has several sessions with the seeds of {run.name}. Leave one out.")
        found[seeds] = measured[-1]
    return found


def _share(part: str, row: VarianceRow) -> str:
    share = row.share(part)
    return NONE if share is None else f"{100 * share:.1f}"
