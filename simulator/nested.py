"""Configurations as nested plain values, before they are judged: read from TOML, overridden, laid over one another."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError

Raw = dict[str, Any]


def read_toml(path: Path) -> Raw:
    """A configuration file as nested mappings. Raises ConfigError when it is missing or no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as unreadable:
        raise ConfigError(f"cannot read {path}: {unreadable.strerror}.") from unreadable
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as invalid:
        raise ConfigError(f"{path} is not valid TOML: {invalid}.") from invalid


def with_overrides(raw: Mapping[str, Any], assignments: Iterable[str]) -> Raw:
    """`raw` with dotted assignments such as 'training.epochs=10' applied; values are TOML, bare words are strings.

    Raises ConfigError for one that is not `key=value`.
    """
    result = _copy(raw)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        path = key.strip().split(".")
        if not equals or not all(path):
            raise ConfigError(f"'{assignment}' is not key=value; for example: --set training.epochs=10.")
        section = result
        for part in path[:-1]:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise ConfigError(f"'{key}' names a key inside '{part}', which is a value and has none.")
        section[path[-1]] = _toml_value(text.strip())
    return result


def with_method(raw: Mapping[str, Any], name: str) -> Raw:
    """`raw` with another method; the hyper-parameters of the one it replaces do not carry over."""
    result = _copy(raw)
    if result.get("method", {}).get("name") != name:
        result["method"] = {"name": name}
    return result


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Raw:
    """`base` with `patch` laid over it, section by section."""
    result = _copy(base)
    for key, value in patch.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = _copy(value) if isinstance(value, Mapping) else value
    return result


def flattened(raw: Mapping[str, Any], prefix: str = "") -> Raw:
    """The values under their dotted keys: {'training': {'lr': 0.1}} becomes {'training.lr': 0.1}."""
    flat: Raw = {}
    for key, value in raw.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _copy(raw: Mapping[str, Any]) -> Raw:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in raw.items()}


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
