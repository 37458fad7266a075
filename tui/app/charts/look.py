"""Characters and colors: three sets of characters, and colors that are legible on any theme and for color-blind people.

The palette is that of the figures. This module adapts it to the terminal. Every color is an int 0xRRGGBB.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from simulator.results.figures import palette
from simulator.results.figures.palette import OKABE_ITO, VIRIDIS_STOPS, channels, contrast, luminance
from tui.app.charts.canvas import DEFAULT, Array, Canvas
from tui.common.formatting import spelled

Glyphs = Literal["braille", "block", "ascii"]


def _braille() -> Array:
    """Code points by dots. Unicode numbers them 1 2 3 7 down the left column and 4 5 6 8 down the right."""
    unicode_bit = np.array([[0, 3], [1, 4], [2, 5], [6, 7]]).ravel()
    masks = np.arange(256)
    moved = sum((masks >> ours & 1) << int(theirs) for ours, theirs in enumerate(unicode_bit))
    return (0x2800 + np.asarray(moved)).astype(np.int32)


def _codes(text: str) -> Array:
    return np.array([ord(character) for character in text], np.int32)


@dataclass(frozen=True, eq=False)
class GlyphSet:
    """The characters of one set, by default braille.

    dots: (rows, columns) of dots in a cell. cells: [2 ** (rows × columns)] code points; bit (row × columns + column) of
    the index is the dot there. ramp: from low to high, without color; a space is no value. signs: a large loss, a loss,
    no difference, a gain, and a large gain, without color. bars: from low to high, for
    sparklines; none fills its cell, so rows stay apart. up, down, pointer: pointers from below, from above, and from
    the left. The rest: the parts of axes and marks.
    """

    name: Glyphs = "braille"
    dots: tuple[int, int] = (4, 2)
    cells: Array = field(default_factory=_braille)
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
BLOCK = GlyphSet("block", (2, 2), _codes(" ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"))
ASCII = GlyphSet(
    "ascii", (1, 1), _codes(" *"), ramp=".:-=+*#%@", signs="v-.+^", bars="_.-=+*#@", vertical="|", horizontal="-",
    corner="+", tick_left="+", tick_below="+", grid=" ", mark=":", cursor="|", shade=".", up="^", down="v",
    pointer=">", ellipsis="~", dash="-", times="x",
)  # fmt: skip
GLYPHS: dict[Glyphs, GlyphSet] = {"braille": BRAILLE, "block": BLOCK, "ascii": ASCII}


HEAT_LEVELS = 32  # half-block cells show pairs of levels: Textual's filters cache 32 × 32 styles


def blend(colour: int, other: int, share: float) -> int:
    """`colour` with `share` (0…1) of `other` mixed in. DEFAULT if either is the terminal's own."""
    if DEFAULT in (colour, other):
        return DEFAULT
    return palette.blend(colour, other, share)


@lru_cache(maxsize=1024)
def readable(colour: int, background: int, ratio: float = 3.0) -> int:
    """The palette's colors. The terminal's own colors stay unchanged."""
    return colour if DEFAULT in (colour, background) else palette.readable(colour, background, ratio)


@lru_cache(maxsize=64)
def text_on(background: int) -> int:
    """Black or white, whichever is more legible on `background`."""
    return max((0x000000, 0xFFFFFF), key=lambda extreme: contrast(extreme, background))


def _ramp(stops: tuple[int, ...], levels: int) -> Array:
    """[levels] colors, evenly spaced along the straight lines between `stops`."""
    at = np.linspace(0, len(stops) - 1, levels)
    rgb = np.array([channels(stop) for stop in stops]).T
    red, green, blue = (
        np.interp(at, np.arange(len(stops)), channel).round().astype(np.int32) for channel in rgb
    )
    return np.asarray((red << 16) | (green << 8) | blue)


VIRIDIS = _ramp(VIRIDIS_STOPS, HEAT_LEVELS)
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
SIGNED_ON_DARK, SIGNED_ON_LIGHT = (
    _ramp((LOSS, neutral, GAIN), HEAT_LEVELS) for neutral in (0x2B2B2B, 0xE6E6E6)
)
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


def _grey(light: float) -> int:
    """The color of GREYS_256 with the nearest luminance."""
    return min(GREYS_256, key=lambda grey: abs(luminance(grey) - light))


@dataclass(frozen=True)
class Look:
    """The surface on which a chart is drawn, and its characters.

    text, background: those of the app's theme, or DEFAULT if only the terminal knows them (ANSI themes). accent: the
    cursor and the focus. dark: whether the background is dark. coloured: False under NO_COLOR, where color alone must
    not carry meaning. exact: False for a terminal with xterm's 256 colors, as over SSH, which does not pass on the
    terminal's abilities.
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
        """The text for display in these characters."""
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
        """The background with a share (0…1) of a color.

        Of xterm's colors, the nearest to a dark tint are an olive and a red, which have another meaning. So it is then
        a gray that is as light, and differs from the background.
        """
        tinted = blend(self.background, colour, share)
        if self.exact or tinted == DEFAULT:
            return tinted
        light, own = luminance(tinted), _grey(luminance(self.background))
        return (
            _grey(light)
            if _grey(light) != own
            else GREYS_256[GREYS_256.index(own) + (2 if self.dark else -2)]
        )

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
