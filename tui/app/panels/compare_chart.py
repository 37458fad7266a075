"""The chart of Compare: a line for each session, or for all seeds of a study's, each with a fixed color."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from simulator.results.analysis import axes
from simulator.results.analysis.costs import Cost
from simulator.results.analysis.divergence import Divergence
from simulator.results.analysis.measures import (
    MEASURES,
    Line,
    Values,
    accuracy_of,
    after_fork,
    averaged,
    is_share,
    measured,
)
from simulator.results.analysis.parts import part_measures
from simulator.results.analysis.run import SessionData
from simulator.results.figures.palette import OKABE_ITO, in_order, looks_of
from simulator.studies.summary import Seeds
from tui.app.charts.figure import KEYS, Band, Figure, Series
from tui.app.panels.chart_parts import PERCENT, sizes
from tui.app.view import View

OF_CLIENTS = "accuracy of clients"
UNKNOWN = {
    "test loss": "None of these sessions has measured its test part. Early versions measured only accuracy.",
    "test F1": "None of these sessions has measured its test part. Early versions measured only accuracy.",
    "CKA": "None of these sessions has measured CKA. In a run that goes on c measures it, with a checkpoint; "
    "--set cka.every=5 has it measured every fifth round.",
    "selected on eval": "None of these sessions has an eval part to select rounds on; --set data.split=8:1:1 "
    "makes one.",
}
"""The sentence if no session has such a value."""
UNTRAINED = "These sessions have no score: every client diverged in every round."


def is_untrained(line: Seeds) -> bool:
    """Whether every client of one of its sessions diverged in every round."""
    return any(Divergence.of(run.totals).untrained for run in line.runs)


def shown_of(runs: Iterable[SessionData]) -> tuple[str, ...]:
    """The possible y axes: the measures, the users' own metrics of these sessions, and the accuracy of clients."""
    own = dict.fromkeys(
        name for run in runs for name in part_measures(run.records) if name not in ("loss", "f1")
    )
    return (*MEASURES, *own, OF_CLIENTS)


def key_of(place: int) -> str:
    return KEYS[place] if place < len(KEYS) else ""


def clients_of(view: View) -> list[int]:
    """The clients whose accuracies are compared: the pinned ones, else the selected one."""
    return sorted(view.pinned) or [view.selected]


def different_clients(lines: Sequence[Seeds], clients: Sequence[int]) -> list[str]:
    """A note if clients of one number have different data in these sessions, and so are different clients."""
    data = [(run, run.document.get("data_fingerprint")) for line in lines for run in line.runs]
    known = [(run, fingerprint) for run, fingerprint in data if fingerprint]
    others = [run for run, fingerprint in known if fingerprint != known[0][1]]
    if not others or not clients:
        return []
    numbers = ", ".join(map(str, clients))
    whose = f"Client {numbers} has" if len(clients) == 1 else f"Clients {numbers} have"
    said = f"{whose} other data in {others[0].name} than in {known[0][0].name}: these are different clients."
    mixed = any(len({run.document.get("data_fingerprint") for run in line.runs}) > 1 for line in lines)
    return [f"{said} A line over seeds is the mean of different clients." if mixed else said]


def figure(
    lines: Sequence[Seeds],
    places: Sequence[int],
    shown: str,
    cost: Cost,
    clients: Sequence[int],
    front: Path | None = None,
) -> Figure:
    """The lines over their costs. A fork starts where it left a shown session.

    If all are of one study, its name is left out. Of several bands, which would hide each other, one is shown: that of
    the line whose first session is `front`, else the first.
    """
    known = {run.document.get("id") for line in lines for run in line.runs}
    studies = {line.name.rpartition("/")[0] for line in lines}
    prefix = f"{studies.pop()}/" if len(studies) == 1 and len(lines) > 1 else "/"
    drawn = list[tuple[Seeds, str, int, int, Line]]()
    for session, place, (colour, again) in zip(lines, places, colours(lines, places), strict=True):
        if is_untrained(session):
            continue  # the accuracies of its first models are no result
        curves = _curves(session.label.removeprefix(prefix), key_of(place), shown, clients)
        for stroke, (key, name, values) in enumerate(curves, again * len(curves)):
            found = averaged(name, session.runs, after_fork(values, known), cost)
            drawn.append((session, key, colour, stroke, found))
    over, unit, x_unit = [line.x for *_, line in drawn], str(cost), 1.0
    if cost == "bytes":
        over, unit, x_unit = sizes(*over)
    plain = not (is_share(shown) or shown == OF_CLIENTS)
    scale = 1.0 if plain else PERCENT
    series, bands = list[Series](), dict[Path, Band]()
    for (session, key, colour, stroke, one), x in zip(drawn, over, strict=True):
        mean, short = one.mean * scale, session.name.removeprefix(prefix)
        series.append(Series(one.label, mean, x, True, colour, key, stroke, short))
        if one.std is not None:
            reach = one.std * scale
            band = Band(f"std over {one.n} seeds of {key}", mean - reach, mean + reach, x, colour)
            bands.setdefault(session.runs[0].folder, band)
    percent = "" if plain else "%"
    return Figure(
        series,
        bands.get(front or Path(), next(iter(bands.values()), None)),
        x_label=unit,
        unit=percent,
        crowd="sessions",
        bands=[*bands.values()],
        over=cost,
        x_unit=x_unit,
        named=True,
    )


def colours(lines: Sequence[Seeds], places: Sequence[int]) -> list[tuple[int, int]]:
    """Each line's color, and the number of earlier lines with the same.

    Lines of several methods have their methods' colors, as in every figure. Lines of one method have those of their
    slots.
    """
    looks = looks_of([axes.key_of(line.runs[0], ("method",))[0] for line in lines])
    if looks is None:
        return [(in_order(place).colour, place // len(OKABE_ITO)) for place in places]
    chosen = [look.colour for look in looks]
    return [(colour, chosen[:place].count(colour)) for place, colour in enumerate(chosen)]


def _curves(name: str, key: str, shown: str, clients: Sequence[int]) -> list[tuple[str, str, Values]]:
    """Key, name, and values of a session's line."""
    if shown != OF_CLIENTS:
        return [(key, name, partial(measured, measure=shown))]
    return [(f"{key}:{client}", name, partial(accuracy_of, client=client)) for client in clients]
