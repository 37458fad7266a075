"""How figures look: the columns of a paper, text as text, colours and marks that differ in greys; no dates inside."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator

from simulator.errors import ConfigError
from simulator.figures import palette

Width = Literal["column", "page"]
WIDTHS: dict[Width, float] = {"column": 3.5, "page": 7.16}
"""Inches: one column and the whole width of a two-column page (IEEE; others are within a few per cent)."""
FORMATS = (".pdf", ".svg", ".png")
WHITE = 0xFFFFFF
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_KEY_EMS, _ROW_EMS = 5.5, 1.5
"""What an entry of a legend takes besides its text, across, and what a row takes; in font sizes."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))

_RC: Any = {
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
    """Within it matplotlib draws in this style."""
    with mpl.rc_context(_RC):
        yield


def blank(
    width: Width = "column", ratio: float = 0.68, rows: int = 1, columns: int = 1
) -> tuple[Figure, Any]:
    """An empty figure of so many plots, `ratio` times as high as wide, and its axes [rows, columns]."""
    inches = WIDTHS[width]
    with styled():
        figure = Figure(figsize=(inches, inches * ratio), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False)


def colour(place: int) -> str:
    """The colour of the `place`-th series on white, as #RRGGBB."""
    chosen = palette.OKABE_ITO[place % len(palette.OKABE_ITO)]
    return hexadecimal(palette.readable(chosen, WHITE))


def hexadecimal(value: int) -> str:
    """0x0072B2 as #0072b2."""
    return f"#{value:06x}"


def heat() -> LinearSegmentedColormap:
    """Viridis, through the palette's stops."""
    return LinearSegmentedColormap.from_list("heat", [hexadecimal(stop) for stop in palette.VIRIDIS_STOPS])


def on_heat(share: float) -> str:
    """Black or white, whichever reads better on the colour of `share` (0…1) of the heat."""
    return "black" if share > 0.55 else "white"


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
    with styled():
        size = float(mpl.rcParams["legend.fontsize"])
        widest = max(TextPath((0, 0), label, size=size).get_extents().width for label in labels)
    column = (widest + _KEY_EMS * size) / 72
    columns = min(len(labels), max(1, int(figure.get_figwidth() / column)))
    rows = math.ceil(len(labels) / columns)
    figure.set_figheight(figure.get_figheight() + rows * _ROW_EMS * size / 72)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PDF, SVG or PNG, by its name, without a date in it. Raises ConfigError, or OSError."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError(f"a figure is written as {', '.join(FORMATS)}; '{path.name}' is none of them.")
    with styled():
        figure.savefig(path, metadata=_NO_DATES[suffix])
