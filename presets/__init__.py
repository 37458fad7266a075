"""Named experiments, for the rows and columns of the papers' tables.

This room knows TOML and nothing else: a preset's `config` is nested raw values, for `simulator.config.Config`
to read and judge. Listing them all takes a blink and imports only the standard library.
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
"""The profile of every preset: what the paper's text says."""

FAMILIES = ("quickstart", "cifar", "fedl2g", "inco", "case_study", "htfllib", "widths")
"""In the order in which they are listed."""


class PresetError(Exception):
    """A preset that does not exist; the message names the nearest one that does."""

    exit_code = 2


@dataclass(frozen=True)
class Group:
    """The presets of one table of one paper; `paper` and `table` are empty for those no paper printed."""

    paper: str
    table: str
    presets: tuple[str, ...]


def names() -> list[str]:
    """The name of every preset."""
    return list(_catalogue())


def load(name: str, profile: str = PAPER) -> Preset:
    """The preset of this name in a profile; its `config` is the caller's to change. PresetError if there is none."""
    catalogue = _catalogue()
    if name not in catalogue:
        near = difflib.get_close_matches(name, catalogue, n=1, cutoff=0.5)
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
    """Every preset, as `load` gives it."""
    return [load(name) for name in names()]


def groups() -> list[Group]:
    """The presets by paper and table, for listing: first those without a printed result, then table by table.

    A preset whose result several papers print stands in several groups.
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
