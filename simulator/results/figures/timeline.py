"""Who receives, trains, sends, and waits when: clients over simulated time."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from simulator.results.analysis.run import SessionData
from simulator.results.analysis.timeline import Phase, Timeline
from simulator.results.analysis.timeline import timeline as timeline_of
from simulator.results.figures import style
from simulator.results.figures.grouped import scaled
from simulator.results.figures.style import Width

SHOWN: dict[Phase, tuple[str, str]] = {
    "latency": ("latency", style.hexadecimal(0xB8B8B8)),
    "down": ("downlink", style.colour(1)),
    "compute": ("training", style.colour(4)),
    "up": ("uplink", style.colour(0)),
    "wait": ("waiting", style.hexadecimal(0xE8E8E8)),
}
"""What each phase is called, and its color."""
FATES: dict[str, tuple[str, str, str]] = {
    "lost": ("lost", "x", style.colour(5)),
    "late": ("late, dropped", "v", style.colour(5)),
    "stale": ("too old, dropped", "s", style.colour(5)),
    "dropped": ("lost on the wire", "+", style.colour(5)),
}
"""The marks of work that is not used: its name, marker, and color."""
_ROW, _FRAME = 0.11, 0.95
"""Inches of a row, and of what is around the rows."""
_PALE = 0.4
"""Opacity of work that is not used."""


def timeline(
    run: SessionData, *, rounds: int | str | tuple[int, int] | None = None, width: Width = "page"
) -> Figure:
    """A row for each client: bars of its phases over simulated time, and a line at the end of each round.

    Work that is not used is pale, with a mark at its end. rounds: so many last ones, or a range such as "10-20". Of
    many clients, up to 40 are shown. Raises ConfigError without a clock.
    """
    found = timeline_of(run.records, rounds)
    height = _FRAME + _ROW * max(6, len(found.clients))
    figure, plots = style.blank(width, height / style.WIDTHS[width])
    with style.styled():
        plot = plots[0, 0]
        name, unit = scaled("simulated seconds", found.ends)
        _bars(plot, found, unit)
        _marks(plot, found, unit)
        _rounds(plot, found, unit)
        rows = len(found.clients)
        every = max(1, rows // 20)
        plot.set_yticks(range(0, rows, every), list(map(str, found.clients[::every])))
        plot.set(xlabel=name, ylabel="client" if found.reduced is None else found.reduced)
        plot.set(xlim=(found.begins / unit, found.ends / unit), ylim=(rows - 0.4, -0.6))
        handles = _key(found)
        style.legend_above(figure, handles, [str(each.get_label()) for each in handles])
    return figure


def _bars(plot: Axes, found: Timeline, unit: float) -> None:
    place = {client: row for row, client in enumerate(found.clients)}
    for phase in SHOWN:
        for pale in (False, True):
            bars = [
                (place[each.client], start / unit, (end - start) / unit)
                for each in found.dispatches
                if each.wasted is pale
                for name, start, end in each.parts
                if name == phase and end > found.begins and start < found.ends
            ]
            if bars:
                rows, starts, lengths = zip(*bars, strict=True)
                plot.barh(rows, lengths, 0.8, starts, alpha=_PALE if pale else 1.0, **_look(phase))


def _look(phase: Phase) -> dict[str, Any]:
    """The uplink has a pattern, because its color and that of the downlink are alike in gray."""
    hatch = "/////" if phase == "up" else None
    return {"facecolor": SHOWN[phase][1], "edgecolor": "white", "linewidth": 0, "hatch": hatch}


def _marks(plot: Axes, found: Timeline, unit: float) -> None:
    place = {client: row for row, client in enumerate(found.clients)}
    for fate, (_, marker, colour) in FATES.items():
        ended = [each for each in found.dispatches if each.fate == fate and each.arrives <= found.ends]
        plot.plot(
            [each.arrives / unit for each in ended],
            [place[each.client] for each in ended],
            linestyle="", marker=marker, color=colour, markersize=4, clip_on=False, zorder=4,
        )  # fmt: skip


def _rounds(plot: Axes, found: Timeline, unit: float) -> None:
    """Lines at the ends of rounds. As many of them have their number as have room."""
    every = max(1, len(found.marks) // 20)
    for number, (round, end) in enumerate(found.marks):
        plot.axvline(end / unit, color="black", linewidth=0.6, zorder=3)
        if (len(found.marks) - 1 - number) % every == 0:
            plot.annotate(
                str(round), (end / unit, 1), (0, 1), plot.get_xaxis_transform(), "offset points", ha="center",
                va="bottom", fontsize=6,
            )  # fmt: skip


def _key(found: Timeline) -> list[Patch | Line2D]:
    phases = {phase for each in found.dispatches for phase, _, _ in each.parts}
    fates = {each.fate for each in found.dispatches if each.arrives <= found.ends}
    bars: list[Patch | Line2D] = [
        Patch(label=label, **_look(phase)) for phase, (label, _) in SHOWN.items() if phase in phases
    ]
    marks = [
        Line2D([], [], linestyle="", marker=marker, color=colour, label=label)
        for fate, (label, marker, colour) in FATES.items()
        if fate in fates
    ]
    return [*bars, *marks, Line2D([], [], color="black", linewidth=0.6, label="end of a round")]
