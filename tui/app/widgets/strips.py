"""From a canvas's cells to Textual's strips."""

from functools import lru_cache

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.app.charts.canvas import BOLD, DEFAULT, REVERSE, Array, Canvas, row_text


def strips(canvas: Canvas) -> list[Strip]:
    """One strip a row, one segment for each run of cells of one style."""
    return [_strip(*row) for row in zip(*canvas.arrays(), strict=True)]


def _strip(chars: Array, fg: Array, bg: Array, flags: Array) -> Strip:
    changes = (np.diff(fg) != 0) | (np.diff(bg) != 0) | (np.diff(flags) != 0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()] if len(chars) else []
    text, ends = row_text(chars), [*starts[1:], len(chars)]
    keys = zip(fg[starts].tolist(), bg[starts].tolist(), flags[starts].tolist(), strict=True)
    segments = [
        Segment(text[start:end], _style(*key)) for start, end, key in zip(starts, ends, keys, strict=True)
    ]
    return Strip(segments, len(chars))


@lru_cache(maxsize=8192)
def _style(fg: int, bg: int, flags: int) -> Style:
    """A rich style. DEFAULT says nothing of the colour at all: Textual's filter for NO_COLOR takes the terminal's
    `default` for black, on both sides, and so would write black on black."""
    return Style(
        color=None if fg == DEFAULT else _colour(fg),
        bgcolor=None if bg == DEFAULT else _colour(bg),
        bold=True if flags & BOLD else None,
        reverse=True if flags & REVERSE else None,
    )


def _colour(colour: int) -> Color:
    return Color.from_rgb(colour >> 16 & 255, colour >> 8 & 255, colour & 255)
