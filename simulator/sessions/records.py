"""What becomes of a round's record before it is sealed: JSON has no NaN and no infinities."""

from dataclasses import replace
from math import isfinite
from typing import Any

from simulator.client_states import State


def finite(value: Any, where: str = "") -> tuple[Any, dict[str, float]]:
    """The value with null for every number that is not finite, and those numbers by their place, as 'loss.mean'."""
    match value:
        case float() if not isfinite(value):
            return None, {where: value}
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
