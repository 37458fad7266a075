"""Tables of a benchmark, its figures as a JSON file, and what has become of them since an earlier one.

Figures are numbers under a name such as `matrix/htm5/64/standalone/share`, whose last word says what is measured.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.table import Table

from simulator.base.environment import environment
from simulator.base.errors import ConfigError

WORDS = ("group", "method", "figure", "way", "what")
"""Columns of words, which begin at the left; numbers end at the right."""


@dataclass
class Sheet:
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Raises ValueError where its cells are not those of the columns."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for the columns {', '.join(self.columns)}")
        self.rows.append(cells)

    def fill(self, row: str, **values: object) -> None:
        """Add a row by its form, such as '{group}|{seconds:.2f}'."""
        self.add(*row.format(**values).split("|"))

    def shown(self) -> Table:
        table = Table(title=self.title)
        for column in self.columns:
            table.add_column(column, justify="left" if column in WORDS else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "\n".join([f"{self.title}:", "", *(f"| {' | '.join(cells)} |" for cells in lines)])


def placed(page: str, name: str, tables: str) -> str:
    """The page with `tables` between the comments <!-- name --> and <!-- /name -->. Raises ValueError without them."""
    found = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not found.search(page):
        raise ValueError(f"the page has no place for '{name}': <!-- {name} --> … <!-- /{name} -->")
    return found.sub(lambda match: f"{match[1]}\n{tables}\n{match[2]}", page)


Figures = Mapping[str, float]

FORMAT = "htfl-sim benchmark 1"
JUDGED = ("share", "times_plain")
"""Ratios of one run: the share of the matrix rate, and how many times as fast as the plain loop. Seconds of the wall
clock are shown, and not judged: they move with what else runs."""
TOLERANCE = 1.1
"""What changes by less than this factor is taken for scatter."""


@dataclass(frozen=True)
class Change:
    name: str
    before: float
    now: float

    @property
    def ratio(self) -> float:
        return self.now / self.before


CPU = torch.device("cpu")
CPU_INFO = Path("/proc/cpuinfo")
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16")
"""What torch's kernels use, by Linux's names. bf16 is fast with the two that are named after it."""


def machine(device: torch.device = CPU) -> dict[str, str | int]:
    """What figures of two runs must have in common to be compared: the processor, its cores, torch, and a GPU."""
    facts = environment(device, 1)
    found = {"cpu": facts["cpu"], "cores": os.cpu_count() or 1, "torch": facts["torch"]}
    return found if device.type == "cpu" else found | {"device": facts["device"]}


def features() -> list[str]:
    try:
        listed = CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    flags = next((line.split() for line in listed.splitlines() if line.startswith("flags")), [])
    return [feature for feature in FEATURES if feature in flags]


def write(path: Path, figures: Figures, device: torch.device = CPU) -> None:
    """Raises ConfigError where that cannot be done."""
    document = {
        "format": FORMAT,
        "machine": machine(device),
        "features": features(),
        "figures": dict(figures),
    }
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as failed:
        raise ConfigError(f"cannot write {path}: {failed.strerror}.") from failed


def refuse_unwritable(path: Path) -> None:
    """Raise ConfigError where figures cannot be written to this file later."""
    if (
        path.is_dir()
        or not path.parent.is_dir()
        or not os.access(path if path.exists() else path.parent, os.W_OK)
    ):
        raise ConfigError(
            f"cannot write {path}; give a file in a folder that is there and may be written to."
        )


def read(path: Path, device: torch.device = CPU) -> dict[str, float]:
    """The figures of an earlier run on this machine, and device. Raises ConfigError for anything else."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as failed:
        raise ConfigError(f"cannot read {path}: {failed.strerror}.") from failed
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as invalid:
        raise ConfigError(f"{path} is no JSON: {invalid}. Give a file that --json wrote.") from invalid
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ConfigError(f"{path} is not of the format '{FORMAT}'; give a file that --json wrote.")
    known = document.get("machine")
    then, now = known if isinstance(known, dict) else {}, machine(device)
    different = [
        f"{fact} {then.get(fact, 'unknown')}, here {here}"
        for fact, here in now.items()
        if then.get(fact) != here
    ]
    if different:
        raise ConfigError(
            f"{path} was measured on another machine, or by another torch ({'; '.join(different)}), and so says "
            "nothing about the code; measure both here."
        )
    figures = document.get("figures")
    if not isinstance(figures, dict) or not all(map(_is_figure, figures.values())):
        raise ConfigError(f"{path} has figures that are no positive numbers; give a file that --json wrote.")
    return {name: float(figure) for name, figure in figures.items()}


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def changes(before: Figures, now: Figures) -> list[Change]:
    return [Change(name, before[name], figure) for name, figure in now.items() if name in before]


def verdict(found: list[Change]) -> list[str]:
    """What got slower, a sentence each, the worst first; one sentence where nothing did or nothing compares."""
    judged = [change for change in found if change.name.rpartition("/")[2] in JUDGED]
    if not judged:
        return ["The two runs have no figure in common by which speed is judged."]
    slower = sorted((each for each in judged if each.ratio < 1 / TOLERANCE), key=lambda each: each.ratio)
    return [_sentence(change) for change in slower] or [
        f"Nothing got slower by more than {TOLERANCE - 1:.0%}, of {len(judged)} figures that compare."
    ]


def _sentence(change: Change) -> str:
    *where, kind = change.name.split("/")
    of = ", ".join(where[1:])
    then, now = change.before, change.now
    if kind == "share":
        return f"Slower: {of} trains at {now:.2f} of the matrix rate, before at {then:.2f}."
    return f"Slower: {of} is {now:.2f} times as fast as the plain loop, before {then:.2f} times."
