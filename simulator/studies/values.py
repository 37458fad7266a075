"""Parse the values of an axis from the command line or a study file: 'a,b,c', '0..2', '[1, 2],[3]'."""

import re
from collections.abc import Iterator
from typing import Any

from simulator.base.errors import ConfigError
from simulator.base.nested import parsed

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_MOST = 10_000
"""The maximum number of values of an axis. More are a typing error."""


def axis(assignment: str) -> tuple[str, tuple[Any, ...]]:
    """The key and values of 'training.lr=0.1,0.01' or 'seed=0..2'. Raises ConfigError."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip() or not text.strip():
        raise ConfigError(
            f"'{assignment}' is not an axis. Examples: `over='method.mu=0.5,0.7'` and `over='seed=0..2'`."
        )
    return key.strip(), values(key.strip(), text)


def values(key: str, given: Any) -> tuple[Any, ...]:
    """The values of the axis `key`, from a text or a TOML list. Raises ConfigError."""
    if isinstance(given, str):
        found = [value for piece in _pieces(given) for value in _expanded(key, piece)]
    elif isinstance(given, list | tuple | range):
        found = list(given)
    else:
        raise ConfigError(
            f"over.{key} = {given!r} is not a list of values; write [{given!r}], or leave it out."
        )
    if not found:
        raise ConfigError(f"the axis {key} has no values.")
    for number, value in enumerate(found):
        # 1 and 1.0 are one setting; True and 1 are two
        if any(
            value == other and isinstance(value, bool) == isinstance(other, bool) for other in found[:number]
        ):
            raise ConfigError(f"the axis {key} has the value {value!r} twice.")
    return tuple(found)


def _expanded(key: str, piece: str) -> list[Any]:
    if match := _RANGE.fullmatch(piece):
        first, last = int(match[1]), int(match[2])
        if not 0 <= last - first < _MOST:
            raise ConfigError(
                f"{key}={piece} is not a valid range: use up to {_MOST:,} numbers, from the smaller up to the larger."
            )
        return list(range(first, last + 1))
    return [parsed(piece)]


def _pieces(text: str) -> Iterator[str]:
    """The parts of a text between commas outside of brackets and quotes."""
    depth, quote, piece = 0, "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield piece.strip()
            piece = ""
            continue
        piece += character
    yield piece.strip()
