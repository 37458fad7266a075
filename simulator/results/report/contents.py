"""What a report tells of some sessions, and its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from checkpoints import DiskError, SessionUnreadable
from simulator.base.errors import HtflError
from simulator.base.nested import flattened
from simulator.results.analysis.axes import seed_text, spelled
from simulator.results.analysis.comparison import differences
from simulator.results.analysis.events import description, is_alarming
from simulator.results.analysis.lineage import tree
from simulator.results.analysis.reproduction import command_lines
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.summary import Summary
from simulator.results.analysis.table import Table
from simulator.results.report.pictures import Picture, inline

ROUTINE = ("checkpoint",)
EVENTS = 200
"""The newest of a session that are told; its events.jsonl has them all."""


@dataclass(frozen=True)
class Grid:
    """A table of text; `numeric` are the columns that are flush right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]

    @classmethod
    def plain(cls, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Grid":
        return cls(tuple(columns), tuple(map(tuple, rows)), (False,) * len(columns))

    @classmethod
    def of(cls, table: Table) -> "Grid":
        """A comparison as it is printed."""
        shown = table.columns()
        return cls(
            tuple(column.name for column in shown),
            tuple(tuple(column.cell(row) for column in shown) for row in table.rows),
            tuple(column.numeric for column in shown),
        )


@dataclass(frozen=True)
class EventLine:
    """An event: when (UTC), in which session and after which round, in words, and whether it asks for attention."""

    at: str
    session: str
    round: str
    words: str
    alarming: bool


@dataclass(frozen=True)
class Again:
    """The commands that give a session's very bits again; where there are none, why."""

    session: str
    lines: tuple[str, ...]
    fault: str | None = None


@dataclass(frozen=True)
class Contents:
    """Everything a report tells. `asked`: the study file, if there is one. `left_out`: sessions that are damaged."""

    title: str
    sessions: int
    span: str
    asked: str | None
    remarks: tuple[str, ...]
    table: Grid
    pictures: tuple[Picture, ...]
    states: Grid
    differing: Grid
    common: tuple[tuple[str, str], ...]
    lineage: tuple[tuple[int, str], ...]
    """Of every session its depth in the tree of forks, and its name with where it branched off."""
    events: tuple[EventLine, ...]
    environments: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Sessions by name, and the environment they began in."""
    again: tuple[Again, ...]
    left_out: tuple[str, ...]


def gather(
    title: str,
    runs: Sequence[SessionData],
    table: Table,
    pictures: Sequence[Picture] = (),
    asked: str | None = None,
    left_out: Sequence[str] = (),
) -> Contents:
    """What there is to tell of sessions that were read in full. Loads the methods, for the commands, and torch."""
    return Contents(
        title=title,
        sessions=len(runs),
        span=_span(runs),
        asked=asked,
        remarks=tuple(table.remarks()),
        table=Grid.of(table),
        pictures=tuple(pictures),
        states=_states(runs),
        differing=_differing(runs),
        common=tuple(_common(runs)),
        lineage=tuple(_lineage(runs)),
        events=tuple(event for run in runs for event in _told(run)),
        environments=tuple(_environments(runs)),
        again=tuple(map(_again, runs)),
        left_out=tuple(left_out),
    )


def _span(runs: Sequence[SessionData]) -> str:
    """From when to when the sessions ran, as days."""
    days = sorted(str(event.get("at", ""))[:10] for run in runs for event in run.events if event.get("at"))
    return "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def _states(runs: Sequence[SessionData]) -> Grid:
    rows = [
        (
            run.name,
            " → ".join(name for _, name in run.methods),
            spelled(run.config.get("data", {}).get("dataset")),
            seed_text(run.config),
            run.state,
            f"{run.round} of {run.rounds}",
        )
        for run in runs
    ]
    columns = ("session", "method", "dataset", "seed", "state", "rounds")
    return Grid(columns, tuple(rows), (False, False, False, True, False, True))


def _differing(runs: Sequence[SessionData]) -> Grid:
    rows = [(name, *map(spelled, map(_hashable, values))) for name, values in differences(runs)]
    return Grid.plain(("setting", *(run.name for run in runs)), rows)


def _common(runs: Sequence[SessionData]) -> list[tuple[str, str]]:
    apart = {name for name, _ in differences(runs)}
    return [
        (name, spelled(_hashable(value)))
        for name, value in flattened(runs[0].config).items()
        if name not in apart and value is not None
    ]


def _lineage(runs: Sequence[SessionData]) -> list[tuple[int, str]]:
    """Nothing where no session is a fork."""
    found = tree([Summary.read(run.folder) for run in runs])
    if all(branch.summary.parent is None for branch in found):
        return []
    lines = []
    for branch in found:
        parent = branch.summary.parent
        of = f" — from {parent['name']} at round {parent['round']}" if parent else ""
        lines.append((len(branch.last), f"{branch.summary.name}{of}"))
    return lines


def _told(run: SessionData) -> list[EventLine]:
    events = [event for event in run.events if event.get("event") not in ROUTINE]
    return [
        EventLine(
            at=str(event.get("at", ""))[:19].replace("T", " "),
            session=run.name,
            round=str(event.get("round", "")),
            words=description(event),
            alarming=is_alarming(event),
        )
        for event in events[-EVENTS:]
    ]


def _environments(runs: Sequence[SessionData]) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Sessions that began in the same environment together."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        environment = flattened(run.document.get("environment", {}))
        known = tuple((key, spelled(_hashable(value))) for key, value in environment.items())
        found.setdefault(known, []).append(run.name)
    return [(", ".join(names), known) for known, names in found.items()]


def _again(run: SessionData) -> Again:
    try:
        return Again(run.name, tuple(command_lines(run.folder)))
    except (HtflError, SessionUnreadable, DiskError) as error:
        return Again(run.name, (), str(error))


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def page(contents: Contents) -> str:
    """The contents as one HTML file; it links to nothing and runs no script."""
    here = resources.files("simulator.results.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((here / "page.html.jinja").read_text(encoding="utf-8"))
    drawn = [
        (Markup(inline(picture.figure, number)), picture)
        for number, picture in enumerate(contents.pictures, 1)
    ]
    style = Markup((here / "style.css").read_text(encoding="utf-8"))
    return template.render(it=contents, figures=drawn, style=style)
