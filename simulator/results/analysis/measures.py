"""What sessions are compared by: one number a round of each, also on parts of the split, and its mean over seeds."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.base.record import SCALARS, Record
from simulator.metrics import by_client
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.costs import Cost, costs
from simulator.results.analysis.run import SessionData

_OURS = ("loss", "f1")


def part_measures(records: Iterable[Record]) -> tuple[str, ...]:
    """What any round has measured on a part: `loss`, `f1`, and then the user's own metrics by their names."""
    parts = [part for record in records for part in record.get("evaluation", {}).values()]
    own = sorted({name for part in parts for name in part.get("metrics", ())})
    return (*(name for name in _OURS if any(name in part for part in parts)), *own)


def part_means(records: Sequence[Record], part: str, measure: str) -> Array:
    """[n] the mean over clients of what was measured on a part; NaN in rounds without it."""
    return np.array([_measured(record, part, measure).get("mean") for record in records], float)


def client_on_part(records: Sequence[Record], part: str, measure: str, client: int) -> Array:
    """[n] a client's values on a part, each kept in the rounds without a new one; NaN before the first."""
    found = list[float | None]()
    for record in records:
        values = _measured(record, part, measure).get("per_client", {})
        found.append(by_client.of(values, client, found[-1] if found else None))
    return np.array(found, float)


def _measured(record: Record, part: str, measure: str) -> Mapping[str, Any]:
    """Empty where a round has not measured it."""
    found: Mapping[str, Any] = record.get("evaluation", {}).get(part, {})
    if measure not in _OURS:
        found = found.get("metrics", {})
    return found.get(measure, {})  # type: ignore[no-any-return]


Values = Callable[[SessionData], Array]
"""One number a round of a session [n], NaN where there is none."""
_OF_SESSION: dict[str, Values] = {
    "test loss": lambda run: part_means(run.records, "test", "loss"),
    "test F1": lambda run: part_means(run.records, "test", "f1"),
    "CKA": lambda run: _cka(run),
    "selected on eval": lambda run: _selected(run.totals["accuracy"], run.totals["eval_accuracy"]),
}
"""What is no scalar: mean loss and F1 of the clients on the test part, the mean CKA over pairs in the deepest layer,
and the mean accuracy at the round that is best on the clients' eval parts so far, the first of equals."""
_SCALARS = {
    each.title: each
    for each in SCALARS
    if each.title and (each.unit in ("share", "number") or each.compared == "last")
}
MEASURES = tuple(
    dict.fromkeys(
        ["mean accuracy", "worst client", "std over clients", "training loss", *_OF_SESSION, *_SCALARS]
    )
)


def is_share(measure: str) -> bool:
    """Whether it is from 0 to 1; the user's own metrics may be anything."""
    known = _SCALARS[measure].unit == "share" if measure in _SCALARS else measure in _OF_SESSION
    return known and measure not in ("test loss", "CKA")


def measured(run: SessionData, measure: str) -> Array:
    """[n] one of MEASURES, or the user's own metric on the test part, by round; accuracies 0…1; NaN: not measured."""
    if measure in _SCALARS:
        return run.totals[_SCALARS[measure].column]
    if measure in _OF_SESSION:
        return _OF_SESSION[measure](run)
    return part_means(run.records, "test", measure)


def accuracy_of(run: SessionData, client: int) -> Array:
    """[n] the test accuracy of one client (0…1); NaN where it was not evaluated, or is none of the clients."""
    curves = run.curves
    return curves.accuracy.of(client) if client < curves.clients else np.full(curves.rounds, np.nan)


def after_fork(values: Values, drawn: Collection[object]) -> Values:
    """`values` without the rounds before the fork from a session among `drawn` (ids): they are that one's."""

    def own(run: SessionData) -> Array:
        parent, found = run.document.get("parent"), values(run)
        if not parent or parent["id"] not in drawn:
            return found
        return np.where(np.arange(1, len(found) + 1) >= parent["round"], found, np.nan)

    return own


@dataclass(frozen=True, eq=False)
class Line:
    """Sessions over the rounds that all of them have: x, mean [k]; std [k], the sample's, None of a single session."""

    label: str
    x: Array
    mean: Array
    std: Array | None
    n: int


def averaged(label: str, runs: Sequence[SessionData], values: Values, x: Cost = "rounds") -> Line:
    """The mean over sessions of a number a round, against rounds or the mean of what these cost."""
    rows = [values(run) for run in runs]
    length = min(len(row) for row in rows)
    table = np.array([row[:length] for row in rows]).reshape(len(rows), length)
    shared = np.isfinite(table).all(axis=0)
    spent = np.array([costs(run.totals, x)[:length] for run in runs]).reshape(len(rows), length)
    std = table[:, shared].std(axis=0, ddof=1) if len(rows) > 1 else None
    return Line(label, spent[:, shared].mean(axis=0), table[:, shared].mean(axis=0), std, len(rows))


def _cka(run: SessionData) -> Array:
    found = np.full(run.round, np.nan)
    for each in run.ledger.whole.measured:
        found[each.round - 1] = each.mean(each.layers[-1])
    return found


def _selected(accuracy: Array, selection: Array) -> Array:
    """[n] the accuracy at the round whose selection is the highest until then; NaN before the first."""
    before = np.concatenate([[np.nan], np.fmax.accumulate(selection)[:-1]])[: len(selection)]
    best = np.isfinite(selection) & ~(selection <= before)
    at = np.maximum.accumulate(np.where(best, np.arange(len(selection)), -1))
    return np.where(at >= 0, accuracy[at], np.nan)
