"""Three sets of characters to draw with: braille, block elements, and ASCII for fonts that have neither."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tui.app.charts.canvas import Array

Glyphs = Literal["braille", "block", "ascii"]


@dataclass(frozen=True)
class GlyphSet:
    """The characters of one set.

    dots: (rows, columns) of dots in a cell. cells: [2 ** (rows × columns)] code points; bit (row × columns + column) of
    the index is the dot there. ramp: from low to high, without color; a space is no value. signs: a large loss, a loss,
    no difference, a gain, and a large gain, without color. bars: from low to high, for
    sparklines; none fills its cell, so rows stay apart. up, down, pointer: pointers from below, from above, and from
    the left. The rest: the parts of axes and marks.
    """

    name: Glyphs
    dots: tuple[int, int]
    cells: Array
    ramp: str
    signs: str
    bars: str
    vertical: str
    horizontal: str
    corner: str
    tick_left: str
    tick_below: str
    grid: str
    mark: str
    cursor: str
    shade: str
    up: str
    down: str
    pointer: str
    ellipsis: str
    dash: str = "–"
    times: str = "×"


def _braille() -> Array:
    """Code points by dots. Unicode numbers them 1 2 3 7 down the left column and 4 5 6 8 down the right."""
    unicode_bit = np.array([[0, 3], [1, 4], [2, 5], [6, 7]]).ravel()
    masks = np.arange(256)
    moved = sum((masks >> ours & 1) << int(theirs) for ours, theirs in enumerate(unicode_bit))
    return (0x2800 + np.asarray(moved)).astype(np.int32)


def _codes(text: str) -> Array:
    return np.array([ord(character) for character in text], np.int32)


BRAILLE = GlyphSet(
    name="braille",
    dots=(4, 2),
    cells=_braille(),
    ramp="·░▒▓█",
    signs="▼−·+▲",
    bars="▁▂▃▄▅▆▇",
    vertical="│",
    horizontal="─",
    corner="└",
    tick_left="┤",
    tick_below="┬",
    grid="┈",
    mark="┊",
    cursor="│",
    shade="░",
    up="▲",
    down="▼",
    pointer="▶",
    ellipsis="…",
)
BLOCK = GlyphSet(
    **{
        **BRAILLE.__dict__,
        "name": "block",
        "dots": (2, 2),
        "cells": _codes(" ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"),
    }
)
ASCII = GlyphSet(
    name="ascii",
    dots=(1, 1),
    cells=_codes(" *"),
    ramp=".:-=+*#%@",
    signs="v-.+^",
    bars="_.-=+*#@",
    vertical="|",
    horizontal="-",
    corner="+",
    tick_left="+",
    tick_below="+",
    grid=" ",
    mark=":",
    cursor="|",
    shade=".",
    up="^",
    down="v",
    pointer=">",
    ellipsis="~",
    dash="-",
    times="x",
)
GLYPHS: dict[Glyphs, GlyphSet] = {"braille": BRAILLE, "block": BLOCK, "ascii": ASCII}
