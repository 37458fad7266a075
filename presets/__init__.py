"""Named experiments of htfl-sim, for the rows and columns of the papers' tables.

This room knows only TOML: a preset's `config` is nested raw values, which `simulator.config.Config` reads and checks.
Listing all presets is quick and imports only the standard library.
"""

import difflib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from presets.family import Preset, Profile, Raw, Reference, layered, read

__all__ = [
    "PAPER",
    "Group",
    "Preset",
    "PresetError",
    "Profile",
    "Reference",
    "all",
    "groups",
    "load",
    "names",
]

PAPER = "paper"
"""The default profile of every preset: the settings in the paper's text."""

FAMILIES = ("quickstart", "cifar", "fedl2g", "fedkwaz", "inco", "case_study", "htfllib", "widths")
"""The papers in the order of listings."""


class PresetError(Exception):
    """A preset that does not exist. The message has the nearest name."""

    exit_code = 2


@dataclass(frozen=True)
class Group:
    """The presets of one table of one paper. `paper` and `table` are empty for presets that no paper printed."""

    paper: str
    table: str
    presets: tuple[str, ...]


def names() -> list[str]:
    """The name of every preset."""
    return list(_catalogue())


def load(name: str, profile: str = PAPER) -> Preset:
    """The preset of this name in a profile. Callers may change its `config`. Raises PresetError if there is none."""
    catalogue = _catalogue()
    if name not in catalogue:
        near = difflib.get_close_matches(name.lower().replace("-", "_"), catalogue, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise PresetError(f"unknown preset '{name}'.{hint} See `htfl-sim presets`.")
    preset = catalogue[name]
    known: dict[str, Raw] = {PAPER: {}, **{each.name: each.config for each in preset.profiles}}
    if profile not in known:
        raise PresetError(
            f"preset '{name}' has no profile '{profile}'; it has {', '.join(known)}. See `htfl-sim presets {name}`."
        )
    return replace(preset, config=layered([preset.config, known[profile]]))


def all() -> list[Preset]:
    """Every preset, as `load` returns it."""
    return [load(name) for name in names()]


def groups() -> list[Group]:
    """The presets by paper and table, for listings: first those without a printed result, then table by table.

    A preset with printed results in several papers is in several groups.
    """
    members: dict[tuple[str, str], list[str]] = {("", ""): []}
    for name, preset in _catalogue().items():
        tables = [(reference.paper, reference.table) for reference in preset.paper]
        for table in tables or [("", "")]:
            members.setdefault(table, []).append(name)
    return [Group(*table, tuple(presets)) for table, presets in sorted(members.items()) if presets]


@cache
def _catalogue() -> dict[str, Preset]:
    room = Path(__file__).parent
    return {preset.name: preset for family in FAMILIES for preset in read(room / f"{family}.toml")}
