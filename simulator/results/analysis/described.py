"""All settings of one session beside those of another: its parent, its preset, or a marked one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.base.nested import flattened


@dataclass(frozen=True)
class Setting:
    """A setting by its dotted name. value, other: None where it is unset. differs: whether they are unequal."""

    name: str
    value: Any
    other: Any
    differs: bool


def described(config: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> list[Setting]:
    """Every setting of either, those that differ first, otherwise in the order of the configuration.

    other: the settings to compare with; None: nothing differs.
    """
    own = flattened(config)
    beside = own if other is None else flattened(other)
    found = [
        Setting(name, own.get(name), beside.get(name), own.get(name) != beside.get(name))
        for name in dict.fromkeys([*own, *beside])
    ]
    return sorted(found, key=lambda each: not each.differs)
