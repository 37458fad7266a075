"""A grid of character cells. Every chart returns one, and every widget shows one."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tui.common.cells import cell_count, cells_of

DEFAULT = -1  # a color that the terminal chooses
BOLD, REVERSE = 1, 2
SECOND = 0  # the second cell of a wide character
WIDE = 0x1100  # the first code point of a wide character
CODE_BITS, MARKS = 21, 2  # bits of a code point, and the number of combining marks in a cell

Array = NDArray[Any]


@dataclass(eq=False)
class Canvas:
    """[height, width] cells, as four arrays: chars of int64, the others of int32.

    chars: Unicode code points, with those of combining marks in the bits above; SECOND after a wide character. fg, bg:
    colors 0xRRGGBB of character and background, or DEFAULT. flags: the sum of BOLD and REVERSE.
    """

    chars: Array
    fg: Array
    bg: Array
    flags: Array

    @classmethod
    def blank(cls, width: int, height: int, fg: int = DEFAULT, bg: int = DEFAULT) -> "Canvas":
        """A grid of spaces."""
        shape = (max(height, 0), max(width, 0))
        full = [np.full(shape, value, np.int32) for value in (fg, bg, 0)]
        return cls(np.full(shape, ord(" "), np.int64), *full)

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
        """Write `text` from (row, column) on. Text outside of the grid is left out.

        A wide character that would lose one of its two cells becomes a space.
        """
        if not 0 <= row < self.height:
            return
        codes = _codes(text)[max(-column, 0) :][: max(self.width - max(column, 0), 0)]
        start, end = max(column, 0), max(column, 0) + len(codes)
        cells, chars = slice(start, end), self.chars[row]
        if not codes:
            return
        if start and chars[start] == SECOND:
            chars[start - 1] = ord(" ")
        if end < self.width and chars[end] == SECOND:
            chars[end] = ord(" ")
        chars[cells] = codes
        if codes[0] == SECOND:
            chars[start] = ord(" ")
        if codes[-1] >= WIDE and cell_count(_cell(codes[-1])) > 1:
            chars[end - 1] = ord(" ")
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


@lru_cache(maxsize=8192)
def _codes(text: str) -> tuple[int, ...]:
    """The codes of a text, cell by cell."""
    if text.isascii() and text.isprintable():
        return tuple(text.encode())
    return tuple(
        sum(ord(one) << CODE_BITS * place for place, one in enumerate(cell[: 1 + MARKS])) if cell else SECOND
        for cell in cells_of(text)
    )


def _cell(code: int) -> str:
    """The character of a cell, with its marks; "" for the second cell of a wide one."""
    found = ""
    while code:
        found += chr(code & (1 << CODE_BITS) - 1)
        code >>= CODE_BITS
    return found


def row_text(codes: Array) -> str:
    """The characters of a row, or of a part of one, of cells."""
    if codes.size and (codes.min() == SECOND or codes.max() >> CODE_BITS):
        return "".join(map(_cell, codes.tolist()))
    return np.ascontiguousarray(codes, "<u4").tobytes().decode("utf-32-le")
