"""xterm's 256 colors, which a terminal over SSH has. Everything is sent in the nearest of them.

By default, red, green, and blue are rounded separately, which makes a dark blue-gray navy blue, and an orange tint
olive.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter

STEPS = (0, 95, 135, 175, 215, 255)
FIRST = 16  # users may have changed those before it
COLOURS = np.array(
    [(red, green, blue) for red in STEPS for green in STEPS for blue in STEPS]
    + [(grey, grey, grey) for grey in range(8, 239, 10)]
)
"""[240, 3] red, green, and blue of the colors from FIRST on."""

_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
_OPPONENTS = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def as_seen(rgb: NDArray[np.int_]) -> NDArray[np.float64]:
    """Colors [n, 3] in a space of perceived distances: OKLab (Ottosson 2020), lightness first."""
    share = rgb / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.cbrt(linear @ _CONES.T) @ _OPPONENTS.T)


_SEEN = as_seen(COLOURS)


@lru_cache(maxsize=4096)
def nearest(red: int, green: int, blue: int) -> int:
    """The number of the nearest color."""
    distance = np.linalg.norm(_SEEN - as_seen(np.array([[red, green, blue]])), axis=1)
    return FIRST + int(distance.argmin())


@lru_cache(maxsize=4096)
def _style(style: Style) -> Style:
    return style + Style.from_color(_colour(style.color), _colour(style.bgcolor))


def _colour(colour: Color | None) -> Color | None:
    if colour is None or colour.type is not ColorType.TRUECOLOR or colour.triplet is None:
        return colour
    return Color.from_ansi(nearest(*colour.triplet))


class XtermFilter(LineFilter):
    """Converts a drawing to these colors."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        return [
            segment
            if segment.style is None
            else Segment(segment.text, _style(segment.style), segment.control)
            for segment in segments
        ]
