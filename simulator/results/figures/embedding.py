"""Representations in the plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from simulator.results.figures import palette, style
from simulator.results.figures.style import Width

Points = NDArray[np.floating]
Numbers = NDArray[np.integer]


def embedding(
    points: Points,
    labels: Numbers,
    clients: Numbers,
    classes: Sequence[str],
    anchors: Points,
    anchor_labels: Numbers,
    anchor_kind: str = "",
    *,
    width: Width = "page",
) -> Figure:
    """Points [n, 2] twice: coloured by class, and by client; anchors [m, 2] are larger and outlined.

    What the anchors are (guiding vectors, prototypes) stands in the legend. Axes of t-SNE have no unit and no scale.
    """
    figure, axes = style.blank(width, 0.52, 1, 2)
    with style.styled():
        by_class, by_client = axes[0]
        _scatter(by_class, points, labels, list(map(style.label, classes)), "class", anchor_kind)
        _scatter(
            by_client, points, clients, [str(k) for k in range(int(clients.max()) + 1)], "client", anchor_kind
        )
        for (x, y), label in zip(anchors, anchor_labels, strict=True):
            colour, marker = look(int(label), len(classes))
            by_class.scatter(x, y, s=45, color=colour, marker=marker, **_ANCHOR)
            by_client.scatter(x, y, s=45, color="white", marker="o", **_ANCHOR)
    return figure


_ANCHOR: Any = {"edgecolors": "black", "linewidths": 1.0, "zorder": 3}
_SHAPES = ("o", "^", "s")


def look(place: int, of: int) -> tuple[str, str]:
    """Colour and mark of the `place`-th of so many: the series' colours, one mark after the other, else the heat."""
    colours = len(palette.OKABE_ITO)
    if of <= colours * len(_SHAPES):
        return style.colour(place), _SHAPES[place // colours]
    return to_hex(style.heat()(place / max(of - 1, 1))), "o"


def _scatter(plot: Axes, points: Points, of: Numbers, names: list[str], title: str, anchor_kind: str) -> None:
    present = sorted({int(each) for each in of})
    for each in present:
        colour, marker = look(each, len(names))
        own = points[of == each]
        plot.scatter(own[:, 0], own[:, 1], s=7, color=colour, marker=marker, linewidths=0, label=names[each])
    plot.set(title=f"by {title}", xticks=[], yticks=[])
    plot.spines[:].set_visible(True)
    handles = [_key(names[each], *look(each, len(names))) for each in present] if len(present) <= 24 else []
    if anchor_kind:
        handles.append(_key(anchor_kind, "white", "o", markersize=6, markeredgecolor="black"))
    plot.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.02), fontsize=6, handletextpad=0.1,
        ncols=style.balanced(len(handles), 5)[0], columnspacing=0.8,
    )  # fmt: skip


def _key(label: str, colour: str, marker: str, **options: Any) -> Line2D:
    return Line2D(
        [], [], linestyle="", color=colour, marker=marker, label=label, **{"markersize": 3.5} | options
    )
