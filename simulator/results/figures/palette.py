"""Colours that read on dark and on light grounds and to colour-blind eyes; every colour is an int 0xRRGGBB.

Series: Okabe & Ito (2008), "Color Universal Design"; for methods also their black, and a wine red. Heat: viridis
(Smith & van der Walt, 2015), which rises in lightness from end to end and so keeps its order in greys.

A method has one color in every figure, report, and panel, by its name. Methods that papers compare differ in color; an
InCo variant shares the color of the method that it varies, and their dashes differ.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

OKABE_ITO = (0xE69F00, 0x56B4E9, 0x009E73, 0xCC79A7, 0x0072B2, 0xD55E00, 0xF0E442, 0x999999)

VIRIDIS_STOPS = (
    0x440154, 0x482878, 0x3E4A89, 0x31688E, 0x26828E, 0x1F9E89, 0x35B779, 0x6DCD59, 0xB4DE2C, 0xFDE725,
)  # fmt: skip


METHOD_COLOURS = (*OKABE_ITO, 0x882255, 0x000000)
_METHODS = (
    "fedgh", "fedlora", "fedssa", "fedl2g_f", "fedproto", "lg_fedavg", "fedtgp", "standalone", "fml", "fedkd",
    "inco_avg", "inco_prox", "inco_nova", "inco_moon", "inco_scaffold", "fedclassavg", "fd", "heteroavg", "fiarse",
    "fedre",
    "fedavg", "fedprox", "fednova", "moon", "scaffold", "heterofl", "fedrolex", "fedmrl", "fedper", "fedrep",
    "lora", "fedl2g_l", "fedgen", "pfedmoe", "fedapen", "fedmd", "pfedafm", "pfedes", "ditto", "fedkwaz",
    "feddf", "fedktl",
)  # fmt: skip
"""A column for each of METHOD_COLOURS; dashes move on by one in each column and row, marks by two in each row. So
methods of a column differ in both, and those that a paper compares differ in color, and in dashes or mark."""
DASHES = 8
"""Kinds of dashes: four for the first four rows above, two for methods that are not built in, and one for each further
row."""
MARKS = 10


@dataclass(frozen=True)
class Look:
    """How a line is drawn: its color, and which of so many kinds of dashes and marks."""

    colour: int
    dashes: int
    mark: int


def look_of(method: str) -> Look:
    """A method's look. That of a method which is not built in follows from a hash of its name."""
    if method in _METHODS:
        row, column = divmod(_METHODS.index(method), len(METHOD_COLOURS))
        dashes = (row + column) % 4 if row < 4 else row + 2
        return Look(METHOD_COLOURS[column], dashes, (2 * row + column) % MARKS)
    colours = len(OKABE_ITO)
    number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:8])
    dashes = 4 + number // colours % 2
    return Look(OKABE_ITO[number % colours], dashes, number // 64 % 8)


def looks_of(methods: Sequence[str | None]) -> list[Look] | None:
    """The looks of lines that are of these methods; None where lines of one method, or of none, are told apart.

    Of several lines of one method, all have its color, and each the next free dashes of that color.
    """
    if None in methods or (len(methods) > 1 and len(set(methods)) == 1):
        return None
    firsts = {method: look_of(method) for method in methods if method is not None}
    taken = {(look.colour, look.dashes) for look in firsts.values()}
    found = list[Look]()
    for place, method in enumerate(methods):
        assert method is not None
        look = firsts[method]
        if method in methods[:place]:
            again = methods[:place].count(method)
            free = [each for each in range(DASHES) if (look.colour, each) not in taken] or [look.dashes]
            taken.add((look.colour, free[0]))
            look = Look(look.colour, free[0], (look.mark + again) % MARKS)
        found.append(look)
    return found


def in_order(place: int) -> Look:
    """The look of the `place`-th of lines that are not told apart by their methods."""
    return Look(OKABE_ITO[place % len(OKABE_ITO)], place % 4, place % MARKS)


def channels(colour: int) -> tuple[int, int, int]:
    return colour >> 16 & 255, colour >> 8 & 255, colour & 255


def blend(colour: int, other: int, share: float) -> int:
    """`colour` with `share` (0…1) of `other` mixed in."""
    pairs = zip(channels(colour), channels(other), strict=True)
    red, green, blue = (round(a + (b - a) * share) for a, b in pairs)
    return red << 16 | green << 8 | blue


def luminance(colour: int) -> float:
    """Relative luminance, 0…1 (WCAG 2.1)."""
    shares = (channel / 255 for channel in channels(colour))
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: int, other: int) -> float:
    """The contrast ratio of two colours, 1…21 (WCAG 2.1)."""
    brighter, darker = sorted((luminance(colour), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def readable(colour: int, background: int, ratio: float = 3.0) -> int:
    """`colour`, moved to black or white, whichever contrasts more, until its contrast is at least `ratio`.

    WCAG asks for 3 in graphics.
    """
    end = max((0x000000, 0xFFFFFF), key=lambda extreme: contrast(extreme, background))
    steps = (blend(colour, end, step / 20) for step in range(21))
    return next((moved for moved in steps if contrast(moved, background) >= ratio), end)
