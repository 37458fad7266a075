"""What a report tells of some sessions, and its page: `page.html.jinja` with `style.css`.

    Path("t3.html").write_text(page(gather("t3", runs, table(runs), figures)))

The same sessions give the same bytes.
"""

import io
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from checkpoints import DiskError, SessionUnreadable
from simulator.base.errors import HtflError
from simulator.base.nested import flattened
from simulator.results.analysis.axes import key_of, seed_words, seeds_of, spelled
from simulator.results.analysis.comparison import Select, Table, differences
from simulator.results.analysis.events import description, is_alarming
from simulator.results.analysis.overview import Summary, tree
from simulator.results.analysis.reproduction import command_lines
from simulator.results.analysis.run import SessionData
from simulator.results.figures import accuracy, clients, sensitivity
from simulator.results.figures.clients import partition
from simulator.results.figures.timeline import timeline
from simulator.results.inspection.partition import of_session

_NAMED = re.compile(r'(\bid="|url\(#|href="#)')
_PROLOGUE = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_BLACK = re.compile(r"(fill|stroke): ?#(?:000000|262626)\b")
"""What a figure draws its text and its axes in; on a dark page they are light."""


@dataclass(frozen=True)
class Picture:
    """A figure with what stands under it: what it shows, and the command that draws it."""

    caption: str
    command: str
    figure: Figure

    @property
    def wide(self) -> bool:
        """Whether it is drawn for a whole page, not for a column."""
        return bool(self.figure.get_figwidth() > 5)


def inline(figure: Figure, number: int) -> str:
    """An <svg> element as wide as its place, up to a third more than drawn; `number` tells figures of a page apart."""
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": f"figure {number}"}
    text = io.StringIO()
    with matplotlib.rc_context(style):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = _METADATA.sub("", _PROLOGUE.sub("", text.getvalue()))
    svg = _NAMED.sub(rf"\1f{number}-", svg)
    svg = _BLACK.sub(r"\1: currentColor", svg)
    head, rest = svg.split(">", 1)
    width = figure.get_figwidth()
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} fill="currentColor" style="max-width: {1.35 * width:.2f}in" role="img">{rest}'.strip()


Kind = tuple[str, tuple[str, ...], str, Callable[[], Figure]]
"""What `htfl-sim plot` calls it, its options besides --by, the caption, and how it is drawn."""
OF_ONE = ("partition", "cka", "timeline")


def pictures(
    names: Sequence[str],
    runs: Sequence[SessionData],
    by: Sequence[str],
    select: Select | None,
    sessions_dir: Path,
    data_dir: Path,
) -> list[Picture]:
    """The figures of sessions that were read in full, grouped by the axes; what has nothing to show is left out.

    names: what was typed for the sessions. The partition is of the first one, whose data are loaded, if they are there.
    """
    folder = runs[0].folder
    first = (
        folder.relative_to(sessions_dir).as_posix() if folder.is_relative_to(sessions_dir) else str(folder)
    )
    found = []
    for kind, options, caption, draw in _kinds(runs, by, select, first, data_dir):
        try:
            figure = draw()
        except HtflError:
            continue
        grouped = [] if kind in (*OF_ONE, "heatmap") else [word for axis in by for word in ("--by", axis)]
        if kind == "sensitivity":
            grouped = [word for axis in by if axis not in options for word in ("--by", axis)]
        of = [first] if kind in OF_ONE else names
        file = "-".join([kind, *options[1:2]]) + ".pdf"
        words = ["htfl-sim", "plot", kind, *of, *grouped, *options, "--out", file]
        found.append(Picture(caption, shlex.join(words), figure))
    return found


def _kinds(
    runs: Sequence[SessionData], by: Sequence[str], select: Select | None, first: str, data_dir: Path
) -> Iterator[Kind]:
    """All that there may be, in order; `first` is what the first session is called, whose own figures come last."""
    seeds = "Mean test accuracy; bands are one sample standard deviation over seeds."
    yield "accuracy", (), seeds, lambda: accuracy.over(runs, by=by)
    if any(run.totals.traffic.any() for run in runs):
        over = "The same over the bytes sent, up and down."
        yield "accuracy", ("--x", "bytes"), over, lambda: accuracy.over(runs, by=by, x="bytes")
    single = "Test accuracies of single clients after the last round; a diamond is their mean."
    yield "box", (), single, lambda: accuracy.boxes(runs, by=by)
    if len({key_of(run, by) for run in runs}) > 1:
        spent = "Best accuracy against traffic; a mark's area is the computation."
        yield "tradeoff", (), spent, lambda: accuracy.tradeoff(runs, by=by)
    plain = "Mean cross-entropy of the clients' models in training, without what methods add to it."
    yield "loss", (), plain, lambda: accuracy.losses(runs, by=by)
    numeric = [axis for axis in by if _numeric([key_of(run, (axis,))[0] for run in runs])]
    chosen = ("--select", select) if select else ()
    for axis in numeric:
        others = [each for each in by if each != axis]
        curve = partial(sensitivity.curve, runs, axis=axis, by=others, select=select)
        yield "sensitivity", ("--axis", axis, *chosen), f"Test accuracy over the values of {axis}.", curve
    if len(numeric) > 1:
        one, two = numeric[:2]
        heat = partial(sensitivity.heatmap, runs, axes=(one, two), select=select)
        yield "heatmap", ("--axis", one, "--axis", two, *chosen), f"Test accuracy over {one} and {two}.", heat
    layers = "CKA between clients, by layer and round."
    yield "cka-curves", (), layers, lambda: clients.cka_curves(runs, by=by)
    inco = "Coefficients of InCo Aggregation, by layer."
    yield "inco", (), inco, lambda: clients.coefficients(runs, by=by)
    run = runs[0]
    yield "cka", (), f"CKA between the clients of {first}, last measured.", lambda: clients.cka_matrices(run)
    if run.records and "time" in run.records[-1]:
        when = f"Who receives, trains, sends, and waits in the last rounds of {first}, in simulated time."
        yield "timeline", (), when, lambda: timeline(run)
    held = f"Training images of each class that each client of {first} holds."
    yield "partition", (), held, lambda: partition(of_session(run.folder, data_dir))


