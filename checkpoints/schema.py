"""What JSON read from a file must look like, before anything is done with it.

A shape is written as a value of Python: a type (`float` takes whole numbers too, and neither takes a bool), None, a
pattern that a text must match, `[shape]` for a list, `{"key": shape, "may be absent?": shape}` for an object that may
have more keys, `(shape, shape)` for either, `Keys` for an object whose keys are data, or a function that says whether
it is one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any

Shape = Any
_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


@dataclass(frozen=True)
class Keys:
    """An object in which every key matches a pattern and every value has one shape."""

    pattern: re.Pattern[str]
    values: Shape


def check(value: Any, shape: Shape, where: str = "") -> None:
    """Raise ValueError, as 'progress.round is not a whole number', unless the value has the shape."""
    fault = _fault(value, shape, where)
    if fault is not None:
        raise ValueError(fault)


def fits(value: Any, shape: Shape) -> bool:
    """Whether the value has the shape."""
    return _fault(value, shape, "") is None


def natural(value: Any) -> bool:
    """A whole number from 0 on."""
    return type(value) is int and value >= 0


def positive(value: Any) -> bool:
    """A whole number from 1 on."""
    return type(value) is int and value >= 1


def printable(value: Any) -> bool:
    """A text that a terminal shows as it is: no control characters."""
    return isinstance(value, str) and value.isprintable()


def shown(text: str) -> str:
    """The text with a mark in the place of each control character, ends of lines aside: it cannot steer a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


def _fault(value: Any, shape: Shape, where: str) -> str | None:
    match shape:
        case None:
            shape = NoneType
        case tuple():
            faults = [_fault(value, each, where) for each in shape]
            # Of several the last says most: null is named first.
            return None if None in faults else faults[-1]
        case [each]:
            if not isinstance(value, list):
                return _not(where, "a list")
            faults_of_items = (_fault(item, each, f"{where}[{n}]") for n, item in enumerate(value))
            return next((fault for fault in faults_of_items if fault), None)
        case dict():
            return _keys_fault(value, shape, where)
        case Keys(pattern, values):
            if not isinstance(value, dict):
                return _not(where, "an object")
            for key, item in value.items():
                if not pattern.fullmatch(key):
                    return f"{_inside(where, key)} has no name that belongs there"
                if (fault := _fault(item, values, _inside(where, key))) is not None:
                    return fault
            return None
        case re.Pattern():
            return (
                None if isinstance(value, str) and shape.fullmatch(value) else _not(where, "as it should be")
            )
    if isinstance(shape, type):
        sound = type(value) is shape or (shape is float and type(value) is int)
        return None if sound else _not(where, _NAMES.get(shape, "null"))
    predicate: Callable[[Any], bool] = shape
    return None if predicate(value) else _not(where, "as it should be")


def _keys_fault(value: Any, shape: dict[str, Shape], where: str) -> str | None:
    if not isinstance(value, dict):
        return _not(where, "an object")
    for name, each in shape.items():
        key = name.removesuffix("?")
        if key in value:
            if (fault := _fault(value[key], each, _inside(where, key))) is not None:
                return fault
        elif key == name:
            return f"{_inside(where, key)} is missing"
    return None


def _inside(where: str, key: str) -> str:
    shown = key if key.isprintable() and len(key) <= 100 else ascii(key)[1:100]
    return f"{where}.{shown}" if where else shown


def _not(where: str, what: str) -> str:
    return f"{where or 'it'} is not {what}"
