"""What JSON read from a file must look like, before anything is done with it.

A shape is written as a value of Python: a type (`float` takes whole numbers too, and neither takes a bool), None, a
pattern that a text must match, `[shape]` for a list, `{"key": shape, "may be absent?": shape}` for an object that may
have more keys, `(shape, shape)` for either, `Keys` for an object whose keys are data, or a function that says whether
it is one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
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


def check_shape(value: Any, shape: Shape, where: str = "") -> None:
    """Raise ValueError, as 'progress.round is not a whole number', unless the value has the shape."""
    fault = _fault(value, shape)
    if fault is not None:
        path, what = fault
        raise ValueError(f"{(where + path).removeprefix('.') or 'it'} {what}")


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


Fault = tuple[str, str]
"""Where in a value something is wrong, as '.progress.round', and what."""


def _fault(value: Any, shape: Shape) -> Fault | None:
    kind = type(shape)
    if kind is type:
        sound = type(value) is shape or (shape is float and type(value) is int)
        return None if sound else ("", f"is not {_NAMES[shape]}")
    if kind is dict:
        return _fault_in_object(value, shape)
    if kind is tuple:
        fault = None
        for each in shape:
            fault = _fault(value, each)
            if fault is None:
                return None
        return fault  # of several the last says most: null is named first
    if shape is None:
        return None if value is None else ("", "is not null")
    if kind is list:
        return _fault_in_list(value, shape[0])
    if kind is Keys:
        return _fault_in_keys(value, shape)
    if kind is re.Pattern:
        return None if type(value) is str and shape.fullmatch(value) else ("", "is not as it should be")
    predicate: Callable[[Any], bool] = shape
    return None if predicate(value) else ("", "is not as it should be")


def _fault_in_object(value: Any, shape: dict[str, Shape]) -> Fault | None:
    if type(value) is not dict:
        return "", f"is not {_NAMES[dict]}"
    for name, each in shape.items():
        key = name.removesuffix("?")
        if key in value:
            fault = _fault(value[key], each)
            if fault is not None:
                return f".{key}{fault[0]}", fault[1]
        elif key == name:
            return f".{key}", "is missing"
    return None


def _fault_in_list(value: Any, each: Shape) -> Fault | None:
    if type(value) is not list:
        return "", f"is not {_NAMES[list]}"
    if set(map(type, value)) <= _types(each):  # a matrix has a hundred thousand numbers
        return None
    for number, item in enumerate(value):
        fault = _fault(item, each)
        if fault is not None:
            return f"[{number}]{fault[0]}", fault[1]
    return None


def _types(shape: Shape) -> frozenset[type]:
    """The types of which every value has the shape; none where it looks further than that."""
    if type(shape) is tuple:
        return frozenset().union(*map(_types, shape))
    if type(shape) is type:
        return frozenset({float, int} if shape is float else {shape})
    return frozenset({type(None)} if shape is None else ())


def _fault_in_keys(value: Any, shape: Keys) -> Fault | None:
    if type(value) is not dict:
        return "", f"is not {_NAMES[dict]}"
    for key, item in value.items():
        if not shape.pattern.fullmatch(key):
            return f".{_legible(key)}", "has no name that belongs there"
        fault = _fault(item, shape.values)
        if fault is not None:
            return f".{_legible(key)}{fault[0]}", fault[1]
    return None


def _legible(key: str) -> str:
    return key if key.isprintable() and len(key) <= 100 else ascii(key)[1:100]
