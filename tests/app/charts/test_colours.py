"""The palette of a terminal that has xterm's 256 colours."""

from itertools import pairwise

import pytest
from rich.color import Color, ColorSystem

from simulator.results.figures.palette import OKABE_ITO, channels, contrast, luminance
from tui.app.charts.look import HEAT_LEVELS, VIRIDIS_256, Look, text_on

DARK = Look(exact=False)
LIGHT = Look(0x202020, 0xE0E0E0, 0xB35C00, dark=False, exact=False)


def as_sent(colour: int) -> tuple[int, int, int]:
    """What becomes of a colour on its way to such a terminal."""
    sent = Color.from_rgb(*channels(colour)).downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
    return sent.red, sent.green, sent.blue


def test_the_scale_is_of_the_terminals_own_colours_each_lighter_than_the_one_before():
    colours = list(dict.fromkeys(VIRIDIS_256.tolist()))
    assert len(VIRIDIS_256) == HEAT_LEVELS and len(colours) == 16
    assert all(as_sent(colour) == channels(colour) for colour in colours)
    assert all(luminance(one) < luminance(other) for one, other in pairwise(colours))
    assert all(contrast(text_on(colour), colour) >= 4.5 for colour in colours)


@pytest.mark.parametrize("scheme", [DARK, LIGHT])
@pytest.mark.parametrize("share", [0.18, 0.28])
def test_a_tint_is_neither_olive_nor_red_but_a_grey_that_is_not_the_background(scheme, share):
    for colour in (*OKABE_ITO, scheme.accent):
        red, green, blue = as_sent(scheme.tint(colour, share))
        assert red == green == blue
        assert (red, green, blue) != as_sent(scheme.background)
        assert contrast(scheme.text, scheme.tint(colour, share)) >= 4.5


def test_a_terminal_of_all_colours_gets_the_tint_itself():
    assert Look(background=0x000000).tint(0xFF8000, 0.5) == 0x804000
    assert channels(Look(background=0x000000, exact=False).tint(0xFF8000, 0.5)) == (
        78,
        78,
        78,
    )  # 0.083 bright, as it is