def _numeric(values: Sequence[Any]) -> bool:
    known = {value for value in values if value is not None}
    return len(known) > 1 and all(isinstance(value, int | float) for value in known)


STATES = ("session", "method", "dataset", "seed", "state", "rounds")
ROUTINE = ("checkpoint",)
EVENTS = 200
"""The newest of a session that are told; its events.jsonl has them all."""


@dataclass(frozen=True)
class Grid:
    """A table of text; `numeric` are the columns that are flush right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]


def gather(
    title: str,
    runs: Sequence[SessionData],
    table: Table,
    pictures: Sequence[Picture] = (),
    asked: str | None = None,
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """What the page tells of sessions that were read in full. Loads the methods, for the commands, and torch.

    asked: the study file, if there is one. left_out: sessions that are damaged. lineage: of every session its depth in
    the tree of forks, and its name with where it branched off. again: commands that give its bits again, or why none.
    """
    shown, apart = table.columns(), differences(runs)
    days = sorted(str(event.get("at", ""))[:10] for run in runs for event in run.events if event.get("at"))
    states = []
    for run in runs:
        methods, data = " → ".join(name for _, name in run.methods), run.config.get("data", {}).get("dataset")
        rounds = f"{run.round} of {run.rounds}"
        states.append(
            (run.name, methods, spelled(data), seed_words(*seeds_of(run.config)), run.state, rounds)
        )
    environments: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        known = flattened(run.document.get("environment", {}))
        environments.setdefault(tuple((key, spelled(known[key])) for key in known), []).append(run.name)
    return {
        "title": title,
        "sessions": len(runs),
        "span": " to ".join(dict.fromkeys([*days[:1], *days[-1:]])),
        "asked": asked,
        "remarks": table.remarks(),
        "table": Grid(
            [column.name for column in shown],
            [[column.cell(row) for column in shown] for row in table.rows],
            [column.numeric for column in shown],
        ),
        "pictures": pictures,
        "states": Grid(STATES, states, [name in ("seed", "rounds") for name in STATES]),
        "differing": Grid(
            ("setting", *(run.name for run in runs)),
            [(name, *map(spelled, values)) for name, values in apart],
            [False] * (1 + len(runs)),
        ),
        "common": [
            (name, spelled(value))
            for name, value in flattened(runs[0].config).items()
            if value is not None and name not in dict(apart)
        ],
        "lineage": _lineage(runs),
        "events": [event for run in runs for event in _told(run)],
        "environments": [(", ".join(names), known) for known, names in environments.items()],
        "again": [{"session": run.name, **_again(run)} for run in runs],
        "left_out": left_out,
    }


def _lineage(runs: Sequence[SessionData]) -> list[tuple[int, str]]:
    """Nothing where no session is a fork."""
    found = tree([Summary.read(run.folder) for run in runs])
    if all(branch.summary.parent is None for branch in found):
        return []
    lines = []
    for branch in found:
        of = " — from {name} at round {round}".format(**parent) if (parent := branch.summary.parent) else ""
        lines.append((len(branch.last), f"{branch.summary.name}{of}"))
    return lines


def _told(run: SessionData) -> list[dict[str, Any]]:
    """The events: when (UTC), in which session and after which round, in words, and whether it asks for attention."""
    events = [event for event in run.events if event.get("event") not in ROUTINE]
    return [
        {
            "at": str(event.get("at", ""))[:19].replace("T", " "),
            "session": run.name,
            "round": str(event.get("round", "")),
            "words": description(event),
            "alarming": is_alarming(event),
        }
        for event in events[-EVENTS:]
    ]


def _again(run: SessionData) -> dict[str, Any]:
    try:
        return {"lines": command_lines(run.folder), "fault": None}
    except (HtflError, SessionUnreadable, DiskError) as error:
        return {"lines": (), "fault": str(error)}


def page(contents: Mapping[str, Any]) -> str:
    """The contents as one HTML file; it links to nothing and runs no script."""
    here = resources.files("simulator.results.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((here / "page.html.jinja").read_text(encoding="utf-8"))
    pictures = contents["pictures"]
    drawn = [(Markup(inline(each.figure, number)), each) for number, each in enumerate(pictures, 1)]
    style = Markup((here / "style.css").read_text(encoding="utf-8"))
    return template.render(it=contents, figures=drawn, style=style)
