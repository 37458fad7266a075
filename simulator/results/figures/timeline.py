"""Who receives, trains, sends, and waits when: clients over simulated time."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from simulator.results.analysis.run import SessionData
from simulator.results.analysis.timeline import Phase
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
FATES = {"lost": ("lost", "x"), "late": ("late, dropped", "v"), "stale": ("too old, dropped", "s"),
         "dropped": ("lost on the wire", "+")}  # fmt: skip
"""The marks of work that is not used: its name and marker."""
_ROW, _FRAME = 0.11, 0.95
"""Inches of a row, and of what is around the rows."""
_PALE = 0.4
"""Opacity of work that is not used."""


@style.styled()
def timeline(
    run: SessionData, *, rounds: int | str | tuple[int, int] | None = None, width: Width = "page"
) -> Figure:
    """A row for each client: bars of its phases over simulated time, and a line at the end of each round.

    Work that is not used is pale, with a mark at its end. rounds: so many last ones, or a range such as "10-20". Of
    many clients, up to 40 are shown. Raises ConfigError without a clock.
    """
    found = timeline_of(run.records, rounds)
    rows = len(found.clients)
    figure, plot = style.single(width, (_FRAME + _ROW * max(6, rows)) / style.WIDTHS[width])
    name, unit = scaled("simulated seconds", found.ends)
    place, handles = {client: row for row, client in enumerate(found.clients)}, list[Patch | Line2D]()
    for phase, (label, colour) in SHOWN.items():
        # The uplink has a pattern, because its color and that of the downlink are alike in gray.
        look: Any = {"facecolor": colour, "edgecolor": "white", "linewidth": 0}
        look |= {"hatch": "/////" if phase == "up" else None}
        own = [(each, part[1:]) for each in found.dispatches for part in each.parts if part[0] == phase]
        handles += [Patch(label=label, **look)] if own else []
        for pale in (False, True):
            bars = [
                (place[each.client], start / unit, (end - start) / unit)
                for each, (start, end) in own
                if each.wasted is pale and end > found.begins and start < found.ends
            ]
            if bars:
                at, starts, lengths = zip(*bars, strict=True)
                plot.barh(at, lengths, 0.8, starts, alpha=_PALE if pale else 1.0, **look)
    for fate, (label, marker) in FATES.items():
        ended = [each for each in found.dispatches if each.fate == fate and each.arrives <= found.ends]
        mark: Any = {"linestyle": "", "marker": marker, "color": style.colour(5)}
        handles += [Line2D([], [], label=label, **mark)] if ended else []
        times, rows_of = [each.arrives / unit for each in ended], [place[each.client] for each in ended]
        plot.plot(times, rows_of, markersize=4, clip_on=False, zorder=4, **mark)
    every = max(1, len(found.marks) // 20)  # as many rounds have their number as have room
    for number, (round, end) in enumerate(found.marks):
        plot.axvline(end / unit, color="black", linewidth=0.6, zorder=3)
        if (len(found.marks) - 1 - number) % every == 0:
            plot.annotate(
                str(round), (end / unit, 1), (0, 1), plot.get_xaxis_transform(), "offset points", ha="center",
                va="bottom", fontsize=6,
            )  # fmt: skip
    every = max(1, rows // 20)
    plot.set_yticks(range(0, rows, every), list(map(str, found.clients[::every])))
    plot.set(xlabel=name, ylabel="client" if found.reduced is None else found.reduced)
    plot.set(xlim=(found.begins / unit, found.ends / unit), ylim=(rows - 0.4, -0.6))
    handles.append(Line2D([], [], color="black", linewidth=0.6, label="end of a round"))
    style.legend_above(figure, handles, [str(each.get_label()) for each in handles])
    return figure
