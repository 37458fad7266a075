"""A round's record before it is written: JSON has no NaN and no infinities, and a line has a largest size."""

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from checkpoints import TooLarge, canonical, limits, name_of
from simulator.base.errors import ConfigError
from simulator.base.record import Record
from simulator.engine.client_states import State


def too_large(fault: TooLarge, record: Record, session: Path | None) -> ConfigError:
    """The refusal of a round that could not be read back, with what to change.

    `session` is where the rounds before it are, None where there are none.
    """
    raw = canonical(record)
    if len(raw) < limits.RECORD and limits.values(raw) <= limits.RECORD_VALUES:
        return ConfigError(f"{fault} {_BESIDE_RECORDS.get(fault.what, 'Use fewer federation.clients.')}")
    sizes = {part: len(canonical(value)) for part, value in record.items()}
    largest = max(sizes, key=sizes.__getitem__)
    return ConfigError(
        f"{fault} Its largest part is {largest} ({sizes[largest]:,} bytes). "
        f"{_remedy(largest, 'clients' in record, _counts_classes(record), session)}"
    )


_BESIDE_RECORDS = {
    "A state": "Use a method or models (federation.group) that keep less.",
    "ledger.jsonl": "Start a new session with evaluation.metrics_for=changed, or a larger cka.every.",
}


def _counts_classes(record: Record) -> bool:
    return any("classes" in part for part in record.get("evaluation", {}).values())


def _remedy(part: str, news: bool, classes: bool, session: Path | None) -> str:
    """What makes a part of a record smaller.

    `news` says that the record only names clients that changed, and `classes` that it counts answers by class.
    """
    if part == "method_metrics":
        return "Let the method's aggregate() return fewer metrics."
    if part == "cka":
        settings = ["cka.every=0"]
    elif part == "evaluation" and classes:
        settings = ["evaluation.classes=false"]
    elif news:
        return "Start a new session with a smaller federation.participation."
    else:
        settings = ["evaluation.metrics_for=changed", "evaluation.initial=skip"]
    if session is None:
        return f"Use {' and '.join(f'`{each}`' for each in settings)}."
    name = name_of(session)
    given = " ".join(f"--set {each}" for each in settings)
    return f"Run `htfl-sim switch {name} {given}`, then `htfl-sim resume {name}`."


def finite(value: Any, where: str = "") -> tuple[Any, dict[str, float]]:
    """The value with null for every number that is not finite, and those numbers by their place, as 'loss.mean'."""
    match value:
        case float() if not isfinite(value):
            return None, {where: value}
        case list() if set(map(type, value)) == {int}:  # one look at each, since there may be thousands
            return value, {}
        case dict():
            parts = {
                key: finite(each, f"{where}.{key}" if where else str(key)) for key, each in value.items()
            }
            whole: Any = {key: part for key, (part, _) in parts.items()}
            lost = [each for _, each in parts.values()]
        case list() | tuple():
            items = [finite(each, f"{where}[{number}]") for number, each in enumerate(value)]
            whole, lost = [item for item, _ in items], [each for _, each in items]
        case _:
            return value, {}
    return whole, {place: number for each in lost for place, number in each.items()}


def with_finite_record(state: State) -> tuple[State, dict[str, float]]:
    """The state with such a record, and what it lost."""
    record, lost = finite(state.record)
    return (replace(state, record=record), lost) if lost else (state, lost)
