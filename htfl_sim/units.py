"""Format numbers: with units, rounded, and with a mark for a missing one."""

from simulator.base.units import (
    AT_LEAST,
    NONE,
    SUFFIXES,
    amount,
    at_least,
    duration,
    in_unit,
    number,
    percent,
    points,
    size,
    size_unit,
    span,
)

__all__ = [
    "AT_LEAST",
    "NONE",
    "SUFFIXES",
    "amount",
    "at_least",
    "duration",
    "in_unit",
    "number",
    "percent",
    "points",
    "size",
    "size_unit",
    "span",
]
