"""Search spaces of hyper-parameters: which values of a setting are worth trying when it is tuned."""

import math
import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from simulator.base.errors import ConfigError


@dataclass(frozen=True)
class Log:
    """Numbers from low to high, as likely in each factor: a learning rate."""

    low: float
    high: float


@dataclass(frozen=True)
class Linear:
    """Numbers from low to high, all as likely: a weight from 0 to 1."""

    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """Some values."""

    options: tuple[Any, ...]


Range = Log | Linear | Choice
Space = Mapping[str, Range]
"""Ranges by the keys of a section."""


def parsed(text: str) -> tuple[str, Range]:
    """'training.lr=log:0.001:0.1', 'method.mu=linear:0:1', or 'training.clip=1,5,10' as a key and a range.

    Raises ConfigError.
    """
    from simulator.base.nested import parsed as value

    key, equals, given = (each.strip() for each in text.partition("="))
    kind, *ends = given.split(":")
    if not equals or not key or not given:
        raise ConfigError(f"'{text}' is not a range. An example: training.lr=log:0.001:0.1.")
    if kind in ("log", "linear"):
        try:
            low, high = map(float, ends)
        except ValueError:
            raise ConfigError(f"'{text}' needs two numbers, as training.lr=log:0.001:0.1.") from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high and (kind == "linear" or low > 0)):
            raise ConfigError(f"'{text}': the first number is below the second, and above 0 for log.")
        return key, Log(low, high) if kind == "log" else Linear(low, high)
    options = tuple(value(each.strip()) for each in given.split(","))
    if len(options) < 2:
        raise ConfigError(f"'{text}' has one value. Set it with an assignment, or name several values.")
    return key, Choice(options)


def described(range: Range) -> str:
    """A range in a cell: 'log 0.001 … 0.1', '1 | 5 | 10'."""
    match range:
        case Log(low, high):
            return f"log {low:g} … {high:g}"
        case Linear(low, high):
            return f"{low:g} … {high:g}"
        case Choice(options):
            return " | ".join("none" if each is None else str(each) for each in options)


def as_json(range: Range) -> dict[str, Any]:
    """A range for programs: its kind, and its ends or options."""
    return {"kind": type(range).__name__.lower(), **asdict(range)}


Limits = Mapping[str, float]
"""What a setting's field allows, by the names of pydantic: gt, ge, lt, le."""


def is_at_boundary(range: Range, value: Any, limits: Limits = MappingProxyType({})) -> bool:
    """Whether a value lies in the outer 5 % of a range, or is the first or last of ordered choices, and the setting may
    have a value beyond."""
    match range:
        case Choice(options):
            numbers = [each for each in options if isinstance(each, int | float)]
            if len(numbers) < 3 or value not in (min(numbers), max(numbers)):
                return False
            whole = all(isinstance(each, int) for each in numbers)
            step = 1 if whole else (max(numbers) - min(numbers)) / 20
            return _allows(limits, value - step if value == min(numbers) else value + step)
        case Log(low, high):
            share, below, above = math.log(value / low) / math.log(high / low), low / 1.05, high * 1.05
        case Linear(low, high):
            step = (high - low) / 20
            share, below, above = (value - low) / (high - low), low - step, high + step
    return (share <= 0.05 and _allows(limits, below)) or (share >= 0.95 and _allows(limits, above))


def _allows(limits: Limits, value: float) -> bool:
    holds = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
    return all(holds[name](value, limit) for name, limit in limits.items())
