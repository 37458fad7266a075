"""A family of presets: one TOML file with their common settings, their differences, and the printed results.

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
    profiles: tuple["Profile", ...] = ()
    """The other profiles besides the paper's own settings."""


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
        choice = dict(zip(axes, options, strict=True))
        if any(_meets(choice, entry["where"]) for entry in family.get("without", [])):
            continue
        if options in printed or not _is_printed_only(family, options):
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
    """The entries that apply to a preset. Entries of one name are merged."""
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
    """The cells of a printed table, each with its preset's choice of options."""
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
    """Whether a choice has, on every named axis, the option or one of the options."""
    return all(
        choice[axis] in (options if isinstance(options, list) else [options])
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
