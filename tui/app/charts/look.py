"""What charts are drawn on and with: a grid of cells, sets of characters, and colors (ints 0xRRGGBB) for any theme."""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.results.figures import palette
from simulator.results.figures.palette import OKABE_ITO, VIRIDIS_STOPS, channels, contrast, luminance
from tui.common.cells import cell_count, cells_of
from tui.common.formatting import spelled

DEFAULT = -1  # a color that the terminal chooses
BOLD, REVERSE = 1, 2
SECOND = 0  # the second cell of a wide character
WIDE = 0x1100  # the first code point of a wide character
CODE_BITS, MARKS = 21, 2  # bits of a code point, and the number of combining marks in a cell

Array = NDArray[Any]
Glyphs = Literal["braille", "block", "ascii"]


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
        part = slice(top, top + height), slice(left, left + width)
        return Canvas(*(each[part] for each in self.arrays()))

    def put(self, row: int, column: int, text: str, fg: int, flags: int = 0) -> None:
        """Write `text` from (row, column) on, within the grid. Half of a wide character becomes a space."""
        if not 0 <= row < self.height:
            return
        start, chars = max(column, 0), self.chars[row]
        codes = _cells_of(text)[max(-column, 0) :][: max(self.width - start, 0)]
        if not codes:
            return
        end = start + len(codes)
        if start and chars[start] == SECOND:
            chars[start - 1] = ord(" ")
        if end < self.width and chars[end] == SECOND:
            chars[end] = ord(" ")
        chars[start:end] = codes
        if codes[0] == SECOND:
            chars[start] = ord(" ")
        if codes[-1] >= WIDE and cell_count(_cell(codes[-1])) > 1:
            chars[end - 1] = ord(" ")
        self.fg[row, start:end] = fg
        self.flags[row, start:end] = flags

    def text(self) -> str:
        return "\n".join(map(row_text, self.chars))

    def changed_rows(self, other: "Canvas") -> list[int]:
        """The rows that differ from those of `other`, which has the same size."""
        both = zip(self.arrays(), other.arrays(), strict=True)
        same = [(mine == theirs).all(axis=1) for mine, theirs in both]
        return [int(row) for row in np.flatnonzero(~np.all(same, axis=0))]

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.chars, self.fg, self.bg, self.flags


@lru_cache(maxsize=8192)
def _cells_of(text: str) -> tuple[int, ...]:
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


# Unicode numbers dots 1 2 3 7 down the left, 4 5 6 8 down the right.
_BITS = enumerate((0, 3, 1, 4, 2, 5, 6, 7))
_OF_UNICODE = sum((np.arange(256) >> ours & 1) << theirs for ours, theirs in _BITS)


def codes(characters: str) -> Array:
    return np.array([ord(character) for character in characters], np.int32)


@dataclass(frozen=True, eq=False)
class GlyphSet:
    """The characters of one set, by default braille.

    dots: (rows, columns) of dots in a cell. cells: [2 ** (rows × columns)] code points; bit (row × columns + column) of
    the index is the dot there. ramp: from low to high, without color. signs: from a large loss to a large gain. bars:
    from low to high; none fills its cell, so rows stay apart. up, down, pointer: from below, above, and the left.
    """

    name: Glyphs = "braille"
    dots: tuple[int, int] = (4, 2)
    cells: Array = field(default_factory=lambda: (0x2800 + np.asarray(_OF_UNICODE)).astype(np.int32))
    ramp: str = "·░▒▓█"
    signs: str = "▼−·+▲"
    bars: str = "▁▂▃▄▅▆▇"
    vertical: str = "│"
    horizontal: str = "─"
    corner: str = "└"
    tick_left: str = "┤"
    tick_below: str = "┬"
    grid: str = "┈"
    mark: str = "┊"
    cursor: str = "│"
    shade: str = "░"
    up: str = "▲"
    down: str = "▼"
    pointer: str = "▶"
    ellipsis: str = "…"
    dash: str = "–"
    times: str = "×"


