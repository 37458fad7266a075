"""Colours that read on dark and on light themes and to colour-blind eyes; every colour is an int 0xRRGGBB.

Series: Okabe & Ito (2008), "Color Universal Design". Heat: viridis (Smith & van der Walt, 2015), which rises in
lightness from end to end and so keeps its order in greys.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tui.app.charts.canvas import DEFAULT, Array

OKABE_ITO = (0xE69F00, 0x56B4E9, 0x009E73, 0xCC79A7, 0x0072B2, 0xD55E00, 0xF0E442, 0x999999)

_VIRIDIS_STOPS = (
    0x440154, 0x482878, 0x3E4A89, 0x31688E, 0x26828E, 0x1F9E89, 0x35B779, 0x6DCD59, 0xB4DE2C, 0xFDE725,
)  # fmt: skip
HEAT_LEVELS = (
    32  # half-block cells show pairs of levels: 32 × 32 styles are what Textual's filters keep in cache
)


def channels(colour: int) -> tuple[int, int, int]:
    """Red, green and blue, 0…255."""
    return colour >> 16 & 255, colour >> 8 & 255, colour & 255


def blend(colour: int, other: int, share: float) -> int:
    """`colour` with `share` (0…1) of `other` mixed in; DEFAULT where either is the terminal's own."""
    if DEFAULT in (colour, other):
        return DEFAULT
    mixed = (round(a + (b - a) * share) for a, b in zip(channels(colour), channels(other), strict=True))
    red, green, blue = mixed
    return red << 16 | green << 8 | blue


def luminance(colour: int) -> float:
    """Relative luminance, 0…1 (WCAG 2.1)."""
    linear = [
        c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4
        for c in channels(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: int, other: int) -> float:
    """The contrast ratio of two colours, 1…21 (WCAG 2.1)."""
    brighter, darker = sorted((luminance(colour), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@lru_cache(maxsize=1024)
def readable(colour: int, background: int, ratio: float = 3.0) -> int:
    """`colour`, moved towards black or white until its contrast with `background` is at least `ratio`.

    3 is what WCAG asks of graphics. Which of black and white: the one that contrasts more with the background.
    """
    if DEFAULT in (colour, background):
        return colour
    end = max((0x000000, 0xFFFFFF), key=lambda extreme: contrast(extreme, background))
    for step in range(21):
        moved = blend(colour, end, step / 20)
        if contrast(moved, background) >= ratio:
            return moved
    return end


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


VIRIDIS = _ramp(_VIRIDIS_STOPS, HEAT_LEVELS)


@dataclass(frozen=True)
class ColourScheme:
    """What a chart needs to know of the surface it is drawn on.

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
