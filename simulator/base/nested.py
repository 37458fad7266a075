"""Configurations as nested plain values: read from and written as TOML, overridden, and merged."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from simulator.base.errors import ConfigError
from simulator.base.reading import read_bytes

Raw = dict[str, Any]

SEED = "seed"
"""A number, or a table of several seeds, which has the number under `all`."""
ALL = "all"


FORMER: dict[str, tuple[str, dict[str, str]]] = {
    "data.seed": ("seed.data", {}),
    "evaluation.figures": ("evaluation.metrics_for", {"news": "changed"}),
}
"""Former names of keys, with their names now, and former values with what they are called now."""

_LENGTHS = {"epochs": "steps", "steps": "epochs"}
ALTERNATIVES = {
    f"{section}.{key}": (section, other)
    for section in ("training", "unseen")
    for key, other in _LENGTHS.items()
}
"""Keys that replace another one of their section, which must then have no value."""


def renamed(raw: Mapping[str, Any]) -> Raw:
    """`raw` with today's names in place of former ones. A former seed without a value says nothing."""
    result = _copy(raw)
    for former in FORMER:
        section, name = former.split(".")
        if isinstance(found := result.get(section), dict) and name in found:
            value = found.pop(name)
            if value is not None or not FORMER[former][0].startswith(f"{SEED}."):
                put(result, former, value)
    return result


def read_toml(path: Path) -> Raw:
    """A configuration file as nested mappings. Raises ConfigError if it is missing or not TOML."""
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as invalid:
        raise ConfigError(f"{path} is not valid TOML: {invalid}.") from invalid


def with_overrides(raw: Mapping[str, Any], assignments: Iterable[str]) -> Raw:
    """`raw` with dotted assignments such as 'training.epochs=10' applied.

    Values are TOML. Bare words are strings, and `null` leaves the key unset. Raises ConfigError without a `=`.
    """
    values = []
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not all(key.strip().split(".")):
            raise ConfigError(f"'{assignment}' is not key=value. An example: `training.epochs=10`.")
        value = None if text.strip() == toml_value(None) else parsed(text.strip())
        values.append((key.strip(), value))
    return with_values(raw, values)


def with_values(raw: Mapping[str, Any], values: Iterable[tuple[str, Any]]) -> Raw:
    """`raw` with these values of dotted keys. They remove earlier values of the keys that they replace."""
    result, values = _copy(raw), list(values)
    for key, value in values:
        _make_room(result, key, value)
    for key, value in values:
        put(result, key, value)
    return result


def _make_room(raw: Raw, key: str, value: Any) -> None:
    """Remove from `raw` what this value of the dotted key replaces."""
    if value is not None and key in ALTERNATIVES:
        section, other = ALTERNATIVES[key]
        if isinstance(found := raw.get(section), dict):
            found.pop(other, None)


def put(raw: Raw, key: str, value: Any) -> None:
    """Set a dotted key of `raw` in place, under today's name. Raises ConfigError if a part of the key is a value."""
    if key in FORMER:
        key, values = FORMER[key]
        value = values.get(value, value) if isinstance(value, str) else value
    for former in (former for former, (today, _) in FORMER.items() if today == key):
        place, name = former.split(".")
        if isinstance(found := raw.get(place), dict):
            found.pop(name, None)  # what is set now wins
    *sections, last = key.split(".")
    section = raw
    for part in sections:
        if part == SEED and isinstance(section.get(part), int):
            section[part] = {ALL: section[part]}
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise ConfigError(f"'{key}' names a key inside '{part}', which is a value and has none.")
    if last == SEED and isinstance(section.get(last), dict) and not isinstance(value, Mapping):
        section, last = section[last], ALL
    section[last] = value


def with_method(raw: Mapping[str, Any], name: str) -> Raw:
    """`raw` with another method. The replaced method's hyper-parameters do not carry over."""
    result = _copy(raw)
    if result.get("method", {}).get("name") != name:
        result["method"] = {"name": name}
    return result


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Raw:
    """`base`, overridden by `patch` section by section, with today's names. A value removes one that it replaces."""
    result, patch = renamed(base), renamed(patch)
    for key, (section, _) in ALTERNATIVES.items():
        if isinstance(given := patch.get(section), Mapping):
            _make_room(result, key, given.get(key.partition(".")[2]))
    for key, value in patch.items():
        before = result.get(key)
        if key == SEED and isinstance(before, dict) != isinstance(value, Mapping) and before is not None:
            before, value = ({ALL: each} if isinstance(each, int) else each for each in (before, value))
        if isinstance(value, Mapping) and isinstance(before, dict):
            result[key] = merged(before, value)
        else:
            result[key] = _copy(value) if isinstance(value, Mapping) else value
    return result


def flattened(raw: Mapping[str, Any], prefix: str = "") -> Raw:
    """The values under their dotted keys: {'training': {'lr': 0.1}} becomes {'training.lr': 0.1}."""
    flat: Raw = {}
    for key, value in raw.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    if f"{SEED}.{ALL}" in flat:
        flat = {SEED: flat.pop(f"{SEED}.{ALL}")} | flat
    return flat


def as_toml(raw: Mapping[str, Any]) -> str:
    """TOML text: plain values first, then one table per section. An unset key is a comment: TOML has no null."""
    return "\n".join(_lines(raw, ())) + "\n"


def toml_value(given: Any) -> str:
    """A value in one line of TOML. `with_overrides` reads it back."""
    match given:
        case Mapping():
            return "{ " + ", ".join(f"{_key(key)} = {toml_value(each)}" for key, each in given.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(toml_value, given)) + "]"
    # JSON's spelling of the rest is also TOML's, except for one character that TOML needs escaped.
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(section: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, each in section.items():
        if each is None:
            yield f"# {_key(key)} is not set"
        elif not isinstance(each, Mapping):
            yield f"{_key(key)} = {toml_value(each)}"
    for key, each in section.items():
        if isinstance(each, Mapping):
            inner = (*path, _key(key))
            yield ""
            yield f"[{'.'.join(inner)}]"
            yield from _lines(each, inner)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def _copy(raw: Mapping[str, Any]) -> Raw:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in raw.items()}


def parsed(text: str) -> Any:
    """A value as in `key=value`: TOML, or texts without quotes, which a shell removes, alone or in a list."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        inner = re.fullmatch(r"\[([^]\[{}\"'=]+)\]", text.strip())
        return [parsed(each.strip()) for each in inner[1].split(",") if each.strip()] if inner else text
