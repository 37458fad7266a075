"""Matplotlib's figures as SVG within a page: text as text, in the colour of the page, every name used once."""

import io
import re
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure

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
