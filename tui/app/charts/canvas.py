"""A grid of character cells. Every chart returns one, and every widget shows one."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

DEFAULT = -1  # a color that the terminal chooses
BOLD, REVERSE = 1, 2

Array = NDArray[Any]


@dataclass(eq=False)
class Canvas:
    """[height, width] cells, as four arrays of int32.

    chars: Unicode code points. fg, bg: colors 0xRRGGBB of character and background, or DEFAULT. flags: the sum of BOLD
    and REVERSE.
    """

    chars: Array
    fg: Array
    bg: Array
    flags: Array

    @classmethod
    def blank(cls, width: int, height: int, fg: int = DEFAULT, bg: int = DEFAULT) -> "Canvas":
        """A grid of spaces."""
        shape = (max(height, 0), max(width, 0))
        full = [np.full(shape, value, np.int32) for value in (ord(" "), fg, bg, 0)]
        return cls(*full)

    @property
    def width(self) -> int:
        return int(self.chars.shape[1])

    @property
    def height(self) -> int:
        return int(self.chars.shape[0])

    def window(self, top: int, left: int, height: int, width: int) -> "Canvas":
        """A view of the grid from (top, left). Drawing in it changes this grid."""
        rows, columns = slice(top, top + height), slice(left, left + width)
        return Canvas(
            self.chars[rows, columns],
            self.fg[rows, columns],
            self.bg[rows, columns],
            self.flags[rows, columns],
        )

    def put(self, row: int, column: int, text: str, fg: int, flags: int = 0) -> None:
        """Write `text` from (row, column) on. Text outside of the grid is left out."""
        if not 0 <= row < self.height:
            return
        text = one_cell_each(text)
        text = text[max(-column, 0) :][: max(self.width - max(column, 0), 0)]
        cells = slice(max(column, 0), max(column, 0) + len(text))
        self.chars[row, cells] = [ord(character) for character in text]
        self.fg[row, cells] = fg
        self.flags[row, cells] = flags

    def text(self) -> str:
        """The characters only, one line per row."""
        return "\n".join(row_text(row) for row in self.chars)

    def changed_rows(self, other: "Canvas") -> list[int]:
        """The rows that differ from those of `other`, which has the same size."""
        same = [
            np.all(mine == theirs, axis=1) for mine, theirs in zip(self.arrays(), other.arrays(), strict=True)
        ]
        return [int(row) for row in np.flatnonzero(~np.all(same, axis=0))]

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """chars, fg, bg, flags."""
        return self.chars, self.fg, self.bg, self.flags


@lru_cache(maxsize=4096)
def one_cell_each(text: str) -> str:
    """`text` with a ? for every character that does not take exactly one cell: wide, combining, or a control character.

    Names come from files and users. An escape sequence in one must not reach the terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one.isprintable() and _takes_one_cell(one) else "?" for one in text)


def _takes_one_cell(character: str) -> bool:
    """Whether the character takes one cell everywhere. Combining marks do not, and terminals differ in some widths."""
    return cell_len(character) == 1 and not category(character).startswith("M")


def row_text(codes: Array) -> str:
    """The characters of a row (or a part of one) of code points."""
    return np.ascontiguousarray(codes, "<u4").tobytes().decode("utf-32-le")
