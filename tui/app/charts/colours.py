"""Colours that read on dark and on light themes and to colour-blind eyes; every colour is an int 0xRRGGBB.

The palette is that of the figures; here it meets the terminal, some of whose colours only the terminal knows.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from simulator.figures import palette
from simulator.figures.palette import OKABE_ITO, VIRIDIS_STOPS, channels, contrast
from tui.app.charts.canvas import DEFAULT, Array

HEAT_LEVELS = (
    32  # half-block cells show pairs of levels: 32 × 32 styles are what Textual's filters keep in cache
)


def blend(colour: int, other: int, share: float) -> int:
    """`colour` with `share` (0…1) of `other` mixed in; DEFAULT where either is the terminal's own."""
    if DEFAULT in (colour, other):
        return DEFAULT
    return palette.blend(colour, other, share)


@lru_cache(maxsize=1024)
def readable(colour: int, background: int, ratio: float = 3.0) -> int:
    """As in the palette; the terminal's own colours as they are."""
    return colour if DEFAULT in (colour, background) else palette.readable(colour, background, ratio)


@lru_cache(maxsize=64)
def text_on(background: int) -> int:
    """Black or white, whichever reads better on `background`."""
    return max((0x000000, 0xFFFFFF), key=lambda extreme: contrast(extreme, background))


def _ramp(stops: tuple[int, ...], levels: int) -> Array:
    """[levels] colours, evenly spaced along the straight lines between `stops`."""
    at = np.linspace(0, len(stops) - 1, levels)
    rgb = np.array([channels(stop) for stop in stops]).T
    red, green, blue = (
        np.interp(at, np.arange(len(stops)), channel).round().astype(np.int32) for channel in rgb
    )
    return np.asarray((red << 16) | (green << 8) | blue)


VIRIDIS = _ramp(VIRIDIS_STOPS, HEAT_LEVELS)


@dataclass(frozen=True)
class ColourScheme:
    """What a drawing needs to know of the surface it is drawn on.

    text, background: those of the app's theme, or DEFAULT where only the terminal knows them (ANSI themes).
    accent: the cursor and whatever has the focus. dark: whether the background is. coloured: False under NO_COLOR,
    where nothing may be told by colour alone.
    """

    text: int = 0xE0E0E0
    background: int = 0x121212
    accent: int = 0xFFA62B
    dark: bool = True
    coloured: bool = True

    @cached_property
    def muted(self) -> int:
        """Axes, ticks, what is said in passing."""
        return blend(self.text, self.background, 0.35)

    @cached_property
    def faint(self) -> int:
        """Grid lines."""
        return blend(self.text, self.background, 0.75)

    @cached_property
    def highlight(self) -> int:
        """The cursor, legible on the background; plain text under NO_COLOR."""
        return self.clear(self.accent) if self.coloured else self.text

    def clear(self, colour: int) -> int:
        """`colour`, legible on this background."""
        surface = self.background
        if surface == DEFAULT:
            surface = 0x000000 if self.dark else 0xFFFFFF
        return readable(colour, surface)

    def series(self, place: int) -> int:
        """The colour of the `place`-th series; the text's own under NO_COLOR."""
        return self.clear(OKABE_ITO[place % len(OKABE_ITO)]) if self.coloured else self.text