BRAILLE = GlyphSet()
BLOCK = GlyphSet("block", (2, 2), codes(" ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"))
ASCII = GlyphSet(
    "ascii", (1, 1), codes(" *"), ramp=".:-=+*#%@", signs="v-.+^", bars="_.-=+*#@", vertical="|", horizontal="-",
    corner="+", tick_left="+", tick_below="+", grid=" ", mark=":", cursor="|", shade=".", up="^", down="v",
    pointer=">", ellipsis="~", dash="-", times="x",
)  # fmt: skip
GLYPHS: dict[Glyphs, GlyphSet] = {"braille": BRAILLE, "block": BLOCK, "ascii": ASCII}


HEAT_LEVELS = 32  # half-block cells show pairs of levels: Textual's filters cache 32 × 32 styles


def blend(colour: int, other: int, share: float) -> int:
    """`colour` with `share` (0…1) of `other` mixed in. DEFAULT if either is the terminal's own."""
    return DEFAULT if DEFAULT in (colour, other) else palette.blend(colour, other, share)


@lru_cache(maxsize=1024)
def readable(colour: int, background: int, ratio: float = 3.0) -> int:
    """The palette's colors. The terminal's own colors stay unchanged."""
    return colour if DEFAULT in (colour, background) else palette.readable(colour, background, ratio)


@lru_cache(maxsize=64)
def text_on(background: int) -> int:
    """Black or white, whichever is more legible on `background`."""
    return max((0x000000, 0xFFFFFF), key=lambda extreme: contrast(extreme, background))


def _ramp(stops: tuple[int, ...]) -> Array:
    """[HEAT_LEVELS] colors, evenly spaced along the straight lines between `stops`."""
    at, places = np.linspace(0, len(stops) - 1, HEAT_LEVELS), np.arange(len(stops))
    rgb = zip(*map(channels, stops), strict=True)
    red, green, blue = (np.interp(at, places, channel).round().astype(np.int32) for channel in rgb)
    return np.asarray((red << 16) | (green << 8) | blue)


VIRIDIS = _ramp(VIRIDIS_STOPS)
VIRIDIS_256 = np.repeat(
    [
        0x5F005F, 0x5F0087, 0x5F00AF, 0x5F00D7, 0x005F87, 0x005FAF, 0x008787, 0x0087AF,
        0x00AF5F, 0x00AF87, 0x5FAF5F, 0x5FD75F, 0x87D75F, 0xAFD75F, 0xD7D75F, 0xFFFF5F,
    ],
    HEAT_LEVELS // 16,
)  # fmt: skip
"""Those of xterm's 256 colors that follow viridis, each lighter than the one before."""
LOSS, GAIN = 0xE66100, 0x1A85FF
"""An orange and a blue of the same lightness, which color-blind people can tell apart."""
SIGNED_ON_DARK, SIGNED_ON_LIGHT = (_ramp((LOSS, neutral, GAIN)) for neutral in (0x2B2B2B, 0xE6E6E6))
SIGNED_ON_DARK_256, SIGNED_ON_LIGHT_256 = (
    np.repeat(colours, (4, 4, 4, 3, 2, 3, 4, 4, 4))
    for colours in (
        (0xFF5F00, 0xD75F00, 0xAF5F00, 0x875F00, 0x303030, 0x005F87, 0x005FAF, 0x0087D7, 0x0087FF),
        (0xFF5F00, 0xFF875F, 0xFFAF87, 0xFFD7AF, 0xE4E4E4, 0xD7D7FF, 0x87AFFF, 0x5F87FF, 0x005FFF),
    )
)
ON_DARK_256, ON_LIGHT_256 = (
    dict(zip(palette.METHOD_COLOURS, colours, strict=True))
    for colours in (
        (0xFFAF00, 0x5FAFD7, 0x00AF87, 0xD787AF, 0x0087FF, 0xFF5F00, 0xFFFF5F, 0x9E9E9E, 0xD7005F, 0x626262),
        (0xAF5F00, 0x005F87, 0x008700, 0x875FAF, 0x005FD7, 0xD70000, 0x5F5F00, 0x6C6C6C, 0x87005F, 0x000000),
    )
)
"""For each color of series and methods, xterm's color that is near it, far from the others, and legible on a band."""
GREYS_256 = tuple(level * 0x010101 for level in range(8, 239, 10))
"""xterm's grays."""


