"""Named experiments of htfl-sim, for the rows and columns of the papers' tables.

This room knows only TOML: a preset's `config` is nested raw values, which `simulator.config.Config` reads and checks.
Listing all presets is quick and imports only the standard library.

A family of presets: one TOML file with their common settings, their differences, and the printed results.

The file has `config`, the nested configuration keys of all presets, and optionally a `name` and a `title` that begin
every preset's. Then, as needed:

- `axes.<axis>.<option>` with `title`, `suffix`, and `config`: a preset is one option of every axis. It joins their
  titles and suffixes (the key replaces a missing suffix; either may be empty);
- `combination` entries with `where` (options by axis) and `config`: patches for combinations of options;
- `without` entries with `where`: combinations of options that are no presets;
- `profile` entries with a `name`, `where`, `source`, and `config`: additional settings of a preset in that profile. The
  default is the paper's own ("paper"): the settings in its text, completed by the file;
- `printed` entries: the tables of papers, with the accuracies for comparison. A cell belongs to the preset of its row,
  its column, and `where`; on other axes, to the first option. A cell is a number, "-" for a run that the paper says
  failed to converge, or "n/a" if it prints nothing;
- `printed_only`, of the whole family or of an option: only presets that a table prints.
"""

import copy
import difflib
import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

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

Raw = dict[str, Any]
Choice = dict[str, str]
"""The option of each axis."""


@dataclass(frozen=True)
class Reference:
    """One number in a paper: `accuracy` is the mean over clients of their test accuracy, in percent.

    None if the paper says that the run failed to converge.
    """

    paper: str
    table: str
    row: str
    column: str
    accuracy: float | None
    note: str = ""

    @property
    def place(self) -> str:
        """Its place: paper, table, row, and, if the table has several, column."""
        return ", ".join(part for part in (self.paper, self.table, self.row, self.column) if part)

    @property
    def shown(self) -> str:
        """The number as in a listing."""
        return "failed to converge" if self.accuracy is None else f"{self.accuracy:.2f} %"


@dataclass(frozen=True)
class Profile:
    """Another reading of an experiment: its name, the keys that it changes, and their source."""

    name: str
    config: Raw
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Preset:
    """A named experiment: its configuration keys, and the printed results for comparison."""

    name: str
    title: str
    config: Raw
    paper: tuple[Reference, ...] = ()
    profiles: tuple[Profile, ...] = ()
    """The other profiles besides the paper's own settings."""


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
    return {preset.name: preset for family in FAMILIES for preset in _read(room / f"{family}.toml")}


def _read(path: Path) -> list[Preset]:
    """Every preset of the family, the last axis varying fastest."""
    family = tomllib.loads(path.read_text(encoding="utf-8"))
    axes = family.get("axes", {})
    printed: dict[tuple[str, ...], list[Reference]] = {}
    for table in family.get("printed", []):
        for choice, reference in _cells(axes, table):
            printed.setdefault(tuple(choice[axis] for axis in axes), []).append(reference)
    presets = []
    for options in itertools.product(*axes.values()):
        choice = dict(zip(axes, options, strict=True))
        if any(_meets(choice, entry["where"]) for entry in family.get("without", [])):
            continue
        levels = [family, *(axes[axis][option] for axis, option in choice.items())]
        if options in printed or not any(level.get("printed_only", False) for level in levels):
            presets.append(_preset(family, choice, printed.get(options, [])))
    return presets


def _preset(family: Raw, choice: Choice, references: Iterable[Reference]) -> Preset:
    options = {axis: family["axes"][axis][option] for axis, option in choice.items()}
    suffixes = [options[axis].get("suffix", option) for axis, option in choice.items()]
    titles = [option["title"] for option in options.values()]
    combinations = [entry for entry in family.get("combination", []) if _meets(choice, entry["where"])]
    by_name: dict[str, list[Raw]] = {}
    for entry in family.get("profile", []):
        if _meets(choice, entry["where"]):
            by_name.setdefault(entry["name"], []).append(entry)
    profiles = []
    for name, found in by_name.items():
        sources = dict.fromkeys(entry["source"] for entry in found)
        profiles.append(Profile(name, layered(entry["config"] for entry in found), tuple(sources)))
    return Preset(
        name="_".join(part for part in [family.get("name", ""), *suffixes] if part),
        title=", ".join(part for part in [family.get("title", ""), *titles] if part),
        config=layered(part.get("config", {}) for part in [family, *options.values(), *combinations]),
        paper=tuple(references),
        profiles=tuple(profiles),
    )


def _cells(axes: Raw, table: Raw) -> Iterator[tuple[Choice, Reference]]:
    """The cells of a printed table, each with its preset's choice of options."""
    first = {axis: next(iter(options)) for axis, options in axes.items()}
    columns = table.get("columns", {})
    choices = [dict(zip(columns, options, strict=True)) for options in itertools.product(*columns.values())]
    for axis, rows in table["rows"].items():
        for option, cells in rows.items():
            for column, cell in zip(choices, cells, strict=True):
                if cell == "n/a":
                    continue
                choice = first | table.get("where", {}) | column | {axis: option}
                heading = [axes[each][chosen]["title"] for each, chosen in column.items()]
                notes = [note["text"] for note in table.get("notes", []) if _meets(choice, note["where"])]
                reference = Reference(
                    paper=table["paper"],
                    table=table["table"],
                    row=axes[axis][option]["title"],
                    column=", ".join(title for title in heading if title),
                    accuracy=None if cell == "-" else cell,
                    note="; ".join(notes),
                )
                yield choice, reference


def _meets(choice: Choice, where: Mapping[str, str | list[str]]) -> bool:
    """Whether a choice has, on every named axis, the option or one of the options."""
    return not any(
        choice[axis] not in (options if isinstance(options, list) else [options])
        for axis, options in where.items()
    )


def layered(patches: Iterable[Raw]) -> Raw:
    """The patches, merged section by section. Later ones win."""
    result: Raw = {}
    for patch in patches:
        for key, value in patch.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                result[key] = layered([below, value])
            else:
                result[key] = copy.deepcopy(value)
    return result
