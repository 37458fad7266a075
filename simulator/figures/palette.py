"""Colours that read on dark and on light grounds and to colour-blind eyes; every colour is an int 0xRRGGBB.

Series: Okabe & Ito (2008), "Color Universal Design". Heat: viridis (Smith & van der Walt, 2015), which rises in
lightness from end to end and so keeps its order in greys.
"""

OKABE_ITO = (0xE69F00, 0x56B4E9, 0x009E73, 0xCC79A7, 0x0072B2, 0xD55E00, 0xF0E442, 0x999999)

VIRIDIS_STOPS = (
    0x440154, 0x482878, 0x3E4A89, 0x31688E, 0x26828E, 0x1F9E89, 0x35B779, 0x6DCD59, 0xB4DE2C, 0xFDE725,
)  # fmt: skip


def channels(colour: int) -> tuple[int, int, int]:
    """Red, green and blue, 0…255."""
    return colour >> 16 & 255, colour >> 8 & 255, colour & 255


def blend(colour: int, other: int, share: float) -> int:
    """`colour` with `share` (0…1) of `other` mixed in."""
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


def readable(colour: int, background: int, ratio: float = 3.0) -> int:
    """`colour`, moved towards black or white until its contrast with `background` is at least `ratio`.

    3 is what WCAG asks of graphics. Which of black and white: the one that contrasts more with the background.
    """
    end = max((0x000000, 0xFFFFFF), key=lambda extreme: contrast(extreme, background))
    for step in range(21):
        moved = blend(colour, end, step / 20)
        if contrast(moved, background) >= ratio:
            return moved
    return end
