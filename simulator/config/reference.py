"""Every key of a configuration, with what it takes, its default and what it means; the methods' own included."""

import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from simulator import methods
from simulator.base.errors import ConfigError, nearest
from simulator.base.sections import MethodConfig, Section
from simulator.config import Config, section_key, section_of

_NAMES = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


@dataclass(frozen=True)
class Setting:
    """A dotted key. default: None if it is not set. methods: those that have the key."""

    key: str
    takes: str
    default: Any
    description: str
    methods: tuple[str, ...] = ()


def settings() -> list[Setting]:
    """Every key that all runs have, in the order of the configuration."""
    found, whole = list[Setting](), {each.key: each for each in _settings(Config)}
    for name, field in Config.model_fields.items():
        if name not in ("preset", "profile", "method"):
            section = section_of(field.annotation)
            found += [whole[name]] if section is None else _settings(section, f"{section_key(name)}.")
    return found


def settings_of(method: str) -> list[Setting]:
    """A method's own keys. Raises ConfigError for an unknown method."""
    return [
        replace(each, methods=(method,))
        for each in _settings(methods.declared(method).Config, "method.")
        if each.key.removeprefix("method.") not in MethodConfig.model_fields
    ]


def setting(key: str) -> list[Setting]:
    """The setting of that key; of a method's key, one for each method that has it. Raises ConfigError."""
    every = settings()
    if found := [each for each in every if each.key == key]:
        return found
    own = [each for method in methods.names() for each in settings_of(method)]
    if found := [each for each in own if each.key == key]:
        return list(_joined(found))
    known = list(dict.fromkeys(each.key for each in (*every, *own)))
    ends = [each for each in known if each.rpartition(".")[2] == key]
    hint = f" Did you mean '{ends[0]}'?" if ends else nearest(key, known)
    raise ConfigError(f"there is no key '{key}'.{hint} See `htfl-sim config`.")


def _joined(found: list[Setting]) -> Iterator[Setting]:
    """Methods that have a key alike, in one."""
    alike: dict[str, list[Setting]] = {}
    for each in found:
        alike.setdefault(repr(replace(each, methods=())), []).append(each)
    for group in alike.values():
        yield replace(group[0], methods=tuple(name for each in group for name in each.methods))


def _settings(section: type[Section], prefix: str = "") -> Iterator[Setting]:
    """The keys of a section."""
    meanings = section.meanings()
    for key, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        bounds = [
            f"{sign} {getattr(limit, name):g}"
            for limit in field.metadata
            for name, sign in _BOUNDS.items()
            if getattr(limit, name, None) is not None and abs(getattr(limit, name)) < 2**53
        ]
        takes = ", ".join([_takes(field.annotation), *bounds])
        default = None if default is PydanticUndefined else default
        yield Setting(f"{prefix}{key}", takes, default, meanings[key])


def _takes(annotation: Any) -> str:
    """What a value may be, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _takes(inner[0])
    if origin is Literal:
        return " | ".join(str(each) for each in inner)
    if origin in (Union, types.UnionType):
        return " | ".join(_takes(each) for each in inner if each is not type(None))
    if origin is dict:
        return f"table of {_takes(inner[1])}"
    if origin is tuple:
        of = _takes(inner[0])
        return f"list of {of}" if " | " not in of else f"list of ({of})"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))