def _as_light(colour: int) -> int:
    return min(GREYS_256, key=lambda grey: abs(luminance(grey) - luminance(colour)))


@dataclass(frozen=True)
class Look:
    """The surface on which a chart is drawn, and its characters.

    text, background: of the app's theme, or DEFAULT if only the terminal knows them. accent: the cursor and the focus.
    coloured: False under NO_COLOR, where color alone must not carry meaning. exact: False with xterm's 256 colors, as
    over SSH, which does not pass on the terminal's abilities.
    """

    text: int = 0xE0E0E0
    background: int = 0x121212
    accent: int = 0xFFA62B
    dark: bool = True
    coloured: bool = True
    exact: bool = True
    glyphs: GlyphSet = BRAILLE

    @property
    def ascii(self) -> bool:
        return self.glyphs.name == "ascii"

    @property
    def painted(self) -> bool:
        """Whether cells have colors, and not characters alone."""
        return self.coloured and not self.ascii

    def spelled(self, text: str) -> str:
        return spelled(text, self.glyphs.name)

    def blank(self, width: int, height: int) -> Canvas:
        """An empty grid on this surface."""
        return Canvas.blank(width, height, self.text, self.background)

    @cached_property
    def muted(self) -> int:
        """Axes, ticks, and secondary text."""
        return blend(self.text, self.background, 0.35)

    @cached_property
    def faint(self) -> int:
        """Grid lines."""
        return blend(self.text, self.background, 0.75)

    @cached_property
    def highlight(self) -> int:
        """The cursor, legible on the background. Plain text under NO_COLOR."""
        return self.clear(self.accent) if self.coloured else self.text

    @property
    def heat(self) -> Array:
        """[HEAT_LEVELS] colors, each lighter than the one before."""
        return VIRIDIS if self.exact else VIRIDIS_256

    @property
    def signed(self) -> Array:
        """[HEAT_LEVELS] colors of differences: the middle is no difference."""
        if self.exact:
            return SIGNED_ON_DARK if self.dark else SIGNED_ON_LIGHT
        return SIGNED_ON_DARK_256 if self.dark else SIGNED_ON_LIGHT_256

    def tint(self, colour: int, share: float) -> int:
        """The background with a share (0…1) of a color; of 256, a gray that is as light and not the background.

        Of xterm's colors, the nearest to a dark tint are an olive and a red, which have another meaning.
        """
        tinted = blend(self.background, colour, share)
        if self.exact or tinted == DEFAULT:
            return tinted
        grey, own = map(_as_light, (tinted, self.background))
        return grey if grey != own else GREYS_256[GREYS_256.index(own) + (2 if self.dark else -2)]

    def clear(self, colour: int, ground: int | None = None) -> int:
        """`colour`, legible on this background or on `ground`, which lines are drawn on."""
        surface = self.background if ground is None else ground
        if not self.exact:
            colour = (ON_DARK_256 if self.dark else ON_LIGHT_256).get(colour, colour)
        if surface == DEFAULT:
            surface = 0x000000 if self.dark else 0xFFFFFF
        return readable(colour, surface)

    def series(self, place: int, ground: int | None = None) -> int:
        """The color of the `place`-th series. The text's own under NO_COLOR."""
        return self.clear(OKABE_ITO[place % len(OKABE_ITO)], ground) if self.coloured else self.text
