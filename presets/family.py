"""A family of presets: one TOML file that says what they share, where they differ, and what was printed.

The file holds `config`, the nested configuration keys all presets share, and perhaps a `name` and a `title` that
begin every preset's. Then, each as needed:

- `axes.<axis>.<option>` with `title`, `suffix` and `config`: a preset is one option of every axis, whose titles and
  suffixes it joins (the key stands in for a suffix that is not given; either may be empty);
- `combination` entries with `where` (options by axis) and `config`: patches for options that meet;
- `profile` entries with a `name`, `where`, `source` and `config`: what else a preset sets when it is asked for in that
  profile. Without one it is the paper's own ("paper"): what the text says, its gaps filled as the file says;
- `printed` entries: the tables of papers, giving presets the accuracies to compare themselves with. A cell belongs
  to the preset of its row, its column and `where`; on an axis that none of them names, of the first option. A cell
  is a number, "-" for a run that the paper says failed to converge, or "n/a" where it prints nothing;
- `printed_only`, of the whole family or of an option: its presets are those that some table prints.
"""

import copy
import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Raw = dict[str, Any]
Choice = dict[str, str]  # axis → option


@dataclass(frozen=True)
class Reference:
    """One number a paper printed: `accuracy` is the mean over clients of their test accuracy, percent.

    None where the paper says that the run failed to converge.
    """

    paper: str
    table: str
    row: str
    column: str
    accuracy: float | None
    note: str = ""

    @property
    def place(self) -> str:
        """Where it stands: paper, table, row and, if the table has several, column."""
        return ", ".join(part for part in (self.paper, self.table, self.row, self.column) if part)

    @property
    def shown(self) -> str:
        """The number as a listing shows it."""
        return "failed to converge" if self.accuracy is None else f"{self.accuracy:.2f} %"


@dataclass(frozen=True)
class Profile:
    """Another reading of an experiment: its name, the keys it sets over the preset's own, and where they were read."""

    name: str
    config: Raw
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Preset:
    """A named experiment: the configuration keys it sets, and the printed results it can be held to."""

    name: str
    title: str
    config: Raw
    paper: tuple[Reference, ...] = ()
    profiles: tuple["Profile", ...] = ()
    """What else there is than the paper's own settings."""


def read(path: Path) -> list[Preset]:
    """Every preset of the family, the last axis varying fastest."""
    family = tomllib.loads(path.read_text(encoding="utf-8"))
    axes = family.get("axes", {})
    printed: dict[tuple[str, ...], list[Reference]] = {}
    for table in family.get("printed", []):
        for choice, reference in _cells(axes, table):
            printed.setdefault(tuple(choice[axis] for axis in axes), []).append(reference)
    presets = []
    for options in itertools.product(*axes.values()):
        if options in printed or not _is_printed_only(family, options):
            choice = dict(zip(axes, options, strict=True))
            presets.append(_preset(family, choice, printed.get(options, [])))
    return presets


def _preset(family: Raw, choice: Choice, references: Iterable[Reference]) -> Preset:
    options = {axis: family["axes"][axis][option] for axis, option in choice.items()}
    suffixes = [options[axis].get("suffix", option) for axis, option in choice.items()]
    titles = [option["title"] for option in options.values()]
    combinations = [entry for entry in family.get("combination", []) if _meets(choice, entry["where"])]
    return Preset(
        name="_".join(part for part in [family.get("name", ""), *suffixes] if part),
        title=", ".join(part for part in [family.get("title", ""), *titles] if part),
        config=layered(part.get("config", {}) for part in [family, *options.values(), *combinations]),
        paper=tuple(references),
        profiles=_profiles(entry for entry in family.get("profile", []) if _meets(choice, entry["where"])),
    )


def _profiles(entries: Iterable[Raw]) -> tuple[Profile, ...]:
    """The entries that meet a preset, those of one name laid over one another."""
    by_name: dict[str, list[Raw]] = {}
    for entry in entries:
        by_name.setdefault(entry["name"], []).append(entry)
    return tuple(
        Profile(
            name,
            layered(entry["config"] for entry in found),
            tuple(dict.fromkeys(entry["source"] for entry in found)),
        )
        for name, found in by_name.items()
    )


def _cells(axes: Raw, table: Raw) -> Iterator[tuple[Choice, Reference]]:
    """The cells of a printed table, each with the choice of the preset that it belongs to."""
    first = {axis: next(iter(options)) for axis, options in axes.items()}
    for axis, rows in table["rows"].items():
        for option, cells in rows.items():
            for column, cell in zip(_choices(table.get("columns", {})), cells, strict=True):
                if cell == "n/a":
                    continue
                choice = first | table.get("where", {}) | column | {axis: option}
                heading = [axes[each][chosen]["title"] for each, chosen in column.items()]
                notes = [note["text"] for note in table.get("notes", []) if _meets(choice, note["where"])]
                yield (
                    choice,
                    Reference(
                        paper=table["paper"],
                        table=table["table"],
                        row=axes[axis][option]["title"],
                        column=", ".join(title for title in heading if title),
                        accuracy=None if cell == "-" else cell,
                        note="; ".join(notes),
                    ),
                )


def _is_printed_only(family: Raw, options: tuple[str, ...]) -> bool:
    if family.get("printed_only", False):
        return True
    chosen = (
        family["axes"][axis][option] for axis, option in zip(family.get("axes", {}), options, strict=True)
    )
    return any(option.get("printed_only", False) for option in chosen)


def _choices(axes: Mapping[str, Iterable[str]]) -> list[Choice]:
    return [dict(zip(axes, options, strict=True)) for options in itertools.product(*axes.values())]


def _meets(choice: Choice, where: Mapping[str, str | list[str]]) -> bool:
    """Whether a choice has, on every axis named, the option or one of the options."""
    return all(
        choice[axis] in (options if isinstance(options, list) else [options])
        for axis, options in where.items()
    )


def layered(patches: Iterable[Raw]) -> Raw:
    """The patches laid over one another, section by section, the later ones on top."""
    result: Raw = {}
    for patch in patches:
        for key, value in patch.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                result[key] = layered([below, value])
            else:
                result[key] = copy.deepcopy(value)
    return result
