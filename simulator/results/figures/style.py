"""How figures look: the columns of a paper, text as text, colours and marks that differ in greys; no dates inside."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator

from simulator.base.errors import ConfigError
from simulator.base.units import escaped
from simulator.results.figures import palette
from simulator.results.figures.palette import Look

Width = Literal["column", "page"]
WIDTHS: dict[Width, float] = {"column": 3.5, "page": 7.16}
"""Inches: one column and the whole width of a two-column page (IEEE; others are within a few per cent)."""
FORMATS = (".pdf", ".svg", ".png")
WHITE = 0xFFFFFF
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_KEY_EMS, _ROW_EMS = 5.5, 1.5
"""What an entry of a legend takes besides its text, across, and what a row takes; in font sizes."""
_SLANT = 30  # degrees
DASHES: tuple[Any, ...] = (
    "-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (5, 1.5, 1, 1.5, 1, 1.5)), (0, (9, 2.5)),
    (0, (3, 1, 3, 3)), (0, (9, 1.5, 1, 1.5)),
)  # fmt: skip

_RC: Any = {
    "text.parse_math": False,  # a name may hold dollar signs
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "#DDDDDD",
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # TrueType, which can be searched, copied and edited
    "svg.fonttype": "none",
    "svg.hashsalt": "htfl-sim",  # else the ids in the file are drawn at random
}
_NO_DATES = {
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}


@contextmanager
def styled() -> Iterator[None]:
    """Within it, or in a function that it decorates, matplotlib draws in this style."""
    with mpl.rc_context(_RC):
        yield


def label(name: str) -> str:
    """A name as matplotlib shows it: it leaves out of a legend what begins with an underscore."""
    shown = escaped(name)
    return f"\u200b{shown}" if shown.startswith("_") else shown


def blank(
    width: Width = "column", ratio: float = 0.68, rows: int = 1, columns: int = 1, number: int | None = None
) -> tuple[Figure, Any]:
    """An empty figure of so many plots, `ratio` times as high as wide, and its axes [rows, columns].

    number: the plots that are used (None: all); the others are hidden.
    """
    inches = WIDTHS[width]
    with styled():
        figure = Figure(figsize=(inches, inches * ratio), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        for plot in axes.flat[number:] if number else ():
            plot.set_visible(False)
        return figure, axes


def single(width: Width, ratio: float = 0.68) -> tuple[Figure, Axes]:
    """An empty figure of one plot, and that."""
    figure, axes = blank(width, ratio)
    return figure, axes[0, 0]


def several(number: int, columns: int, ratio: float, width: Width) -> tuple[Figure, Any]:
    """So many plots in rows of `columns`, each row `ratio` times as high as the figure is wide."""
    rows = math.ceil(number / columns)
    return blank(width, ratio * rows, rows, columns, number)


def colour(place: int) -> str:
    """The colour of the `place`-th series on white, as #RRGGBB."""
    return shade(palette.in_order(place))


def shade(look: Look) -> str:
    """The color of a look on white, as #RRGGBB."""
    return hexadecimal(palette.readable(look.colour, WHITE))


def stroke(look: Look, **changes: Any) -> dict[str, Any]:
    """What a line of this look is drawn with."""
    drawn = {"color": shade(look), "linestyle": DASHES[look.dashes], "marker": MARKERS[look.mark]}
    return drawn | changes


def marks(looks: Iterable[Look]) -> list[str]:
    """A mark for each look: its own, or the next that is free, so that ten differ."""
    found = list[int]()
    for look in looks:
        order = [(look.mark + step) % len(MARKERS) for step in range(len(MARKERS))]
        found.append(next((mark for mark in order if mark not in found), look.mark))
    return [MARKERS[mark] for mark in found]


def hexadecimal(value: int) -> str:
    return f"#{value:06x}"


def heat() -> LinearSegmentedColormap:
    """Viridis, through the palette's stops."""
    return LinearSegmentedColormap.from_list("heat", [hexadecimal(stop) for stop in palette.VIRIDIS_STOPS])


def whole_numbers(plot: Axes) -> None:
    """Ticks of the x axis at whole numbers only, as rounds are."""
    plot.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(axes: Axes, entries: int) -> None:
    """A legend where it covers least, above the plot where it has too many entries for that."""
    if entries > 4:
        figure = axes.get_figure()
        assert isinstance(figure, Figure)
        legend_above(figure, *axes.get_legend_handles_labels())
    elif entries > 1:
        axes.legend(loc="best")


def legend_above(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend over the plots of a figure, in as many columns as fit its width; the figure grows by its rows."""
    size = float(_RC["legend.fontsize"])
    column = max(inches(label, size) for label in labels) + _KEY_EMS * size / 72
    columns, rows = balanced(len(labels), int(figure.get_figwidth() / column))
    figure.set_figheight(figure.get_figheight() + rows * _ROW_EMS * size / 72)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def balanced(entries: int, most: int) -> tuple[int, int]:
    """Columns, up to `most`, and rows for so many entries: as few rows as that takes, and these full."""
    rows = math.ceil(entries / max(1, most))
    return math.ceil(entries / rows), rows


def named(plot: Axes, at: Sequence[float], labels: Sequence[str], width: float) -> None:
    """Ticks of the x axis with names, on a plot some `width` inches wide.

    Where they would run into each other they are slanted, and the figure grows by what that takes.
    """
    size = float(_RC["xtick.labelsize"])
    taken = [inches(label, size) for label in labels]
    plot.set_xticks(at, labels)
    if max(taken) + size / 72 > width / len(labels):
        plot.tick_params(axis="x", rotation=_SLANT, rotation_mode="anchor")
        for tick in plot.get_xticklabels():
            tick.set_horizontalalignment("right")
        figure = plot.get_figure()
        assert isinstance(figure, Figure)
        figure.set_figheight(figure.get_figheight() + max(taken) * math.sin(math.radians(_SLANT)))


def inches(text: str, size: float) -> float:
    """How long a text is in this many points."""
    with styled():
        return float(TextPath((0, 0), text, size=size).get_extents().width) / 72


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PDF, SVG or PNG, by its name, without a date in it. Raises ConfigError, or OSError."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError(f"a figure is written as {', '.join(FORMATS)}; '{path.name}' is none of them.")
    with styled():
        figure.savefig(path, metadata=_NO_DATES[suffix])
