"""Gains over a baseline as a table: per cent, percentage points (pp), intervals, and p values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from simulator.base.units import NONE, points
from simulator.results.analysis.averages import MeanStd
from simulator.results.analysis.gain import ALPHA, SIZES, GainRow, Gains
from simulator.results.analysis.tabular import Column, TextTable, axis_columns, chosen_columns

RATES = "benefit and harm are the shares of clients that gain and that lose, means over n sessions."
INTERVAL = "[low, high] is the 95 % interval of the mean over n seeds (Student's t, paired)."
WORST = "worst 10 %: the mean gain of the tenth of the clients with the lowest gains, at least one client."
SIZE = "fewest, middle, most samples: thirds of the clients by number of training samples."


@dataclass(frozen=True)
class GainTable(TextTable[GainRow]):
    """A row for each group of sessions; `chosen` are the columns to print, all for none."""

    found: Gains
    chosen: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[GainRow, ...]:  # type: ignore[override]
        return self.found.rows

    def columns(self) -> list[Column[GainRow]]:
        """Those that it has something to say in, as they are printed."""
        gains = self.found
        shown: list[Column[GainRow]] = [
            *axis_columns(gains.by),
            Column("n", lambda row: str(len(row.sessions))),
            Column("clients", lambda row: str(row.clients)),
            Column(f"gain over {gains.baseline}, pp", _gain),
            Column("benefit, %", lambda row: _percent(row.benefit)),
            Column("harm, %", lambda row: _percent(row.harm)),
            Column("worst 10 %, pp", lambda row: _points(row.worst)),
        ]
        holm = ", Holm" if gains.corrected else ""
        if gains.test is not None:
            shown.append(Column(f"p ({gains.test}{holm})", lambda row: _p(row.p)))
        if gains.margin is not None:
            within = f"within {100 * gains.margin:g} pp (TOST{holm})"
            shown.append(Column(within, lambda row: equivalence(row.p_equivalent), False))
        for parts in (_models, _sizes):
            names = dict.fromkeys(name for row in self.rows for name in parts(row))
            shown += [Column(f"{name}, pp", _part(parts, name), expendable=True) for name in names]
        return chosen_columns(shown, self.chosen)

    def remarks(self) -> list[str]:
        """What a reader must know to judge the numbers of the shown columns."""
        shown = " ".join(column.name for column in self.columns())
        gains = self.found
        of = "of the last round" if gains.last == 1 else f"over the last {gains.last} rounds"
        found = [
            *gains.notes,
            f"A gain is a client's test accuracy less its accuracy under {gains.baseline}, {of}.",
        ]
        if "benefit" in shown or "harm" in shown:
            found.append(RATES)
        if "worst 10 %" in shown:
            found.append(WORST)
        if self.has("["):
            found.append(INTERVAL)
        if any(name in shown for name in SIZES):
            found.append(SIZE)
        if "p (wilcoxon" in shown:
            pairs = min(row.unequal for row in self.rows)
            least = f"{min(1.0, 2 / 2**pairs):g}"
            found.append(
                f"Wilcoxon's test ignores pairs of equal means. With {pairs} other{'s' * (pairs != 1)}, its smallest p "
                f"value is {least}."
            )
        return found

    def fields(self, row: GainRow) -> Iterator[tuple[str, Any]]:
        """All that a row has, by name; gains and shares 0…1."""
        yield from zip(self.found.by, row.key, strict=True)
        low, high = row.gain.interval or (None, None)
        yield from {"n": len(row.sessions), "clients": row.clients, "gain": row.gain.mean}.items()
        yield from row.diverged.fields()
        yield from {"gain_low": low, "gain_high": high, "p": row.p, "p_equivalent": row.p_equivalent}.items()
        for name in ("benefit", "harm", "worst"):
            value: MeanStd = getattr(row, name)
            yield from {name: value.mean, f"{name}_std": value.std}.items()
        for name, part in {**row.models, **row.sizes}.items():
            yield from {name: part.mean, f"{name}_std": part.std}.items()

    def to_json(self) -> dict[str, Any]:
        """For programs: every number with its std and n; gains and shares 0…1."""
        gains = self.found
        about = {name: getattr(gains, name) for name in ("baseline", "last", "margin", "test", "corrected")}
        rows = [asdict(row) | {"key": dict(zip(gains.by, row.key, strict=True))} for row in gains.rows]
        return {"by": list(gains.by), **about, "notes": list(gains.notes), "rows": rows}


def equivalence(p: float | None) -> str:
    """Whether a gain is smaller than the margin, in words."""
    if p is None:
        return NONE
    return f"{'equivalent' if p < ALPHA else 'not shown'} (p = {_p(p)})"


def _models(row: GainRow) -> Mapping[str, MeanStd]:
    return row.models


def _sizes(row: GainRow) -> Mapping[str, MeanStd]:
    return row.sizes


def _part(parts: Callable[[GainRow], Mapping[str, MeanStd]], name: str) -> Callable[[GainRow], str]:
    return lambda row: _points(parts(row).get(name))


def _gain(row: GainRow) -> str:
    ends = row.gain.interval
    return row.diverged.marked(
        points(row.gain.mean) + (f" [{', '.join(points(end) for end in ends)}]" if ends else "")
    )


def _percent(value: MeanStd) -> str:
    return f"{100 * value.mean:.0f}"


def _points(value: MeanStd | None) -> str:
    return NONE if value is None else points(value.mean)


def _p(p: float | None) -> str:
    return NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
